#include "framework/passes/optimizer.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "framework/graph/interpreter.h"
#include "framework/graph/text.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A matrix and a bias whose gradients are the inputs dw and db.
struct Linear {
  Graph graph;
  ArrayMap variables;
  explicit Linear(const OptimizerOptions& options) {
    const Scope root(&graph);
    const Tensor w = root.Param("w", {1, 1}), b = root.Param("b", {1});
    const Tensor dw = graph.Input("dw", DType::kF32, {1, 1}, "");
    const Tensor db = graph.Input("db", DType::kF32, {1}, "");
    const Tensor loss = ReduceSum(w * dw, {0, 1}) + ReduceSum(b * db, {0});
    EXPECT_TRUE(AddTraining(&graph, loss, options).ok());
    EXPECT_TRUE(graph.Finish().ok()) << graph.status();
    variables = InitialVariables(graph, 0);
    variables["w"].values[0] = 0.5;
    variables["b"].values[0] = -0.25;
  }
  ArrayMap Step(double learning_rate, int step, double dw, double db) {
    ArrayMap feeds;
    feeds["dw"] = Array({1, 1}, dw), feeds["db"] = Array({1}, db);
    feeds["learning_rate"] = Array({}, learning_rate), feeds["step"] = Array({}, step);
    const auto outputs = Interpret(graph, feeds, &variables, {});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return *outputs;
  }
  double value(const char* name) { return variables.at(name).values[0]; }
};

// torch.optim.AdamW, written out for one number.
struct Reference {
  double p, m = 0, v = 0;
  void AdamW(double g, double lr, int t, double b1, double b2, double eps, double decay) {
    p *= 1 - lr * decay;
    m += (1 - b1) * (g - m);
    v = b2 * v + (1 - b2) * g * g;
    p -= lr / (1 - std::pow(b1, t)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(b2, t)) + eps);
  }
};

TEST(Optimizer, AdamWIsPyTorchs) {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  options.epsilon = 1e-3;  // large, so that its place matters
  Linear run(options);
  Reference w{0.5}, b{-0.25};
  const double gradients[][2] = {{0.3, -2}, {-0.1, 0.001}, {0.7, 0}};
  for (int t = 1; t <= 3; ++t) {
    const double* g = gradients[t - 1];
    const double learning_rate = 0.1 / t;
    const ArrayMap outputs = run.Step(learning_rate, t, g[0], g[1]);
    EXPECT_NEAR(outputs.at("grad_norm").values[0], std::hypot(g[0], g[1]), 1e-15);
    w.AdamW(g[0], learning_rate, t, 0.9, 0.95, 1e-3, 0.1);
    b.AdamW(g[1], learning_rate, t, 0.9, 0.95, 1e-3, 0);  // a bias does not decay
    EXPECT_NEAR(run.value("w"), w.p, 1e-14);
    EXPECT_NEAR(run.value("b"), b.p, 1e-14);
    EXPECT_NEAR(run.value("w.m"), w.m, 1e-15);
    EXPECT_NEAR(run.value("b.v"), b.v, 1e-15);
  }
  // By hand, the first step of w: decay 0.5 * 0.99, then lr * g / (|g| + eps).
  Linear first(options);
  first.Step(0.1, 1, 0.3, 0);
  EXPECT_NEAR(first.value("w"), 0.495 - 0.1 * 0.3 / 0.301, 1e-14);
  EXPECT_EQ(first.value("b"), -0.25);
}

TEST(Optimizer, ClippingScalesEveryGradientByOneFactor) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.clip = 1;
  Linear run(options);
  const ArrayMap outputs = run.Step(0.1, 1, 3, 4);
  EXPECT_NEAR(outputs.at("grad_norm").values[0], 5, 1e-15);  // before clipping
  const double factor = 1 / (5 + 1e-6);
  EXPECT_NEAR(run.value("w"), 0.5 - 0.1 * 3 * factor, 1e-15);
  EXPECT_NEAR(run.value("b"), -0.25 - 0.1 * 4 * factor, 1e-15);
  run.Step(0.1, 2, 0.3, 0.4);
  EXPECT_NEAR(run.value("w"), 0.5 - 0.1 * 3 * factor - 0.03, 1e-15);
}

