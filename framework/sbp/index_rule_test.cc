#include "framework/sbp/index_rule.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

// "factor: inputs->outputs" of every signature.
std::vector<std::string> Rows(const std::string& equation, std::vector<std::vector<int>> linear,
                              std::vector<Shape> inputs, std::vector<Shape> outputs,
                              Reduction contracted = Reduction::kSum) {
  absl::StatusOr<IndexRule> rule = IndexRule::Parse(equation, std::move(linear), contracted);
  EXPECT_TRUE(rule.ok()) << rule.status();
  if (!rule.ok()) return {};
  absl::StatusOr<std::vector<Signature>> signatures = rule->Signatures(inputs, outputs, 2);
  EXPECT_TRUE(signatures.ok()) << signatures.status();
  if (!signatures.ok()) return {};
  std::vector<std::string> rows;
  for (const Signature& signature : *signatures) {
    rows.push_back(signature.factor + ": " + ToString(signature));
  }
  return rows;
}

using Text = std::vector<std::string>;

TEST(IndexRule, MatmulHasTheSixRowsOfThePaper) {
  EXPECT_EQ(Rows("mk,kn->mn", {{0}, {1}}, {{4, 6}, {6, 8}}, {{4, 8}}),
            (Text{": B,B->B", "k: S1,S0->P(sum)", "m: S0,B->S0", "n: B,S1->S1",
                  "P: P(sum),B->P(sum)", "P: B,P(sum)->P(sum)"}));
}

TEST(IndexRule, DotsAreSharedLeadingDimensions) {
  EXPECT_EQ(Rows("...mk,kn->...mn", {}, {{2, 3, 4, 6}, {6, 8}}, {{2, 3, 4, 8}}),
            (Text{": B,B->B", "0: S0,B->S0", "1: S1,B->S1", "k: S3,S0->P(sum)", "m: S2,B->S2",
                  "n: B,S1->S3"}));
  EXPECT_EQ(Rows("...mk,kn->...mn", {}, {{4, 6}, {6, 8}}, {{4, 8}}).size(), 4u);
  EXPECT_EQ(Rows("...,...->...", {{0, 1}}, {{2, 3}, {2, 3}}, {{2, 3}}),
            (Text{": B,B->B", "0: S0,S0->S0", "1: S1,S1->S1", "P: P(sum),P(sum)->P(sum)"}));
  EXPECT_EQ(Rows("...->...", {{0}}, {{}}, {{}}), (Text{": B->B", "P: P(sum)->P(sum)"}));
  // A written 1 is not the second dimension under the dots.
  EXPECT_EQ(Rows("...1->...", {}, {{2, 3, 1}}, {{2, 3}}),
            (Text{": B->B", "0: S0->S0", "1: S1->S1"}));
}

TEST(IndexRule, UppercaseAndSizeOneAreNeverSplit) {
  EXPECT_EQ(Rows("nV->n", {}, {{4, 6}}, {{4}}), (Text{": B->B", "n: S0->S0"}));
  EXPECT_EQ(Rows("nd,1d->nd", {}, {{4, 6}, {1, 6}}, {{4, 6}}),
            (Text{": B,B->B", "d: S1,S1->S1", "n: S0,B->S0"}));
  EXPECT_EQ(Rows("mk,kn->mn", {}, {{1, 6}, {6, 1}}, {{1, 1}}),
            (Text{": B,B->B", "k: S1,S0->P(sum)"}));
  EXPECT_EQ(Rows("nSS->n", {}, {{2, 3, 3}}, {{2}}), (Text{": B->B", "n: S0->S0"}));
}

