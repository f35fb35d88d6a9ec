#include "framework/testing/cuda_faults.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/kernels/cuda/support.h"
#include "framework/session/check_kernel.h"
#include "framework/testing/cuda_call_faults.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/planted_bugs.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Words = std::vector<std::string>;

constexpr char kNoOrder[] = "without order after";
constexpr char kOutside[] = "outside of its instruction's operands";
constexpr char kChanged[] = "the host changed host memory between an asynchronous copy's call";

absl::Status Nothing(absl::string_view what) {
  return absl::NotFoundError(absl::StrCat("nothing to plant a fault in: ", what));
}

// ---- Messages ----

// Of which kind of messages the fences are forgotten. Plain functions change messages.
std::atomic<Message::Kind> unfenced{Message::Kind::kReq};
std::atomic<int64_t> forgotten{0};

void ForgetFence(Message* message) {
  if (message->kind != unfenced || message->fence == 0) return;
  message->fence = 0;
  ++forgotten;
}

CudaFault OfMessages(const std::string& name, Message::Kind kind) {
  CudaFault fault;
  fault.name = name;
  fault.found = {kNoOrder, kChanged};
  fault.plant = [kind](plan::Plan*, RuntimeOptions* options) {
    unfenced = kind;
    forgotten = 0;
    options->tamper = ForgetFence;
    return absl::OkStatus();
  };
  fault.happened = [] { return forgotten.load(); };
  return fault;
}

// ---- Kernels ----

enum class KernelFault { kHalfScratch, kMoreScratch, kShiftedOutput };
std::atomic<KernelFault> kernel_fault{KernelFault::kHalfScratch};
std::atomic<int64_t> faulty{0};

class FaultyKernel final : public Kernel {
 public:
  FaultyKernel(std::unique_ptr<Kernel> kernel, int operands)
      : kernel_(std::move(kernel)), operands_(operands) {}

  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    std::vector<std::byte*> shifted(operands, operands + operands_);
    if (kernel_fault == KernelFault::kShiftedOutput && shifted.back() != nullptr) {
      shifted.back() += 64;
      ++faulty;
    }
    return kernel_->Launch(context, shifted.data(), scratch);
  }
  int64_t scratch() const override {
    if (kernel_fault == KernelFault::kShiftedOutput) return kernel_->scratch();
    if (kernel_fault == KernelFault::kMoreScratch) {
      ++faulty;
      return kernel_->scratch() + (int64_t{1} << 24);
    }
    if (kernel_->scratch() > 0) ++faulty;
    return kernel_->scratch() / 2;
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const int operands_;
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareFaulty(const KernelSpec& spec, Stream* stream) {
  ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, CudaSupport().prepare(spec, stream));
  return std::unique_ptr<Kernel>(std::make_unique<FaultyKernel>(
      std::move(kernel), static_cast<int>(spec.inputs.size() + spec.outputs.size())));
}

CudaFault OfKernels(const std::string& name, const Words& found, KernelFault kind) {
  static const DeviceSupport support = [] {
    DeviceSupport made = CudaSupport();
    made.prepare = PrepareFaulty;
    return made;
  }();
  CudaFault fault;
  fault.name = name;
  fault.found = found;
  fault.plant = [kind](plan::Plan*, RuntimeOptions* options) {
    kernel_fault = kind;
    faulty = 0;
    options->cuda = &support;
    return absl::OkStatus();
  };
  fault.happened = [] { return faulty.load(); };
  return fault;
}

// ---- Calls ----

constexpr int64_t kAll = int64_t{1} << 40;

CudaFault OfCalls(const std::string& name, const Words& found, CudaCallFault kind,
                  int64_t first = 0, int64_t count = 1) {
  CudaFault fault;
  fault.name = name;
  fault.found = found;
  fault.plant = [=](plan::Plan*, RuntimeOptions*) {
    PlantCallFault(kind, first, count);
    return absl::OkStatus();
  };
  fault.happened = PlantedCallFaults;
  return fault;
}

// ---- Plans ----

using ProgramChange = std::function<bool(plan::Plan* plan, plan::Program* program)>;

