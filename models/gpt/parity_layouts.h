// The tiny GPT on which layouts are compared with one device and with each other, and the layouts.
// For tests of this package.
#ifndef SLUICE_MODELS_GPT_PARITY_LAYOUTS_H_
#define SLUICE_MODELS_GPT_PARITY_LAYOUTS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "framework/passes/optimizer.h"
#include "framework/testing/training_parity.h"
#include "models/gpt/gpt.h"

namespace sluice {

struct GptLayout {
  std::string mesh;
  int64_t micro_batches = 1;
  int64_t batch = 8;  // 12 where three micro-batches divide it
  int64_t script_length = 0;
  bool sequence_split = false;
  int64_t chunks = 1;  // pipeline stages on each device group
  bool recompute = false;
  int zero = 0;  // passes/zero.h
  PrecisionOptions precision = {};
  double attention_dropout = 0;

  std::string Name() const;  // "data=2 model=2 micro=4"
  std::string Stem() const;  // the same as a file name: "data2_model2_micro4"
  int64_t Stages() const;    // of the mesh, which must parse
  GptConfig Config() const;  // of the tiny GPT
  OptimizerOptions Optimizer(OptimizerOptions of_setting) const;
  // The program that trains, with what the layout says of it.
  absl::Status BuildTrain(const OptimizerOptions& of_setting, Graph* graph) const;
  friend void PrintTo(const GptLayout& layout, std::ostream* out) { *out << layout.Name(); }
};

// One device with a batch of 8 or 12: what every other layout must equal.
GptLayout ReferenceLayout(int64_t batch);
// The same for a layout, which may drop weights of attention.
GptLayout ReferenceOf(const GptLayout& layout);
std::vector<GptLayout> WithAttentionDropout(std::vector<GptLayout> layouts);
// All others: each axis alone, uneven shards, axes together, micro-batches, scripts of one
// instruction.
std::vector<GptLayout> ParityLayouts();

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_PARITY_LAYOUTS_H_
