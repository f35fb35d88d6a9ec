// Every signature that any op lists is sound: shards run and put together equal the whole, on one
// axis with even, uneven and empty shards, and on two axes one inside the other.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/conformance/shard_run.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::vector<Signature> Listed(const OpDef& op, const OpCase& op_case,
                              const std::vector<TensorType>& inputs,
                              const std::vector<TensorType>& outputs, int64_t shards) {
  const auto signatures = SignaturesOf(op, {op_case.attributes, inputs, outputs}, shards);
  EXPECT_TRUE(signatures.ok()) << op.name << "/" << op_case.name << ": " << signatures.status();
  return signatures.ok() ? *signatures : std::vector<Signature>();
}

template <typename F>
void ForEachCase(F&& fn) {
  std::vector<const OpDef*> ops(AllOps().begin(), AllOps().end());
  ops.insert(ops.end(), CardOps().begin(), CardOps().end());
  for (const OpDef* op : ops) {
    for (const OpCase& op_case : op->cases) {
      const auto values = RunWhole(*op, op_case, /*seed=*/11);
      ASSERT_TRUE(values.ok()) << op->name << "/" << op_case.name << ": " << values.status();
      fn(*op, op_case, *values);
    }
  }
}

TEST(SignaturesTest, SoundOnOneAxis) {
  int tried = 0;
  ForEachCase([&](const OpDef& op, const OpCase& op_case, const CaseValues& values) {
    for (int64_t shards : {2, 3, 9}) {
      for (const Signature& signature :
           Listed(op, op_case, values.input_types, values.output_types, shards)) {
        ++tried;
        const absl::Status status = CheckSignatures(op, op_case, values, {signature}, {shards});
        EXPECT_TRUE(status.ok()) << status;
      }
    }
  });
  std::cout << tried << " tried\n";
  EXPECT_GT(tried, 1400);
}

// What is packed by position is read in another order than the tensor's.
TEST(SignaturesTest, WhatMayStandInAnyOrderMay) {
  int tried = 0;
  ForEachCase([&](const OpDef& op, const OpCase& op_case, const CaseValues& values) {
    for (const Signature& signature :
         Listed(op, op_case, values.input_types, values.output_types, 2)) {
      if (!signature.any_order) continue;
      ++tried;
      const absl::Status status = CheckAnyOrder(op, op_case, values, signature);
      EXPECT_TRUE(status.ok()) << status;
    }
  });
  EXPECT_GE(tried, 3);
}

// An id counts on the order of the table's rows.
TEST(SignaturesTest, WhatMayNotStandInAnyOrderIsCaught) {
  const OpDef& op = EmbeddingOp();
  const OpCase& op_case = op.cases[0];
  const auto values = RunWhole(op, op_case, /*seed=*/11);
  ASSERT_TRUE(values.ok()) << values.status();
  for (const Signature& signature :
       Listed(op, op_case, values->input_types, values->output_types, 2)) {
    if (signature.factor != "v") continue;
    EXPECT_FALSE(CheckAnyOrder(op, op_case, *values, signature).ok());
    return;
  }
  FAIL() << "no signature splits the rows of the table";
}

// What one shard of the outer axis holds.
std::vector<TensorType> Local(const std::vector<TensorType>& types, const std::vector<Sbp>& sbps,
                              int64_t shards, int64_t i) {
  std::vector<TensorType> local = types;
  for (size_t t = 0; t < types.size(); ++t) {
    local[t].shape = ShapeOf(BoxAt(types[t].shape, {sbps[t]}, {shards}, {i}));
  }
  return local;
}

// At most one kind of P in the layout of a tensor.
bool Mixes(const Signature& a, const Signature& b) {
  const auto mixes = [](const std::vector<Sbp>& x, const std::vector<Sbp>& y) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].is_partial() && y[i].is_partial() && x[i] != y[i]) return true;
    }
    return false;
  };
  return mixes(a.inputs, b.inputs) || mixes(a.outputs, b.outputs);
}

