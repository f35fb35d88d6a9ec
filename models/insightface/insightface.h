// Networks that tell faces apart, as InsightFace trains them: IR-ResNet (Deng et al. 2019, its
// improved residual blocks) and MobileFaceNet (Chen et al. 2018) give each picture an embedding,
// and a softmax over the cosines between that and a vector a class, with a margin, teaches them.
// Two programs share their variables:
//   train   images u8 [batch, height, width, channels], labels i32 [batch], learning_rate, step ->
//           loss, grad_norm
//   embed   images -> embeddings [batch, embedding] of length 1; normalised by running statistics
// Pictures are split over axes "data" and "model" both, classes over "model": every device computes
// its own pictures' embeddings, gathers those of its model group, and has its own classes' cosines
// of them (hybrid parallelism). No logits are gathered, and the largest matrix, with its state, is
// nowhere whole. Of very many classes a sample takes part in each step (partial FC).
#ifndef SLUICE_MODELS_INSIGHTFACE_INSIGHTFACE_H_
#define SLUICE_MODELS_INSIGHTFACE_INSIGHTFACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/sbp/mesh.h"

namespace sluice {

struct FaceConfig {
  std::string network = "ir50";  // of FaceNetworks()
  int64_t width = 64;            // channels of the first stage; others are multiples of it
  int64_t embedding = 512;
  int64_t classes = 10000;
  int64_t image_size = 112;  // height and width, a multiple of 16
  int64_t channels = 3;
  int64_t batch = 128;
  int64_t groups =
      1;  // of batch norm: so many equal ranges of the batch have statistics of their own
  MarginAttributes margin = {.scale = 64, .angular = 0.5};  // ArcFace's
  // Partial FC (An et al. 2022): the share of the classes that a step has, those of its labels and
  // others drawn. Drawn in so many equal ranges, which axis "model" distributes and never cuts; the
  // class matrix is [sample_groups, classes of a group, embedding]. 1 and 1: all, and no sample.
  double sample_rate = 1;
  int64_t sample_groups = 1;
  double dropout = 0;  // of what the embedding is made of
  PrecisionOptions precision = {};
};

const std::vector<std::string>& FaceNetworks();

// How many classes of each group a step has: at least as many as labels may name.
int64_t SampledOfGroup(const FaceConfig& config);

// For a mesh. InvalidArgument says which size is out of range, what was expected and got. Groups of
// batch norm that devices or micro-batches would cut are refused, and groups of classes that axis
// "model" would.
absl::Status CheckFace(const FaceConfig& config, const Mesh& mesh, int64_t micro_batches);

// Each residual block is one for pipeline stages to be cut between. The graphs are finished.
absl::Status BuildFaceTrain(const FaceConfig& config, const OptimizerOptions& options,
                            Graph* graph);
absl::Status BuildFaceEmbed(const FaceConfig& config, Graph* graph);
// The forward part of the train program, with the output "loss": for passes of one's own.
absl::Status BuildFaceLoss(const FaceConfig& config, Graph* graph);

// What teaches an embedding [batch, embedding] of any length: the mean over labels i32 [batch] of
// the cross entropy of scaled cosines to all classes, or to a sample, with the margin. Of the
// config it reads embedding, classes, batch, margin and sample.
Tensor MarginSoftmaxLoss(const Scope& s, Tensor embedding, Tensor labels, const FaceConfig& config);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_INSIGHTFACE_H_
