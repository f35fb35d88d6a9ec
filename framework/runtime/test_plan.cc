#include "framework/runtime/test_plan.h"
#include "framework/plan/kinds.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

constexpr int64_t kSlot = kTestColumns * 4;  // bytes of every tensor: one row
constexpr int64_t kMemory = 8 * kSlot;

Shard Row(int64_t rows, int64_t row, int64_t per_micro) {
  return {DType::kF32,   Shape{1, kTestColumns}, Shape{rows, kTestColumns},
          Shape{row, 0}, Shape{per_micro, 0},    Reduction::kNone};
}
Shard Whole() { return Shard::Whole(DType::kF32, Shape{kTestColumns}); }

plan::Operand In(int reg, const Shard& shard, bool updates = false) {
  plan::Operand operand;
  operand.set_register_(reg);
  operand.set_updates(updates);
  *operand.mutable_shard() = ShardToProto(shard);
  return operand;
}

class TestProgram {
 public:
  TestProgram(plan::Program* program, absl::string_view name) : program_(*program) {
    program_.set_name(std::string(name));
  }
  int Stream(int device, plan::StreamKind kind) {
    plan::Stream* stream = program_.add_streams();
    stream->set_device(device);
    stream->set_kind(kind);
    return program_.streams_size() - 1;
  }
  plan::Actor* Actor(absl::string_view name, int stream, int firings) {
    plan::Actor* actor = program_.add_actors();
    actor->set_name(std::string(name));
    actor->set_stream(stream);
    actor->set_firings_per_step(firings);
    return actor;
  }
  plan::Instruction* Instruction(plan::Actor* actor, absl::string_view op) {
    plan::Instruction* instruction = actor->add_script();
    plan::InstructionKind kind;
    if (ParseInstructionKind(op, &kind)) {
      instruction->set_kind(kind);
    } else {
      instruction->set_op(std::string(op));
    }
    instruction->set_scope(absl::StrCat("test/", actor->name()));
    return instruction;
  }
  // A register of the newest actor; slots lie from `offset` on.
  int Register(absl::string_view name, int device, int64_t offset, int quota, int every = 1) {
    plan::Register* reg = program_.add_registers();
    reg->set_name(std::string(name));
    reg->set_producer(program_.actors_size() - 1);
    reg->set_device(device);
    reg->set_bytes(kSlot);
    reg->set_quota(quota);
    reg->set_emit_every(every);
    for (int i = 0; i < quota; ++i) reg->add_slot_offsets(offset + i * kSlot);
    return program_.registers_size() - 1;
  }
  plan::Register* reg(int r) { return program_.mutable_registers(r); }
  void Port(plan::Port* port, absl::string_view name, const Shape& shape) {
    port->set_name(std::string(name));
    port->set_dtype(static_cast<int>(DType::kF32));
    for (const int64_t extent : shape) port->add_shape(extent);
  }

 private:
  plan::Program& program_;
};

void AddTrain(int devices, plan::Program* program) {
  TestProgram p(program, "train");
  program->set_micro_batches(kTestMicroBatches);
  const int64_t rows = devices * kTestMicroBatches;
  p.Port(program->add_feeds(), "x", Shape{rows, kTestColumns});
  p.Port(program->add_fetches(), "w", Shape{kTestColumns});
  std::vector<int> sums, compute;
  for (int d = 0; d < devices; ++d) {
    plan::Actor* feed =
        p.Actor(absl::StrCat("feed", d), p.Stream(d, plan::STREAM_HOST), kTestMicroBatches);
    const int x = p.Register(absl::StrCat("x", d), d, 1 * kSlot, 2);
    *p.Instruction(feed, "feed")->add_outputs() = In(x, Row(rows, d, devices));
    compute.push_back(p.Stream(d, plan::STREAM_COMPUTE));
    plan::Actor* forward = p.Actor(absl::StrCat("forward", d), compute[d], kTestMicroBatches);
    sums.push_back(p.Register(absl::StrCat("sums", d), d, 3 * kSlot, 1, kTestMicroBatches));
    plan::Instruction* add = p.Instruction(forward, "column_sums");
    *add->add_inputs() = In(x, Row(rows, d, devices));
    *add->add_outputs() = In(sums[d], Whole());
  }
  for (int d = 0; d < devices; ++d) {
    plan::Actor* reduce = p.Actor(absl::StrCat("reduce", d), p.Stream(d, plan::STREAM_COMM), 1);
    const int total = p.Register(absl::StrCat("total", d), d, 4 * kSlot, 1);
    plan::Instruction* sum = p.Instruction(reduce, "sum");
    // A few neighbours are enough for many devices: the plan is for the protocol then.
    for (int e = 0; e < std::min(devices, 8); ++e) {
      *sum->add_inputs() = In(sums[(d + e) % devices], Whole());
    }
    *sum->add_outputs() = In(total, Whole());
    plan::Actor* update = p.Actor(absl::StrCat("update", d), compute[d], 1);
    const int w = p.Register(absl::StrCat("w", d), d, 0, 1);
    p.reg(w)->set_variable("w");
    p.reg(w)->set_initial_tokens(1);
    const int shown = p.Register(absl::StrCat("shown", d), d, 5 * kSlot, 2);
    plan::Instruction* grow = p.Instruction(update, "grow");
    *grow->add_inputs() = In(w, Whole(), /*updates=*/true);
    *grow->add_inputs() = In(total, Whole());
    *grow->add_outputs() = In(shown, Whole());
    if (d > 0) continue;
    plan::Actor* fetch = p.Actor("fetch", p.Stream(d, plan::STREAM_HOST), 1);
    *p.Instruction(fetch, "fetch")->add_inputs() = In(shown, Whole());
  }
  for (int d = 0; d < devices; ++d) {  // an order: forward, forward, update
    plan::Stream* stream = program->mutable_streams(compute[d]);
    int forward = -1, update = -1;
    for (int a = 0; a < program->actors_size(); ++a) {
      if (program->actors(a).name() == absl::StrCat("forward", d)) forward = a;
      if (program->actors(a).name() == absl::StrCat("update", d)) update = a;
    }
    for (int entry = 0; entry < 3; ++entry) {
      plan::ScheduleEntry* t = stream->add_order();
      t->set_actor(entry < 2 ? forward : update);
      t->set_firing(entry < 2 ? entry : 0);
      t->set_from(0);
      t->set_to(1);
    }
  }
}

