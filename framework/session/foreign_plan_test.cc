// Plans from elsewhere: compiled ones, changed by hand. Each change is refused by a status that
// says what is wrong, or does no harm.
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "framework/compiler/compile.h"
#include "framework/plan/validate.h"
#include "framework/session/check_kernel.h"
#include "framework/session/plan_trial.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;

plan::Plan CompiledPlan(const char* mesh, bool annotated) {
  MlpOptions options;
  if (annotated) options.annotation = MegatronAnnotations(3);
  Graph graph;
  EXPECT_EQ(BuildMlp(&graph, options), absl::OkStatus());
  CompileOptions compile;
  compile.mesh = *Mesh::Parse(mesh);
  compile.machine = Machine::Cpu();
  compile.micro_batches = 2;
  auto plan = CompilePlan({{"train", &graph}}, compile);
  EXPECT_EQ(plan.status(), absl::OkStatus());
  return *std::move(plan);
}

// One whose boxings have regions, between two devices and within each.
plan::Plan Boxed() { return CompiledPlan("data=2 model=2", /*annotated=*/true); }
plan::Plan Single() { return CompiledPlan("data=1", /*annotated=*/false); }

using IsWanted = std::function<bool(const plan::Instruction&)>;

plan::Instruction* Find(plan::Plan* plan, const IsWanted& wanted) {
  for (plan::Actor& actor : *plan->mutable_programs(0)->mutable_actors()) {
    for (plan::Instruction& x : *actor.mutable_script()) {
      if (wanted(x)) return &x;
    }
  }
  ADD_FAILURE() << "no such instruction";
  return plan->mutable_programs(0)->mutable_actors(0)->mutable_script(0);
}
plan::Instruction* OfKind(plan::Plan* plan, plan::InstructionKind kind) {
  return Find(plan, [kind](const plan::Instruction& x) { return x.kind() == kind; });
}
plan::Instruction* OfOp(plan::Plan* plan, const std::string& op) {
  return Find(plan, [op](const plan::Instruction& x) { return x.op() == op; });
}
plan::Instruction* Fold(plan::Plan* plan) {
  return Find(plan, [](const plan::Instruction& x) {
    return x.kind() == plan::INSTRUCTION_FOLD && x.regions_size() > 0 && x.inputs_size() > 1;
  });
}
plan::Region* RegionOf(plan::Plan* plan) { return Fold(plan)->mutable_regions(0); }
// A register of its own bytes, that something writes.
plan::Register* Buffer(plan::Plan* plan) {
  for (plan::Register& r : *plan->mutable_programs(0)->mutable_registers()) {
    if (r.variable().empty() && r.bytes() > 0 && r.slot_offsets_size() > 0) return &r;
  }
  ADD_FAILURE() << "no such register";
  return plan->mutable_programs(0)->mutable_registers(0);
}

void ForgetTakes(plan::Plan* plan) {
  for (plan::Actor& actor : *plan->mutable_programs(0)->mutable_actors()) {
    for (plan::Instruction& x : *actor.mutable_script()) {
      for (plan::Operand& output : *x.mutable_outputs()) output.clear_takes();
    }
  }
}

struct Change {
  const char* name;
  void (*apply)(plan::Plan* plan);
  const char* error;  // empty: the plan runs as it is
};

constexpr int64_t kHuge = int64_t{1} << 62;