TEST(Optimizer, SgdIsPyTorchs) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.9;
  options.weight_decay = 0.1;
  Linear run(options);
  // The decay is part of the gradient; the buffer starts as the first gradient.
  run.Step(0.1, 1, 2, 1);
  const double first = 2 + 0.1 * 0.5, w1 = 0.5 - 0.1 * first;
  EXPECT_NEAR(run.value("w.momentum"), first, 1e-15);
  EXPECT_NEAR(run.value("w"), w1, 1e-15);
  EXPECT_NEAR(run.value("b"), -0.25 - 0.1, 1e-15);
  run.Step(0.2, 2, -1, 1);
  const double second = 0.9 * first + (-1 + 0.1 * w1);
  EXPECT_NEAR(run.value("w.momentum"), second, 1e-15);
  EXPECT_NEAR(run.value("w"), w1 - 0.2 * second, 1e-15);
  EXPECT_NEAR(run.value("b.momentum"), 1.9, 1e-15);

  options.nesterov = true;
  Linear ahead(options);
  ahead.Step(0.1, 1, 2, 1);
  EXPECT_NEAR(ahead.value("w.momentum"), first, 1e-15);
  const double ahead1 = 0.5 - 0.1 * (first + 0.9 * first);
  EXPECT_NEAR(ahead.value("w"), ahead1, 1e-15);
  ahead.Step(0.2, 2, -1, 1);
  const double g2 = -1 + 0.1 * ahead1, kept = 0.9 * first + g2;
  EXPECT_NEAR(ahead.value("w"), ahead1 - 0.2 * (g2 + 0.9 * kept), 1e-15);
  options.nesterov = false;

  // The first gradient is taken whole, later ones lose three quarters.
  options.dampening = 0.75;
  Linear damped(options);
  damped.Step(0.1, 1, 2, 1);
  EXPECT_NEAR(damped.value("w.momentum"), first, 1e-15);
  damped.Step(0.2, 2, -1, 1);
  const double slower = 0.9 * first + 0.25 * (-1 + 0.1 * w1);
  EXPECT_NEAR(damped.value("w.momentum"), slower, 1e-15);
  EXPECT_NEAR(damped.value("w"), w1 - 0.2 * slower, 1e-15);
  options.dampening = 0;

  options.momentum = 0;
  Linear plain(options);
  EXPECT_EQ(plain.graph.variables().size(), 2u);  // no state
}

// The paper's algorithm 1 in plain arithmetic; a clip takes part in the gradient's length.
TEST(Optimizer, LarsIsItsPapers) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kLars;
  options.momentum = 0.9;
  options.weight_decay = 0.1;
  options.trust_coefficient = 0.02;
  options.clip = 2;
  Linear run(options);
  double w = 0.5, b = -0.25, v = 0, u = 0;
  const double gradients[][2] = {{1.5, -2}, {-0.1, 0.001}, {0.7, 0.3}};
  for (int t = 1; t <= 3; ++t) {
    const double* g = gradients[t - 1];
    const double rate = 2.0 / t;
    run.Step(rate, t, g[0], g[1]);
    const double factor = std::min(1.0, 2 / (std::hypot(g[0], g[1]) + 1e-6));
    const double length = std::abs(w);
    const double ratio = 0.02 * length / (factor * std::abs(g[0]) + 0.1 * length + 1e-9);
    v = 0.9 * v + rate * ratio * (factor * g[0] + 0.1 * w);
    w -= v;
    u = 0.9 * u + rate * factor * g[1];  // a bias has neither ratio nor decay
    b -= u;
    EXPECT_NEAR(run.value("w"), w, 1e-14) << t;
    EXPECT_NEAR(run.value("w.momentum"), v, 1e-14) << t;
    EXPECT_NEAR(run.value("b"), b, 1e-14) << t;
  }
}

