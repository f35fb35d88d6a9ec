// Pictures are fed as bytes, a quarter of what f32 would move, and become numbers on the device.
#include <cmath>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

constexpr char kName[] = "normalize_images";

absl::Status CheckNumbers(absl::string_view what, const std::vector<double>& numbers,
                          int64_t channels) {
  if (static_cast<int64_t>(numbers.size()) == channels) return absl::OkStatus();
  return Mismatch(kName, "expected a ", what, " for each of ", channels, " channels, got ",
                  numbers.size());
}

absl::StatusOr<Types> Infer(const OpCall& call) {
  const auto& attributes = std::get<NormalizeImagesAttributes>(call.attributes);
  RETURN_IF_ERROR(CheckCount(kName, call, 1));
  const TensorType& x = call.inputs[0];
  if (x.dtype != DType::kU8 || x.shape.rank() == 0) {
    return Mismatch(kName, "expected x of u8 [.., channels], got ", TypeText(x));
  }
  const int64_t channels = x.shape[x.shape.rank() - 1];
  RETURN_IF_ERROR(CheckNumbers("mean", attributes.mean, channels));
  RETURN_IF_ERROR(CheckNumbers("standard deviation", attributes.stddev, channels));
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = attributes.mean[c], stddev = attributes.stddev[c];
    if (!std::isfinite(mean) || !std::isfinite(stddev) || !(stddev > 0)) {
      return Mismatch(kName, "expected a finite mean and a standard deviation above 0, got ", mean,
                      " and ", stddev, " of channel ", c);
    }
  }
  return Types{{DType::kF32, x.shape}};
}

// Which channel an element is of follows from its logical index, so that channels may be split.
absl::Status Reference(const ReferenceCall& call) {
  const auto& attributes = std::get<NormalizeImagesAttributes>(call.attributes);
  const ShardArray& x = call.inputs[0];
  ForEachIndex(x.box, [&](const Shape& index, int64_t flat) {
    const int64_t channel = index[index.rank() - 1];
    call.outputs[0].array.values[flat] =
        (x.array.values[flat] / 255 - attributes.mean[channel]) / attributes.stddev[channel];
  });
  return absl::OkStatus();
}

// Means and deviations that no two channels have alike.
NormalizeImagesAttributes OfChannels(int64_t channels) {
  NormalizeImagesAttributes attributes;
  for (int64_t c = 0; c < channels; ++c) {
    attributes.mean.push_back(0.5 - 0.03125 * static_cast<double>(c));
    attributes.stddev.push_back(0.25 + 0.125 * static_cast<double>(c));
  }
  return attributes;
}

OpCase Case(const char* name, const Shape& shape) {
  return {name, OfChannels(shape[shape.rank() - 1]), {U8(shape)}, 0, 255};
}

}  // namespace

const OpDef& NormalizeImagesOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = kName;
    op.inputs = {{"x"}};
    op.outputs = {{"y"}};
    op.attributes = NormalizeImagesAttributes();
    op.infer = Infer;
    op.rule = [](const OpCall&) { return IndexRule::Parse("...->..."); };
    op.cost = [](const OpCall& call) {
      const Shape& x = call.inputs[0].shape;
      // Sixteen pixels' means and factors.
      return ElementwiseCost(call, 2, CountOf({2, 16, 4, x[x.rank() - 1]}));
    };
    op.reference = Reference;
    op.cases = {Case("grey", {5, 3, 2, 1}), Case("color", {2, 5, 3, 3}), Case("rows", {5, 7})};
    op.large_cases = {Case("", {7, 131, 101, 1}), Case("", {3, 151, 167, 3}),
                      Case("", {2, 151, 167, 4}), Case("", {4111, 17}), Case("", {5, 1})};
    op.timing = {Elements(), [](At at) { return Case("", {at[0], 1}); }};
    return op;
  }();
  return op;
}

Tensor NormalizeImages(Tensor x, const std::vector<double>& mean,
                       const std::vector<double>& stddev) {
  return ApplyOne(NormalizeImagesOp(), NormalizeImagesAttributes{mean, stddev}, {x});
}

}  // namespace sluice
