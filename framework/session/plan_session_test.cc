#include "framework/session/plan_session.h"

#include <atomic>
#include <string>

#include "framework/compiler/compile.h"
#include "framework/graph/interpreter.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/test_plan.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Session> StartOrDie(plan::Plan plan) {
  RuntimeOptions options;
  options.prepare = PrepareTestKernel;
  options.seed = 7;
  auto session = StartPlan(std::move(plan), options);
  EXPECT_EQ(session.status(), absl::OkStatus());
  return *std::move(session);
}

// A variable [5,3] whose rows are split over two pairs of devices, each pair of replicas.
plan::Plan SplitPlan() {
  plan::Plan plan;
  plan::Variable* variable = plan.add_variables();
  variable->set_name("table");
  variable->set_init("init=normal");
  variable->set_dtype(static_cast<int>(DType::kF32));
  variable->add_shape(5);
  variable->add_shape(3);
  variable->set_layout("data:B model:S0");
  for (int d = 0; d < 4; ++d) {
    plan::Device* device = plan.add_devices();
    device->set_local(d);
    device->set_variable_bytes(128);
    device->set_memory_bytes(256);
    plan::VariableShard* shard = variable->add_shards();
    shard->set_device(d);
    shard->set_offset(64);
    const Range rows = Cut({0, 5}, 2, d % 2);
    *shard->mutable_shard() = ShardToProto({DType::kF32, Shape{rows.size(), 3}, Shape{5, 3},
                                            Shape{rows.begin, 0}, Shape{0, 0}, Reduction::kNone});
  }
  return plan;
}

TEST(PlanSessionTest, PartsStartWithTheValuesOfTheWhole) {
  const auto session = StartOrDie(SplitPlan());
  const auto value = session->Read("table");
  ASSERT_EQ(value.status(), absl::OkStatus());
  VariableAttributes init;
  init.init = "normal";
  const Array whole = InitialShard("table", init, Shape{5, 3}, WholeBox(Shape{5, 3}), 7);
  EXPECT_EQ(value->bytes, FromArray(whole, DType::kF32).bytes);
  EXPECT_NE(value->data<float>()[0], 0);
  EXPECT_EQ(session->CheckReplicas(), absl::OkStatus());
  ASSERT_EQ(session->variables().size(), 1u);
  EXPECT_EQ(session->variables()[0].layout, "data:B model:S0");
  EXPECT_EQ(session->variables()[0].shape, (Shape{5, 3}));
}

TEST(PlanSessionTest, ReadsWhatWasWritten) {
  const auto session = StartOrDie(SplitPlan());
  HostTensor value(DType::kF32, Shape{5, 3});
  for (int i = 0; i < 15; ++i) value.data<float>()[i] = i;
  ASSERT_EQ(session->Write("table", value), absl::OkStatus());
  EXPECT_EQ(session->Read("table")->bytes, value.bytes);
  EXPECT_EQ(session->CheckReplicas(), absl::OkStatus());
  EXPECT_EQ(session->Read("chair").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(session->Write("table", HostTensor(DType::kF32, Shape{3, 5})).message()),
              HasSubstr("variable table: expected f32[5,3], got f32[3,5]"));
}

TEST(PlanSessionTest, CheckReplicasNamesTheDevicesThatDiffer) {
  // Two devices grow their replicas by different amounts.
  plan::Plan plan = TestPlan(2);
  for (plan::Actor& actor : *plan.mutable_programs(0)->mutable_actors()) {
    if (actor.name() == "reduce1") actor.mutable_script(0)->mutable_inputs()->RemoveLast();
  }
  const auto torn = StartOrDie(std::move(plan));
  const HostTensor x = TestFeed(2, 0);
  ASSERT_EQ(torn->Step("train", {{"x", &x}}), absl::OkStatus());
  const absl::Status status = torn->CheckReplicas();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("variable w: replicas differ"), HasSubstr("device 0 has"),
                    HasSubstr("device 1 has")));
}

TEST(PlanSessionTest, StepsFetchByName) {
  const auto session = StartOrDie(TestPlan(3));
  const HostTensor x = TestFeed(3, 0);
  const std::vector<float> sums = ColumnSums(x);
  ASSERT_EQ(session->Step("train", {{"x", &x}}), absl::OkStatus());
  ASSERT_EQ(session->Step("eval", {}), absl::OkStatus());
  Fetches fetches;
  ASSERT_EQ(session->Next(&fetches), absl::OkStatus());
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches.at("w").data<float>()[2], sums[2]);
  fetches["stale"];
  const std::byte* before = fetches.at("w").bytes.data();
  ASSERT_EQ(session->Next(&fetches), absl::OkStatus());
  EXPECT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches.at("w").bytes.data(), before);  // the memory is used again
  EXPECT_EQ(session->Read("w")->bytes, fetches.at("w").bytes);
  EXPECT_EQ(session->Next(&fetches).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PlanSessionTest, RefusesWrongFeedsByName) {
  const auto session = StartOrDie(TestPlan(2));
  const HostTensor x = TestFeed(2, 0), wide(DType::kF32, Shape{4, 4}), ints(DType::kI32, x.shape);
  const auto message = [&](absl::string_view program, const Feeds& feeds) {
    const absl::Status status = session->Step(program, feeds);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message("trian", {}), HasSubstr("no program \"trian\"; there are train, eval"));
  EXPECT_THAT(message("train", {}), HasSubstr("feed x: expected f32[4,3], got none"));
  EXPECT_THAT(message("train", {{"x", &wide}}), HasSubstr("expected f32[4,3], got f32[4,4]"));
  EXPECT_THAT(message("train", {{"x", &ints}}), HasSubstr("expected f32[4,3], got i32[4,3]"));
  EXPECT_THAT(message("train", {{"y", &x}}), HasSubstr("has no feed \"y\"; expected x"));
  ASSERT_EQ(session->Step("train", {{"x", &x}}), absl::OkStatus());
  EXPECT_EQ(session->Next().status(), absl::OkStatus());
}

