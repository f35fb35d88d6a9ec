// No rule leaves out a signature that is right, but for those listed here with a reason; and what
// rules list, the search finds on its own.
#include "framework/conformance/omitted_signatures.h"

#include <iostream>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// What rules leave out on purpose, and why: an op that is linear in some inputs as far as one of
// its outputs goes, while another output has no such input. A rule has one reduction for all
// outputs; and statistics that owe a sum would have to be summed before they are of use.
const std::map<std::string, std::string>& Allowed() {
  static const auto* const allowed = new std::map<std::string, std::string>{
      {"layer_norm: B,P(sum),P(sum)->P(sum),B,B", "y alone has gamma and beta"},
      {"layer_norm_parameter_gradient: B,P(sum),P(sum),B->P(sum),B", "dgamma alone has x - mean"},
      {"layer_norm_parameter_gradient: B,B,B,P(sum)->P(sum),B", "dgamma alone has rstd"},
      {"batch_norm: P(sum),P(sum),B,B,P(sum)->P(sum)", "a mean of x is summed when it gets here"},
      {"batch_norm: B,B,B,P(sum),P(sum)->P(sum)", "parameters are not partial"},
      {"batch_norm_parameter_gradient: B,P(sum),P(sum),B->P(sum),B", "dgamma alone has x - mean"},
      {"batch_norm_gradient: P(sum),P(sum),P(sum),B,B,B,P(sum)->P(sum)", "the mean is summed"},
      {"batch_norm_add: P(sum),P(sum),B,B,P(sum),P(sum)->P(sum)", "selection knows no fused op"},
      {"batch_norm_add: B,B,B,P(sum),P(sum),P(sum)->P(sum)", "selection knows no fused op"},
      {"batch_norm_add_relu_parameter_gradient: B,P(sum),P(sum),B,B->P(sum),B,B",
       "dgamma alone has x - mean"},
      {"batch_norm_add_relu_parameter_gradient: B,P(sum),P(sum),B,B,B->P(sum),B,B",
       "dgamma alone has x - mean"},
      {"attention: B,B,P(sum)->P(sum),B", "y alone has v"},
      {"attention_gradient: B,B,P(sum),P(sum),B,B->P(sum),P(sum),B", "dq and dk alone have v, y"},
      {"attention_gradient: B,B,P(sum),B,B,B->P(sum),P(sum),B", "dq and dk alone have v"},
      {"padded_attention: B,B,P(sum),B->P(sum),B", "y alone has v"},
      {"padded_attention_gradient: B,B,P(sum),P(sum),B,B,B->P(sum),P(sum),B",
       "dq and dk alone have v, y"},
      {"padded_attention_gradient: B,B,P(sum),B,B,B,B->P(sum),P(sum),B", "dq and dk alone have v"},
      {"margin_logits_gradient: P(sum),B,B->B", "without an angle no logit is read"},
      {"margin_logits_gradient: P(sum),B,P(sum)->P(sum)", "without an angle no logit is read"},
      // y is a first guess at the mean slope of a row, which is then taken off exactly.
      {"attention_gradient: B,B,B,P(sum),B,B->B,B,B", "y cancels"},
      {"attention_gradient: B,B,B,P(sum),B,P(sum)->P(sum),P(sum),P(sum)", "y cancels"},
      {"padded_attention_gradient: B,B,B,P(sum),B,B,B->B,B,B", "y cancels"},
      {"padded_attention_gradient: B,B,B,P(sum),B,P(sum),B->P(sum),P(sum),P(sum)", "y cancels"},
      // It looks at ids and values; the table says which of them are a shard's.
      {"sum_squares_sparse: P(sum),B,B->B", "the table's bytes are not read"},
  };
  return *allowed;
}

TEST(OmittedSignaturesTest, RulesAreComplete) {
  int64_t candidates = 0, runs = 0, valid = 0;
  std::set<std::string> seen;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& op_case : op->cases) {
      const auto found = SearchSignatures(*op, op_case);
      ASSERT_TRUE(found.ok()) << op->name << "/" << op_case.name << ": " << found.status();
      candidates += found->candidates;
      runs += found->runs;
      valid += static_cast<int64_t>(found->valid.size());
      for (const Signature& signature : found->omitted) {
        const std::string text = absl::StrCat(op->name, ": ", ToString(signature));
        seen.insert(text);
        EXPECT_TRUE(Allowed().count(text) > 0)
            << text << " is valid (case " << op_case.name << ") and not listed";
      }
      for (const Signature& signature : found->unfound) {
        ADD_FAILURE() << op->name << "/" << op_case.name << ": the search missed "
                      << ToString(signature);
      }
    }
  }
  for (const auto& entry : Allowed()) {
    EXPECT_TRUE(seen.count(entry.first) > 0) << entry.first << " is allowed and does not occur";
  }
  std::cout << candidates << " layouts, " << runs << " run, " << valid << " valid\n";
  EXPECT_GT(candidates, 40000);
  EXPECT_GT(runs, 900);
  EXPECT_GT(valid, 350);
}

std::set<std::string> Omitted(const OpDef& op, const OpCase& op_case) {
  const auto found = SearchSignatures(op, op_case);
  EXPECT_TRUE(found.ok()) << found.status();
  std::set<std::string> omitted;
  for (const Signature& signature : found->omitted) omitted.insert(ToString(signature));
  return omitted;
}

TEST(OmittedSignaturesTest, AWithheldLetterIsReported) {
  OpDef matmul = MatMulOp();
  const OpCase shared = matmul.cases[1];
  ASSERT_EQ(shared.name, "shared");
  matmul.rule = [](const OpCall&) { return IndexRule::Parse("...mK,Kn->...mn", {{0}, {1}}); };
  EXPECT_EQ(Omitted(matmul, shared), std::set<std::string>{"S2,S0->P(sum)"});
  matmul.rule = [](const OpCall&) { return IndexRule::Parse("...mk,kn->...mn", {{0}}); };
  EXPECT_EQ(Omitted(matmul, shared), std::set<std::string>{"B,P(sum)->P(sum)"});
}

TEST(OmittedSignaturesTest, AWithheldCutOfAReshapeIsReported) {
  OpDef reshape = ReshapeOp();
  const OpCase merge = reshape.cases[0];
  reshape.signatures = [](const OpCall&, int64_t) -> absl::StatusOr<std::vector<Signature>> {
    return std::vector<Signature>{{"", {Sbp::B()}, {Sbp::B()}}, {"P", {Sbp::P()}, {Sbp::P()}}};
  };
  EXPECT_EQ(Omitted(reshape, merge), (std::set<std::string>{"S0->S0", "S2->S1"}));
}

}  // namespace
}  // namespace sluice