// Its paper's algorithm 2 in plain arithmetic, and Adam for a bias; with and without bias
// correction.
TEST(Optimizer, LambIsItsPapers) {
  for (const bool corrected : {true, false}) {
    SCOPED_TRACE(corrected);
    OptimizerOptions options;
    options.kind = OptimizerOptions::kLamb;
    options.beta2 = 0.99;
    options.epsilon = 1e-6;
    options.weight_decay = 0.1;
    options.bias_correction = corrected;
    options.clip = 2;
    Linear run(options);
    double w = 0.5, b = -0.25, m[2] = {}, v[2] = {};
    const double gradients[][2] = {{1.5, -2}, {-0.1, 0.001}, {0.7, 0.3}};
    for (int t = 1; t <= 3; ++t) {
      const double* g = gradients[t - 1];
      const double rate = 0.1 / t;
      run.Step(rate, t, g[0], g[1]);
      const double factor = std::min(1.0, 2 / (std::hypot(g[0], g[1]) + 1e-6));
      double direction[2];
      for (int i = 0; i < 2; ++i) {
        m[i] = 0.9 * m[i] + 0.1 * factor * g[i];
        v[i] = 0.99 * v[i] + 0.01 * factor * g[i] * factor * g[i];
        const double mean = corrected ? m[i] / (1 - std::pow(0.9, t)) : m[i];
        const double square = corrected ? v[i] / (1 - std::pow(0.99, t)) : v[i];
        direction[i] = mean / (std::sqrt(square) + 1e-6);
      }
      direction[0] += 0.1 * w;
      w -= rate * std::abs(w) / std::abs(direction[0]) * direction[0];
      b -= rate * direction[1];  // a bias has neither ratio nor decay
      EXPECT_NEAR(run.value("w"), w, 1e-14) << t;
      EXPECT_NEAR(run.value("w.m"), m[0], 1e-14) << t;
      EXPECT_NEAR(run.value("w.v"), v[0], 1e-14) << t;
      EXPECT_NEAR(run.value("b"), b, 1e-14) << t;
    }
  }
}

// Where either length is zero a layer moves as if it had no ratio.
TEST(Optimizer, LarsLeavesAZeroWhereItCanLearn) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kLars;
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF64, {1, 2}, "");
  const Tensor w = graph.Variable("w", DType::kF64, {2, 1}, {}, "");
  ASSERT_TRUE(AddTraining(&graph, Mean(MatMul(x, w)), options).ok());
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  ArrayMap feeds, variables = InitialVariables(graph, 0);
  feeds["x"] = Array({1, 2}, 3);
  feeds["learning_rate"] = Array({}, 0.5), feeds["step"] = Array({}, 1);
  ASSERT_TRUE(Interpret(graph, feeds, &variables, {}).ok());
  EXPECT_EQ(variables["w"].values[0], -1.5);
}

// A table is as any matrix to LARS: rows that nobody read decay as well.
TEST(Optimizer, LarsMovesEveryRowOfATable) {
  Graph graph;
  const Tensor ids = graph.Input("ids", DType::kI32, {3}, "");
  const Tensor table = graph.Variable("table", DType::kF64, {4, 2}, {"ones"}, "");
  OptimizerOptions options;
  options.kind = OptimizerOptions::kLars;
  options.weight_decay = 0.5;
  options.trust_coefficient = 0.25;
  ASSERT_TRUE(AddTraining(&graph, SumSquares(Embedding(table, ids)), options).ok());
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  ArrayMap feeds, variables = InitialVariables(graph, 0);
  feeds["ids"] = Array({3});
  feeds["ids"].values = {1, 3, 1};
  feeds["learning_rate"] = Array({}, 1), feeds["step"] = Array({}, 1);
  ASSERT_TRUE(Interpret(graph, feeds, &variables, {}).ok());
  const double length = std::sqrt(8.0), of_gradient = std::sqrt(2 * 16 + 2 * 4.0);
  const double ratio = 0.25 * length / (of_gradient + 0.5 * length);
  EXPECT_NEAR(variables["table"].values[0], 1 - ratio * 0.5, 1e-9);
  EXPECT_NEAR(variables["table"].values[2], 1 - ratio * (4 + 0.5), 1e-9);
  EXPECT_NEAR(variables["table"].values[7], 1 - ratio * (2 + 0.5), 1e-9);
}

TEST(Optimizer, StatesFollowTheirVariablesAndUpdatesTheirOrder) {
  Graph graph;
  const Scope root(&graph);
  const Tensor x = graph.Input("x", DType::kF32, {2, 2}, "");
  const Tensor late = (root / "late").Stage(1).Param("w", {2, 2});
  const Tensor early = (root / "early").Stage(0).Param("w", {2, 2});
  const Tensor loss = SumSquares(MatMul(MatMul(x, early), late));
  ASSERT_TRUE(AddTraining(&graph, loss, {}).ok());
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  std::vector<std::string> updates;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!InputPort(*node.op, i).updates) continue;
      const Node& variable = graph.node(graph.tensor(node.inputs[i]).producer);
      EXPECT_EQ(variable.stage, node.stage);
      EXPECT_EQ(node.phase, Phase::kUpdate);
      updates.push_back(variable.name);
    }
  }
  EXPECT_THAT(updates,
              ElementsAre("late/w", "late/w.m", "late/w.v", "early/w", "early/w.m", "early/w.v"));
  const auto states = graph.TensorsOf(Role::kState);
  ASSERT_EQ(states.size(), 4u);
  for (const auto& entry : states) {
    const std::string state = graph.node(graph.tensor(entry.first).producer).name;
    const std::string variable = graph.node(graph.tensor(entry.second).producer).name;
    EXPECT_EQ(state.substr(0, variable.size() + 1), variable + ".");
  }
  EXPECT_EQ(graph.FindVariable("early/w.m").dtype(), DType::kF32);
  const auto parsed = ParseGraph(PrintGraph(graph), AllOps());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(PrintGraph(**parsed), PrintGraph(graph));
}