TEST(PlanSessionTest, ATornStateIsNeitherReadNorWritten) {
  plan::Plan plan = TestPlan(2);
  for (plan::Actor& actor : *plan.mutable_programs(0)->mutable_actors()) {
    if (actor.name() == "update1") actor.mutable_script(0)->set_scope("fail at 5");
  }
  const auto session = StartOrDie(std::move(plan));
  session->set_step(4);
  const HostTensor x = TestFeed(2, 0);
  ASSERT_EQ(session->Step("train", {{"x", &x}}), absl::OkStatus());
  ASSERT_EQ(session->Next().status(), absl::OkStatus());
  ASSERT_EQ(session->Step("train", {{"x", &x}}), absl::OkStatus());
  const absl::Status status = session->Next().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 5, device 1, fail at 5 (grow)"));
  EXPECT_EQ(session->status(), status);
  EXPECT_EQ(session->Step("train", {{"x", &x}}), status);
  EXPECT_EQ(session->Read("w").status(), status);
  EXPECT_EQ(session->Write("w", HostTensor(DType::kF32, Shape{3})), status);
  EXPECT_EQ(session->CheckReplicas(), status);
}

// However far it has come: threads that it has started end, memory that it has mapped is freed.
TEST(PlanSessionTest, AStartEndsSoonAfterItIsStopped) {
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, MlpOptions()), absl::OkStatus());
  CompileOptions compile;
  compile.mesh = *Mesh::Parse("data=2");
  compile.machine = Machine::Cpu();
  const auto mlp = CompilePlan({{"train", &graph}}, compile);
  ASSERT_EQ(mlp.status(), absl::OkStatus());
  std::atomic<int> asked = 0;  // by workers, too
  int last = 1 << 30, kernels = 0;
  RuntimeOptions options;
  options.init_thread = InitKernelThread;
  options.stop = [&] { return ++asked >= last; };
  for (const plan::Actor& actor : mlp->programs(0).actors()) kernels += actor.script_size();
  for (const bool split : {true, false}) {
    const plan::Plan plan = split ? SplitPlan() : *mlp;
    options.prepare = split ? PrepareTestKernel : PrepareCpuKernel;
    asked = 0;
    last = 1 << 30;
    ASSERT_EQ(StartPlan(plan, options).status(), absl::OkStatus());
    const int all = asked;
    EXPECT_GE(all, split ? 5 : kernels);  // of 5 one for each of the four shards
    for (last = 1; last <= all; ++last) {
      asked = 0;
      EXPECT_TRUE(absl::IsCancelled(StartPlan(plan, options).status())) << last << " of " << all;
    }
  }
}

// A class may be one device alone: its plan has every shard, and still no regions of boxings.
TEST(PlanSessionTest, APlanOfRepresentativesDoesNotStart) {
  Graph graph;
  MlpOptions mlp;
  mlp.annotation = MegatronAnnotations(3);
  ASSERT_EQ(BuildMlp(&graph, mlp), absl::OkStatus());
  RuntimeOptions runtime;
  runtime.prepare = PrepareCpuKernel;
  runtime.init_thread = InitKernelThread;
  for (const char* mesh : {"data=1", "data=4", "data=4 model=2"}) {
    SCOPED_TRACE(mesh);
    CompileOptions options;
    options.mesh = *Mesh::Parse(mesh);
    options.machine = Machine::Cpu();
    const auto whole = CompilePlan({{"train", &graph}}, options);
    ASSERT_EQ(whole.status(), absl::OkStatus());
    EXPECT_EQ(StartPlan(*whole, runtime).status(), absl::OkStatus());
    options.representatives_only = true;
    const auto few = CompilePlan({{"train", &graph}}, options);
    ASSERT_EQ(few.status(), absl::OkStatus());
    const auto session = StartPlan(*few, runtime);
    EXPECT_EQ(session.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(session.status().message()),
                AllOf(HasSubstr("all " + std::to_string(options.mesh.num_devices()) + " devices"),
                      HasSubstr("representatives_only")));
  }
}

}  // namespace
}  // namespace sluice
