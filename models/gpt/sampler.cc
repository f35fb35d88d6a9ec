#include "models/gpt/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/tensor/random.h"

namespace sluice {

int DrawToken(absl::Span<const double> logits, double temperature, int top, double uniform) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  if (temperature <= 0) return order[0];
  if (top > 0 && top < static_cast<int>(order.size())) order.resize(top);
  std::vector<double> weights;
  double sum = 0;
  for (int token : order) {
    weights.push_back(std::exp((logits[token] - logits[order[0]]) / temperature));
    sum += weights.back();
  }
  double left = uniform * sum;
  for (size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

absl::StatusOr<std::string> SampleText(Session* session, const SampleOptions& options) {
  if (options.prompt.empty()) {
    return absl::InvalidArgumentError("prompt: expected at least one byte, got none");
  }
  const int64_t length = options.sequence_length;
  HostTensor tokens(DType::kI32, {1, length});
  std::string text = options.prompt;
  Fetches fetches;
  for (int64_t i = 0; i < options.length && !(options.stop && options.stop()); ++i) {
    const int64_t size = static_cast<int64_t>(text.size());
    const int64_t seen = std::min(size, length);
    for (int64_t j = 0; j < length; ++j) {
      // What stands after the last byte is masked from it.
      tokens.data<int32_t>()[j] = j < seen ? static_cast<uint8_t>(text[size - seen + j]) : 0;
    }
    RETURN_IF_ERROR(session->Step("sample", {{"tokens", &tokens}}));
    RETURN_IF_ERROR(session->Next(&fetches));
    auto found = fetches.find("logits");
    if (found == fetches.end()) return absl::NotFoundError("sample: no output \"logits\"");
    const HostTensor& logits = found->second;
    const int64_t vocabulary = logits.shape[logits.shape.rank() - 1];
    std::vector<double> last(vocabulary);
    for (int64_t j = 0; j < vocabulary; ++j) {
      last[j] = LoadElement(logits.dtype, logits.bytes.data(), (seen - 1) * vocabulary + j);
    }
    const double uniform = RandomWord(options.seed, RandomKey("draw"), 0, i) / 4294967296.0;
    text += static_cast<char>(DrawToken(last, options.temperature, options.top, uniform));
  }
  return text.substr(options.prompt.size());
}

absl::Status PrintSample(Session* session, const SampleOptions& options) {
  if (options.length == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, SampleText(session, options));
  absl::PrintF("---\n%s\n---\n", Printable(options.prompt + text));
  return absl::OkStatus();
}

}  // namespace sluice