TEST(Optimizer, IdsAreSortedOnceForTheTablesThatReadThem) {
  Graph graph;
  const Scope root(&graph);
  const Tensor shared = graph.Input("shared", DType::kI32, {2, 3}, "");
  const Tensor own = graph.Input("own", DType::kI32, {3}, "");
  const Tensor one = Embedding(root.Param("one", {4, 2}), shared);
  const Tensor two = Embedding(root.Param("two", {5, 1}), shared);
  const Tensor three = Embedding(root.Param("three", {4, 2}), own);
  OptimizerOptions options;
  options.clip = 1;
  ASSERT_TRUE(
      AddTraining(&graph, SumSquares(one) + SumSquares(two) + SumSquares(three), options).ok());
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();
  std::map<TensorId, int> readers;  // of sorted ids
  for (const Node& node : graph.nodes()) {
    if (node.op == &SortIdsOp()) {
      EXPECT_EQ(node.phase, Phase::kUpdate);
      readers[node.outputs[0]] = 0;
    }
    for (const TensorId input : node.inputs) {
      if (readers.count(input) > 0) ++readers[input];
    }
  }
  std::vector<int> counts;
  for (const auto& [id, count] : readers) counts.push_back(count);
  EXPECT_THAT(counts, UnorderedElementsAre(4, 2));  // a norm and an update each
}

