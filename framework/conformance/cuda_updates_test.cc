// Updates of many variables in one launch, casts of them, and sums of what one task made
// (compiler/join_calls.h): the kernel has the bits of the CPU's, whatever calls stand beside each
// other; plans join what one optimizer group updates on a device; and a step gives the bits of one
// whose updates are launched one by one, and in which nothing is fused or made again.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/conformance/cuda_run.h"
#include "framework/explain/explain.h"
#include "framework/kernels/cuda/support.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/ops.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/passes/pass.h"
#include "framework/session/session.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/xorshift.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }

// Calls of an update, on variables of these sizes. `example`: one of them; scalars, which it has in
// the places of scalars, differ from call to call.
KernelCall CallsOf(const std::string& op, const OpCase& example, const std::vector<int64_t>& sizes,
                   Xorshift* random) {
  KernelCall calls;
  calls.op = op;
  calls.attributes = PrintAttributes(example.attributes);
  calls.calls = static_cast<int>(sizes.size());
  const OpDef& def = *FindOp(op);
  for (size_t c = 0; c < sizes.size(); ++c) {
    for (size_t i = 0; i < example.inputs.size(); ++i) {
      TensorType type = example.inputs[i];
      const bool scalar = type.shape.rank() == 0;
      if (!scalar) type.shape = {sizes[c]};
      Array array(type.shape);
      for (double& value : array.values) value = 0.1 + 0.001 * random->Below(1000);
      if (type.dtype == DType::kI32) array.values[0] = static_cast<double>(1 + c);
      calls.inputs.push_back({type, WholeBox(type.shape), ToArray(FromArray(array, type.dtype))});
      calls.updates.push_back(InputPort(def, i).updates);
    }
  }
  return calls;
}

// With attributes of its op's cases, by name.
std::map<std::string, OpCase> Updates() {
  std::map<std::string, OpCase> updates;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& op_case : op->cases) {
      if (op->joins && op->outputs.empty())
        updates[absl::StrCat(op->name, " ", op_case.name)] = op_case;
    }
  }
  return updates;
}

std::string OpOf(const std::string& update) { return update.substr(0, update.find(' ')); }

// "" if the calls have the bits of the CPU and took so many launches, beside the one that writes
// the number of the step.
std::string Check(const KernelCall& calls, int64_t launches) {
  const absl::StatusOr<KernelRun> run = RunOnCuda(calls);
  if (!run.ok()) return run.status().ToString();
  const int64_t kernels = CountCudaLaunches().kernels;
  if (kernels != 0 && kernels != launches + 1) return absl::StrCat(kernels, " launches");
  return BitsOfCpu(calls, *run);
}

TEST(CudaUpdatesTest, ManyAreOneLaunch) {
  Xorshift random(1);
  const std::map<std::string, OpCase> updates = Updates();
  EXPECT_EQ(updates.size(), 8u);  // sgd in four ways, adamw, adagrad, ftrl, lars
  for (const auto& [name, example] : updates) {
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
             {37}, {5, 0, 64, 1}, {8191, 8192, 8193, 4}, std::vector<int64_t>(17, 3)}) {
      SCOPED_TRACE(absl::StrCat(name, ", ", sizes.size(), " calls"));
      EXPECT_EQ(Check(CallsOf(OpOf(name), example, sizes, &random), 1), "");
    }
  }
}

TEST(CudaUpdatesTest, MoreThanAnArgumentHoldsAreSeveralLaunches) {
  Xorshift random(2);
  std::vector<int64_t> sizes;
  for (int c = 0; c < 800; ++c) sizes.push_back(random.Below(9));
  const int64_t filled = std::count_if(sizes.begin(), sizes.end(), [](int64_t n) { return n > 0; });
  EXPECT_GT(filled, 2 * 347);
  const OpCase example = FindOp("adamw")->cases[0];
  EXPECT_EQ(Check(CallsOf("adamw", example, sizes, &random), (filled + 346) / 347), "");
}

TEST(CudaUpdatesTest, NothingToUpdateLaunchesNothing) {
  Xorshift random(3);
  const OpCase example = FindOp("adamw")->cases[0];
  EXPECT_EQ(Check(CallsOf("adamw", example, {0, 0}, &random), 0), "");
}

