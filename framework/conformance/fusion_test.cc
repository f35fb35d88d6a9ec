// Fusion (compiler/fuse.h) on a residual network in small: which ops become one and which do not,
// and that every loss and variable is, bit for bit, that of the plan that keeps all ops apart.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/passes/pass.h"
#include "framework/session/session.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kSteps = 3, kBatch = 8, kSize = 5, kChannels = 20;

struct Case {
  std::string mesh;
  int64_t groups = 1, micro = 1;
  std::string channels = {};  // annotation of the first product's weight
  DType compute = DType::kF32;
};

// A norm with a relu, a block whose shortcut is its input, one whose shortcut has a norm of its
// own, and a sum behind which there is no relu.
class Network {
 public:
  Network(const Case& c, Graph* graph) : case_(c), graph_(graph) {}

  void Build() {
    Tensor x = graph_->Input("x", DType::kF32, {kBatch, kSize, 3}, "data:S0");
    x = Relu(Norm(Product(x, case_.channels), case_.channels.empty() ? "" : "model:S0"));
    x = Relu(Norm(Product(x)) + x);
    x = Relu(Norm(Product(x)) + Norm(Product(x)));
    x = Norm(Product(x)) + x;
    graph_->Output("loss", Mean(Gelu(x)));
    ASSERT_TRUE(FinishIn({case_.compute, DType::kF32}, graph_).ok()) << graph_->status();
  }

 private:
  Tensor Variable(const Shape& shape, const VariableAttributes& init, const std::string& read) {
    return graph_->Variable(absl::StrCat("v", variables_++), DType::kF32, shape, init, read);
  }
  Tensor Product(Tensor x, const std::string& annotation = {}) {
    const int64_t width = x.shape()[2];
    return MatMul(x, Variable({width, kChannels}, {"normal", 0.7}, annotation));
  }
  Tensor Norm(Tensor x, const std::string& annotation = {}) {
    const Tensor gamma = Variable({kChannels}, {"normal", 1.0}, annotation);
    const Tensor beta = Variable({kChannels}, {"normal", 0.3}, annotation);
    return BatchNorm(x, gamma, beta, case_.groups, 1e-3).y;
  }

  const Case& case_;
  Graph* const graph_;
  int variables_ = 0;
};

std::unique_ptr<Graph> TrainingOf(const Case& c) {
  Graph graph;
  Network(c, &graph).Build();
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.5;
  auto train = RunPasses(graph, {Train(options)});
  EXPECT_TRUE(train.ok()) << train.status();
  return train.ok() ? *std::move(train) : std::make_unique<Graph>();
}

HostTensor InputOf(int step) {
  HostTensor x(DType::kF32, {kBatch, kSize, 3});
  for (int i = 0; i < kBatch * kSize * 3; ++i) {
    x.data<float>()[i] = static_cast<float>(std::sin(7.0 * i * i + step) + 0.5);
  }
  return x;
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

// The losses of all steps, and the variables after the last.
absl::StatusOr<Bytes> ResultsOf(const Graph& graph, const Case& c, bool fuse, int threads) {
  SessionOptions options;
  options.mesh = c.mesh;
  options.micro_batches = c.micro;
  options.threads_per_device = threads;
  options.fuse = fuse;
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Start({{"train", &graph}}, options));
  Bytes result;
  HostTensor rate(DType::kF32, {}), count(DType::kI32, {});
  *rate.data<float>() = 0.25f;
  for (int step = 0; step < kSteps; ++step) {
    const HostTensor x = InputOf(step);
    *count.data<int32_t>() = step + 1;
    RETURN_IF_ERROR(
        session->Step("train", {{"x", &x}, {"learning_rate", &rate}, {"step", &count}}));
    ASSIGN_OR_RETURN(const Fetches fetches, session->Next());
    const auto& loss = fetches.at("loss").bytes;
    result[absl::StrCat("loss ", step)].assign(loss.begin(), loss.end());
  }
  for (const VariableInfo& variable : session->variables()) {
    ASSIGN_OR_RETURN(const HostTensor value, session->Read(variable.name));
    result[variable.name].assign(value.bytes.begin(), value.bytes.end());
  }
  return result;
}

