// Of CUDA kernels that work on rows what the cases of their ops do not reach: rows that a block
// takes piece by piece, rows of whole packs and of some, columns of many groups of rows, ids that
// take several merges to sort, heads of several chunks and tiles, equal logits; and the errors that
// kernels find in what they read.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "framework/conformance/cuda_run.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/xorshift.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }
TensorType I32(const Shape& shape) { return {DType::kI32, shape}; }

// What the op's case gives on a whole, in two orders of threads.
void Check(const char* name, const OpCase& op_case, const KernelChecker::Also& also = BitsOfCpu,
           int64_t alignment = 64) {
  const OpDef* const op = FindOp(name);
  ASSERT_NE(op, nullptr) << name;
  const auto run = [=](KernelCall call) {
    call.alignment = alignment;
    return RunOnCuda(call);
  };
  EXPECT_EQ(KernelChecker(DeviceKind::kCuda, run, also).CheckWhole(*op, op_case, 2), "")
      << "operands at odd multiples of " << alignment;
}

TEST(CudaRowsTest, RowsThatABlockTakesInPieces) {
  for (const char* name : {"softmax", "softmax_gradient", "layer_norm", "layer_norm_gradient",
                           "ce_max", "ce_sum_exp", "ce_gradient", "l2_normalize", "reduce"}) {
    const std::vector<OpCase> cases = RowCases(*FindOp(name), {4096, 4097, 8300});
    EXPECT_FALSE(cases.empty()) << name;
    for (const OpCase& op_case : cases) Check(name, op_case);
  }
}

// Packs of sixteen bytes take whole runs of a warp, a part of one, or more than a block has room
// for; where operands begin elsewhere, elements go one by one. The bits are the CPU's either way.
TEST(CudaRowsTest, RowsByPacksAndByElements) {
  for (const char* name :
       {"softmax", "softmax_gradient", "layer_norm", "layer_norm_gradient", "ce_max", "ce_sum_exp",
        "ce_pick", "ce_gradient", "l2_normalize", "l2_normalize_gradient", "label_rank",
        "margin_logits", "margin_logits_gradient", "reduce", "batch_norm", "batch_norm_add_relu",
        "batch_norm_gradient", "batch_norm_relu_gradient"}) {
    const OpDef& op = *FindOp(name);
    const std::vector<OpCase> cases = RowCases(op, {24, 128, 200, 264, 1024, 1032, 4136});
    EXPECT_FALSE(cases.empty()) << name;
    for (const OpCase& op_case : cases) {
      for (const int64_t alignment : {16, 8}) {
        Check(name, op_case, BitsOfCpu, alignment);
        if (op.computes_in == ComputesIn::kF32) continue;
        OpCase low = InBf16(op, op_case);
        low.tolerance = 0x1p-7;  // softmax rounds its exponentials, too
        Check(name, low, BitsOfCpu, alignment);
      }
    }
  }
}

TEST(CudaRowsTest, ColumnsOfManyRows) {
  for (const int64_t rows : {63, 64, 65, 511, 1500}) {
    for (const int64_t width : {1, 31, 33, 100}) {
      const TensorType x = F32({rows, width}), column = F32({rows});
      Check("reduce", {"", ReduceAttributes{Reduction::kSum, true, {0}}, {x}});
      Check("reduce", {"", ReduceAttributes{Reduction::kMax, false, {0}}, {x}});
      Check("layer_norm_parameter_gradient", {"", NoAttributes(), {x, x, column, column}});
      Check("prelu_slope_gradient", {"", NoAttributes(), {x, x}});
    }
  }
}

TEST(CudaRowsTest, DimensionsReducedApart) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    for (const Shape& dims : {Shape{0, 2}, Shape{1, 3}, Shape{0, 2, 3}, Shape{0, 3}}) {
      Check("reduce", {"", ReduceAttributes{reduction, false, dims}, {F32({3, 5, 1, 70})}});
      Check("reduce", {"", ReduceAttributes{reduction, false, dims}, {F32({4, 3, 5, 33})}});
    }
  }
}

