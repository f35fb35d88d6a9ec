// Wide & Deep (Cheng et al. 2016): the logit of a click is what a linear model of categorical
// values and their crosses gives, which remembers, plus what an MLP makes of embeddings, which
// generalises. Two programs share their variables:
//   train  wide i32 [batch, features], a field of ids i32 [batch, features] by the name of each
//          deep table, numbers f32 [batch, numbers], label f32 [batch], learning_rate, step
//            -> loss, grad_norm
//   eval   the same without the last two -> loss, logits [batch]
// All features of a table are one lookup. Samples are split over axes "data" and "model" both. Each
// table is split over "model" and "table", by rows or by columns: ids go to whoever has rows of
// theirs, the rows come back, and the table stays where it is, with its state (HugeCTR's layout).
// Over "table" samples are not split: the MLP is on every device whole, and so is the batch.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_WIDE_AND_DEEP_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_WIDE_AND_DEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"

namespace sluice {

struct EmbeddingTable {
  std::string name;
  int64_t rows = 0, width = 0, features = 0;  // `features` rows of a sample are looked up
};

struct WideAndDeepConfig {
  EmbeddingTable wide = {"wide", 0, 1, 0};  // a weight each
  std::vector<EmbeddingTable> tables;       // of the deep part
  bool split_columns = false;               // of deep tables; else all are split by rows
  // The first of two pipeline stages has the tables, the second all that is made of their rows: on
  // a mesh "pipe=2 @cpu,cuda" tables lie in the memory of the host, as large as that is.
  bool tables_apart = false;
  int64_t numbers = 0;
  std::vector<int64_t> hidden = {1024, 512, 256};
  double dropout = 0;  // of hidden layers
  int64_t batch = 4096;
  PrecisionOptions precision = {};
};

// How the wide part is trained: by FTRL, whatever trains the deep part. `rate`: so many times the
// program's learning rate.
OptimizerOptions::Group WideGroup(double rate);

// For a mesh of so many pipeline stages. InvalidArgument says which size is out of range, what was
// expected and got.
absl::Status CheckWideAndDeep(const WideAndDeepConfig& config, int64_t stages);

// Each hidden layer is a block for pipeline stages to be cut between. The graphs are finished.
absl::Status BuildWideAndDeepTrain(const WideAndDeepConfig& config, const OptimizerOptions& options,
                                   Graph* graph);
absl::Status BuildWideAndDeepEval(const WideAndDeepConfig& config, Graph* graph);
// The forward part of the train program, with its outputs: for passes of one's own.
absl::Status BuildWideAndDeepLoss(const WideAndDeepConfig& config, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_WIDE_AND_DEEP_H_