TEST(Optimizer, TablesAreUpdatedByTheirRows) {
  for (auto kind : {OptimizerOptions::kSgd, OptimizerOptions::kAdamW, OptimizerOptions::kAdagrad,
                    OptimizerOptions::kFtrl}) {
    Graph graph;
    const Tensor ids = graph.Input("ids", DType::kI32, {3}, "");
    const Tensor table = graph.Variable("table", DType::kF32, {4, 2}, {"ones"}, "");
    OptimizerOptions options;
    options.kind = kind;
    options.clip = 100;
    ASSERT_TRUE(AddTraining(&graph, SumSquares(Embedding(table, ids)), options).ok());
    ASSERT_TRUE(graph.Finish().ok()) << graph.status();
    ArrayMap feeds, variables = InitialVariables(graph, 0);
    feeds["ids"] = Array({3});
    feeds["ids"].values = {1, 3, 1};
    feeds["learning_rate"] = Array({}, 0.01), feeds["step"] = Array({}, 1);
    const auto outputs = Interpret(graph, feeds, &variables, {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    // Row 1 is read twice: its gradient is 4, row 3's 2; repeated rows count once in the norm.
    EXPECT_NEAR(outputs->at("grad_norm").values[0], std::sqrt(2 * 16 + 2 * 4.0), 1e-12);
    const std::vector<double>& rows = variables["table"].values;
    EXPECT_EQ(rows[0], 1);
    EXPECT_EQ(rows[4], 1);
    // FTRL forgets the ones: z = g - |g| / 0.01, and the rate on them is 0.01 / (1 + |g|).
    const std::map<OptimizerOptions::Kind, std::pair<double, double>> expected = {
        {OptimizerOptions::kSgd, {1 - 0.04, 1 - 0.02}},
        {OptimizerOptions::kAdamW, {1 - 0.01, 1 - 0.01}},
        {OptimizerOptions::kAdagrad, {1 - 0.01, 1 - 0.01}},
        {OptimizerOptions::kFtrl, {-(4 - 400) * 0.01 / 5, -(2 - 200) * 0.01 / 3}}};
    EXPECT_NEAR(rows[2], expected.at(kind).first, 1e-9);
    EXPECT_NEAR(rows[7], expected.at(kind).second, 1e-9);
  }
}

// torch.optim.Adagrad(lr=0.1, eps=1e-3), by hand: no decay of the bias.
TEST(Optimizer, AdagradIsPyTorchs) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kAdagrad;
  options.epsilon = 1e-3;
  options.weight_decay = 0.5;
  Linear linear(options);
  double w = 0.5, b = -0.25, w_sum = 0, b_sum = 0;
  for (int step = 1; step <= 3; ++step) {
    const double dw = 0.3 * step, db = -0.2;
    linear.Step(0.1, step, dw, db);
    const double g = dw + 0.5 * w;
    w_sum += g * g, b_sum += db * db;
    w -= 0.1 * g / (std::sqrt(w_sum) + 1e-3);
    b -= 0.1 * db / (std::sqrt(b_sum) + 1e-3);
    EXPECT_NEAR(linear.value("w"), w, 1e-12);
    EXPECT_NEAR(linear.value("b"), b, 1e-12);
  }
}

// Algorithm 1 of McMahan et al. 2013, with alpha, beta, lambda1, lambda2: what does not begin as 0
// is forgotten, a gradient below lambda1 leaves nothing, and no rate no change.
TEST(Optimizer, FtrlIsItsPapers) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kFtrl;
  options.l1 = 0.25, options.l2 = 0.1, options.beta = 2;
  Linear linear(options);
  double w = 0.5, z = 0, n = 0;
  const double alpha = 0.1;
  for (int step = 1; step <= 4; ++step) {
    const double g = step == 2 ? -3 : 0.4;
    linear.Step(alpha, step, g, 0.2);
    z += g - (std::sqrt(n + g * g) - std::sqrt(n)) / alpha * w;
    n += g * g;
    w = std::abs(z) <= 0.25 ? 0
                            : -(z - (z < 0 ? -0.25 : 0.25)) / ((2 + std::sqrt(n)) / alpha + 0.1);
    EXPECT_NEAR(linear.value("w"), w, 1e-12);
  }
  EXPECT_NE(w, 0);
  linear.Step(0, 5, 100, 100);
  EXPECT_NEAR(linear.value("w"), w, 1e-12);

  options.l1 = 10;
  Linear sparse(options);
  sparse.Step(alpha, 1, 0.001, 0.2);
  EXPECT_EQ(sparse.value("b"), 0);
}

TEST(Optimizer, GroupsHaveTheirOwnRuleAndRate) {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.groups = {{.prefix = "b", .kind = OptimizerOptions::kAdagrad, .rate = 0.5}};
  Linear linear(options);
  linear.Step(0.1, 1, 2, 4);
  EXPECT_NEAR(linear.value("w"), 0.5 - 0.1 * 2, 1e-12);
  EXPECT_NEAR(linear.value("b"), -0.25 - 0.5 * 0.1, 1e-7);
  EXPECT_TRUE(linear.graph.FindVariable("b.sum"));
  EXPECT_FALSE(linear.graph.FindVariable("w.sum"));
  options.groups[0].rate = -1;
  Graph graph;
  EXPECT_THAT(
      std::string(
          AddTraining(&graph, SumSquares(Scope(&graph).Param("w", {2})), options).message()),
      HasSubstr("rate of b: expected 0 <= rate of b"));
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  const auto error_of = [](const OptimizerOptions& options) {
    Graph graph;
    const Tensor w = graph.Variable("w", DType::kF32, {2}, {}, "");
    return std::string(AddTraining(&graph, SumSquares(w), options).message());
  };
  OptimizerOptions options;
  EXPECT_EQ(error_of(options), "");
  options.clip = -1;
  EXPECT_THAT(error_of(options), HasSubstr("clip: expected 0 <= clip < inf, got -1"));
  options = {};
  options.beta1 = 1;
  EXPECT_THAT(error_of(options), HasSubstr("beta1"));
  options = {};
  options.momentum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of(options), HasSubstr("momentum"));
  options = {};
  options.nesterov = true;
  EXPECT_THAT(error_of(options), HasSubstr("nesterov: expected a momentum above 0"));
  options = {};
  options.momentum = 0.9;
  options.dampening = 0.5;
  EXPECT_EQ(error_of(options), "");
  options.nesterov = true;
  EXPECT_THAT(error_of(options), HasSubstr("dampening: expected a momentum above 0 that is not"));
  options = {};
  options.weight_decay = -0.1;
  EXPECT_THAT(error_of(options), HasSubstr("weight_decay"));
}

