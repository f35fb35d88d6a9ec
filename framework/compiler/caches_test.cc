// What steps leave to each other without being a variable: where it lies, and what is refused.
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "framework/compiler/compile.h"
#include "framework/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeads = 4, kSize = 8;

Tensor Cache(const Scope& scope, const char* name, const Shape& shape) {
  const Tensor cache = scope.Param(name, shape);
  scope.graph()->SetRole(cache.id(), Role::kCache, -1);
  return cache;
}

struct Kept {
  int64_t rows = 1;  // of a step
  int64_t time = 6;
  bool writes_values = true;
  bool more = false;  // one cache more
};

// Rows that are attended to and kept; what the step makes besides takes `width` bytes or so.
void BuildKept(const Kept& kept, int64_t width, Graph* graph) {
  const Scope s(graph);
  const Tensor rows = graph->Input("rows", DType::kF32, {1, kept.rows, kHeads * kSize}, "model:S2");
  const Tensor x = Reshape(rows, {1, kept.rows, kHeads, kSize});
  const Tensor position = graph->Input("position", DType::kI32, {1}, "");
  const Shape shape = {1, kept.time, kHeads, kSize};
  const Tensor values = Cache(s / "b", "values", shape), keys = Cache(s / "a", "keys", shape);
  graph->Output("y", CachedAttention(x, x, x, keys, values, position));
  graph->Output("wide", Mean(Gelu(Fill(graph, 1, {width}))));
  WriteRows(keys, x, position);
  if (kept.writes_values) WriteRows(values, Scale(x, 2), position);
  if (kept.more) {
    const Tensor more = Cache(s, "more", shape);
    WriteRows(more, x, position);
  }
  EXPECT_EQ(graph->Finish(), absl::OkStatus());
}

void BuildPlain(Graph* graph) {
  graph->Output("y", Mean(Gelu(Scope(graph).Param("w", {100}, ""))));
  EXPECT_EQ(graph->Finish(), absl::OkStatus());
}

absl::StatusOr<plan::Plan> CompileOn(const std::string& mesh,
                                     const std::vector<ProgramGraph>& programs) {
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  return CompilePlan(programs, options);
}

// By device and name: where a program's caches lie.
std::map<std::string, int64_t> PlacesIn(const plan::Program& program) {
  std::map<std::string, int64_t> places;
  for (const plan::Register& reg : program.registers()) {
    if (reg.initial_tokens() == 0 || reg.bytes() == 0) continue;
    EXPECT_EQ(reg.variable(), "");
    places[absl::StrCat("d", reg.device(), " ", reg.name(), " of ", reg.bytes())] =
        reg.slot_offsets(0);
  }
  return places;
}

// Split as the heads are, at the same place in every program, above the variables.
TEST(CachesTest, ProgramsHaveThemAtTheSamePlace) {
  Graph plain, one, many;
  BuildPlain(&plain);
  BuildKept({}, 1000, &one);
  BuildKept({.rows = 3}, 70, &many);
  const auto plan = CompileOn("model=2", {{"plain", &plain}, {"one", &one}, {"many", &many}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->variables_size(), 1);
  const int64_t base = plan->devices(0).variable_bytes(), bytes = 6 * kHeads * kSize * 4 / 2;
  const std::map<std::string, int64_t> expected = {{"d0 a/keys of 384", base},
                                                   {"d0 b/values of 384", base + bytes},
                                                   {"d1 a/keys of 384", base},
                                                   {"d1 b/values of 384", base + bytes}};
  EXPECT_EQ(bytes, 384);
  EXPECT_EQ(PlacesIn(plan->programs(1)), expected);
  EXPECT_EQ(PlacesIn(plan->programs(2)), expected);
  EXPECT_TRUE(PlacesIn(plan->programs(0)).empty());
}

TEST(CachesTest, OthersThanThoseOfTheFirstProgramAreRefused) {
  Graph one, more, longer, unwritten;
  BuildKept({}, 10, &one);
  BuildKept({.more = true}, 10, &more);
  BuildKept({.time = 7}, 10, &longer);
  BuildKept({.writes_values = false}, 10, &unwritten);
  const auto error_of = [&](const Graph& other) {
    return std::string(CompileOn("data=1", {{"one", &one}, {"other", &other}}).status().message());
  };
  EXPECT_EQ(error_of(one), "");
  EXPECT_THAT(error_of(more), HasSubstr("program other: expected the caches of program one, "
                                        "a/keys f32[1,6,4,8] stage 0"));
  EXPECT_THAT(error_of(more), HasSubstr("; got a/keys f32[1,6,4,8] stage 0"));
  EXPECT_THAT(error_of(longer), HasSubstr("f32[1,7,4,8]"));
  EXPECT_EQ(error_of(unwritten),
            "program other: cache b/values: expected an op that writes to it, got none");
}

}  // namespace
}  // namespace sluice