// Rows of an id are added up in the order in which they appear.
TEST(CudaRowsTest, IdsThatAreNamedOften) {
  for (const int64_t n : {255, 257, 2000}) {
    for (const int64_t width : {1, 130}) {
      const TensorType table = F32({40, width}), values = F32({n, width});
      const std::vector<TensorType> operands = {table, I32({n}), values};
      const std::vector<TensorType> sorted = {table, I32({n, 2}), values};
      Check("add_sparse", {"", NoAttributes(), operands, 0, 39});
      Check("sort_ids", {"", NoAttributes(), {operands[1]}, 0, 39});
      Check("sum_squares_sparse", {"", NoAttributes(), sorted, 0, 39});
      Check("assign_sparse", {"", NoAttributes(), sorted, 0, 39});
      Check("embedding_gradient", {"", RowsAttributes{40}, {operands[1], operands[2]}, 0, 39});
    }
  }
}

// Their sums have an order of their own.
TEST(CudaRowsTest, HeadsOfSeveralTilesAndChunks) {
  const KernelChecker::Also nothing = [](const KernelCall&, const KernelRun&) { return ""; };
  for (const Shape& shape : {Shape{1, 70, 2, 20}, Shape{2, 33, 1, 70}, Shape{1, 40, 1, 300}}) {
    const TensorType q = F32(shape), statistic = F32({shape[0], shape[1], shape[2]});
    // Scores of values up to `most` that are below 1.
    const auto scale = [&](double most) {
      return AttentionAttributes{1 / (most * most * static_cast<double>(shape[3]))};
    };
    std::vector<TensorType> forward(3, q), gradient = {q, q, q, q, statistic, q};
    Check("attention", {"", scale(3), forward, -3, 3}, nothing);
    Check("attention_gradient", {"", scale(1), gradient, -1, 1}, nothing);
    forward.push_back(I32({shape[0]}));
    gradient.push_back(I32({shape[0]}));
    Check("padded_attention", {"", scale(30), forward, 0, 30}, nothing);
    Check("padded_attention_gradient", {"", scale(3), gradient, 0, 3}, nothing);
  }
}

// Checks an op with so much scratch, and says how much of it its kernel takes.
int64_t ScratchUsed(const char* op, const OpCase& op_case, int64_t most) {
  int64_t used = -1;
  const auto run = [&](KernelCall call) {
    call.most_scratch = most;
    absl::StatusOr<KernelRun> made = RunOnCuda(call);
    if (made.ok()) used = made->scratch;
    return made;
  };
  const KernelChecker::Also nothing = [](const KernelCall&, const KernelRun&) { return ""; };
  const KernelChecker checker(DeviceKind::kCuda, run, nothing);
  EXPECT_EQ(checker.CheckWhole(*FindOp(op), op_case, 2), "") << most << " bytes of scratch";
  return used;
}

// As many heads at a time as scratch has room for their scores, of which a card's cuDNN may want
// somewhat more than the emulation. With no room for a head's scores our kernels make it.
TEST(CudaRowsTest, GradientsOfAttentionByCudnnGoInParts) {
  constexpr int64_t kRows = 4 * 40 * 4, kScores = 2 * 128 * 128;
  const TensorType q = {DType::kBF16, {4, 40, 4, 16}}, statistic = F32({4, 40, 4});
  const OpCase op_case = {"", AttentionAttributes{0.25}, {q, q, q, q, statistic, q}, -1,
                          1,  /*tolerance=*/0x1p-7};
  for (const int64_t heads : {16, 8, 4, 2, 1, 0}) {
    // Two numbers a row.
    const int64_t scratch = 8 * kRows + (heads == 0 ? 0 : heads * kScores + 256);
    const int64_t used = ScratchUsed("attention_gradient", op_case, scratch);
    EXPECT_LE(used, scratch) << heads;
    EXPECT_GE(2 * used, scratch) << heads;
  }
}