CudaFault OfPlan(const std::string& name, const Words& found, const ProgramChange& change) {
  CudaFault fault;
  fault.name = name;
  fault.found = found;
  fault.plant = [=](plan::Plan* plan, RuntimeOptions*) {
    return change(plan, plan->mutable_programs(0)) ? absl::OkStatus() : Nothing(name);
  };
  return fault;
}

// Changes the first instruction that it can.
CudaFault OfInstruction(const std::string& name, const Words& found,
                        const InstructionChange& change) {
  return OfPlan(name, found, [=](plan::Plan* plan, plan::Program*) {
    bool changed = false;
    return ChangeInstructions(name, plan,
                              [&](int32_t device, plan::Instruction* x) {
                                if (!changed) changed = change(device, x);
                                return changed;
                              })
        .ok();
  });
}

bool IsKernel(const plan::Instruction& x) { return x.kind() == plan::INSTRUCTION_KERNEL; }

bool IsMoving(const plan::Program& program, const plan::Operand& operand) {
  return operand.storage_case() == plan::Operand::kRegister &&
         program.registers(operand.register_()).slot_offsets_size() > 0;
}

// Two tensors that one instruction reads get one place.
bool OverlapInputs(plan::Plan*, plan::Program* program) {
  for (const plan::Actor& actor : program->actors()) {
    for (const plan::Instruction& x : actor.script()) {
      if (!IsKernel(x) || x.inputs_size() < 2) continue;
      if (!IsMoving(*program, x.inputs(0)) || !IsMoving(*program, x.inputs(1))) continue;
      if (x.inputs(0).register_() == x.inputs(1).register_()) continue;
      plan::Register& second = *program->mutable_registers(x.inputs(1).register_());
      second.set_slot_offsets(0, program->registers(x.inputs(0).register_()).slot_offsets(0));
      return true;
    }
  }
  return false;
}

bool DropSlotsPlace(plan::Plan*, plan::Program* program) {
  for (plan::Register& r : *program->mutable_registers()) {
    if (r.slot_offsets_size() < 2) continue;
    r.mutable_slot_offsets()->RemoveLast();
    return true;
  }
  return false;
}

bool JoinSlots(plan::Plan*, plan::Program* program) {
  for (plan::Register& r : *program->mutable_registers()) {
    if (r.slot_offsets_size() < 2) continue;
    r.set_slot_offsets(1, r.slot_offsets(0));
    return true;
  }
  return false;
}

bool DropReuseEdges(plan::Plan*, plan::Program* program) {
  const bool any = program->reuse_edges_size() > 0;
  program->clear_reuse_edges();
  return any;
}

bool SwapOrder(plan::Plan*, plan::Program* program) {
  for (plan::Stream& stream : *program->mutable_streams()) {
    if (stream.kind() != plan::STREAM_COMPUTE || stream.order_size() < 2) continue;
    stream.mutable_order()->SwapElements(0, stream.order_size() - 1);
    return true;
  }
  return false;
}

bool ShrinkMemory(plan::Plan* plan, plan::Program*) {
  for (plan::Device& device : *plan->mutable_devices()) {
    if (device.kind() != plan::DEVICE_CUDA) continue;
    device.set_memory_bytes(device.memory_bytes() / 2);
    return true;
  }
  return false;
}

// A kernel reads the register where its producer left it, on another card.
bool DropCopy(plan::Plan* plan, plan::Program* program) {
  std::vector<int32_t> copied(program->registers_size(), -1);
  for (const plan::Actor& actor : program->actors()) {
    for (const plan::Instruction& x : actor.script()) {
      if (x.kind() != plan::INSTRUCTION_COPY || x.outputs_size() != 1 || x.inputs_size() == 0 ||
          x.outputs(0).storage_case() != plan::Operand::kRegister) {
        continue;
      }
      const plan::Register& from = program->registers(x.inputs(0).register_());
      if (plan->devices(from.device()).kind() != plan::DEVICE_CUDA) continue;
      copied[x.outputs(0).register_()] = x.inputs(0).register_();
    }
  }
  for (plan::Actor& actor : *program->mutable_actors()) {
    for (plan::Instruction& x : *actor.mutable_script()) {
      if (!IsKernel(x)) continue;
      for (plan::Operand& input : *x.mutable_inputs()) {
        if (input.storage_case() != plan::Operand::kRegister) continue;
        const int32_t from = copied[input.register_()];
        if (from < 0) continue;
        input.set_register_(from);
        return true;
      }
    }
  }
  return false;
}