const Change kChanges[] = {
    // Of operands.
    {"operand behind its register",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_outputs(0)->set_offset(1 << 20); },
     "place: expected bytes within [0, "},
    {"operand before its register",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_inputs(0)->set_offset(-64); },
     "offset: expected a number in [0, "},
    {"operand far behind its register",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_inputs(1)->set_offset(kHuge); },
     "input 1: offset: expected a number in [0, "},
    {"operand between elements",
     [](plan::Plan* p) {
       plan::Operand* x = OfOp(p, "matmul")->mutable_outputs(0);
       x->set_offset(2);
       x->mutable_shard()->set_local(0, 1);
       x->mutable_shard()->set_offset(0, 0);
     },
     "expected a multiple of 4"},
    {"operand larger than its register",
     [](plan::Plan* p) {
       plan::Shard* x = OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard();
       x->set_local(1, 600);
       x->set_logical(1, 600);
     },
     "expected bytes within"},
    {"operand of many dimensions",
     [](plan::Plan* p) {
       plan::Shard* x = OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard();
       for (int d = 0; d < 40; ++d) {
         x->add_local(1);
         x->add_logical(1);
         x->add_offset(0);
         x->add_stride_per_micro(0);
       }
     },
     "at most 16 extents"},
    {"negative extent",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard()->set_local(0, -1); },
     "extents of 0 or more"},
    {"extents beyond int64",
     [](plan::Plan* p) {
       plan::Shard* x = OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard();
       x->set_local(0, int64_t{1} << 40);
       x->set_local(1, int64_t{1} << 40);
     },
     "extents of 0 or more"},
    {"shard outside of its tensor",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard()->set_offset(0, 7); },
     "dimension 0 to lie within"},
    {"shard that leaves its tensor in a later firing",
     [](plan::Plan* p) {
       OfKind(p, plan::INSTRUCTION_FEED)
           ->mutable_outputs(0)
           ->mutable_shard()
           ->set_stride_per_micro(0, 1000);
     },
     "more in each"},
    {"unknown dtype",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard()->set_dtype(9); },
     "unknown dtype 9"},
    {"unknown reduction of a shard",
     [](plan::Plan* p) { OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard()->set_partial(7); },
     "unknown reduction 7"},
    {"unknown reduction of an instruction", [](plan::Plan* p) { Fold(p)->set_reduction(-1); },
     "reduction: expected a known one, got -1"},
    {"negative flops", [](plan::Plan* p) { OfOp(p, "matmul")->set_flops(-1); },
     "flops: expected a number in"},
    {"nanoseconds that overflow in a sum",
     [](plan::Plan* p) { OfOp(p, "matmul")->set_nanoseconds(kHuge); },
     "nanoseconds: expected a number in"},
    // Of what operands are, to their ops.
    {"matmul of other depth",
     [](plan::Plan* p) {
       plan::Shard* x = OfOp(p, "matmul")->mutable_inputs(0)->mutable_shard();
       x->set_local(1, 2);
     },
     "expected"},
    {"matmul without inputs", [](plan::Plan* p) { OfOp(p, "matmul")->clear_inputs(); }, ""},
    {"labels of another op's dtype",
     [](plan::Plan* p) { OfOp(p, "ce_pick")->mutable_inputs(1)->mutable_shard()->set_dtype(0); },
     "labels"},
    {"kernel that is a kind", [](plan::Plan* p) { OfOp(p, "matmul")->set_op("fold"); },
     "op: expected the name of an op"},
    {"op that does not exist", [](plan::Plan* p) { OfOp(p, "matmul")->set_op("no such"); },
     "no CPU kernel for no such"},
    {"another op of other operands",
     [](plan::Plan* p) { OfOp(p, "matmul")->set_op("ce_gradient"); }, "expected 5 inputs"},
    {"attributes of no op",
     [](plan::Plan* p) { OfOp(p, "matmul")->set_attributes("transpose_a=sideways"); },
     "transpose_a"},
    {"transposed product",
     [](plan::Plan* p) { OfOp(p, "matmul")->set_attributes("transpose_b=true"); }, "expected"},
    {"collective number out of nowhere",
     [](plan::Plan* p) { OfOp(p, "matmul")->set_collective(3); }, "collectives alone"},
    {"calls that do not share operands alike",
     [](plan::Plan* p) { OfOp(p, "matmul")->set_calls(2); }, "number that divides its inputs"},
    {"fold of several calls", [](plan::Plan* p) { Fold(p)->set_calls(2); },
     "calls: expected 1, or of a kernel"},
    {"less than no calls", [](plan::Plan* p) { OfOp(p, "matmul")->set_calls(-1); },
     "calls: expected 1"},
    // Of registers, slots, temporaries.
    {"slot behind the memory", [](plan::Plan* p) { Buffer(p)->set_slot_offsets(0, 1 << 28); },
     "slot: expected bytes within [0, "},
    {"slot before the memory", [](plan::Plan* p) { Buffer(p)->set_slot_offsets(0, -4096); },
     "slot: expected bytes within [0, "},
    {"slot that no sum reaches", [](plan::Plan* p) { Buffer(p)->set_slot_offsets(0, INT64_MAX); },
     "slot: expected bytes within [0, "},
    {"slot without an offset", [](plan::Plan* p) { Buffer(p)->clear_slot_offsets(); },
     "slot offsets: expected"},
    {"more slots than offsets", [](plan::Plan* p) { Buffer(p)->set_quota(7); },
     "slot offsets: expected 7"},
    {"slot among the variables", [](plan::Plan* p) { Buffer(p)->set_slot_offsets(0, 0); },
     "among its variables"},
    {"register of negative bytes", [](plan::Plan* p) { Buffer(p)->set_bytes(-5); },
     "bytes: expected a number in"},
    {"register of too few bytes", [](plan::Plan* p) { Buffer(p)->set_bytes(1); },
     "expected bytes within"},
    {"register without bytes", [](plan::Plan* p) { Buffer(p)->set_bytes(0); },
     "expected bytes within [0, 0)"},
    {"temporary behind the memory",
     [](plan::Plan* p) { p->mutable_programs(0)->mutable_temporaries(0)->set_offset(1 << 28); },
     "place: expected bytes within"},
    {"temporary of negative bytes",
     [](plan::Plan* p) {
       ForgetTakes(p);  // who takes its bytes has another number of them
       p->mutable_programs(0)->mutable_temporaries(0)->set_bytes(-1);
     },
     "bytes: expected a number in"},
    {"scratch behind the memory",
     [](plan::Plan* p) {
       OfOp(p, "matmul")->set_scratch(64);
       OfOp(p, "matmul")->set_scratch_offset(1 << 28);
     },
     "scratch: expected bytes within"},
    {"scratch askew",
     [](plan::Plan* p) {
       OfOp(p, "matmul")->set_scratch_offset(64);
       OfOp(p, "matmul")->set_scratch(0);
     },
     "scratch: expected a place at a multiple of 256"},
    {"scratch among the variables",
     [](plan::Plan* p) {
       OfOp(p, "matmul")->set_scratch(64);
       OfOp(p, "matmul")->set_scratch_offset(0);
     },
     "among its variables"},
    {"temporary of no actor",
     [](plan::Plan* p) {
       plan::Temporary* t = p->mutable_programs(0)->add_temporaries();
       t->set_actor(1 << 20);
     },
     "actor: expected one of"},
    // Of variables and devices.
    {"variable behind its device's variables",
     [](plan::Plan* p) { p->mutable_variables(0)->mutable_shards(0)->set_offset(1 << 28); },
     "shard 0: expected bytes within"},
    {"two variables in one place",
     [](plan::Plan* p) {
       p->mutable_variables(1)->mutable_shards(0)->set_offset(p->variables(0).shards(0).offset());
     },
     "expected bytes of its own"},
    {"variable of another shape", [](plan::Plan* p) { p->mutable_variables(0)->add_shape(3); },
     "shard 0: expected the one on device"},
    {"variable of unknown dtype", [](plan::Plan* p) { p->mutable_variables(0)->set_dtype(-1); },
     "dtype: expected a known one"},
    {"variable with its shard on another device",
     [](plan::Plan* p) { p->mutable_variables(0)->mutable_shards(0)->set_device(1); },
     "expected the one on device 1"},
    {"memory smaller than what lies in it",
     [](plan::Plan* p) { p->mutable_devices(0)->set_memory_bytes(p->devices(0).variable_bytes()); },
     "expected bytes within"},
    {"memory of negative bytes", [](plan::Plan* p) { p->mutable_devices(0)->set_memory_bytes(-1); },
     "memory: expected a number in"},
    {"variables larger than the memory",
     [](plan::Plan* p) { p->mutable_devices(0)->set_variable_bytes(1 << 28); },
     "variables: expected bytes within"},
    {"device of no rank", [](plan::Plan* p) { p->mutable_devices(0)->set_rank(-7); },
     "expected operands of rank 0, got"},
    {"device of the last rank", [](plan::Plan* p) { p->mutable_devices(0)->set_rank(2147483647); },
     "rank"},
    // Of ports.
    {"port that is not there",
     [](plan::Plan* p) { OfKind(p, plan::INSTRUCTION_FEED)->set_port(99); },
     "port: expected one of 4, got 99"},
    {"port before the first",
     [](plan::Plan* p) { OfKind(p, plan::INSTRUCTION_FETCH)->set_port(-1); },
     "port: expected one of"},
    {"port of another's type",
     [](plan::Plan* p) {
       plan::Instruction* x = OfKind(p, plan::INSTRUCTION_FEED);
       x->set_port(1 - x->port());
     },
     "expected an operand of"},
    {"port of absurd shape",
     [](plan::Plan* p) { p->mutable_programs(0)->mutable_fetches(0)->add_shape(kHuge); },
     "extents of 0 or more"},
    {"fetch that nobody writes",
     [](plan::Plan* p) {
       plan::Port* port = p->mutable_programs(0)->add_fetches();
       port->set_name("more");
       port->add_shape(int64_t{1} << 50);
     },
     "instructions that write its"},
    {"port of unknown dtype",
     [](plan::Plan* p) { p->mutable_programs(0)->mutable_feeds(0)->set_dtype(77); },
     "dtype: expected a known one"},
    // Of boxings.
    {"region that reads behind its source",
     [](plan::Plan* p) { RegionOf(p)->set_source_offsets(0, 1 << 28); },
     "source 0: expected elements within"},
    {"region that reads before its source",
     [](plan::Plan* p) { RegionOf(p)->set_source_offsets(0, -1); },
     "source 0: expected elements within"},
    {"region that writes behind its output",
     [](plan::Plan* p) { RegionOf(p)->set_offset(1 << 28); }, "output: expected elements within"},
    {"region with a long stride", [](plan::Plan* p) { RegionOf(p)->set_strides(0, 1 << 28); },
     "expected elements within"},
    {"region with an endless stride",
     [](plan::Plan* p) { RegionOf(p)->mutable_source_strides(0)->set_values(0, kHuge); },
     "expected elements within"},
    {"region with too few strides",
     [](plan::Plan* p) { RegionOf(p)->mutable_strides()->RemoveLast(); }, "strides, got"},
    {"region of a source that is no input", [](plan::Plan* p) { RegionOf(p)->set_sources(0, 40); },
     "source 0: expected an input"},
    {"region whose fold has no end", [](plan::Plan* p) { RegionOf(p)->add_fold(-1); },
     "folded into one value"},
    {"region whose fold names no source", [](plan::Plan* p) { RegionOf(p)->set_fold(0, 12); },
     "folded into one value"},
    {"region without offsets", [](plan::Plan* p) { RegionOf(p)->clear_source_offsets(); },
     "folded into one value"},
    {"region that ends before it begins", [](plan::Plan* p) { RegionOf(p)->set_end(0, -9); },
     "an end behind the begin"},
    {"region larger than all", [](plan::Plan* p) { RegionOf(p)->set_end(0, kHuge); }, "expected"},
    {"region without ends", [](plan::Plan* p) { RegionOf(p)->clear_end(); },
     "as many ends as begins"},
    {"region of no firing", [](plan::Plan* p) { RegionOf(p)->set_micro(17); },
     "micro: expected one of"},
    {"fold without output", [](plan::Plan* p) { Fold(p)->clear_outputs(); }, ""},
    // Of other ranks, where there are none.
    {"pull of nothing", [](plan::Plan* p) { OfOp(p, "matmul")->set_kind(plan::INSTRUCTION_PULL); },
     ""},
    {"remote instruction here",
     [](plan::Plan* p) {
       plan::Instruction* x = OfKind(p, plan::INSTRUCTION_FEED);
       x->set_kind(plan::INSTRUCTION_REMOTE);
     },
     "no remote instruction on a device of this rank"},
    // Harmless.
    {"name of an actor",
     [](plan::Plan* p) { p->mutable_programs(0)->mutable_actors(0)->set_name(""); }, "runs"},
    {"priority", [](plan::Plan* p) { p->mutable_programs(0)->mutable_actors(0)->set_priority(-5); },
     "runs"},
};