TEST(IndexRule, ReductionsAndSeveralOutputs) {
  EXPECT_EQ(Rows("nv->n", {{0}}, {{4, 6}}, {{4}}, Reduction::kMax),
            (Text{": B->B", "n: S0->S0", "v: S1->P(max)", "P: P(max)->P(max)"}));
  EXPECT_EQ(Rows("nd->nd,n", {}, {{4, 6}}, {{4, 6}, {4}}, Reduction::kNone),
            (Text{": B->B,B", "n: S0->S0,S0"}));
  EXPECT_EQ(Rows("nd->nd,n", {}, {{4, 6}}, {{4, 6}, {4}}),
            (Text{": B->B,B", "d: S1->S1,P(sum)", "n: S0->S0,S0"}));
  EXPECT_EQ(Rows("n->", {}, {{4}}, {{}}), (Text{": B->B", "n: S0->P(sum)"}));
  EXPECT_EQ(Rows("->n", {}, {}, {{4}}), (Text{": ->B", "n: ->S0"}));
  EXPECT_EQ(Rows("->n", {}, {{}}, {{4}}), (Text{": B->B", "n: B->S0"}));
  // An unused factor of an input that no output has, seen only by that input.
  EXPECT_EQ(Rows("vd,n->nd", {}, {{5, 6}, {4}}, {{4, 6}}),
            (Text{": B,B->B", "d: S1,B->S1", "n: B,S0->S0", "v: S0,B->P(sum)"}));
}

TEST(IndexRule, FactorsNameEveryDimension) {
  const IndexRule rule = *IndexRule::Parse("...mK,1K->...m");
  const auto factors = rule.Factors({{2, 3, 4, 5}, {1, 5}}, {{2, 3, 4}});
  ASSERT_TRUE(factors.ok()) << factors.status();
  EXPECT_EQ(factors->inputs[0], (Text{"0", "1", "m", "K"}));
  EXPECT_EQ(factors->inputs[1], (Text{kOneFactor, "K"}));
  EXPECT_EQ(factors->outputs[0], (Text{"0", "1", "m"}));
  EXPECT_FALSE(rule.Factors({{2, 3, 4, 5}, {1, 6}}, {{2, 3, 4}}).ok());
}

TEST(IndexRule, OnePartSplitsNothing) {
  const IndexRule rule = *IndexRule::Parse("mk,kn->mn", {{0}});
  EXPECT_EQ(rule.Signatures({{4, 6}, {6, 8}}, {{4, 8}}, 1)->size(), 1u);
}

TEST(IndexRule, ErrorsSayWhere) {
  for (const char* bad :
       {"mk,kn", "mk->kn->mn", "m k->m", "mm->m", "......->m", "m2->m", "m..->m"}) {
    absl::StatusOr<IndexRule> rule = IndexRule::Parse(bad);
    ASSERT_FALSE(rule.ok()) << bad;
    EXPECT_NE(std::string(rule.status().message()).find(bad), std::string::npos) << rule.status();
  }
  EXPECT_FALSE(IndexRule::Parse("m,m->m", {{2}}).ok());
  EXPECT_FALSE(IndexRule::Parse("m,m->m", {{-1}}).ok());

  const IndexRule rule = *IndexRule::Parse("...mk,kn->...mn");
  const auto fails = [&](std::vector<Shape> inputs, std::vector<Shape> outputs,
                         const std::string& named) {
    absl::StatusOr<std::vector<Signature>> result = rule.Signatures(inputs, outputs, 2);
    ASSERT_FALSE(result.ok()) << named;
    EXPECT_NE(std::string(result.status().message()).find(named), std::string::npos)
        << result.status();
  };
  fails({{4, 6}, {7, 8}}, {{4, 8}}, "input 1");
  fails({{4, 6}, {6, 8}}, {{4, 9}}, "output 0");
  fails({{4, 6}, {6, 8, 2}}, {{4, 8}}, "\"kn\"");
  fails({{6}, {6, 8}}, {{4, 8}}, "[6]");
  fails({{4, 6}}, {{4, 8}}, "expected 2 inputs");
  EXPECT_FALSE(IndexRule::Parse("n1->n")->Signatures({{4, 2}}, {{4}}, 2).ok());
}

}  // namespace
}  // namespace sluice
