#include "framework/explain/page.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/explain/explain.h"
#include "framework/ops/ops.h"
#include "framework/plan/kinds.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

struct Explained {
  plan::Plan plan;
  Explanation explanation;
};

// Of several ranks: one device of each stage, as sessions explain them.
Explained ExplainGraph(const Graph& graph, const std::string& mesh, int64_t micro,
                       int32_t ranks = 1, const Machine& machine = Machine::Cpu()) {
  Explained explained;
  CompileOptions options;
  options.mesh = Mesh::Parse(mesh)->OverRanks(ranks);
  options.ranks = ranks;
  options.representatives_only = ranks > 1;
  options.micro_batches = micro;
  options.machine = machine;
  auto compilation = Compile({{"train", &graph}}, options);
  EXPECT_EQ(compilation.status(), absl::OkStatus());
  if (!compilation.ok()) return explained;
  auto explanation = Explain(*compilation, options.machine);
  EXPECT_EQ(explanation.status(), absl::OkStatus());
  if (explanation.ok()) explained.explanation = *std::move(explanation);
  explained.plan = std::move(compilation->plan);
  return explained;
}

Explained ExplainMlp(const std::string& mesh, int64_t micro, int32_t ranks = 1) {
  MlpOptions options;
  options.batch = 64;
  options.widths = {64, 64, 128, 64, 64};
  options.annotation = MegatronAnnotations(4);
  options.optimizer.clip = 1;
  Graph graph;
  EXPECT_EQ(BuildMlp(&graph, options), absl::OkStatus());
  return ExplainGraph(graph, mesh, micro, ranks);
}

TEST(ExplainPageTest, TheJsonHoldsWhatThePlanHolds) {
  const Explained explained = ExplainMlp("data=2 model=2 pipe=2", 4);
  const plan::Program& program = explained.plan.programs(0);
  const json page = json::parse(ExplanationJson(explained.explanation));
  const json& train = page["programs"][0];
  const auto text = [&](const json& place) {
    return page["strings"][place.get<int>()].get<std::string>();
  };
  EXPECT_EQ(page["variables"].size(), explained.plan.variables_size());
  ASSERT_EQ(train["actors"].size(), program.actors_size());
  int64_t wire = 0, boxings_wire = 0;
  for (int a = 0; a < program.actors_size(); ++a) {
    const json& actor = train["actors"][a];
    EXPECT_EQ(text(actor[0]), program.actors(a).name());
    const json& script = train["actors"][actor[4].get<int>()][5];  // of the representative
    ASSERT_EQ(script.size(), program.actors(a).script_size());
    for (int i = 0; i < program.actors(a).script_size(); ++i) {
      const plan::Instruction& x = program.actors(a).script(i);
      EXPECT_EQ(text(script[i][0]), InstructionName(x));
      EXPECT_EQ(text(script[i][1]), x.scope());
      EXPECT_EQ(script[i][8], x.nanoseconds());
      wire += program.actors(a).firings_per_step() * x.wire_bytes();
    }
  }
  for (const json& boxing : train["boxings"]) {
    boxings_wire += boxing[6].get<int64_t>() * boxing[7].get<int64_t>();
    EXPECT_NE(text(boxing[4]), "") << "nobody asked for " << text(boxing[0]);
  }
  EXPECT_GT(wire, 0);
  EXPECT_EQ(wire, boxings_wire);
  EXPECT_EQ(train["step_nanoseconds"], program.predicted_nanoseconds());
  for (int d = 0; d < explained.plan.devices_size(); ++d) {
    EXPECT_EQ(train["devices"][d]["variables"], explained.plan.devices(d).variable_bytes());
    EXPECT_EQ(train["devices"][d]["variables"].get<int64_t>() +
                  train["devices"][d]["packed"].get<int64_t>(),
              explained.plan.devices(d).memory_bytes());
  }
}