std::vector<CudaFault> PlanFaults() {
  return {
      OfPlan("reuse_edges_left_out", {"share bytes and"}, DropReuseEdges),
      OfPlan("two_tensors_in_one_place", {"share bytes and are live at one time"}, OverlapInputs),
      OfPlan("slot_without_place", {"slot offsets: expected 2, got 1"}, DropSlotsPlace),
      OfPlan("two_slots_in_one_place", {"share bytes and are live at one time"}, JoinSlots),
      OfPlan("order_exchanged", {"would deadlock"}, SwapOrder),
      OfPlan("half_the_memory", {"expected bytes within"}, ShrinkMemory),
      OfPlan("copy_left_out", {"expected operands in the memory of device"}, DropCopy),
      OfInstruction("operand_offset", {"place: expected bytes within"},
                    [](int32_t, plan::Instruction* x) {
                      if (!IsKernel(*x) || x->outputs_size() == 0) return false;
                      x->mutable_outputs(0)->set_offset(x->outputs(0).offset() + 64);
                      return true;
                    }),
      OfInstruction("region_offset", {"source 0: expected elements within"},
                    [](int32_t, plan::Instruction* x) {
                      if (x->regions_size() == 0) return false;
                      plan::Region& region = *x->mutable_regions(0);
                      region.set_source_offsets(0, region.source_offsets(0) + 1);
                      return true;
                    }),
      OfInstruction("region_stride", {"source 0: expected elements within"},
                    [](int32_t, plan::Instruction* x) {
                      if (x->regions_size() == 0) return false;
                      plan::Strides& strides = *x->mutable_regions(0)->mutable_source_strides(0);
                      if (strides.values_size() < 2) return false;
                      strides.set_values(0, strides.values(0) + 1);
                      return true;
                    }),
      OfInstruction("read_left_out", {"expected 2 inputs and 1 outputs, got 1 and 1"},
                    [](int32_t, plan::Instruction* x) {
                      if (!IsKernel(*x) || x->inputs_size() < 2) return false;
                      x->mutable_inputs()->RemoveLast();
                      return true;
                    }),
  };
}

std::vector<CudaFault> MessageFaults() {
  return {
      OfMessages("fence_of_a_token_forgotten", Message::Kind::kReq),
      OfMessages("fence_of_a_slot_forgotten", Message::Kind::kAck),
      OfMessages("fence_of_bytes_forgotten", Message::Kind::kReuse),
  };
}

std::vector<CudaFault> KernelFaults() {
  return {
      OfKernels("kernel_scratch_too_small", {kOutside, "outside of an allocation"},
                KernelFault::kHalfScratch),
      OfKernels("kernel_scratch_beyond_the_plan", {"bytes of scratch, as the plan says"},
                KernelFault::kMoreScratch),
      // Which kernel it is goes by threads: a copy beyond its memory is refused when it is made.
      OfKernels("kernel_output_shifted", {kOutside, "outside of an allocation"},
                KernelFault::kShiftedOutput),
  };
}

