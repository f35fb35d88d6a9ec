#include "framework/train/peak.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/graph.h"
#include "framework/ops/ops.h"
#include "framework/session/session.h"

namespace sluice {
namespace {

constexpr int64_t kRows = 512, kWidth = 1024;  // of a device; the weight stays in the cache
constexpr int kMatmuls = 4, kSteps = 6;

}  // namespace

absl::StatusOr<double> MeasureMatmulPeak(int devices, DType dtype) {
  Graph graph;
  Tensor x = graph.Input("x", DType::kF32, {devices * kRows, kWidth}, "data:S0");
  Tensor weight = Scope(&graph).Param("weight", {kWidth, kWidth}, "", {"normal", 1.0 / 32});
  Tensor y = Cast(x, dtype);
  weight = Cast(weight, dtype);
  for (int i = 0; i < kMatmuls; ++i) y = MatMul(y, weight);
  graph.Output("sum", ReduceSum(SliceDim(y, 1, 0, 1), {0, 1}));
  RETURN_IF_ERROR(graph.Finish());
  SessionOptions options;
  options.mesh = absl::StrCat("data=", devices);
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Start({{"peak", &graph}}, options));
  HostTensor ones(DType::kF32, x.shape());
  std::fill_n(ones.data<float>(), ones.shape.NumElements(), 1.0f);
  Fetches fetches;
  double best = 0;
  for (int i = 0; i < kSteps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(session->Step("peak", {{"x", &ones}}));
    RETURN_IF_ERROR(session->Next(&fetches));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double flops = 2.0 * kMatmuls * devices * kRows * kWidth * kWidth;
    best = std::max(best, flops / seconds.count());
  }
  return best;
}

}  // namespace sluice