void AddEval(plan::Program* program) {
  TestProgram p(program, "eval");
  program->set_micro_batches(1);
  p.Port(program->add_fetches(), "w", Shape{kTestColumns});
  plan::Actor* fetch = p.Actor("fetch", p.Stream(0, plan::STREAM_HOST), 1);
  const int w = p.Register("w", 0, 0, 1);
  p.reg(w)->set_producer(-1);
  p.reg(w)->set_variable("w");
  p.reg(w)->set_initial_tokens(1);
  *p.Instruction(fetch, "fetch")->add_inputs() = In(w, Whole());
}

class TestKernel final : public Kernel {
 public:
  explicit TestKernel(const KernelSpec& spec)
      : op_(spec.op), scope_(spec.scope), inputs_(static_cast<int>(spec.inputs.size())) {
    for (const absl::string_view word : {"fail at ", "nan at "}) {
      const size_t at = scope_.find(std::string(word));
      if (at != std::string::npos && absl::SimpleAtoi(scope_.substr(at + word.size()), &at_)) {
        fails_ = word == "fail at ";
      }
    }
  }

  absl::Status Launch(const KernelContext& firing, std::byte* const* operands,
                      std::byte*) override {
    const auto row = [&](int i) { return reinterpret_cast<float*>(operands[i]); };
    float* out = row(inputs_);
    if (op_ == "grow") {
      if (absl::StrContains(scope_, "spin")) Spin();
      if (firing.step == at_ && fails_) return absl::OutOfRangeError("planted");
      for (int c = 0; c < kTestColumns; ++c) out[c] = row(0)[c] += row(1)[c];
      if (firing.step == at_) out[1] = std::nanf("");
      return absl::OkStatus();
    }
    const bool resets = op_ == "sum" || firing.micro == 0;
    for (int c = 0; c < kTestColumns; ++c) {
      float sum = resets ? 0 : out[c];
      for (int i = 0; i < inputs_; ++i) sum += row(i)[c];
      out[c] = sum;
    }
    return absl::OkStatus();
  }

 private:
  static void Spin() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  const std::string op_, scope_;
  const int inputs_;
  int64_t at_ = -1;
  bool fails_ = false;
};

}  // namespace

plan::Plan TestPlan(int devices) {
  plan::Plan plan;
  plan::Variable* w = plan.add_variables();
  w->set_name("w");
  w->set_dtype(static_cast<int>(DType::kF32));
  w->add_shape(kTestColumns);
  for (int d = 0; d < devices; ++d) {
    plan::Device* device = plan.add_devices();
    device->set_local(d);
    device->set_variable_bytes(kSlot);
    device->set_memory_bytes(kMemory);
    plan::VariableShard* shard = w->add_shards();
    shard->set_device(d);
    *shard->mutable_shard() = ShardToProto(Whole());
  }
  AddTrain(devices, plan.add_programs());
  AddEval(plan.add_programs());
  return plan;
}

int64_t TestInstructionsPerStep(int devices) { return devices * (2 * kTestMicroBatches + 2) + 1; }

HostTensor TestFeed(int devices, int64_t step) {
  HostTensor x(DType::kF32, Shape{devices * kTestMicroBatches, kTestColumns});
  for (int64_t i = 0; i < x.shape.NumElements(); ++i) {
    x.data<float>()[i] = static_cast<float>((i * 7 + step * 5) % 11);
  }
  return x;
}

std::vector<float> ColumnSums(const HostTensor& x) {
  std::vector<float> sums(kTestColumns);
  for (int64_t i = 0; i < x.shape.NumElements(); ++i) sums[i % kTestColumns] += x.data<float>()[i];
  return sums;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareTestKernel(const KernelSpec& spec) {
  if (spec.op != "column_sums" && spec.op != "sum" && spec.op != "grow") {
    return absl::NotFoundError(absl::StrCat("no kernel for ", spec.op));
  }
  return absl::StatusOr<std::unique_ptr<Kernel>>(std::make_unique<TestKernel>(spec));
}

}  // namespace sluice
