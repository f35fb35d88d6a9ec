// A thousand random models on random meshes of four devices equal the interpreter; together they
// use every op, every signature and every way of boxing.
#include <algorithm>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/lower.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/census.h"
#include "framework/testing/parallel.h"
#include "framework/testing/parity.h"
#include "framework/testing/random_graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kGraphs = 1000;
constexpr int kSteps = 2;
constexpr double kTolerance = 1e-9;

// What no graph can reach, and why. Beside it stands what follows from the ops (FollowsNobody).
const std::set<std::string> kUnreachable = {
    // A factor that the output alone has is taken if its forward op took it, and this op has none.
    "embedding_gradient v",
    // Logits are never partial, for their maxima would not be those of the sums.
    "ce_gradient P",
    // What a cache holds is a value, and not terms of one.
    "cached_attention P",
};

// Neither asked for nor forbidden: the dense part and the rows of one gradient would both have to
// arrive partial, with whole ids, which happens once in thousands of graphs.
const std::set<std::string> kByChance = {"add_sparse P"};

struct Outcome {
  bool refused = false, stuck = false;
  std::string failure;
};

bool IsFused(const OpDef& op) { return std::count(FusedOps().begin(), FusedOps().end(), &op) > 0; }

// The steps of the compiler once more, for what Compile does not tell.
absl::Status Count(const RandomGraph& random, Census* census) {
  const Grid grid(random.mesh, random.micro_batches);
  const Machine machine = Machine::Cpu();
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  ASSIGN_OR_RETURN(const SbpAssignment assignment,
                   SelectSbp(*random.graph, grid, &planner, machine, &layouts));
  ASSIGN_OR_RETURN(const FusedProgram fused, Fuse(*random.graph, assignment));
  ASSIGN_OR_RETURN(const TaskGraph tasks,
                   Lower(*random.graph, grid, assignment, &planner, machine));
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  census->Add(*random.graph, grid, assignment, tasks);
  for (const Node& node : fused.graph->nodes()) {
    if (IsFused(*node.op)) ++census->ops[node.op->name];
  }
  return absl::OkStatus();
}

absl::Status Check(int seed, Outcome* outcome, Census* census) {
  ASSIGN_OR_RETURN(const RandomGraph random, MakeRandomGraph(seed, kSteps));
  CompileOptions options;
  options.mesh = random.mesh;
  options.micro_batches = random.micro_batches;
  options.script_length = random.script_length;
  if (seed % 2 == 0) options.least_taken = 0;  // all of these tensors are small
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", random.graph.get()}}, options);
  // Words may contradict each other, or cut a dimension that an outer axis has cut to one element.
  outcome->refused = absl::IsInvalidArgument(plan.status());
  // The proof refuses a plan in which what is made once a step of parameters alone stands in one
  // script behind what waits for all micro-batches, and in front of what each of them reads.
  outcome->stuck = absl::IsFailedPrecondition(plan.status());
  if (outcome->refused || outcome->stuck) return absl::OkStatus();
  RETURN_IF_ERROR(plan.status());
  ASSIGN_OR_RETURN(const InterpretedSteps reference,
                   InterpretSteps(*random.graph, random.feeds, 7));
  PlanExecutorOptions run;
  run.seed = 7;
  run.interleaving = seed;
  RETURN_IF_ERROR(
      CompareWithReference(*plan, random.feeds, reference, kTolerance, run, seed % 3 == 0));
  return Count(random, census);
}

// All signatures that the cases of an op have along an axis of two shards.
std::set<std::string> SignaturesOfCases(const OpDef& op) {
  std::set<std::string> names;
  for (const OpCase& c : op.cases) {
    const auto outputs = op.infer({c.attributes, c.inputs, {}});
    EXPECT_TRUE(outputs.ok()) << op.name << " " << c.name;
    if (!outputs.ok()) continue;
    const auto signatures = SignaturesOf(op, {c.attributes, c.inputs, *outputs}, 2);
    EXPECT_TRUE(signatures.ok()) << op.name << " " << c.name;
    if (!signatures.ok()) continue;
    for (const Signature& s : *signatures) names.insert(absl::StrCat(op.name, " ", s.factor));
  }
  return names;
}

