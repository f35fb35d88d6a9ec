#include "framework/plan/decisions.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/hash.h"

namespace sluice {

void DecisionRoll::Add(absl::string_view what, absl::string_view decided) {
  const uint64_t before =
      plan_.decisions_size() == 0 ? 0 : plan_.decisions(plan_.decisions_size() - 1).digest();
  plan::Decision* added = plan_.add_decisions();
  added->set_what(std::string(what));
  added->set_digest(StableHash(absl::StrCat(before, "\n", what, "\n", decided)));
}

std::string DecisionsText(const plan::Plan& plan) {
  std::string text;
  for (const plan::Decision& decision : plan.decisions()) {
    absl::StrAppend(&text, HashText(decision.digest()), " ", decision.what(), "\n");
  }
  return text;
}

absl::Status CompareDecisions(absl::string_view mine, absl::string_view theirs) {
  if (mine == theirs) return absl::OkStatus();
  const std::vector<absl::string_view> a = absl::StrSplit(mine, '\n');
  const std::vector<absl::string_view> b = absl::StrSplit(theirs, '\n');
  for (size_t n = 0; n < std::min(a.size(), b.size()); ++n) {
    if (a[n] == b[n]) continue;
    return absl::FailedPreconditionError(absl::StrCat("the first decision that differs is number ",
                                                      n, ": expected \"", a[n], "\", got \"", b[n],
                                                      "\""));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("expected ", a.size() - 1, " decisions, got ", b.size() - 1));
}

}  // namespace sluice