// Partial sums of all, then the sums: two launches, whose bits do not depend on what is joined.
TEST(CudaUpdatesTest, SumsOfSquaresAreTwoLaunches) {
  Xorshift random(5);
  std::vector<std::vector<int64_t>> cases = {{37}, {0}, {5, 0, 4096, 1}, {0, 4097, 20000, 0}};
  cases.emplace_back(17, 3);
  for (const std::vector<int64_t>& sizes : cases) {
    SCOPED_TRACE(absl::StrCat(sizes.size(), " calls, the first of ", sizes[0]));
    KernelCall calls = CallsOf("sum_squares", FindOp("sum_squares")->cases[0], sizes, &random);
    for (size_t c = 0; c < sizes.size(); ++c) calls.outputs.push_back({F32({}), WholeBox({}), {}});
    EXPECT_EQ(Check(calls, sizes == cases[1] ? 1 : 2), "");
  }
}

// Of operands that begin anywhere, and of more calls than an argument holds.
TEST(CudaUpdatesTest, CastsOfManyAreOneLaunch) {
  Xorshift random(6);
  std::vector<std::vector<int64_t>> cases = {{37, 5}, {0, 0}, {5, 0, 8192, 1}, {8193, 20000, 0, 8}};
  cases.emplace_back(17, 3);
  cases.emplace_back(900, 9);
  for (const std::vector<int64_t>& sizes : cases) {
    SCOPED_TRACE(absl::StrCat(sizes.size(), " calls, the first of ", sizes[0]));
    KernelCall calls = CallsOf("cast", FindOp("cast")->cases[0], sizes, &random);
    for (const int64_t n : sizes) {
      calls.outputs.push_back({{DType::kBF16, {n}}, WholeBox({n}), {}});
    }
    EXPECT_EQ(Check(calls, sizes == cases[1] ? 0 : (sizes.size() + 887) / 888), "");
  }
}

// To integers another kernel makes one cast after the other.
TEST(CudaUpdatesTest, OtherCastsAreMadeOneByOne) {
  Xorshift random(7);
  const std::vector<OpCase>& cases = FindOp("cast")->cases;
  for (const auto& [example, dtype, launches] :
       {std::tuple(cases[1], DType::kF32, 1), std::tuple(cases[2], DType::kI32, 2)}) {
    KernelCall calls = CallsOf("cast", example, {3, 5}, &random);
    for (const int64_t n : {3, 5}) calls.outputs.push_back({{dtype, {n}}, WholeBox({n}), {}});
    EXPECT_EQ(Check(calls, launches), "");
  }
}

KernelCall SumsDownColumns(DType dtype, const std::vector<int64_t>& rows, int64_t width,
                           Xorshift* random) {
  KernelCall calls;
  calls.op = "reduce";
  calls.attributes = PrintAttributes(ReduceAttributes{Reduction::kSum, false, {0}});
  calls.calls = static_cast<int>(rows.size());
  calls.updates.resize(rows.size());
  for (const int64_t n : rows) {
    Array array(Shape{n, width});
    for (double& value : array.values) value = 0.001 * (random->Below(2000) - 1000);
    const TensorType type = {dtype, {n, width}};
    calls.inputs.push_back({type, WholeBox(type.shape), ToArray(FromArray(array, dtype))});
    calls.outputs.push_back({F32({width}), WholeBox({width}), {}});
  }
  return calls;
}

// Of few rows, and of so many that blocks of them are added up by a second launch.
TEST(CudaUpdatesTest, SumsOfOneShapeAreOneLaunch) {
  Xorshift random(8);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {33, 40}) {
      EXPECT_EQ(Check(SumsDownColumns(dtype, {5, 5, 5}, width, &random), 1), "");
      EXPECT_EQ(Check(SumsDownColumns(dtype, {1203, 1203, 1203}, width, &random), 2), "");
    }
    const std::vector<int64_t> most(16, 7), more(17, 7);
    EXPECT_EQ(Check(SumsDownColumns(dtype, most, 9, &random), 1), "");
    EXPECT_EQ(Check(SumsDownColumns(dtype, more, 9, &random), 17), "") << "more than a table";
    EXPECT_EQ(Check(SumsDownColumns(dtype, {5, 6}, 9, &random), 2), "") << "of two shapes";
    EXPECT_EQ(Check(SumsDownColumns(dtype, {5, 5}, 1, &random), 4), "") << "of all elements";
  }
}