// The mask that cuDNN reads lies in scratch, too, of as many heads at a time.
TEST(CudaRowsTest, AttentionByCudnnDropsByMasksInParts) {
  constexpr int64_t kRows = 4 * 40 * 4, kScores = 2 * 128 * 128;
  const TensorType q = {DType::kBF16, {4, 40, 4, 16}}, statistic = F32({4, 40, 4});
  const AttentionAttributes attributes = {0.25, 0.3, 77};
  const OpCase forward = {"", attributes, {q, q, q}, -1, 1, /*tolerance=*/0x1p-7};
  const OpCase gradient = {"", attributes, {q, q, q, q, statistic, q}, -1, 1, 0x1p-7};
  for (const int64_t heads : {16, 8, 4, 2, 1}) {
    const int64_t mask = (2 * heads * 40 * 40 + 255) / 256 * 256;
    int64_t most = 4 * kRows + mask + 256, used = ScratchUsed("attention", forward, most);
    EXPECT_LE(used, most) << heads;
    EXPECT_GE(2 * used, most) << heads;
    // Four numbers a row, and an array like q.
    most = 16 * kRows + 32 * kRows + mask + heads * kScores + 256;
    used = ScratchUsed("attention_gradient", gradient, most);
    EXPECT_LE(used, most) << heads;
    EXPECT_GE(2 * used, most) << heads;
  }
}

// Samples of all lengths, with the bias that hides their padding in scratch, of as many samples at
// a time; of one, some heads.
TEST(CudaRowsTest, PaddedAttentionByCudnnGoesInParts) {
  constexpr int64_t kRows = 4 * 40 * 4, kScores = 2 * 128 * 128;
  const TensorType q = {DType::kBF16, {4, 40, 4, 16}}, statistic = F32({4, 40, 4});
  const TensorType lengths = I32({4});
  for (const double rate : {0.0, 0.3}) {
    // Values are those of lengths, too.
    const AttentionAttributes attributes = {1.0 / (40 * 40), rate, 77};
    const OpCase forward = {"", attributes, {q, q, q, lengths}, 0, 40, /*tolerance=*/0x1p-7};
    // Slopes of scores add up to zero, so that much of their products with keys above zero cancels,
    // and little of what rounding has made of them: an H100's are off by 0.027 of 2.4.
    const OpCase gradient = {"", attributes, {q, q, q, q, statistic, q, lengths},
                             0,  40,         /*tolerance=*/0x1p-6};
    for (const int64_t heads : {16, 8, 4, 2, 1}) {
      const auto whole = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
      const int64_t bias = whole(2 * std::max<int64_t>(1, heads / 4) * 40 * 40);
      const int64_t mask = rate == 0 ? 0 : whole(2 * heads * 40 * 40);
      int64_t most = 4 * kRows + bias + mask + 256;
      int64_t used = ScratchUsed("padded_attention", forward, most);
      EXPECT_LE(used, most) << heads;
      EXPECT_GE(used, 4 * kRows + bias) << heads << ": not by cuDNN";
      // Two numbers a row, beside a mask four and an array like q.
      most = (rate == 0 ? 8 : 16 + 32) * kRows + bias + mask + heads * kScores + 256;
      used = ScratchUsed("padded_attention_gradient", gradient, most);
      EXPECT_LE(used, most) << heads;
      EXPECT_GE(2 * used, most) << heads << ": not by cuDNN";
    }
  }
}

// More keys than weights lie in shared memory at a time, and the largest weights among the first of
// them for some heads, among the others for some.
TEST(CudaRowsTest, CachesOfManyKeys) {
  const KernelChecker::Also nothing = [](const KernelCall&, const KernelRun&) { return ""; };
  const TensorType row = F32({1, 2, 6, 8}), cache = F32({1, 8300, 6, 8});
  // Positions are drawn from the same range as all else; scores differ by some units.
  const OpCase many = {
      "", AttentionAttributes{1e-6}, {row, row, row, cache, cache, I32({1})}, 8192, 8292};
  Check("cached_attention", many, nothing);
}

