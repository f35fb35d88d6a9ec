// A program made ready to run in this process: kernels prepared, addresses of all operands known.
// It counts no tokens: an address follows from the firing that the actor's state machine names.
// Load on the caller's thread, Prepare and Run of an actor on its worker's thread only.
#ifndef SLUICE_FRAMEWORK_RUNTIME_LOADED_PROGRAM_H_
#define SLUICE_FRAMEWORK_RUNTIME_LOADED_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/actor/actor.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/stop.h"
#include "framework/data/feed.h"
#include "framework/kernels/collective_support.h"
#include "framework/kernels/device_support.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"
#include "framework/runtime/port_copy.h"
#include "framework/runtime/variable_snapshot.h"
#include "framework/tensor/array.h"

namespace sluice {

using PrepareKernel = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const KernelSpec& spec);

// `threads` is how many the thread pool that runs it has.
absl::StatusOr<KernelSpec> SpecOf(const plan::Instruction& instruction, int threads);

// How the kernels of a program are made.
struct KernelOptions {
  absl::Status (*check)(const KernelSpec& spec) = nullptr;  // before each is made; may be null
  PrepareKernel prepare = nullptr;                          // those of a CPU
  int threads = 1;                                          // of the pool that runs them
  bool check_nan = false;                          // NaN or infinity in an output is an error
  const DeviceSupport* cuda = nullptr;             // null: there are no CUDA devices
  Stop stop;                                       // asked before each is made; may be empty
  const CollectiveSupport* collectives = nullptr;  // null: there are none
  Communicators* communicators = nullptr;          // of all groups of the plan
};

// What the session hands to one step and takes from it, in the order of the program's ports.
struct StepPorts {
  struct FedPort {
    HostTensor tensor;  // without bytes until a tensor is fed
    SampleRows rows;    // no data set: the tensor holds what is fed
  };
  int64_t number = 0;  // what random ops see
  std::vector<FedPort> feeds;
  std::vector<HostTensor> fetches;

  // Keeps what a step is fed with; of the port's type.
  void SetFeed(size_t port, const Feed& feed);
};

class LoadedProgram {
 public:
  // `index` is that program's. `memories`: where each device's memory begins, null if it has none.
  // The plan must outlive this.
  static absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const plan::Plan& plan, int program,
                                                             ProgramIndex index,
                                                             absl::Span<std::byte* const> memories);

  const plan::Program& program() const { return program_; }
  const ProgramIndex& index() const { return index_; }
  // Of a step in flight, of which there are kStepsAhead at most.
  StepPorts& ports(int64_t step) { return ports_[step % kStepsAhead]; }

  // Creates an actor's kernels, of its device's kind, to be launched on its stream. Errors name the
  // instruction: no such kernel, or one that refuses it.
  absl::Status Prepare(int actor, const KernelOptions& options, Stream* stream);
  // Bytes of the worker's scratch that the prepared kernels of an actor need at most.
  int64_t scratch(int actor) const { return scratch_[actor]; }

  // The slot that a remote actor's reader finds in its firing's token, for those who fetch it.
  absl::Span<const std::byte> BytesOfRead(int actor, int64_t firing) const;
  // Asked before each instruction that writes to shards of variables, which are numbered in the
  // plan's order. Must outlive this.
  void set_snapshot(VariableSnapshot* snapshot) { snapshot_ = snapshot; }
  // Which pull of its stream's each pull is.
  void SetPull(int actor, int32_t pull) { Of(actor, 0).pull = pull; }
  // Where one brings its bytes, if its register has one slot; null: nowhere.
  std::byte* PulledTo(int actor) { return operands_[Of(actor, 0).operands_begin + 1]; }

  // Launches an instruction of an actor's firing. `context` has seed and stream set. The error is
  // the kernel's.
  absl::Status Run(const Actor& actor, int32_t number, KernelContext* context, std::byte* scratch);

 private:
  // An operand whose address changes from firing to firing.
  struct MovingOperand {
    std::byte* const* slots;  // address of each slot
    int64_t offset;
    int32_t operand, reg, add;
    Divisor divisor;  // token = firing / divisor + add
  };
  struct Instruction {
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<PortCopy> copy;  // of feeds and fetches
    std::unique_ptr<Shard> shard;    // that a feed fills; apart, as instructions lie side by side
    bool feeds = false;
    bool counts = false;  // on a null device, whose stream counts and does nothing else
    int32_t pull = -1;    // of the stream's
    int32_t pulled = -1;  // of a pull: which of addresses_ it says
    int32_t port = 0, port_operand = 0;
    int32_t operands_begin = 0;
    std::byte* scratch = nullptr;  // where the plan has a place for it; else the worker's
    int32_t moving_begin = 0, moving_end = 0;
    int32_t written_begin = 0, written_end = 0;
  };

  LoadedProgram(const plan::Plan& plan, int program, ProgramIndex index)
      : plan_(plan), program_(plan.programs(program)), index_(std::move(index)) {}
  Instruction& Of(int actor, int instruction) {
    return instructions_[index_.actor(actor).first_instruction + instruction];
  }
  absl::Status LocateRegisters(absl::Span<std::byte* const> memories);
  bool IsPulled(int32_t reg) const;
  void LocateOperands();
  void LocateScratch(absl::Span<std::byte* const> memories);
  void FindWrittenShards();
  int64_t AlignmentOf(const Instruction& instruction, int operands) const;
  absl::Status CheckPort(int actor, const plan::Instruction& instruction) const;
  absl::Status PreparePort(int actor, const plan::Instruction& planned, Instruction* out) const;
  absl::StatusOr<std::unique_ptr<Kernel>> MakePlain(int actor, const plan::Instruction& planned,
                                                    const KernelSpec& spec,
                                                    const KernelOptions& options,
                                                    Stream* stream) const;
  absl::Status PrepareOne(int actor, const plan::Instruction& planned, const KernelOptions& options,
                          Stream* stream, Instruction* out) const;
  void MakePorts();
  absl::Status CopyPort(const Instruction& instruction, const KernelContext& context,
                        StepPorts* ports) const;

  const plan::Plan& plan_;
  const plan::Program& program_;
  std::string rank_;  // "rank 1, " for what errors name; empty: there is one
  ProgramIndex index_;
  StepPorts ports_[kStepsAhead];
  // Of all slots of all registers, then of all temporaries. What was pulled may lie elsewhere at
  // each firing: its pull says where, and only its readers look here.
  std::vector<std::byte*> addresses_;
  std::vector<int32_t> first_address_;     // of a register
  std::vector<int32_t> variable_shard_;    // of a register; -1: it is no variable's
  std::vector<Instruction> instructions_;  // of all actors
  // Addresses of the operands of all instructions; an actor's worker keeps those that move.
  std::vector<std::byte*> operands_;
  std::vector<MovingOperand> moving_;
  std::vector<int32_t> written_;  // shards of variables, by instruction
  VariableSnapshot* snapshot_ = nullptr;
  std::vector<int64_t> scratch_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_LOADED_PROGRAM_H_