// Of ops that have no kernel for many calls, too.
TEST(CudaUpdatesTest, OtherOpsAreCalledOneByOne) {
  Xorshift random(4);
  KernelCall calls = CallsOf("assign", FindOp("assign")->cases[0], {3, 5}, &random);
  const absl::StatusOr<KernelRun> run = RunOnCuda(calls);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(BitsOfCpu(calls, *run), "");
  EXPECT_EQ(run->updated[2].values, calls.inputs[3].array.values);
}

constexpr int kBatch = 4, kWidth = 6, kLayers = 3, kSteps = 3;
constexpr char kReplicatedOverModel[] = "data:S0 model:B";

std::unique_ptr<Graph> Trained(Graph* graph, Tensor y, OptimizerOptions::Kind kind, DType compute) {
  graph->Output("loss", Mean(y));
  EXPECT_TRUE(graph->Finish().ok()) << graph->status();
  OptimizerOptions options;
  options.kind = kind;
  options.momentum = 0.5;
  options.weight_decay = 0.1;
  options.clip = 1;
  PrecisionOptions precision;
  precision.compute = compute;
  auto train = RunPasses(*graph, {MixedPrecision(precision), Train(options)});
  EXPECT_TRUE(train.ok()) << train.status();
  return train.ok() ? *std::move(train) : std::make_unique<Graph>();
}

// Three products with biases, of which attention makes one.
std::unique_ptr<Graph> Attending(DType compute = DType::kF32) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {kBatch, kWidth}, kReplicatedOverModel);
  const auto heads = [&](const std::string& name) {
    const Tensor weight =
        graph.Variable(name + "/weight", DType::kF32, {kWidth, kWidth}, {"normal", 0.5}, "");
    const Tensor bias = graph.Variable(name + "/bias", DType::kF32, {kWidth}, {"zeros"}, "");
    return Reshape(MatMul(x, weight) + bias, {kBatch / 2, 2, 2, kWidth / 2});
  };
  const Tensor q = heads("q"), k = heads("k"), v = heads("v");
  return Trained(&graph, CausalAttention(q, k, v), OptimizerOptions::kAdamW, compute);
}

// A norm and a pooling, whose gradient reads what the norm makes again (compiler/make_again.h).
std::unique_ptr<Graph> Pooled() {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {kBatch, kWidth}, kReplicatedOverModel);
  const Tensor weight = graph.Variable("weight", DType::kF32, {kWidth, 32}, {"normal", 0.5}, "");
  const Tensor gamma = graph.Variable("gamma", DType::kF32, {2}, {"ones"}, "");
  const Tensor beta = graph.Variable("beta", DType::kF32, {2}, {"normal", 0.3}, "");
  const Tensor pixels = Reshape(MatMul(x, weight), {kBatch, 4, 4, 2});
  const Tensor y = Relu(BatchNorm(pixels, gamma, beta, /*groups=*/2, 1e-3).y);
  const PoolAttributes window = {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  return Trained(&graph, MaxPool(y, window), OptimizerOptions::kAdamW, DType::kF32);
}

// Layers of a weight and a bias; biases do not decay.
std::unique_ptr<Graph> Training(OptimizerOptions::Kind kind, DType compute = DType::kF32) {
  Graph graph;
  Tensor x = graph.Input("x", DType::kF32, {kBatch, kWidth}, kReplicatedOverModel);
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string name = absl::StrCat("h", layer);
    const Tensor weight = graph.Variable(absl::StrCat(name, "/weight"), DType::kF32,
                                         {kWidth, kWidth}, {"normal", 0.5}, "");
    const Tensor bias =
        graph.Variable(absl::StrCat(name, "/bias"), DType::kF32, {kWidth}, {"zeros"}, "");
    x = Gelu(MatMul(x, weight) + bias);
  }
  return Trained(&graph, x, kind, compute);
}

