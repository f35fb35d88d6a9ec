// A test for each rule: what it refuses, what it lets through, and when it gives way. Each fails if
// its rule is taken from the table.
#include "framework/compiler/selection_rules.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

// An op on one axis of two devices (or, over time, of two micro-batches), outermost of all.
struct Case {
  std::vector<TensorType> inputs, outputs;
  std::vector<Signature> candidates;
  std::vector<Signature> outer;
  NodeOnAxis node;

  Case(const std::string& equation, std::vector<std::vector<int>> linear,
       const std::vector<Shape>& in, const std::vector<Shape>& out,
       Reduction contracted = Reduction::kSum) {
    for (const Shape& shape : in) inputs.push_back(F32(shape));
    for (const Shape& shape : out) outputs.push_back(F32(shape));
    candidates = *IndexRule::Parse(equation, std::move(linear), contracted)->Signatures(in, out, 2);
    node.shards = 2;
    for (const Shape& shape : in) {
      node.inputs.push_back({Sbp::B(), std::nullopt, shape.NumElements() == 1});
    }
    node.requested_outputs.resize(out.size());
  }

  // By signature, the name of the rule that refuses it; "" where it is legal.
  std::map<std::string, std::string> Verdicts(int given_way = 0) const {
    const auto refused_by = Legal(node, {outer, inputs, outputs}, candidates, given_way);
    std::map<std::string, std::string> verdicts;
    for (size_t c = 0; c < candidates.size(); ++c) {
      verdicts[ToString(candidates[c])] =
          refused_by[c] == nullptr ? "" : std::string(refused_by[c]->name);
    }
    return verdicts;
  }

  std::vector<std::string> Legals(int given_way = 0) const {
    std::vector<std::string> legal;
    for (const auto& [signature, rule] : Verdicts(given_way)) {
      if (rule.empty()) legal.push_back(signature);
    }
    return legal;
  }

  std::vector<std::string> RefusedBy(const std::string& rule, int given_way = 0) const {
    std::vector<std::string> refused;
    for (const auto& [signature, by] : Verdicts(given_way)) {
      if (by == rule) refused.push_back(signature);
    }
    return refused;
  }
};

// The example at the head of selection_rules.cc: x [8, 4] times w [4, 6].
Case Product() { return Case("mk,kn->mn", {{0}, {1}}, {{8, 4}, {4, 6}}, {{8, 6}}); }
Case Elementwise() { return Case("...->...", {{0}}, {{8, 4}}, {{8, 4}}); }

TEST(SelectionRulesTest, TheWorkedExampleIsDataParallelism) {
  Case product = Product();
  product.node.inputs = {{Sbp::S(0), {}, false}, {{}, {}, false}};
  EXPECT_THAT(product.Legals(), ElementsAre("S0,B->S0"));
  EXPECT_THAT(product.RefusedBy("partial as it comes"),
              UnorderedElementsAre("P(sum),B->P(sum)", "B,P(sum)->P(sum)"));
  EXPECT_THAT(product.RefusedBy("no new split"), UnorderedElementsAre("S1,S0->P(sum)", "B,S1->S1"));
  EXPECT_THAT(product.RefusedBy("preserve sharding over space"), ElementsAre("B,B->B"));
}

TEST(SelectionRulesTest, ABoundOperandIsReadAsItIsBound) {
  Case product = Product();
  product.node.inputs = {{Sbp::S(0), {}, false}, {Sbp::S(1), Sbp::S(1), false}};
  EXPECT_THAT(product.Legals(), ElementsAre("B,S1->S1"));
  EXPECT_THAT(product.RefusedBy("bound operands"),
              UnorderedElementsAre("B,B->B", "S0,B->S0", "S1,S0->P(sum)", "P(sum),B->P(sum)",
                                   "B,P(sum)->P(sum)"));
  EXPECT_THAT(product.Legals(kLastToGiveWay), ElementsAre("B,S1->S1"));
}

TEST(SelectionRulesTest, NothingIsMadePartialInOrderToReadItSo) {
  Case product = Product();
  EXPECT_THAT(product.RefusedBy("partial as it comes", kLastToGiveWay),
              UnorderedElementsAre("P(sum),B->P(sum)", "B,P(sum)->P(sum)"));
  product.node.inputs[0].arrives = Sbp::P();
  EXPECT_THAT(product.RefusedBy("partial as it comes", kLastToGiveWay),
              ElementsAre("B,P(sum)->P(sum)"));
}

TEST(SelectionRulesTest, AScalarIsPaddedBesideAnOperandThatArrivesPartial) {
  Case sum(",->", {{0, 1}}, {{}, {}}, {{}});
  EXPECT_THAT(sum.RefusedBy("partial as it comes"), ElementsAre("P(sum),P(sum)->P(sum)"));
  sum.node.inputs[0].arrives = Sbp::P();
  EXPECT_THAT(sum.RefusedBy("partial as it comes"), IsEmpty());
  Case rows("...,...->...", {{0, 1}}, {{8}, {8}}, {{8}});  // no scalars
  rows.node.inputs[0].arrives = Sbp::P();
  EXPECT_THAT(rows.RefusedBy("partial as it comes"), ElementsAre("P(sum),P(sum)->P(sum)"));
}

