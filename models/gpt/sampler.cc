#include "models/gpt/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

// The logits of what follows a sequence that grows: none on ranks that have no results.
class NextLogits {
 public:
  NextLogits(Session* session, int64_t length)
      : session_(session), tokens_(DType::kI32, {1, length}) {}

  absl::Status Find(absl::Span<const int32_t> sequence, std::vector<double>* logits) {
    const int64_t size = static_cast<int64_t>(sequence.size()), length = tokens_.shape[1];
    // The caches have the places before the last, or there are none.
    if (size <= length && kept_ == size - 1) {
      token_.data<int32_t>()[0] = sequence[size - 1];
      place_.data<int32_t>()[0] = static_cast<int32_t>(size - 1);
      RETURN_IF_ERROR(session_->Step("decode", {{"token", &token_}, {"position", &place_}}));
      kept_ = size;
      return Take(logits);
    }
    const int64_t seen = std::min(size, length);
    int32_t* const tokens = tokens_.data<int32_t>();
    std::copy(sequence.end() - seen, sequence.end(), tokens);
    std::fill(tokens + seen, tokens + length, 0);  // no row sees what stands behind it
    place_.data<int32_t>()[0] = static_cast<int32_t>(seen - 1);
    RETURN_IF_ERROR(session_->Step("prefill", {{"tokens", &tokens_}, {"last", &place_}}));
    kept_ = size;  // of a longer sequence than the model's, places that no step goes on with
    return Take(logits);
  }

 private:
  absl::Status Take(std::vector<double>* logits) {
    RETURN_IF_ERROR(session_->Next(&fetches_));
    logits->clear();
    const auto found = fetches_.find("logits");
    if (found == fetches_.end()) return absl::OkStatus();
    const HostTensor& row = found->second;
    logits->resize(row.shape.NumElements());
    for (size_t i = 0; i < logits->size(); ++i) {
      (*logits)[i] = LoadElement(row.dtype, row.bytes.data(), static_cast<int64_t>(i));
    }
    return absl::OkStatus();
  }

  Session* const session_;
  HostTensor tokens_, token_{DType::kI32, {1, 1}}, place_{DType::kI32, {1}};
  int64_t kept_ = 0;  // tokens of the sequence whose keys and values the caches have
  Fetches fetches_;
};

// What the first rank has written: one or more.
absl::StatusOr<std::vector<int64_t>> Numbers(const std::string& text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!absl::SimpleAtoi(word, &numbers.emplace_back())) {
      return absl::InternalError(absl::StrCat("expected numbers of rank 0, got \"", text, "\""));
    }
  }
  return numbers;
}

absl::StatusOr<std::vector<int64_t>> ShareNumbers(Session* session, int64_t first,
                                                  absl::Span<const int32_t> others) {
  std::string text = absl::StrCat(first);
  for (const int32_t number : others) absl::StrAppend(&text, " ", number);
  ASSIGN_OR_RETURN(const std::string told, session->Share(text));
  return Numbers(told);
}

// The token at place i of what is written.
absl::StatusOr<std::string> DrawNext(const SampleOptions& options, int64_t i,
                                     std::vector<double>* logits) {
  if (logits->empty()) return absl::NotFoundError("expected an output \"logits\", got none");
  const auto drawn = static_cast<size_t>(options.vocabulary);
  if (drawn > 0 && drawn < logits->size()) logits->resize(drawn);
  const double uniform = RandomWord(options.seed, RandomKey("draw"), 0, i) / 4294967296.0;
  return absl::StrCat(DrawToken(*logits, options.temperature, options.top, uniform));
}

}  // namespace

int DrawToken(absl::Span<const double> logits, double temperature, int top, double uniform) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  size_t kept = temperature <= 0 ? 1 : order.size();
  if (top > 0) kept = std::min(kept, static_cast<size_t>(top));
  // Of equals the earlier first: what is drawn is the same whichever way they are sorted.
  std::partial_sort(
      order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(),
      [&](int a, int b) { return std::pair(-logits[a], a) < std::pair(-logits[b], b); });
  order.resize(kept);
  if (kept == 1) return order[0];
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

absl::StatusOr<std::vector<int32_t>> SampleTokens(Session* session,
                                                  absl::Span<const int32_t> prompt,
                                                  const SampleOptions& options) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError("prompt: expected at least one token, got none");
  }
  // How long, and behind what: as the first rank was told.
  ASSIGN_OR_RETURN(const std::vector<int64_t> told, ShareNumbers(session, options.length, prompt));
  const int64_t length = told[0];
  std::vector<int32_t> sequence(told.begin() + 1, told.end());
  const auto given = static_cast<int64_t>(sequence.size());
  NextLogits next(session, options.sequence_length);
  std::vector<double> logits;
  for (int64_t i = 0; i < length && !(options.stop && options.stop()); ++i) {
    RETURN_IF_ERROR(next.Find(sequence, &logits));
    ASSIGN_OR_RETURN(const std::string drawn, session->Share(DrawNext(options, i, &logits)));
    ASSIGN_OR_RETURN(const std::vector<int64_t> token, Numbers(drawn));
    sequence.push_back(static_cast<int32_t>(token[0]));
  }
  return std::vector<int32_t>(sequence.begin() + given, sequence.end());
}

}  // namespace sluice