// By device: the calls of each instruction of an op.
std::map<int32_t, std::vector<int>> CallsInPlan(const Graph& graph, const std::string& mesh,
                                                const std::string& op, bool fuse,
                                                int64_t script_length = 0) {
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.machine = Machine::Cpu();
  options.fuse = fuse;
  options.script_length = script_length;
  std::map<int32_t, std::vector<int>> calls;
  const auto plan = CompilePlan({{"train", &graph}}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return calls;
  const plan::Program& program = plan->programs(0);
  for (const plan::Actor& actor : program.actors()) {
    for (const plan::Instruction& x : actor.script()) {
      if (x.op() != op) continue;
      calls[program.streams(actor.stream()).device()].push_back(x.calls());
      EXPECT_EQ(x.scope(), x.calls() == 0 ? x.scope()
                                          : absl::StrCat(x.scope().substr(0, x.scope().find(' ')),
                                                         " and ", x.calls() - 1, " more"));
    }
  }
  return calls;
}

TEST(CudaUpdatesTest, PlansJoinWhatIsUpdatedAlike) {
  using Calls = std::map<int32_t, std::vector<int>>;
  const std::unique_ptr<Graph> graph = Training(OptimizerOptions::kAdamW);
  const std::vector<int> apart(2 * kLayers, 0), joined = {3, 3};
  EXPECT_EQ(CallsInPlan(*graph, "data=1 @cuda", "adamw", true), (Calls{{0, joined}}));
  EXPECT_EQ(CallsInPlan(*graph, "data=1 @cuda", "adamw", true, 1), (Calls{{0, joined}}));
  EXPECT_EQ(CallsInPlan(*graph, "data=1 @cuda", "adamw", false), (Calls{{0, apart}}));
  EXPECT_EQ(CallsInPlan(*graph, "data=1", "adamw", true), (Calls{{0, apart}}));
  EXPECT_EQ(CallsInPlan(*graph, "data=2 @cuda", "adamw", true), (Calls{{0, joined}, {1, joined}}));
  // All gradients' squares are there before any is clipped.
  EXPECT_EQ(CallsInPlan(*graph, "data=1 @cuda", "sum_squares", true), (Calls{{0, {6}}}));
  // Each ratio of LARS is there before its own update, and not before those of others.
  const std::unique_ptr<Graph> lars = Training(OptimizerOptions::kLars);
  EXPECT_EQ(CallsInPlan(*lars, "data=1 @cuda", "lars", true), (Calls{{0, joined}}));
}

// Those of parameters are one instruction, which comes before all that reads one of them; those of
// what is computed stay where they are.
TEST(CudaUpdatesTest, PlansJoinCastsOfParameters) {
  using Calls = std::map<int32_t, std::vector<int>>;
  const std::unique_ptr<Graph> graph = Training(OptimizerOptions::kAdamW, DType::kBF16);
  const Calls joined = CallsInPlan(*graph, "data=1 @cuda", "cast", true);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(std::count(joined.at(0).begin(), joined.at(0).end(), 2 * kLayers), 1);
  EXPECT_GT(joined.at(0).size(), 1u);
  EXPECT_EQ(std::count(joined.at(0).begin(), joined.at(0).end(), 0), joined.at(0).size() - 1);
  EXPECT_EQ(CallsInPlan(*graph, "data=1 @cuda", "cast", false),
            (Calls{{0, std::vector<int>(joined.at(0).size() - 1 + 2 * kLayers, 0)}}));
  const Calls two = CallsInPlan(*graph, "data=2 @cuda", "cast", true);
  EXPECT_EQ(two, (Calls{{0, joined.at(0)}, {1, joined.at(0)}}));
}

// Those of attention's gradients, and no others: what a layer further on sums is not kept for it.
TEST(CudaUpdatesTest, PlansJoinSumsOfWhatOneTaskMade) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    const std::unique_ptr<Graph> graph = Attending(compute);
    for (const auto& [device, calls] : CallsInPlan(*graph, "data=2 @cuda", "reduce", true)) {
      EXPECT_EQ(std::count(calls.begin(), calls.end(), 3), 1) << device;
      EXPECT_EQ(std::count(calls.begin(), calls.end(), 0), calls.size() - 1) << device;
    }
    for (const auto& [device, calls] : CallsInPlan(*graph, "data=2 @cuda", "reduce", false)) {
      EXPECT_EQ(std::count(calls.begin(), calls.end(), 0), calls.size()) << device;
      EXPECT_GE(calls.size(), 3u) << device;
    }
  }
  const std::unique_ptr<Graph> layers = Training(OptimizerOptions::kAdamW);
  for (const auto& [device, calls] : CallsInPlan(*layers, "data=1 @cuda", "reduce", true)) {
    EXPECT_EQ(std::count(calls.begin(), calls.end(), 0), calls.size()) << device;
  }
}