TEST(ForeignPlanTest, WhatIsCompiledRuns) {
  for (const plan::Plan& plan : {Single(), Boxed()}) {
    for (const Fed fed : {Fed::kTensors, Fed::kRows}) {
      EXPECT_EQ(TryPlan(plan, plan::DEVICE_CPU, fed), absl::OkStatus());
      EXPECT_EQ(TryPlan(plan, plan::DEVICE_NULL, fed), absl::OkStatus());
    }
  }
}

TEST(ForeignPlanTest, EachOfManyCallsIsChecked) {
  KernelSpec spec;
  spec.op = "sum_squares";
  spec.calls = 2;
  spec.inputs = {Shard::Whole(DType::kF32, {3}), Shard::Whole(DType::kF32, {4, 5})};
  spec.outputs = {Shard::Whole(DType::kF32, {}), Shard::Whole(DType::kF32, {})};
  EXPECT_EQ(CheckKernel(spec), absl::OkStatus());
  spec.outputs[1] = Shard::Whole(DType::kF32, {2});
  EXPECT_THAT(std::string(CheckKernel(spec).message()), HasSubstr("call 1: output 0: expected"));
}

TEST(ForeignPlanTest, OnlyOpsThatSaySoTakeTheirInputsBytes) {
  KernelSpec spec;
  spec.op = "relu_gradient";
  const Shard matrix = Shard::Whole(DType::kF32, {3, 4});
  spec.inputs = {matrix, matrix};
  spec.outputs = {matrix};
  spec.takes = {2};
  EXPECT_EQ(CheckKernel(spec), absl::OkStatus());
  spec.takes = {3};
  EXPECT_THAT(
      std::string(CheckKernel(spec).message()),
      HasSubstr("output 0 cannot take the bytes of input 2: expected an input of the same"));
  spec.op = "add";
  spec.inputs[1] = Shard::Whole(DType::kF32, {4});
  spec.takes = {2};
  EXPECT_THAT(std::string(CheckKernel(spec).message()), HasSubstr("got f32[4]"));
  spec.op = "matmul";
  spec.inputs[1] = Shard::Whole(DType::kF32, {4, 4});
  spec.takes = {1};
  EXPECT_THAT(std::string(CheckKernel(spec).message()),
              HasSubstr("output 0 cannot take the bytes of input 0: matmul"));
  // Each call takes its own.
  spec.op = "relu_gradient";
  spec.calls = 2;
  spec.inputs = {matrix, matrix, matrix, matrix};
  spec.outputs = {matrix, matrix};
  spec.takes = {2, 3};
  EXPECT_EQ(CheckKernel(spec), absl::OkStatus());
  for (const std::vector<int>& other : {std::vector<int>{3, 0}, std::vector<int>{0, 2}}) {
    spec.takes = other;
    EXPECT_THAT(std::string(CheckKernel(spec).message()), HasSubstr("an input of the same call"));
  }
}

