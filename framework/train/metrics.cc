#include "framework/train/metrics.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {

std::string EvaluationText(absl::Span<const Metric> metrics, const Evaluation& evaluation) {
  std::string text;
  for (size_t i = 0; i < evaluation.values.size(); ++i) {
    absl::StrAppendFormat(&text, "%s%s %.4f", i == 0 ? "" : ", ", metrics[i].name,
                          evaluation.values[i]);
  }
  return absl::StrCat(text, " on ",
                      evaluation.is_whole() ? "all " : absl::StrCat(evaluation.samples, " of "),
                      evaluation.all_samples, " samples");
}

std::string LogPrefix(const Evaluation& evaluation, bool at_end) {
  return evaluation.is_whole() ? "val_" : at_end ? "val_final_" : "val_subset_";
}

}  // namespace sluice