TEST(CudaUpdatesTest, ExplanationsNameAllThatIsJoined) {
  const std::unique_ptr<Graph> graph = Training(OptimizerOptions::kAdamW);
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=1 @cuda");
  options.machine = Machine::Cpu();
  const auto compiled = Compile({{"train", graph.get()}}, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto explanation = Explain(*compiled, Machine::Cpu());
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  const std::string text = ExplanationText(*explanation);
  EXPECT_THAT(text, testing::HasSubstr("one instruction of device 0: 3 adamw of h0/weight/adamw "
                                       "h1/weight/adamw h2/weight/adamw\n"));
  EXPECT_THAT(text, testing::HasSubstr("one instruction of device 0: 6 sum_squares of "));
}

// Squares of a variable as it was, with the square of something else, of its gradient say, that
// comes behind the update.
TEST(CudaUpdatesTest, WhatAnUpdateChangesIsReadBefore) {
  Graph graph;
  const Tensor w = graph.Variable("w", DType::kF32, {kWidth}, {"ones"}, "");
  const Tensor x = graph.Input("x", DType::kF32, {kWidth}, "");
  const Tensor rate = graph.Input("rate", DType::kF32, {}, "");
  const Tensor step = graph.Input("step", DType::kI32, {}, "");
  Graph::Context context;
  context.phase = Phase::kUpdate;
  graph.set_context(context);
  const Tensor before = SumSquares(w);
  SgdUpdate(w, Tensor(), {Gradient::kDense, {x}}, rate, rate, step, SgdAttributes());
  graph.Output("sum", before + SumSquares(x));
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  EXPECT_EQ(CallsInPlan(graph, "data=1 @cuda", "sum_squares", true),
            (std::map<int32_t, std::vector<int>>{{0, {0, 0}}}));
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

// The variables after some steps, on devices whose every access is checked.
absl::StatusOr<Bytes> VariablesAfter(const Graph& graph, const std::string& mesh, int64_t micro,
                                     bool fuse) {
  BeginCudaOrder(fuse ? 1 : 2, /*checks=*/true);
  SessionOptions options;
  options.mesh = mesh;
  options.micro_batches = micro;
  options.cuda = &CudaSupport();
  options.fuse = fuse;
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Start({{"train", &graph}}, options));
  HostTensor x(DType::kF32, {kBatch, kWidth}), rate(DType::kF32, {}), count(DType::kI32, {});
  *rate.data<float>() = 0.25f;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kBatch * kWidth; ++i) {
      x.data<float>()[i] = static_cast<float>(std::sin(7.0 * i * i + step));
    }
    *count.data<int32_t>() = step + 1;
    RETURN_IF_ERROR(
        session->Step("train", {{"x", &x}, {"learning_rate", &rate}, {"step", &count}}));
    RETURN_IF_ERROR(session->Next().status());
  }
  Bytes result;
  for (const VariableInfo& variable : session->variables()) {
    ASSIGN_OR_RETURN(const HostTensor value, session->Read(variable.name));
    result[variable.name].assign(value.bytes.begin(), value.bytes.end());
  }
  return result;
}

TEST(CudaUpdatesTest, JoinedCallsChangeNoBit) {
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const auto kind : {OptimizerOptions::kAdamW, OptimizerOptions::kSgd, OptimizerOptions::kLars,
                          OptimizerOptions::kAdagrad}) {
    graphs.push_back(Training(kind));
  }
  graphs.push_back(Attending());
  graphs.push_back(Pooled());
  for (const std::unique_ptr<Graph>& graph : graphs) {
    for (const auto& [mesh, micro] : std::vector<std::pair<std::string, int64_t>>{
             {"data=1 @cuda", 1},
             {"data=2 @cuda", graph == graphs[graphs.size() - 2] ? 1 : 2},
             {"model=2 @cuda", 1}}) {
      SCOPED_TRACE(absl::StrCat(mesh, ", graph of ", graph->variables().size(), " variables"));
      const auto apart = VariablesAfter(*graph, mesh, micro, /*fuse=*/false);
      ASSERT_TRUE(apart.ok()) << apart.status();
      const auto joined = VariablesAfter(*graph, mesh, micro, /*fuse=*/true);
      ASSERT_TRUE(joined.ok()) << joined.status();
      EXPECT_EQ(TakeCudaErrors(), std::vector<std::string>());
      EXPECT_EQ(*joined, *apart);
    }
  }
}

}  // namespace
}  // namespace sluice
