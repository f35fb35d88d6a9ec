#include "framework/testing/census.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

// The SBP of each axis out of "data:S0 model:B"; empty out of "B".
std::vector<Sbp> SpaceOf(const std::string& text) {
  std::vector<Sbp> result;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    const std::vector<absl::string_view> sides = absl::StrSplit(word, ':');
    if (sides.size() != 2 || sides[0] == "micro") continue;
    const absl::StatusOr<Sbp> sbp = ParseSbp(sides[1]);
    SLUICE_CHECK(sbp.ok()) << text;
    result.push_back(*sbp);
  }
  return result;
}

std::string KindOf(Sbp sbp) { return ToString(sbp).substr(0, 1); }

std::string ChangeOf(const BoxingNote& note) {
  const size_t over_time = note.recipe.find("[micro]");
  if (over_time != std::string::npos) {
    return absl::StrCat("over time: ", note.recipe.substr(0, over_time));
  }
  if (absl::StrContains(note.recipe, " stage ")) return "across stages";
  const std::vector<Sbp> from = SpaceOf(note.from), to = SpaceOf(note.to);
  std::vector<size_t> changed;
  for (size_t a = 0; a < from.size(); ++a) {
    if (from[a] != to[a]) changed.push_back(a);
  }
  if (changed.size() == 1) {
    const Sbp x = from[changed[0]], y = to[changed[0]];
    return absl::StrCat(KindOf(x), "->", KindOf(y), x.kind == y.kind ? "'" : "");
  }
  for (size_t a : changed) {
    for (size_t b : changed) {
      if (a != b && from[a].is_partial() && to[b].is_partial()) return "P->P'";
    }
  }
  return "several axes";
}

template <typename Map>
void AppendCounts(const char* title, const Map& counts, std::string* text) {
  absl::StrAppend(text, title, ":\n");
  for (const auto& entry : counts) {
    absl::StrAppend(text, "  ", entry.first, ": ", entry.second, "\n");
  }
}

}  // namespace

void Census::Add(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
                 const TaskGraph& tasks) {
  for (const BoxingNote& note : tasks.boxings) {
    ++changes[ChangeOf(note)];
    if (absl::StrContains(note.recipe, "[micro]")) continue;
    for (absl::string_view shard : absl::StrSplit(note.recipe, '+')) {
      ++recipes[std::string(shard.substr(0, shard.find_first_of("[ ")))];
    }
  }
  for (const Node& node : graph.nodes()) {
    if (node.op == &InputOp() || node.op == &VariableOp()) continue;
    ++ops[node.op->name];
    if (node.phase == Phase::kBackward && node.forward >= 0) {
      gradient_of[node.op->name].insert(graph.node(node.forward).op->name);
    } else {
      ++forward[node.op->name];
    }
    const Choice& choice = assignment.choices[node.id];
    for (size_t a = 0; a < grid.axes().size(); ++a) {
      if (grid.axes()[a].shards == 1) continue;
      ++signatures[absl::StrCat(node.op->name, " ", choice.signatures[a].factor)];
    }
  }
}

std::string Census::ToString() const {
  std::string text;
  AppendCounts("changes", changes, &text);
  AppendCounts("recipes", recipes, &text);
  AppendCounts("ops", ops, &text);
  AppendCounts("signatures", signatures, &text);
  return text;
}

}  // namespace sluice
