// The timeline of a step on CUDA devices says when each instruction ran on its device, not only
// when a worker launched it.
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/kernels/cuda/support.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/passes/pass.h"
#include "framework/session/session.h"
#include "framework/testing/cuda_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

constexpr int64_t kBatch = 4, kWidth = 8;
constexpr int kSteps = 3;

std::unique_ptr<Graph> Training() {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {kBatch, kWidth}, "data:S0");
  const Tensor w = graph.Variable("w", DType::kF32, {kWidth, kWidth}, {"normal", 0.5}, "");
  graph.Output("loss", Mean(Gelu(MatMul(x, w))));
  EXPECT_EQ(graph.Finish(), absl::OkStatus());
  auto train = RunPasses(graph, {Train(OptimizerOptions())});
  EXPECT_EQ(train.status(), absl::OkStatus());
  return *std::move(train);
}

// The events of kSteps steps on two devices.
nlohmann::json Events() {
  BeginCudaOrder(/*seed=*/1, /*checks=*/true);
  const std::string path = testing::TempDir() + "/cuda_trace.json";
  const std::unique_ptr<Graph> graph = Training();
  SessionOptions options;
  options.mesh = "data=2 @cuda";
  options.cuda = &CudaSupport();
  options.trace = path;
  auto session = Session::Start({{"train", graph.get()}}, options);
  EXPECT_EQ(session.status(), absl::OkStatus());
  HostTensor x(DType::kF32, {kBatch, kWidth}), rate(DType::kF32, {}), count(DType::kI32, {});
  *rate.data<float>() = 0.1f;
  for (int step = 0; step < kSteps; ++step) {
    *count.data<int32_t>() = step + 1;
    EXPECT_EQ((*session)->Step("train", {{"x", &x}, {"learning_rate", &rate}, {"step", &count}}),
              absl::OkStatus());
    EXPECT_EQ((*session)->Next().status(), absl::OkStatus());
  }
  EXPECT_EQ((*session)->Close(), absl::OkStatus());
  EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
  std::ifstream file(path);
  return nlohmann::json::parse(file)["traceEvents"];
}

TEST(CudaTraceTest, EachInstructionOfADeviceHasItsTimeThere) {
  std::map<std::pair<int, int>, std::string> tracks;  // by process and number
  // By actor, name, step and micro-batch: when it was launched, and when it ran.
  std::map<std::tuple<std::string, std::string, int, int>, std::pair<double, double>> began;
  std::map<std::string, std::vector<std::pair<double, double>>> ran;  // by track
  const nlohmann::json events = Events();
  for (const auto& event : events) {
    if (event["name"] == "thread_name") {
      tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
  }
  const double rounding = 0.002;  // microseconds: the file has three digits
  for (const auto& event : events) {
    if (event["ph"] != "X" || event["cat"] == "wait") continue;
    const std::string track = tracks.at({event["pid"], event["tid"]});
    // The host's device feeds and fetches.
    if (track == "device 2 host") continue;
    const auto& args = event["args"];
    auto& times = began[{args["actor"], event["name"], args["step"], args["micro"]}];
    if (event["cat"] == "run") {
      times.first = event["ts"];
      continue;
    }
    EXPECT_EQ(event["cat"], "on device");
    EXPECT_THAT(track, testing::HasSubstr(", on the device"));
    times.second = event["ts"];
    ran[track].push_back({event["ts"], double(event["ts"]) + double(event["dur"])});
  }
  EXPECT_GT(began.size(), 20u);
  for (const auto& [what, times] : began) {
    EXPECT_GT(times.first, 0) << std::get<0>(what) << ": run nowhere";
    EXPECT_GT(times.second, times.first - rounding)
        << std::get<0>(what) << ", " << std::get<1>(what);
  }
  EXPECT_EQ(ran.count("device 0 compute, on the device"), 1u);
  EXPECT_EQ(ran.count("device 0 copy_out, on the device"), 1u);
  for (const auto& [track, spans] : ran) {
    double end = 0;
    for (const auto& [from, to] : spans) {
      EXPECT_GE(from, end - rounding) << track << ": a stream does one thing after another";
      EXPECT_GE(to, from) << track;
      end = to;
    }
  }
}

}  // namespace
}  // namespace sluice