TEST(SelectionRulesTest, AFactorIsSplitOnlyWhereSomethingAsks) {
  Case product = Product();
  EXPECT_THAT(product.RefusedBy("no new split"),
              UnorderedElementsAre("S0,B->S0", "S1,S0->P(sum)", "B,S1->S1"));
  EXPECT_THAT(product.RefusedBy("no new split", 1), testing::SizeIs(3));
  EXPECT_THAT(product.RefusedBy("no new split", 2), IsEmpty());  // it has given way

  Case arrives = product;
  arrives.node.inputs[1].arrives = Sbp::S(1);
  EXPECT_THAT(arrives.Legals(), ElementsAre("B,S1->S1"));
  Case bound = product;
  bound.node.inputs[1] = {{}, Sbp::S(1), false};
  EXPECT_THAT(bound.Legals(), ElementsAre("B,S1->S1"));
  Case requested = product;  // of the result
  requested.node.requested_outputs[0] = Sbp::S(1);
  EXPECT_THAT(requested.Legals(), UnorderedElementsAre("B,B->B", "B,S1->S1"));
  Case forward = product;
  forward.node.forward_factor = "n";
  EXPECT_THAT(forward.Legals(), ElementsAre("B,S1->S1"));
}

TEST(SelectionRulesTest, BackwardSplitsWhatForwardSplit) {
  Case product = Product();
  product.node.inputs[0].arrives = Sbp::S(0);
  product.node.forward_factor = "k";
  EXPECT_THAT(product.Legals(), ElementsAre("S1,S0->P(sum)"));
  EXPECT_THAT(product.RefusedBy("backward follows forward"),
              UnorderedElementsAre("B,B->B", "S0,B->S0"));
  product.node.forward_factor = "";  // forward was whole: backward is, though x arrives split
  EXPECT_THAT(product.Legals(), ElementsAre("B,B->B"));
}

TEST(SelectionRulesTest, BackwardGoesItsOwnWayWhereItCannotFollow) {
  Case product = Product();
  product.node.inputs[0].arrives = Sbp::S(0);
  product.node.inputs[1].bound = Sbp::B();  // which rules k out
  product.node.forward_factor = "k";
  EXPECT_THAT(product.RefusedBy("backward follows forward"), IsEmpty());
  EXPECT_THAT(product.Legals(), ElementsAre("S0,B->S0"));
  product.node.forward_factor = "P";  // no factor that could be split
  EXPECT_THAT(product.RefusedBy("backward follows forward"), IsEmpty());
}

TEST(SelectionRulesTest, WhatArrivesSplitIsNotGathered) {
  Case map = Elementwise();
  map.node.inputs[0].arrives = Sbp::S(1);
  EXPECT_THAT(map.Legals(), ElementsAre("S1->S1"));
  EXPECT_THAT(map.RefusedBy("preserve sharding over space"), ElementsAre("B->B"));
  EXPECT_THAT(map.Legals(1), UnorderedElementsAre("B->B", "S1->S1"));
  // Where the op cannot take it so, it is gathered.
  Case rows("mK->m", {{0}}, {{8, 4}}, {{8}});
  rows.node.inputs[0].arrives = Sbp::S(1);
  EXPECT_THAT(rows.Legals(), ElementsAre("B->B"));
}

TEST(SelectionRulesTest, OperandsThatAreSplitDifferentlyLeaveItToCost) {
  Case sum("...,...->...", {}, {{8, 4}, {8, 4}}, {{8, 4}});
  sum.node.inputs[0].arrives = Sbp::S(0);
  sum.node.inputs[1].arrives = Sbp::S(1);
  EXPECT_THAT(sum.RefusedBy("preserve sharding over space"), IsEmpty());
  EXPECT_THAT(sum.Legals(), UnorderedElementsAre("B,B->B", "S0,S0->S0", "S1,S1->S1"));
}

TEST(SelectionRulesTest, MicroBatchesAreNotPacked) {
  Case map = Elementwise();
  map.node.time = true;
  map.node.inputs[0].arrives = Sbp::S(0);
  EXPECT_THAT(map.RefusedBy("preserve sharding over time"), ElementsAre("B->B"));
  // New splits are allowed by then, those of what arrives split still refused.
  EXPECT_THAT(map.Legals(2), ElementsAre("S0->S0"));
  EXPECT_THAT(map.RefusedBy("preserve sharding over time", 3), IsEmpty());
}

TEST(SelectionRulesTest, MicroBatchesAreOfEqualSize) {
  Case map("...->...", {{0}}, {{7, 4}}, {{7, 4}});
  map.node.inputs[0].arrives = Sbp::S(0);
  EXPECT_THAT(map.Legals(), ElementsAre("S0->S0"));  // over space, four rows and three
  map.node.time = true;
  EXPECT_THAT(map.RefusedBy("equal micro-batches"), ElementsAre("S0->S0"));
  EXPECT_THAT(map.Legals(kLastToGiveWay), UnorderedElementsAre("B->B", "S1->S1"));
}

TEST(SelectionRulesTest, ATensorIsPartialByOneReduction) {
  Case sum("mK->m", {{0}}, {{8, 4}}, {{8}});
  sum.node.inputs[0].arrives = Sbp::P();
  EXPECT_THAT(sum.Legals(), UnorderedElementsAre("B->B", "P(sum)->P(sum)"));
  sum.outer = {{"P", {Sbp::P(Reduction::kMax)}, {Sbp::P(Reduction::kMax)}}};
  EXPECT_THAT(sum.Legals(), ElementsAre("B->B"));
  EXPECT_THAT(sum.RefusedBy("one reduction"), ElementsAre("P(sum)->P(sum)"));
  sum.outer = {{"P", {Sbp::P()}, {Sbp::P()}}};
  EXPECT_THAT(sum.Legals(), UnorderedElementsAre("B->B", "P(sum)->P(sum)"));
}

TEST(SelectionRulesTest, EachHasANameOfItsOwnAndAReason) {
  std::set<absl::string_view> names;
  std::set<int> ranks;
  for (const LegalityRule& rule : SelectionRules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.reason.empty()) << rule.name;
    ranks.insert(rule.gives_way);
  }
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, kLastToGiveWay));
}

}  // namespace
}  // namespace sluice
