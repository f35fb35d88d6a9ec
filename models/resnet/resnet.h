// ResNet (He et al. 2015) in its version 1.5, whose stride lies on the 3x3 convolution of a
// bottleneck, as torchvision has it: 18 and 34 layers of basic blocks, 50 and 101 of bottlenecks.
// Three programs share its variables:
//   train   images u8 [batch, height, width, channels], labels i32 [batch], learning_rate, step ->
//           loss, grad_norm
//   eval    images, labels -> loss [batch], of each image; accuracy [batch], 1 where the largest
//           logit is the label's, else 0; of more than five classes top5 [batch], likewise;
//           normalised by the running statistics
//   logits  images -> logits [batch, classes]; normalised so too
#ifndef SLUICE_MODELS_RESNET_RESNET_H_
#define SLUICE_MODELS_RESNET_RESNET_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/sbp/mesh.h"

namespace sluice {

constexpr int kResNetStages = 4;

struct ResNetArchitecture {
  int64_t depth;
  std::array<int64_t, kResNetStages> blocks;
  bool bottleneck;
  // Channels that a block gives, in those of its 3x3 convolution.
  int64_t expansion() const { return bottleneck ? 4 : 1; }
  int64_t num_blocks() const { return blocks[0] + blocks[1] + blocks[2] + blocks[3]; }
};
absl::Span<const ResNetArchitecture> ResNetArchitectures();

struct ResNetConfig {
  int64_t depth = 50;  // 18, 34, 50 or 101
  int64_t width = 64;  // channels of the first stage's 3x3 convolutions; each stage doubles them
  int64_t classes = 1000;
  int64_t image_size = 224;  // height and width
  int64_t channels = 3;
  // For images of some 32 pixels: the stem is a 3x3 convolution that keeps their size, without a
  // pool. Else it is 7x7 of stride 2 and a pool, and the first stage sees a quarter of the size.
  bool small_images = false;
  int64_t batch = 32;
  // Batch norm takes statistics over each of so many equal ranges of the batch. 1: over all of it,
  // on however many devices it lies.
  int64_t groups = 1;
  // The last so many of the four stages have the first two convolutions of every block split over
  // axis "model", by output and by input channels: one sum a block. The classes always are.
  int64_t split_stages = 0;
  double label_smoothing = 0;                          // of training alone
  std::vector<double> mean = {0.485, 0.456, 0.406};    // of a channel's values in [0, 1]
  std::vector<double> stddev = {0.229, 0.224, 0.225};  // ImageNet's, as torchvision has them
  PrecisionOptions precision = {};
};

// For a mesh. InvalidArgument says which size is out of range, what was expected and got. Groups
// that an axis would cut are refused: their statistics would be gathered in every layer.
absl::Status CheckResNet(const ResNetConfig& config, const Mesh& mesh, int64_t micro_batches);

// Each residual block is one for pipeline stages to be cut between. The graphs are finished.
absl::Status BuildResNetTrain(const ResNetConfig& config, const OptimizerOptions& options,
                              Graph* graph);
absl::Status BuildResNetEval(const ResNetConfig& config, Graph* graph);
absl::Status BuildResNetLogits(const ResNetConfig& config, Graph* graph);
// The forward part of the train program, with the output "loss": for passes of one's own.
absl::Status BuildResNetLoss(const ResNetConfig& config, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_RESNET_H_