// The host cannot reach the memory of such a device: a plan for them feeds by way of copies.
TEST(ForeignPlanTest, FeedsGoWhereTheHostReaches) {
  EXPECT_THAT(std::string(TryPlan(Single(), plan::DEVICE_ASYNC).message()),
              HasSubstr("feed: expected a device whose memory is the host's"));
}

TEST(ForeignPlanTest, AChangeIsRefusedOrHarmless) {
  const plan::Plan boxed = Boxed();
  for (const Change& change : kChanges) {
    SCOPED_TRACE(change.name);
    plan::Plan plan = boxed;
    change.apply(&plan);
    for (const Fed fed : {Fed::kTensors, Fed::kRows}) {
      const absl::Status status = TryPlan(plan, plan::DEVICE_CPU, fed);
      if (std::string(change.error) == "runs") {
        EXPECT_EQ(status, absl::OkStatus());
      } else {
        EXPECT_THAT(std::string(status.message()), HasSubstr(change.error));
        EXPECT_FALSE(status.ok());
      }
      TryPlan(plan, plan::DEVICE_NULL, fed).IgnoreError();
    }
  }
}

// Sets one number somewhere in a message to one that breaks things.
void ChangeANumber(google::protobuf::Message* message, std::mt19937* random) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  if (fields.empty()) return;
  const auto* field = fields[(*random)() % fields.size()];
  const int size = field->is_repeated() ? reflection.FieldSize(*message, field) : 1;
  const int at = static_cast<int>((*random)() % size);
  using Field = google::protobuf::FieldDescriptor;
  constexpr int64_t kNumbers[] = {-1, 0, 1, 2, 3, 5, 64, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN};
  const int64_t number = kNumbers[(*random)() % std::size(kNumbers)];
  if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
    ChangeANumber(field->is_repeated() ? reflection.MutableRepeatedMessage(message, field, at)
                                       : reflection.MutableMessage(message, field),
                  random);
  } else if (field->cpp_type() == Field::CPPTYPE_INT64) {
    field->is_repeated() ? reflection.SetRepeatedInt64(message, field, at, number)
                         : reflection.SetInt64(message, field, number);
  } else if (field->cpp_type() == Field::CPPTYPE_INT32) {
    const int32_t small = static_cast<int32_t>(number);
    field->is_repeated() ? reflection.SetRepeatedInt32(message, field, at, small)
                         : reflection.SetInt32(message, field, small);
  } else if (field->cpp_type() == Field::CPPTYPE_ENUM) {
    reflection.SetEnumValue(message, field, static_cast<int>(number % 11));
  }
}