// An op that is only ever part of gradients takes the factor that its forward op took, so a factor
// that none of its forward ops has is not for it: gelu is not linear, so that gelu_gradient, which
// is, never gets P.
bool FollowsNobody(const Census& census, const OpDef& op, absl::string_view factor) {
  const auto forward_ops = census.gradient_of.find(op.name);
  if (census.forward.count(op.name) > 0 || forward_ops == census.gradient_of.end()) return false;
  for (const std::string& forward_op : forward_ops->second) {
    const OpDef* known = FindOp(forward_op);
    if (known == nullptr) return false;
    if (SignaturesOfCases(*known).count(absl::StrCat(forward_op, " ", factor)) > 0) return false;
  }
  return true;
}

TEST(RandomGraphsTest, EqualTheInterpreterAndReachEverything) {
  std::vector<Outcome> outcomes(kGraphs);
  Census census;
  ParallelFor(kGraphs, [&](int seed) {
    const absl::Status status = Check(seed, &outcomes[seed], &census);
    if (!status.ok()) outcomes[seed].failure = status.ToString();
  });
  int refused = 0, stuck = 0, failed = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    refused += outcomes[seed].refused;
    stuck += outcomes[seed].stuck;
    if (outcomes[seed].failure.empty() || ++failed > 10) continue;
    ADD_FAILURE() << "seed " << seed << ": " << outcomes[seed].failure;
  }
  EXPECT_EQ(failed, 0);
  EXPECT_LE(refused, kGraphs / 20);
  EXPECT_EQ(stuck, 0);

  for (const char* change :
       {"B->S", "B->P", "S->P", "S->B", "S->S'", "P->S", "P->P'", "P->B", "several axes",
        "across stages", "over time: accumulate", "over time: pack", "over time: slice"}) {
    EXPECT_GE(census.changes[change], 20) << change;
  }
  for (const char* recipe : {"slice", "pad", "embed", "all_gather", "all_to_all", "reduce_scatter",
                             "all_reduce", "general", "copy"}) {
    EXPECT_GE(census.recipes[recipe], 20) << recipe;
  }
  std::set<std::string> all;
  for (const OpDef* op : AllOps()) {
    const std::set<std::string> signatures = SignaturesOfCases(*op);
    all.insert(signatures.begin(), signatures.end());
    if (census.ops[op->name] == 0) {
      ADD_FAILURE() << op->name << " is in no random graph: none of its cases suits "
                    << "testing/random_graph_ops.cc, so add a pattern that has it to "
                    << "testing/random_graph_patterns.cc";
      continue;
    }
    // These have the signatures of what they are made of.
    if (IsFused(*op)) continue;
    for (const std::string& signature : signatures) {
      if (FollowsNobody(census, *op, signature.substr(op->name.size() + 1))) {
        std::cout << signature << ": no forward op has this factor\n";
      } else if (kByChance.count(signature) > 0) {
        continue;
      } else if (kUnreachable.count(signature) > 0) {
        EXPECT_EQ(census.signatures.count(signature), 0u)
            << "\"" << signature << "\" is reached after all: take it out of kUnreachable";
      } else {
        EXPECT_GE(census.signatures[signature], 1)
            << "\"" << signature << "\" (op, factor) is chosen in no random graph: make "
            << "testing/random_graph_patterns.cc ask for it, or say in kUnreachable why nothing "
               "can";
      }
    }
  }
  for (const std::set<std::string>& excepted : {kUnreachable, kByChance}) {
    for (const std::string& signature : excepted) {
      EXPECT_EQ(all.count(signature), 1u)
          << "\"" << signature << "\" is excepted and is no (op, factor) of any case";
    }
  }
  RecordProperty("refused", refused);
  std::cout << refused << " of " << kGraphs << " refused, " << stuck << " stuck\n"
            << census.ToString();
}

}  // namespace
}  // namespace sluice