// The kernel's run on these values, the first operand's being `values` and integers `integers`.
KernelCall CallOf(const char* op, const Attributes& attributes,
                  const std::vector<TensorType>& inputs, const std::vector<double>& values,
                  const std::vector<double>& integers, const std::vector<TensorType>& outputs) {
  KernelCall call;
  call.op = op;
  call.attributes = PrintAttributes(attributes);
  for (const TensorType& type : inputs) {
    Array array(type.shape, 1);
    if (call.inputs.empty() && !values.empty()) array.values = values;
    if (!IsFloat(type.dtype)) array.values = integers;
    call.updates.push_back(Updates(*FindOp(op), call.inputs.size()));
    call.inputs.push_back({type, WholeBox(type.shape), array});
  }
  for (const TensorType& type : outputs) call.outputs.push_back({type, WholeBox(type.shape), {}});
  return call;
}

void ExpectBitsOfCpu(const KernelCall& call) {
  const absl::StatusOr<KernelRun> run = RunOnCuda(call);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(BitsOfCpu(call, *run), "");
}

// Of queries of zero all weights of a row are alike, and of values that are the identity a row of y
// is the row of weights; likewise dv of a dy that is the identity is their transpose. Of keys that
// are alike no query has a gradient, if what is taken off the slopes of a row is what they have in
// common.
class DrawsOfCudnn {
 public:
  static constexpr int64_t kBatch = 2, kTime = 16, kHeads = 2;

  explicit DrawsOfCudnn(bool library) : attributes_{0.25, 0.3, 77, library} {
    for (int64_t i = 0; i < kBatch * kTime * kHeads; ++i) {
      identity_.values[static_cast<size_t>(i * kTime + i / kHeads % kTime)] = 1;
      statistics_.values[static_cast<size_t>(i)] =
          std::log(static_cast<double>(i / kHeads % kTime + 1));
    }
  }
  // [batch, time, heads, keys]
  Array Weights(int64_t step) const {
    return Run("attention", {{q_, zero_}, {q_, zero_}, {q_, identity_}}, {q_, statistic_}, step, 0);
  }
  // [batch, keys, heads, time]
  Array WeightsByGradient(int64_t step, const Array& y) const { return Gradient(step, y, 2); }
  Array QueryGradient(int64_t step, const Array& y) const { return Gradient(step, y, 0); }
  static size_t At(int64_t b, int64_t t, int64_t h, int64_t d) {
    return static_cast<size_t>(((b * kTime + t) * kHeads + h) * kTime + d);
  }

 private:
  Array Gradient(int64_t step, const Array& y, size_t output) const {
    return Run("attention_gradient",
               {{q_, zero_},
                {q_, ones_},
                {q_, identity_},
                {q_, y},
                {statistic_, statistics_},
                {q_, identity_}},
               {q_, q_, q_}, step, output);
  }
  Array Run(const char* op, const std::vector<std::pair<TensorType, Array>>& inputs,
            const std::vector<TensorType>& outputs, int64_t step, size_t output) const {
    KernelCall call;
    call.op = op;
    call.attributes = PrintAttributes(attributes_);
    call.seed = 5;
    call.step = step;
    for (const auto& [type, array] : inputs) {
      call.inputs.push_back({type, WholeBox(type.shape), array});
      call.updates.push_back(false);
    }
    for (const TensorType& type : outputs) {
      call.outputs.push_back({type, WholeBox(type.shape), {}});
    }
    const absl::StatusOr<KernelRun> run = RunOnCuda(call);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->outputs[output] : Array(outputs[output].shape, 0);
  }

  const AttentionAttributes attributes_;
  const TensorType q_ = {DType::kBF16, {kBatch, kTime, kHeads, kTime}};
  const TensorType statistic_ = F32({kBatch, kTime, kHeads});
  const Array zero_ = Array(q_.shape, 0), ones_ = Array(q_.shape, 1);
  Array identity_ = Array(q_.shape, 0), statistics_ = Array(statistic_.shape, 0);
};

