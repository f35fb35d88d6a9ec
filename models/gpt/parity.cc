#include "models/gpt/parity.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "framework/base/status.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"

namespace sluice {
namespace {

constexpr char kText[] = "models/gpt/testdata/fixed.txt";
// With this order of samples no way of training has a spike of its gradient in 50 steps, which
// would amplify roundings tenfold whatever the layout, and no element's first gradient is near
// epsilon.
constexpr uint64_t kDataSeed = 4;

absl::StatusOr<std::shared_ptr<const Dataset>> OpenText(int64_t sequence_length) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(kText));
  ASSIGN_OR_RETURN(TextDataset text, TextDataset::Create(kText, std::move(bytes), sequence_length));
  return std::make_shared<const TextDataset>(std::move(text));
}

}  // namespace

ParityCase GptParity(const GptLayout& layout) {
  ParityCase gpt;
  gpt.name = layout.Name();
  gpt.mesh = layout.mesh;
  gpt.micro_batches = layout.micro_batches;
  gpt.chunks = layout.chunks;
  gpt.script_length = layout.script_length;
  gpt.batch = layout.batch;
  gpt.build = [layout](const OptimizerOptions& optimizer, Graph* graph) {
    return layout.BuildTrain(optimizer, graph);
  };
  gpt.open_data = [layout] { return OpenText(layout.Config().sequence_length); };
  gpt.data_seed = kDataSeed;
  if (layout.precision.compute == DType::kBF16) gpt.bounds = Bf16Bounds();
  // A key's bias has none, as softmax ignores what is added to a whole row.
  gpt.has_no_gradient = [](absl::string_view name) {
    return absl::StrContains(name, "attn/k/bias");
  };
  return gpt;
}

absl::Status OneStep(ParityRun* run, int32_t token) {
  const GptLayout any;
  const Shape samples = {any.batch, any.Config().sequence_length};
  HostTensor tokens(DType::kI32, samples), labels(DType::kI32, samples);
  std::fill_n(tokens.data<int32_t>(), samples.NumElements(), token);
  std::fill_n(labels.data<int32_t>(), samples.NumElements(), 1);
  const HostTensor rate(DType::kF32, Shape{});
  HostTensor count(DType::kI32, Shape{});
  count.data<int32_t>()[0] = 1;
  RETURN_IF_ERROR(run->session()->Step(
      "train",
      {{"tokens", &tokens}, {"labels", &labels}, {"learning_rate", &rate}, {"step", &count}}));
  return run->session()->Next().status();
}

}  // namespace sluice
