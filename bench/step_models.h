// The training steps that are timed whole by bench/<model>_step.cc and kernel by kernel by
// bench/ops_benchmark.cc: sizes and update rules, without dropout. Batches are of one device.
#ifndef SLUICE_BENCH_STEP_MODELS_H_
#define SLUICE_BENCH_STEP_MODELS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/graph/graph.h"
#include "framework/passes/optimizer.h"
#include "framework/tensor/dtype.h"
#include "models/bert/bert.h"
#include "models/insightface/insightface.h"
#include "models/resnet/resnet.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {

// BERTs are named as presets of //models/bert:train are; pre-training 8 samples.
absl::StatusOr<BertConfig> BertOfStep(const std::string& preset);

// 8 pictures of 224 x 224, SGD with momentum.
ResNetConfig ResNetOfStep(int64_t depth);
OptimizerOptions ResNetOptimizer();

// 26 features, 16 elements each, layers of 1024, 512 and 256, 4,096 samples. The deep part has
// AdamW, the wide part AdaGrad, which PyTorch has, too.
WideAndDeepConfig WideAndDeepOfStep(int64_t vocabulary);
OptimizerOptions WideAndDeepOptimizer();

// The end of a face network alone, where there are many classes: features [batch, embedding] that
// are fed, a linear layer, and the softmax with ArcFace's margin. 128 pictures, embeddings of 512;
// SGD with momentum.
//   features f32 [batch, embedding], labels i32 [batch] -> loss
FaceConfig ArcFaceOfStep(int64_t classes);
OptimizerOptions ArcFaceOptimizer();
absl::Status BuildArcFaceLoss(const FaceConfig& config, Graph* graph);
absl::Status BuildArcFaceTrain(const FaceConfig& config, const OptimizerOptions& options,
                               Graph* graph);

// The step of a model by its name: tiny, default and small, which are GPTs, bert_base, resnet50,
// wide_and_deep, whose tables have a million rows, and arcface, of 100,000 classes.
absl::Status BuildNamedStep(const std::string& name, DType precision, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_BENCH_STEP_MODELS_H_
