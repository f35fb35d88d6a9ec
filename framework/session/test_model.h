// The model that the tests of sessions train.
#ifndef SLUICE_FRAMEWORK_SESSION_TEST_MODEL_H_
#define SLUICE_FRAMEWORK_SESSION_TEST_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/graph/graph.h"

namespace sluice {

inline constexpr int64_t kTestModelBatch = 6, kTestModelWords = 10, kTestModelWidth = 8;

// An embedding, two halves of an MLP in Megatron's annotations with dropout between, classes. The
// second half is stage 1 where there are stages.
absl::Status BuildTestModel(Graph* graph, int stages, bool training);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_TEST_MODEL_H_
