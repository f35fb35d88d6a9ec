#include "models/bert/parity.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/data/masked_text.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_documents.h"
#include "framework/data/word_piece.h"

namespace sluice {
namespace {

constexpr char kFixedText[] = "models/gpt/testdata/fixed.txt";

}  // namespace

std::string BertLayout::Name() const {
  std::string name = mesh;
  if (micro_batches > 1) absl::StrAppend(&name, " micro=", micro_batches);
  if (zero > 0) absl::StrAppend(&name, " zero=", zero);
  if (precision.compute != DType::kF32) absl::StrAppend(&name, " ", DTypeName(precision.compute));
  if (attention_dropout > 0) absl::StrAppend(&name, " attention_dropout");
  return name;
}

std::string BertLayout::Stem() const {
  return absl::StrReplaceAll(Name(), {{" ", "_"}, {"=", ""}});
}

BertConfig BertLayout::Config() const {
  BertConfig config;
  config.vocabulary = 199;  // uneven over every mesh
  config.sequence_length = 32;
  config.layers = 4;
  config.heads = 4;
  config.hidden = 64;
  config.predictions = 5;
  config.batch = batch;
  config.precision = precision;
  config.attention_dropout = attention_dropout;
  return config;
}

BertLayout ReferenceOf(const BertLayout& layout) {
  BertLayout one = {"data=1", 1, layout.batch};
  one.attention_dropout = layout.attention_dropout;
  return one;
}

std::vector<BertLayout> BertLayouts() {
  return {
      {.mesh = "data=2"},
      {.mesh = "data=3"},  // 3, 3, 2 samples
      {.mesh = "model=2"},
      {.mesh = "model=4"},
      {.mesh = "model=3"},  // 2, 1, 1 heads, an uneven vocabulary
      {.mesh = "data=2 model=2"},
      {.mesh = "pipe=2"},
      {.mesh = "pipe=4", .micro_batches = 4},
      {.mesh = "data=1", .micro_batches = 3, .batch = 12},
      {.mesh = "data=2", .micro_batches = 2},
      {.mesh = "data=2 pipe=2", .micro_batches = 2},
      {.mesh = "data=2 model=2 pipe=2", .micro_batches = 2},
      {.mesh = "data=2", .zero = 1},
      {.mesh = "data=2 model=2", .micro_batches = 2, .zero = 3},
      {.mesh = "data=3 model=2", .attention_dropout = 0.2},
  };
}

absl::StatusOr<FixedText> ReadFixedText(const BertConfig& config) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(kFixedText));
  ASSIGN_OR_RETURN(const std::string pieces, LearnWordPieces({text}, config.vocabulary));
  ASSIGN_OR_RETURN(WordPiece vocabulary, WordPiece::Parse("the learned vocabulary", pieces));
  return FixedText{DocumentsBetweenBlankLines(text), std::move(vocabulary)};
}

absl::StatusOr<std::shared_ptr<const Dataset>> FixedSamples(const BertConfig& config,
                                                            size_t documents) {
  ASSIGN_OR_RETURN(FixedText text, ReadFixedText(config));
  text.documents.resize(std::min(documents, text.documents.size()));
  MaskedTextOptions options;
  options.length = config.sequence_length;
  options.most_predicted = config.predictions;
  ASSIGN_OR_RETURN(MaskedText samples,
                   MaskedText::Create("the fixed text", text.documents, text.vocabulary, options));
  return std::make_shared<const MaskedText>(std::move(samples));
}

ParityCase BertParity(const BertLayout& layout) {
  ParityCase bert;
  bert.name = layout.Name();
  bert.mesh = layout.mesh;
  bert.micro_batches = layout.micro_batches;
  bert.batch = layout.batch;
  bert.build = [layout](OptimizerOptions optimizer, Graph* graph) {
    ASSIGN_OR_RETURN(optimizer.zero.mesh, Mesh::Parse(layout.mesh));
    optimizer.zero.level = layout.zero;
    return BuildBertTrain(layout.Config(), optimizer, graph);
  };
  bert.open_data = [layout]() { return FixedSamples(layout.Config()); };
  if (layout.precision.compute == DType::kBF16) {
    bert.bounds = Bf16Bounds();
    // The pooler sees eight tokens, whose slopes nearly cancel: 5.6 % of what is left is rounding.
    bert.bounds.gradient = bert.bounds.first_moment = 1e-1;
  }
  // A key's bias has none, as softmax ignores what is added to a whole row.
  bert.has_no_gradient = [](absl::string_view name) {
    return absl::StrContains(name, "attn/k/bias");
  };
  return bert;
}

}  // namespace sluice