TEST(ForeignPlanTest, NoNumberDoesHarm) {
  std::mt19937 random(11);
  int run = 0;
  for (const plan::Plan& compiled : {Single(), Boxed()}) {
    for (int i = 0; i < 400; ++i) {
      plan::Plan plan = compiled;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int n = 0; n < changes; ++n) ChangeANumber(&plan, &random);
      if (!ValidatePlan(plan).ok() || !IsSmall(plan)) continue;
      ++run;
      for (const Fed fed : {Fed::kTensors, Fed::kRows}) {
        TryPlan(plan, plan::DEVICE_CPU, fed).IgnoreError();
        TryPlan(plan, plan::DEVICE_NULL, fed).IgnoreError();
      }
    }
  }
  EXPECT_GT(run, 50);
}

TEST(ForeignPlanTest, ErrorsSayWhere) {
  plan::Plan plan = Boxed();
  RegionOf(&plan)->set_offset(1 << 28);
  const std::string error(ValidatePlan(plan).message());
  EXPECT_THAT(error, HasSubstr("program \"train\": actor \""));
  EXPECT_THAT(error, HasSubstr("instruction "));
  EXPECT_THAT(error, HasSubstr("\"fold\" of "));
  EXPECT_THAT(error, HasSubstr("region 0: output: expected elements within [0, "));
}

}  // namespace
}  // namespace sluice
