#include "framework/train/run_agreement.h"

#include <fstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/train/run_lock.h"

namespace sluice {
namespace {

// A line of fields, escaped, with tabs between them.
void AppendLine(absl::Span<const absl::string_view> fields, std::string* text) {
  for (size_t i = 0; i < fields.size(); ++i) {
    absl::StrAppend(text, i == 0 ? "" : "\t", absl::CEscape(fields[i]));
  }
  absl::StrAppend(text, "\n");
}

// Its fields back; DataLoss where there are not so many.
absl::StatusOr<std::vector<std::string>> ParseLine(absl::string_view line, size_t count) {
  std::vector<std::string> fields;
  for (const absl::string_view field : absl::StrSplit(line, '\t')) {
    if (!absl::CUnescape(field, &fields.emplace_back())) fields.resize(count + 1);
  }
  if (fields.size() == count) return fields;
  return absl::DataLossError(
      absl::StrCat("expected ", count, " facts of a run, got \"", absl::CHexEscape(line), "\""));
}

}  // namespace

void RunFacts::Add(RunFact fact) {
  if (fact.shown.empty()) fact.shown = fact.value;
  facts_.push_back(std::move(fact));
}

std::string RunFacts::ToText() const {
  std::string text;
  for (const RunFact& fact : facts_) {
    AppendLine({fact.name, fact.value, fact.shown, fact.cure}, &text);
  }
  return text;
}

absl::StatusOr<RunFacts> RunFacts::FromText(absl::string_view text) {
  RunFacts facts;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(const std::vector<std::string> fields, ParseLine(line, 4));
    facts.facts_.push_back({fields[0], fields[1], fields[2], fields[3]});
  }
  return facts;
}

const RunFact* RunFacts::Find(absl::string_view name) const {
  for (const RunFact& fact : facts_) {
    if (fact.name == name) return &fact;
  }
  return nullptr;
}

absl::Status RunFacts::CheckSame(const RunFacts& other, int rank) const {
  const auto differ = [rank](const RunFact& fact, absl::string_view first, absl::string_view mine) {
    const auto shown = [](absl::string_view text) {
      return text.empty() ? absl::string_view("nothing") : text;
    };
    return absl::FailedPreconditionError(
        absl::StrCat(fact.name, ": expected ", shown(first), ", as on rank 0, got ", shown(mine),
                     " on rank ", rank, fact.cure.empty() ? "" : "; ", fact.cure));
  };
  for (const RunFact& fact : facts_) {
    const RunFact* mine = other.Find(fact.name);
    if (mine == nullptr && !fact.value.empty()) return differ(fact, fact.shown, "");
    if (mine != nullptr && mine->value != fact.value) return differ(fact, fact.shown, mine->shown);
  }
  for (const RunFact& fact : other.facts_) {
    if (Find(fact.name) == nullptr && !fact.value.empty()) return differ(fact, "", fact.shown);
  }
  return absl::OkStatus();
}

std::string SharedRun::ToText() const {
  std::string text;
  AppendLine({out, holder}, &text);
  for (const auto& [name, value] : recorded) AppendLine({name, value}, &text);
  return text;
}

absl::StatusOr<SharedRun> SharedRun::FromText(absl::string_view text) {
  SharedRun run;
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(const std::vector<std::string> fields, ParseLine(line, 2));
    if (first) {
      run.out = fields[0];
      run.holder = fields[1];
    } else {
      run.recorded.emplace_back(fields[0], fields[1]);
    }
    first = false;
  }
  return run;
}

absl::Status CheckFolderIsShared(const SharedRun& shared, int rank, std::chrono::milliseconds limit,
                                 const Stop& stop) {
  if (shared.holder.empty()) return absl::OkStatus();
  const std::string path = absl::StrCat(shared.out, "/", kRunLock);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string got;
  // Over a network a file shows a moment after it was written.
  while (true) {
    std::ifstream file(path);
    got.clear();
    if (std::getline(file, got) && got == shared.holder) return absl::OkStatus();
    RETURN_IF_ERROR(CheckStop(stop));
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--out: expected ", shared.out,
      " to be one folder that all ranks share, as checkpoints are "
      "written by all of them; rank ",
      rank, " does not see there what rank 0 has written: expected ", path, " to say \"",
      shared.holder, "\", got ", got.empty() ? "nothing" : absl::StrCat("\"", got, "\"")));
}

}  // namespace sluice