// y = relu(x w1 + b1) w2, loss = mean (y - t)^2, with SGD and momentum, in plain loops.
struct Mlp {
  static constexpr int kBatch = 6, kIn = 3, kHidden = 5;
  std::vector<double> w1, b1, w2, m1, mb, m2;

  double Step(const std::vector<double>& x, const std::vector<double>& t, double lr, double mu) {
    std::vector<double> g1(w1.size()), gb(b1.size()), g2(w2.size());
    double loss = 0;
    for (int n = 0; n < kBatch; ++n) {
      double h[kHidden], y = 0;
      for (int j = 0; j < kHidden; ++j) {
        h[j] = b1[j];
        for (int i = 0; i < kIn; ++i) h[j] += x[n * kIn + i] * w1[i * kHidden + j];
        h[j] = std::max(h[j], 0.0);
        y += h[j] * w2[j];
      }
      const double difference = y - t[n], dy = 2 * difference / kBatch;
      loss += difference * difference / kBatch;
      for (int j = 0; j < kHidden; ++j) {
        g2[j] += dy * h[j];
        const double dh = h[j] > 0 ? dy * w2[j] : 0;
        gb[j] += dh;
        for (int i = 0; i < kIn; ++i) g1[i * kHidden + j] += dh * x[n * kIn + i];
      }
    }
    const auto update = [&](std::vector<double>* w, std::vector<double>* m,
                            const std::vector<double>& g) {
      for (size_t i = 0; i < w->size(); ++i) {
        (*m)[i] = mu * (*m)[i] + g[i];
        (*w)[i] -= lr * (*m)[i];
      }
    };
    update(&w1, &m1, g1), update(&b1, &mb, gb), update(&w2, &m2, g2);
    return loss;
  }
};

TEST(Training, AnMlpLearnsAsTheSameMlpInPlainLoops) {
  Graph graph;
  const Scope root(&graph);
  const Tensor x = graph.Input("x", DType::kF32, {Mlp::kBatch, Mlp::kIn}, "data:S0");
  const Tensor t = graph.Input("t", DType::kF32, {Mlp::kBatch, 1}, "data:S0");
  const VariableAttributes normal = {"normal", 0.6};
  const Tensor w1 = root.Param("w1", {Mlp::kIn, Mlp::kHidden}, "", normal);
  const Tensor b1 = root.Param("b1", {Mlp::kHidden});
  const Tensor w2 = root.Param("w2", {Mlp::kHidden, 1}, "", normal);
  const Tensor difference = MatMul(Relu(MatMul(x, w1) + b1), w2) - t;
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.8;
  ASSERT_TRUE(AddTraining(&graph, Mean(difference * difference), options).ok());
  ASSERT_TRUE(graph.Finish().ok()) << graph.status();

  ArrayMap variables = InitialVariables(graph, 7), feeds;
  feeds["x"] = Array({Mlp::kBatch, Mlp::kIn});
  feeds["t"] = Array({Mlp::kBatch, 1});
  for (int n = 0; n < Mlp::kBatch; ++n) {
    for (int i = 0; i < Mlp::kIn; ++i) feeds["x"].values[n * Mlp::kIn + i] = std::sin(3 * n + i);
    feeds["t"].values[n] = feeds["x"].values[n * Mlp::kIn] > 0 ? 1 : -1;
  }
  feeds["learning_rate"] = Array({}, 0.05);
  Mlp mlp;
  mlp.w1 = variables["w1"].values, mlp.b1 = variables["b1"].values;
  mlp.w2 = variables["w2"].values;
  mlp.m1.resize(mlp.w1.size()), mlp.mb.resize(mlp.b1.size()), mlp.m2.resize(mlp.w2.size());
  double first = 0, last = 0;
  for (int step = 1; step <= 60; ++step) {
    feeds["step"] = Array({}, step);
    const auto outputs = Interpret(graph, feeds, &variables, {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    last = outputs->at("loss").values[0];
    if (step == 1) first = last;
    ASSERT_NEAR(last, mlp.Step(feeds["x"].values, feeds["t"].values, 0.05, 0.8), 1e-12) << step;
  }
  EXPECT_LT(last, 0.1 * first);
  for (size_t i = 0; i < mlp.w1.size(); ++i) {
    EXPECT_NEAR(variables["w1"].values[i], mlp.w1[i], 1e-12);
  }
}

}  // namespace
}  // namespace sluice