TEST(FusionTest, ChangesNoBit) {
  const Case kCases[] = {
      {"data=1", 1},
      {"data=1", 4, 2},
      {"data=2", 4},     // whole groups on each device
      {"data=2", 1},     // one group on both, whose sums are partial
      {"data=2", 2, 2},  // one a micro-batch, on both devices
      {"model=2", 2, 1, "model:S1"},
      {"data=2 model=2", 1, 1, "model:S1"},
      {"pipe=2", 4, 2},
  };
  for (Case c : kCases) {
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      c.compute = compute;
      SCOPED_TRACE(
          absl::StrCat(c.mesh, " groups ", c.groups, " micro ", c.micro, " ", DTypeName(compute)));
      const std::unique_ptr<Graph> graph = TrainingOf(c);
      const auto apart = ResultsOf(*graph, c, /*fuse=*/false, 1);
      ASSERT_TRUE(apart.ok()) << apart.status();
      for (const int threads : {1, 3}) {
        const auto fused = ResultsOf(*graph, c, /*fuse=*/true, threads);
        ASSERT_TRUE(fused.ok()) << fused.status();
        ASSERT_EQ(fused->size(), apart->size());
        for (const auto& [name, bytes] : *apart) {
          EXPECT_TRUE(fused->at(name) == bytes) << name << ", threads " << threads;
        }
      }
    }
  }
}

std::map<std::string, int> OpsOf(const Graph& graph, const std::string& mesh, bool fuse) {
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.machine = Machine::Cpu();
  options.fuse = fuse;
  const auto compiled = Compile({{"program", &graph}}, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  std::map<std::string, int> ops;
  if (!compiled.ok()) return ops;
  for (const Node& node : compiled->programs[0].graph->nodes()) ++ops[node.op->name];
  return ops;
}

TEST(FusionTest, TakesEveryNormWithWhatFollows) {
  const std::unique_ptr<Graph> graph = TrainingOf({"data=2", 2});
  std::map<std::string, int> ops = OpsOf(*graph, "data=2", true);
  EXPECT_EQ(ops["batch_norm_relu"], 1);
  EXPECT_EQ(ops["batch_norm_add_relu"], 2);
  EXPECT_EQ(ops["batch_norm_add"], 1);
  EXPECT_EQ(ops["batch_norm"], 1);  // of the shortcut that has one
  EXPECT_EQ(ops["relu"], 0);
  // In front of the gradient of a norm without an addend, and of all gradients' squares.
  EXPECT_EQ(ops["add"] + ops["add_n"], 2);
  EXPECT_EQ(ops["batch_norm_relu_parameter_gradient"], 1);
  EXPECT_EQ(ops["batch_norm_relu_gradient"], 1);
  EXPECT_EQ(ops["batch_norm_add_relu_parameter_gradient"], 2);
  EXPECT_EQ(ops["relu_gradient"], 0);
  ops = OpsOf(*graph, "data=2", false);
  EXPECT_EQ(ops["relu"], 3);
  EXPECT_EQ(ops["batch_norm"], 5);
}

// What is fused of relu(norm(x)), and of norm(x) + addend, where something else is done besides.
std::map<std::string, int> OpsWith(void (*beside)(Tensor norm, Tensor relu),
                                   const std::string& mesh, const char* relu_reads = "") {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {kBatch, kSize, kChannels}, "data:S0");
  const Tensor gamma = graph.Variable("gamma", DType::kF32, {kChannels}, {"ones"}, "");
  const Tensor beta = graph.Variable("beta", DType::kF32, {kChannels}, {"zeros"}, "");
  Tensor norm = BatchNorm(x, gamma, beta, 1, 1e-3).y;
  if (*relu_reads != 0) norm = norm.With(relu_reads);
  const Tensor relu = Relu(norm);
  beside(norm, relu);
  graph.Output("y", Mean(relu));
  EXPECT_TRUE(graph.Finish().ok()) << graph.status();
  return OpsOf(graph, mesh, true);
}

TEST(FusionTest, LeavesWhatHasOtherReadersOrMoves) {
  const auto nothing = [](Tensor, Tensor) {};
  EXPECT_EQ(OpsWith(nothing, "data=2")["batch_norm_relu"], 1);
  EXPECT_EQ(OpsWith(nothing, "data=2", "data:B")["batch_norm_relu"], 0) << "a gather between";
  EXPECT_EQ(OpsWith([](Tensor norm, Tensor) { norm.graph()->Output("norm", norm); },
                    "data=2")["batch_norm_relu"],
            0)
      << "fetched";
  EXPECT_EQ(OpsWith([](Tensor norm, Tensor) { norm.graph()->Output("other", Mean(Gelu(norm))); },
                    "data=2")["batch_norm_relu"],
            0)
      << "read by another";
  EXPECT_EQ(OpsWith([](Tensor, Tensor relu) { relu.graph()->Output("relu", relu); },
                    "data=2")["batch_norm_relu"],
            1)
      << "what relu makes may have any readers";
}

}  // namespace
}  // namespace sluice