// Of the first column-parallel product, on the axis `model`: the annotation on the weight leaves
// one signature, and on the axis `data` what arrives split is kept so.
TEST(ExplainPageTest, ARefusedSignatureNamesItsRule) {
  const Explained explained = ExplainMlp("data=2 model=2", 1);
  const Explanation& explanation = explained.explanation;
  const auto product =
      std::find_if(explanation.programs[0].ops.begin(), explanation.programs[0].ops.end(),
                   [](const ExplainedOp& op) { return op.op == "matmul"; });
  std::map<std::string, std::string> rule_of;
  for (const ExplainedRefusal& refusal : product->refused) {
    rule_of[refusal.signature] = explanation.rules[refusal.rule].name;
  }
  EXPECT_EQ(product->signature, "data:S0,B->S0 model:B,S1->S1");
  EXPECT_EQ(rule_of["model:B,B->B"], "bound operands");
  EXPECT_EQ(rule_of["data:B,S1->S1"], "no new split");
  EXPECT_EQ(rule_of["data:B,B->B"], "preserve sharding over space");
  EXPECT_EQ(rule_of.count("data:S0,B->S0"), 0u);
  const std::string text = ExplanationText(explanation);
  for (const ExplainedRule& rule : explanation.rules) {
    EXPECT_THAT(text, HasSubstr("  " + rule.name + ": " + rule.reason + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("refused by \"no new split\": [data:S1,S0->P(sum)] [data:B,S1->S1]"));
}

void ExpectTasksKnowWhatTheyArePartOf(const ExplainedProgram& program,
                                      const std::set<std::string>& of_nothing) {
  std::set<int32_t> boxings;
  for (const ExplainedActor& actor : program.actors) {
    for (const ExplainedInstruction& x : actor.script) {
      if (x.node >= 0) {
        EXPECT_EQ(program.ops[x.node].name, x.scope);
        EXPECT_EQ(program.ops[x.node].op, x.op);
      } else if (x.boxing >= 0) {
        boxings.insert(x.boxing);
        EXPECT_EQ(program.boxings[x.boxing].tensor, x.scope);
      } else {
        EXPECT_EQ(of_nothing.count(x.op), 1u) << x.op;
      }
    }
  }
  for (size_t b = 0; b < program.boxings.size(); ++b) {
    const ExplainedBoxing& boxing = program.boxings[b];
    EXPECT_EQ(boxings.count(static_cast<int32_t>(b)) > 0, boxing.nanoseconds > 0) << boxing.recipe;
    const auto asks = [&](const ExplainedOp& op) { return op.name == boxing.reader; };
    EXPECT_TRUE(absl::StartsWith(boxing.reader, "output ") ||
                std::any_of(program.ops.begin(), program.ops.end(), asks))
        << boxing.reader;
  }
}

TEST(ExplainPageTest, EveryTaskOfABoxingOrANodeKnowsIt) {
  ExpectTasksKnowWhatTheyArePartOf(ExplainMlp("data=2 model=2", 2).explanation.programs[0],
                                   {"begin", "feed", "fetch"});
}

// What the host feeds is copied to devices, and back from them what it fetches.
TEST(ExplainPageTest, CopiesToHostsArePartOfTheirBoxings) {
  const Explained explained = ExplainMlp("data=4 model=2 @async", 2, /*ranks=*/8);
  ExpectTasksKnowWhatTheyArePartOf(explained.explanation.programs[0],
                                   {"begin", "feed", "fetch", "copy"});
  int copies = 0;
  for (const ExplainedActor& actor : explained.explanation.programs[0].actors) {
    for (const ExplainedInstruction& x : actor.script) {
      copies += x.op == "copy" && x.boxing >= 0 ? 1 : 0;
    }
  }
  EXPECT_GT(copies, 0);
}

TEST(ExplainPageTest, MemoryIsAsPackedAndItsPeakAsPlanned) {
  const Explained explained = ExplainMlp("data=2 pipe=2", 4);
  for (const ExplainedDevice& first : explained.explanation.programs[0].devices) {
    const ExplainedDevice& device = explained.explanation.programs[0].devices[first.representative];
    const std::vector<ExplainedBytes>& memory = device.memory;
    std::vector<std::pair<int64_t, int64_t>> change;
    for (const ExplainedBytes& bytes : memory) {
      const bool variable =
          bytes.kind == MemoryKind::kParameter || bytes.kind == MemoryKind::kOptimizer;
      EXPECT_LE(bytes.offset + bytes.bytes,
                variable ? device.variables : device.variables + device.packed);
      EXPECT_GE(bytes.offset, variable ? 0 : device.variables);
      EXPECT_LE(bytes.begin, bytes.end) << bytes.name;
      if (!variable) change.push_back({2 * bytes.begin, bytes.bytes});
      if (!variable) change.push_back({2 * bytes.end + 1, -bytes.bytes});
    }
    // By time rather than by rank: what ends when another begins counts twice.
    std::sort(change.begin(), change.end());
    int64_t live = 0, peak = 0;
    for (const auto& [time, bytes] : change) peak = std::max(peak, live += bytes);
    EXPECT_GE(peak, device.live);
    for (size_t i = 0; i < memory.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const ExplainedBytes &a = memory[i], &b = memory[j];
        const bool bytes = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(bytes && a.begin < b.end && b.begin < a.end) << a.name << " on " << b.name;
      }
    }
    ASSERT_FALSE(device.peak.empty());
    EXPECT_LE(device.peak.size(), 10);
    int64_t before = INT64_MAX, named = 0;
    for (const std::vector<int32_t>& blocks : device.peak) {
      int64_t sum = 0;
      for (const int32_t block : blocks) sum += memory[block].bytes;
      EXPECT_LE(sum, before);
      before = sum;
      named += sum;
    }
    EXPECT_LE(named, device.live);
    EXPECT_GE(2 * named, device.live);
  }
}

TEST(ExplainPageTest, TimelinesHaveEveryEventOnceAndNoOverlap) {
  const Explained explained = ExplainMlp("data=2 pipe=2", 4);
  const ExplainedProgram& program = explained.explanation.programs[0];
  for (size_t s = 0; s < program.streams.size(); ++s) {
    const ExplainedStream& stream = program.streams[s];
    size_t events = 0;
    for (const ExplainedActor& actor : program.actors) {
      if (actor.stream == static_cast<int32_t>(s)) events += actor.firings * actor.script.size();
    }
    EXPECT_EQ(stream.spans.size(), events);
    int64_t end = 0;
    for (const ExplainedSpan& span : stream.spans) {
      EXPECT_GE(span.begin, end);
      // A compute stream that stood still did so for something.
      EXPECT_EQ(span.owed_by >= 0, span.begin > end) << program.actors[span.actor].name;
      end = span.end;
    }
    EXPECT_LE(end, program.makespan);
  }
}

// Four ranks of two devices on two hosts, as the machine of a job has them, and four hosts of two
// devices, as a file of links says.
TEST(ExplainPageTest, DevicesSayTheirRankAndHost) {
  Graph graph;
  const Scope scope(&graph);
  Tensor x = graph.Input("x", DType::kF32, {8, 4}, "data:S0");
  graph.Output("y", MatMul(x, scope.Param("w", {4, 4}, "model:S1")));
  ASSERT_EQ(graph.Finish(), absl::OkStatus());
  Machine job = Machine::Cpu(), file = Machine::Cpu();
  job.host_of_rank = {0, 0, 1, 1};
  file.devices_per_host = 2;
  for (const bool ranks : {true, false}) {
    const Explanation explanation =
        ExplainGraph(graph, "data=4 model=2", 1, ranks ? 4 : 1, ranks ? job : file).explanation;
    const json page = json::parse(ExplanationJson(explanation));
    const std::string text = ExplanationText(explanation);
    for (int device = 0; device < 8; ++device) {
      const std::string said =
          ranks ? absl::StrCat(device / 2, ":", device % 2, " data=", device / 2,
                               " model=", device % 2, ", rank ", device / 2, ", host ", device / 4)
                : absl::StrCat("0:", device, " data=", device / 2, " model=", device % 2,
                               ", rank 0, host ", device / 2);
      EXPECT_EQ(page["devices"][device], said);
      EXPECT_THAT(text, HasSubstr(absl::StrCat("  device ", device, ": ", said, "\n")));
    }
  }
}

TEST(ExplainPageTest, NoNameGetsOutOfItsString) {
  Graph graph;
  const Scope scope = Scope(&graph) / "</script><script>alert(\"x\")</script>\\\xff";
  Tensor x = graph.Input("x", DType::kF32, {4, 4}, "data:S0");
  graph.Output("y", MatMul(x, scope.Param("w", {4, 4}, "model:S1")));
  ASSERT_EQ(graph.Finish(), absl::OkStatus());
  const Explained explained = ExplainGraph(graph, "data=2", 1);
  const std::string page = ExplanationPage(explained.explanation);
  EXPECT_THAT(page, Not(HasSubstr("alert(\"x\")")));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  const json parsed = json::parse(ExplanationJson(explained.explanation));
  bool found = false;
  for (const json& name : parsed["strings"]) {
    found |= absl::StrContains(name.get<std::string>(), "</script><script>alert(\"x\")</script>\\");
  }
  EXPECT_TRUE(found);
}

TEST(ExplainPageTest, ThePageNeedsNothingElse) {
  const std::string page = ExplanationPage(ExplainMlp("data=2", 1).explanation);
  for (const char* outside :
       {"http://", "https://", "src=", "@import", "url(", "fetch(", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_TRUE(absl::StartsWith(page, "<!doctype html>"));
  EXPECT_TRUE(absl::EndsWith(page, "</html>\n"));
}

TEST(ExplainPageTest, TextAndPageSayTheSame) {
  const Explained explained = ExplainMlp("data=2 model=2", 2);
  const std::string text = ExplanationText(explained.explanation);
  const ExplainedProgram& program = explained.explanation.programs[0];
  for (const ExplainedBoxing& boxing : program.boxings) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(boxing.tensor, ": ", boxing.recipe, " ", boxing.from,
                                             " -> ", boxing.to)));
    EXPECT_THAT(text, HasSubstr(absl::StrCat("for ", boxing.reader, "\n")));
  }
  for (const ExplainedOp& op : program.ops) {
    if (op.signature.empty()) continue;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("  ", op.name, " (", PhaseName(op.phase), ", stage ",
                                             op.stage, "): ", op.signature, "  ")));
  }
}

}  // namespace
}  // namespace sluice