std::vector<CudaFault> CallFaults() {
  using Fault = CudaCallFault;
  return {
      OfCalls("wait_forgotten", {kNoOrder, kChanged}, Fault::kForgottenWait, 0, kAll),
      OfCalls("record_forgotten", {"that was never recorded"}, Fault::kForgottenRecord, 0, kAll),
      OfCalls("record_repeated", {"recorded again before its last record is reached"},
              Fault::kTwiceRecorded),
      OfCalls("done_too_early", {kNoOrder, kChanged}, Fault::kEarlyDone, 0, kAll),
      OfCalls("barrier_left_out", {"barrier"}, Fault::kForgottenBarrier),
      OfCalls("barriers_left_out", {kNoOrder, "reads uninitialized shared memory"},
              Fault::kForgottenBarrier, 0, kAll),
      OfCalls("dynamic_shared_too_small", {"outside of dynamic shared memory"}, Fault::kSmallShared,
              0, kAll),
      OfCalls("block_too_large", {"cudaErrorInvalidConfiguration"}, Fault::kLargeBlock),
      // What leaves the arena, too, is refused by the call.
      OfCalls("copy_too_long", {kOutside, "cudaErrorInvalidValue"}, Fault::kLongCopy),
      OfCalls("copy_shifted", {kOutside, "cudaErrorInvalidValue"}, Fault::kShiftedCopy),
      OfCalls("copy_of_wide_rows", {kOutside}, Fault::kWidePitch),
      // A slot's graph in the place of another's: reads too early, or what nobody has written.
      OfCalls("stale_graph", {kNoOrder, kChanged, "reads uninitialized device memory"},
              Fault::kStaleGraph, 0, kAll),
      OfCalls("pinned_memory_reused_early", {kChanged}, Fault::kReusedPinned),
      OfCalls("half_pinned", {"pageable host memory"}, Fault::kHalfPinned),
      OfCalls("arena_too_small", {"writes outside of an allocation"}, Fault::kSmallMemory),
      OfCalls("leading_dimension_too_wide", {kOutside}, Fault::kWideLeading, 0, kAll),
      OfCalls("leading_dimension_too_narrow", {"CUBLAS_STATUS_INVALID_VALUE"},
              Fault::kNarrowLeading),
      OfCalls("product_of_a_shifted_matrix", {kOutside}, Fault::kShiftedOperand),
      OfCalls("product_on_the_default_stream", {"the default stream is used"},
              Fault::kDefaultStream),
  };
}

}  // namespace

std::vector<CudaFault> CudaFaults() {
  std::vector<CudaFault> all;
  for (const auto& some : {PlanFaults(), MessageFaults(), KernelFaults(), CallFaults()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<CudaFault> WorkspaceFaults() {
  using Fault = CudaCallFault;
  return {
      OfCalls("workspace_too_small", {"CUBLAS_STATUS_INVALID_VALUE"}, Fault::kSmallWorkspace),
      OfCalls("workspace_shifted", {"CUBLAS_STATUS_INVALID_VALUE"}, Fault::kShiftedWorkspace),
  };
}

namespace {

// The errors of the session and of the emulation, a line each. An error of the call: the case does
// not compile, or there was nothing to plant the fault in.
absl::StatusOr<std::string> Run(const TrainingSetting& setting, const ParityCase& of,
                                const CudaFault& fault) {
  constexpr int64_t kSteps = 4;  // graphs are captured in two and replayed in two
  ParityCase on_cuda = of;
  on_cuda.mesh += " @cuda";
  on_cuda.fetches_gradients = false;  // copies to the host would cut what is captured
  ASSIGN_OR_RETURN(plan::Plan plan, CompileParityPlan(on_cuda, setting));
  RuntimeOptions options;
  options.cuda = &CudaSupport();
  options.check = CheckKernel;  // as sessions do
  BeginCudaOrder(/*seed=*/1, /*checks=*/true);
  if (fault.plant) RETURN_IF_ERROR(fault.plant(&plan, &options));
  on_cuda.cuda = options.cuda;
  std::vector<std::string> found;
  const auto note = [&](const absl::Status& status) {
    if (!status.ok()) found.push_back(status.ToString());
  };
  {
    const auto run = ParityRun::Start(on_cuda, setting, std::move(plan), options);
    note(run.status());
    for (int64_t step = 0; step < kSteps && found.empty(); ++step) {
      note((*run)->Step(step).status());
    }
    if (found.empty()) note((*run)->ReadVariables().status());
  }
  const int64_t happened = fault.happened ? fault.happened() : 1;
  PlantCallFault(CudaCallFault::kNone, 0, 0);
  for (const std::string& error : TakeCudaErrors()) found.push_back(error);
  if (happened == 0) return Nothing(fault.name);
  return absl::StrJoin(found, "\n");
}

}  // namespace

void ExpectNoCudaFault(const TrainingSetting& setting, const ParityCase& of) {
  const auto found = Run(setting, of, {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "");
}

void ExpectCudaFaultFound(const TrainingSetting& setting, const ParityCase& of,
                          const CudaFault& fault) {
  const auto found = Run(setting, of, fault);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(absl::c_any_of(
      fault.found, [&](const std::string& words) { return absl::StrContains(*found, words); }))
      << "found: " << *found;
}

}  // namespace sluice
