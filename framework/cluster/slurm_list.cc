#include "framework/cluster/slurm_list.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

// No machine has more, and sums of as many stay far from overflow.
constexpr int64_t kMostNodes = 1 << 24;

absl::Status Unexpected(absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", got ", Quoted(got)));
}

bool IsNumber(absl::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return !text.empty();
}

// "010,20,25-27": its first number, with the zeros that it begins with, which are of the name.
absl::StatusOr<absl::string_view> FirstNumber(absl::string_view ranges) {
  absl::string_view first;
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    const bool single = ends.first.size() == range.size();
    if (!IsNumber(ends.first) || (!single && !IsNumber(ends.second))) {
      return Unexpected("numbers and ranges such as 3-5 in brackets", range);
    }
    if (first.empty()) first = ends.first;
  }
  return first;
}

bool IsHostCharacter(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_'; }

// Takes one item of the list off its front, up to a comma outside brackets or the end.
absl::StatusOr<std::string> TakeFirstOfItem(absl::string_view* rest) {
  std::string node;
  while (!rest->empty() && rest->front() != ',') {
    if (rest->front() != '[') {
      if (!IsHostCharacter(rest->front())) return Unexpected("a list of nodes", *rest);
      node += rest->front();
      rest->remove_prefix(1);
      continue;
    }
    const size_t end = rest->find(']');
    if (end == absl::string_view::npos) return Unexpected("a closing bracket", *rest);
    ASSIGN_OR_RETURN(const absl::string_view number, FirstNumber(rest->substr(1, end - 1)));
    absl::StrAppend(&node, number);
    rest->remove_prefix(end + 1);
  }
  if (node.empty()) return Unexpected("the name of a node", *rest);
  return node;
}

}  // namespace

absl::StatusOr<std::string> FirstNode(absl::string_view nodes) {
  ASSIGN_OR_RETURN(std::string first, TakeFirstOfItem(&nodes));
  while (!nodes.empty()) {
    nodes.remove_prefix(1);
    RETURN_IF_ERROR(TakeFirstOfItem(&nodes).status());
  }
  return first;
}

absl::StatusOr<std::vector<TaskRun>> ReadTaskRuns(absl::string_view tasks_per_node) {
  constexpr absl::string_view kExpected = "counts of tasks such as 4(x2),1";
  std::vector<TaskRun> runs;
  for (absl::string_view item : absl::StrSplit(tasks_per_node, ',')) {
    TaskRun run;
    const size_t bracket = item.find('(');
    absl::string_view times = bracket == absl::string_view::npos ? "" : item.substr(bracket);
    item = item.substr(0, bracket);
    if (!IsNumber(item) || !absl::SimpleAtoi(item, &run.tasks) || run.tasks > kMostNodes) {
      return Unexpected(kExpected, tasks_per_node);
    }
    if (!times.empty()) {
      const bool closed = absl::ConsumePrefix(&times, "(x") && absl::ConsumeSuffix(&times, ")");
      if (!closed || !IsNumber(times) || !absl::SimpleAtoi(times, &run.nodes) || run.nodes < 1 ||
          run.nodes > kMostNodes) {
        return Unexpected(kExpected, tasks_per_node);
      }
    }
    runs.push_back(run);
  }
  return runs;
}

}  // namespace sluice