TEST(CudaRowsTest, CudnnDrawsForForwardWhatItDrawsForTheGradient) {
  const DrawsOfCudnn library(true), ours(false);
  const Array weights = library.Weights(3);
  EXPECT_EQ(library.Weights(3).values, weights.values);
  EXPECT_NE(library.Weights(4).values, weights.values);
  const Array again = library.WeightsByGradient(3, weights);
  const Array weights_of_ours = ours.Weights(3);
  const Array of_ours = ours.WeightsByGradient(3, weights_of_ours);
  EXPECT_NE(weights_of_ours.values, weights.values);
  int64_t kept = 0, seen = 0;
  for (int64_t b = 0; b < library.kBatch; ++b) {
    for (int64_t h = 0; h < library.kHeads; ++h) {
      for (int64_t t = 0; t < library.kTime; ++t) {
        for (int64_t s = 0; s <= t; ++s, ++seen) {
          const double weight = weights.values[library.At(b, t, h, s)];
          kept += weight > 0 ? 1 : 0;
          EXPECT_NEAR(weight, weight > 0 ? 1 / (0.7 * static_cast<double>(t + 1)) : 0, 0x1p-7);
          EXPECT_NEAR(again.values[library.At(b, s, h, t)], weight, 0x1p-7);
          EXPECT_NEAR(of_ours.values[library.At(b, s, h, t)],
                      weights_of_ours.values[library.At(b, t, h, s)], 0x1p-7);
        }
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(seen), 0.7, 0.1);
  EXPECT_THAT(library.QueryGradient(3, weights).values,
              testing::Each(testing::DoubleNear(0, 0x1p-8)));
  EXPECT_THAT(ours.QueryGradient(3, weights_of_ours).values,
              testing::Each(testing::DoubleNear(0, 0x1p-8)));
}

// No other kernel can draw what cuDNN draws in the other pass.
TEST(CudaRowsTest, DrawsOfCudnnThatItCannotMakeAreRefused) {
  constexpr absl::string_view kOnCpus =
      "library_draws: expected draws of ours on a CPU, got a card's";
  const Attributes attributes = AttentionAttributes{0.25, 0.3, 77, true};
  const auto refusal = [&](DType dtype, int64_t size) {
    const TensorType q = {dtype, {1, 4, 1, size}};
    const KernelCall call = CallOf("attention", attributes, {q, q, q}, {}, {}, {q, F32({1, 4, 1})});
    EXPECT_THAT(std::string(RunKernel(call).status().message()), testing::StartsWith(kOnCpus));
    return std::string(RunOnCuda(call).status().message());
  };
  EXPECT_THAT(refusal(DType::kF32, 8),
              testing::StartsWith("library_draws: expected operands of bf16"));
  EXPECT_THAT(refusal(DType::kBF16, 12), testing::StartsWith("library_draws: "));
}

TEST(CudaRowsTest, RanksOfEqualLogitsAndOfNan) {
  const double nan = std::nan("");
  const std::vector<double> logits = {1, 2, 1, 0, 1,   1, 1, 1, 1, 1,  //
                                      3, 2, 1, 0, nan, 0, 0, 2, 1, 0};
  const TensorType rows = F32({4});
  for (const std::vector<double>& labels : {std::vector<double>{0, 4, 2, 3}, {2, 0, 4, 1}}) {
    ExpectBitsOfCpu(CallOf("label_rank", NoAttributes(), {F32({4, 5}), I32({4}), rows}, logits,
                           labels, {rows}));
  }
}

// Which of two zeros a maximum is depends on the order.
TEST(CudaRowsTest, MaximaOfZerosOfBothSigns) {
  Xorshift random(7);
  for (const int64_t width : {128, 264, 1024, 1032}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<double> zeros;
      for (int64_t i = 0; i < 16 * width; ++i) zeros.push_back(random.Below(2) == 0 ? 0.0 : -0.0);
      ExpectBitsOfCpu(
          CallOf("ce_max", NoAttributes(), {{dtype, {16, width}}}, zeros, {}, {F32({16})}));
    }
  }
}

// Angles that the margin moves beyond a half turn, cosines beyond 1, and what is no number.
TEST(CudaRowsTest, MarginsAtTheEndsOfTheirRange) {
  std::vector<double> cosines, labels;
  for (const double x : {-1.5, -1.0, -0.999, -0.9, -0.88, -0.5, 0.0, 0.999, 1.0, 1.5, 0x1p-30}) {
    labels.push_back(static_cast<double>(labels.size() % 2));
    cosines.insert(cosines.end(), {x, x});
  }
  cosines.back() = std::nan("");
  const int64_t rows = static_cast<int64_t>(labels.size());
  const TensorType x = F32({rows, 2});
  const MarginAttributes arc = {64, 0.5, 0.1};
  ExpectBitsOfCpu(CallOf("margin_logits", arc, {x, I32({rows})}, cosines, labels, {x}));
  std::vector<double> logits = cosines;
  for (double& logit : logits) logit *= 64;
  ExpectBitsOfCpu(CallOf("margin_logits_gradient", arc, {x, I32({rows}), x}, logits, labels, {x}));
}

std::string MessageOf(const char* op, const Attributes& attributes,
                      const std::vector<TensorType>& inputs, const std::vector<double>& integers,
                      const std::vector<TensorType>& outputs) {
  const KernelCall call = CallOf(op, attributes, inputs, {}, integers, outputs);
  return std::string(RunOnCuda(call).status().message());
}

// Ends with what the CPU's kernel says, behind the place of the instruction.
void ExpectEnd(const std::string& message, const std::string& end) {
  ASSERT_GE(message.size(), end.size()) << message;
  EXPECT_EQ(message.substr(message.size() - end.size()), end) << message;
}

TEST(CudaRowsTest, WhatIsOutOfRangeIsNamed) {
  const NoAttributes none;
  ExpectEnd(MessageOf("embedding", none, {F32({7, 2}), I32({3})}, {1, 7, 2}, {F32({3, 2})}),
            "embedding: expected ids in [0, 7), got 7 in row 1");
  ExpectEnd(MessageOf("add_sparse", none, {F32({7, 2}), I32({3}), F32({3, 2})}, {1, 2, -1},
                      {F32({7, 2})}),
            "add_sparse: expected ids in [0, 7), got -1 in row 2");
  ExpectEnd(MessageOf("sort_ids", none, {I32({3})}, {1, 2, -1}, {I32({3, 2})}),
            "sort_ids: expected ids in [0, 2147483648), got -1 in row 2");
  ExpectEnd(
      MessageOf("assign_sparse", none, {F32({7, 2}), I32({2, 2}), F32({2, 2})}, {1, 3, 0, 7}, {}),
      "assign_sparse: expected ids in [0, 7), got 7 in row 0");
  const CrossEntropyAttributes plain;
  ExpectEnd(MessageOf("ce_pick", plain, {F32({3, 7}), I32({3})}, {1, -1, 2}, {F32({3})}),
            "ce_pick: expected labels in [0, 7), got -1 in row 1");
  const TensorType q = F32({2, 5, 1, 4});
  ExpectEnd(MessageOf("padded_attention", AttentionAttributes(), {q, q, q, I32({2})}, {5, 6},
                      {q, F32({2, 5, 1})}),
            "padded_attention: expected lengths in [0, 5], got 6 in sample 1");
  ExpectEnd(MessageOf("write_rows", none, {q, F32({2, 2, 1, 4}), I32({2})}, {4, 3}, {}),
            "write_rows: expected a position in [0, 3], got 4 in sample 0");
  const TensorType row = F32({2, 1, 1, 4});
  ExpectEnd(MessageOf("cached_attention", AttentionAttributes(), {row, row, row, q, q, I32({2})},
                      {4, -2}, {row}),
            "cached_attention: expected a position in [0, 4], got -2 in sample 1");
}

}  // namespace
}  // namespace sluice