TEST(SignaturesTest, SoundInsideAnotherAxis) {
  int tried = 0;
  ForEachCase([&](const OpDef& op, const OpCase& op_case, const CaseValues& values) {
    const int64_t outer_shards = 2, inner_shards = 3;
    for (const Signature& outer :
         Listed(op, op_case, values.input_types, values.output_types, outer_shards)) {
      // The inner axis may do what every shard of the outer one allows.
      std::vector<Signature> inner;
      for (int64_t i = 0; i < outer_shards; ++i) {
        const auto here =
            Listed(op, op_case, Local(values.input_types, outer.inputs, outer_shards, i),
                   Local(values.output_types, outer.outputs, outer_shards, i), inner_shards);
        std::vector<Signature> both;
        for (const Signature& signature : i == 0 ? here : inner) {
          if (std::find(here.begin(), here.end(), signature) != here.end()) {
            both.push_back(signature);
          }
        }
        inner = both;
      }
      for (const Signature& signature : inner) {
        if (Mixes(outer, signature)) continue;
        ++tried;
        const absl::Status status =
            CheckSignatures(op, op_case, values, {outer, signature}, {outer_shards, inner_shards});
        EXPECT_TRUE(status.ok()) << status;
      }
    }
  });
  std::cout << tried << " tried\n";
  EXPECT_GT(tried, 2200);
}

// Rules that are wrong must not pass for right.
bool IsSound(const OpDef& op, int64_t shards) {
  for (const OpCase& op_case : op.cases) {
    const auto values = RunWhole(op, op_case, /*seed=*/11);
    EXPECT_TRUE(values.ok());
    for (const Signature& signature :
         Listed(op, op_case, values->input_types, values->output_types, shards)) {
      if (!CheckSignatures(op, op_case, *values, {signature}, {shards}).ok()) return false;
    }
  }
  return true;
}

TEST(SignaturesTest, WrongRulesAreCaught) {
  OpDef softmax = SoftmaxOp();  // splits what the sum runs over
  ASSERT_TRUE(IsSound(softmax, 2));
  softmax.rule = [](const OpCall&) { return IndexRule::Parse("...e->...e"); };
  EXPECT_FALSE(IsSound(softmax, 2));

  OpDef multiply = MultiplyOp();  // linear in each factor, not in both
  multiply.cases = {multiply.cases[0]};
  multiply.rule = [](const OpCall&) { return IndexRule::Parse("...,...->...", {{0, 1}}); };
  EXPECT_FALSE(IsSound(multiply, 2));

  OpDef max = CrossEntropyMaxOp();  // a maximum is not a sum
  max.rule = [](const OpCall&) { return IndexRule::Parse("...v->...", {}, Reduction::kSum); };
  EXPECT_FALSE(IsSound(max, 3));

  OpDef add_sparse = AddSparseOp();  // the dense operand would be counted once a shard
  add_sparse.signatures = nullptr;
  add_sparse.rule = [](const OpCall&) { return IndexRule::Parse("ve,...,...e->ve"); };
  EXPECT_FALSE(IsSound(add_sparse, 2));

  OpDef reshape = ReshapeOp();  // cuts that fall on different elements
  reshape.cases = {reshape.cases[0]};
  reshape.signatures = [](const OpCall&, int64_t) -> absl::StatusOr<std::vector<Signature>> {
    return std::vector<Signature>{{"b", {Sbp::S(1)}, {Sbp::S(0)}}};
  };
  EXPECT_FALSE(IsSound(reshape, 2));
}

TEST(SignaturesTest, TheListIsInOrderAndFindable) {
  EXPECT_EQ(FindOp("matmul"), &MatMulOp());
  EXPECT_EQ(FindOp("nothing"), nullptr);
  for (const OpDef* op : AllOps()) {
    EXPECT_EQ(FindOp(op->name), op) << op->name << " is listed twice";
    EXPECT_FALSE(op->cases.empty()) << op->name << " has no cases, so nothing tests it";
    EXPECT_TRUE(op->infer != nullptr && op->cost != nullptr && op->reference != nullptr)
        << op->name << " lacks infer, cost or reference";
  }
}

}  // namespace
}  // namespace sluice
