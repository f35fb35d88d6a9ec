// A small BERT as framework/testing/training_parity.h compares it, and the layouts on which it
// does. For tests of this package.
#ifndef SLUICE_MODELS_BERT_PARITY_H_
#define SLUICE_MODELS_BERT_PARITY_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/dataset.h"
#include "framework/data/word_piece.h"
#include "framework/testing/training_parity.h"
#include "models/bert/bert.h"

namespace sluice {

struct BertLayout {
  std::string mesh;
  int64_t micro_batches = 1;
  int64_t batch = 8;
  int zero = 0;  // passes/zero.h
  PrecisionOptions precision = {};
  double attention_dropout = 0;

  std::string Name() const;  // "data=2 model=2 micro=2"
  std::string Stem() const;  // the same as a file name
  BertConfig Config() const;
  friend void PrintTo(const BertLayout& layout, std::ostream* out) { *out << layout.Name(); }
};

// One device, the same batch and dropout, in f32: what the layout must equal.
BertLayout ReferenceOf(const BertLayout& layout);
std::vector<BertLayout> BertLayouts();

// The documents of the fixed text, and a vocabulary that was learned from it.
struct FixedText {
  std::vector<std::string> documents;
  WordPiece vocabulary;
};
absl::StatusOr<FixedText> ReadFixedText(const BertConfig& config);

// Masked samples of the fixed text, or of so many of its first documents; of all lengths.
absl::StatusOr<std::shared_ptr<const Dataset>> FixedSamples(const BertConfig& config,
                                                            size_t documents = SIZE_MAX);

ParityCase BertParity(const BertLayout& layout);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_PARITY_H_
