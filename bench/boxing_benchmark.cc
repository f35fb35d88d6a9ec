// Boxing among devices of one process: the kernels of every pair of layouts of one axis, from the
// plan that the compiler makes of it, run by a thread for each device as far as there are cores.
// `figure`: bytes of the logical tensor a second. `limit`: the same if every byte that the plan's
// instructions load and store went at the bandwidth of the working set that they touch, measured in
// this run. Messages between devices are not in it: runtime_benchmark has them. A pair that is read
// in place moves nothing and is no case.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/limits.h"
#include "bench/quantiles.h"
#include "benchmark/benchmark.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/cores.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/device/memory.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/ops/ops.h"
#include "framework/runtime/loaded_program.h"

namespace sluice {
namespace {

// Threads, and what as many can do at the most.
struct Machinery {
  explicit Machinery(int threads) : thread_pool(threads, InitKernelThread) {}
  CpuThreadPool thread_pool;
  Limits limits = MeasureLimits(&thread_pool);
};

// Measured once, by the first case of so many devices.
Machinery& MachineryFor(int64_t devices) {
  static std::map<int, Machinery> machinery;  // by threads
  const int cores = UsableCores();
  const int threads = WorkersFor(static_cast<int>(devices), cores);
  return machinery.try_emplace(threads, threads).first->second;
}

// The input's layout that a sum over a leading dimension turns into `from`.
Sbp BeforeSum(Sbp from) {
  if (from.is_partial()) return Sbp::S(0);
  if (from.is_split()) from.dim = static_cast<int8_t>(from.dim + 1);
  return from;
}

Choice ChoiceOf(const Sbp& input, const Sbp& output) {
  Choice choice;
  choice.inputs = {GridSbp{Sbp::B(), {input}}};
  choice.outputs = {GridSbp{Sbp::B(), {output}}};
  choice.signatures = {{"", {Sbp::B()}, {Sbp::B()}}, {"", {input}, {output}}};
  return choice;
}

// y = the sum of x over dimension 0 comes as `from` and is read as `to`.
absl::StatusOr<plan::Program> ProgramOf(int64_t devices, const Sbp& from, const Sbp& to,
                                        int64_t rows, int64_t columns) {
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(absl::StrCat("a=", devices)));
  const Grid grid(mesh, 1);
  Graph graph;
  Tensor x = graph.Input("x", DType::kF32, {devices, rows, columns}, "");
  Tensor y = ReduceSum(x, {0});
  Tensor z = Scale(y, 1);
  graph.Output("z", z);
  RETURN_IF_ERROR(graph.Finish());
  SbpAssignment assignment;
  assignment.choices.resize(graph.nodes().size());
  assignment.produced.resize(graph.num_tensors(), grid.Broadcast());
  assignment.choices[graph.tensor(y.id()).producer] = ChoiceOf(BeforeSum(from), from);
  assignment.choices[graph.tensor(z.id()).producer] = ChoiceOf(to, to);
  assignment.produced[y.id()] = {Sbp::B(), {from}};
  assignment.produced[z.id()] = {Sbp::B(), {to}};
  assignment.consumed = assignment.produced;
  const Machine machine = Machine::Cpu();
  BoxingPlanner planner(machine);
  ASSIGN_OR_RETURN(const TaskGraph tasks, Lower(graph, grid, assignment, &planner, machine));
  return BuildSchedule("boxing", tasks, grid, {})->program;
}

using Storage = std::pair<bool, int32_t>;  // a register, or a local, by its index
Storage StorageOf(const plan::Operand& operand) {
  const bool in_register = operand.storage_case() == plan::Operand::kRegister;
  return {in_register, in_register ? operand.register_() : operand.temporary()};
}

// What the op that reads the boxed tensor makes, and what is boxed of that.
std::set<Storage> MadeOfResult(const plan::Program& program) {
  std::set<Storage> made;
  for (size_t before = 1; before != made.size();) {
    before = made.size();
    for (const plan::Actor& actor : program.actors()) {
      for (const plan::Instruction& instruction : actor.script()) {
        bool reads = instruction.op() == "scale";
        for (const plan::Operand& input : instruction.inputs()) {
          reads |= instruction.kind() == plan::INSTRUCTION_FOLD && made.count(StorageOf(input)) > 0;
        }
        if (!reads) continue;
        for (const plan::Operand& output : instruction.outputs()) made.insert(StorageOf(output));
      }
    }
  }
  return made;
}

// The box instructions of a program between its first op and its second, in waves: what one reads
// that another makes comes in an earlier wave.
class Boxes {
 public:
  static absl::StatusOr<std::unique_ptr<Boxes>> Create(const plan::Program& program) {
    auto made = std::make_unique<Boxes>();
    std::map<Storage, int> place;
    int64_t bytes = 0;
    const auto place_of = [&](const plan::Operand& operand) {
      const auto [at, added] =
          place.emplace(StorageOf(operand), static_cast<int>(made->places_.size()));
      if (added) {
        const int64_t held = operand.storage_case() == plan::Operand::kRegister
                                 ? program.registers(operand.register_()).bytes()
                                 : program.temporaries(operand.temporary()).bytes();
        made->places_.push_back({bytes, held});
        bytes += (held + 4095) / 4096 * 4096 + 64;
      }
      return at->second;
    };
    const std::set<Storage> after = MadeOfResult(program);
    for (const plan::Actor& actor : program.actors()) {
      for (const plan::Instruction& instruction : actor.script()) {
        // That of the graph's input, which has a dimension more, and of its output are not meant.
        if (instruction.kind() != plan::INSTRUCTION_FOLD ||
            instruction.outputs(0).shard().logical_size() != 2 ||
            after.count(StorageOf(instruction.outputs(0))) > 0) {
          continue;
        }
        RETURN_IF_ERROR(made->Add(instruction, place_of));
      }
    }
    ASSIGN_OR_RETURN(made->memory_, Memory::Allocate(bytes));
    float* values = reinterpret_cast<float*>(made->memory_.data());
    for (int64_t i = 0; i < bytes / 4; ++i) values[i] = 1;  // as in MeasureLimits: no zeros
    made->PutInWaves();
    return made;
  }

  bool empty() const { return boxes_.empty(); }
  int64_t loaded() const { return loaded_; }
  int64_t stored() const { return stored_; }
  // Bytes that are touched at all; what several devices read counts once.
  int64_t WorkingSet() const {
    int64_t bytes = 0;
    for (const Place& place : places_) bytes += std::min(place.held, place.moved);
    return bytes;
  }

  void Run(ThreadPool* thread_pool) {
    for (const std::vector<int>& wave : waves_) {
      thread_pool->ForEach(static_cast<int64_t>(wave.size()), [&](int64_t i) {
        const absl::Status status = boxes_[wave[i]].Run(memory_.data());
        SLUICE_CHECK(status.ok()) << status.ToString();
      });
    }
  }

 private:
  struct Box {
    std::unique_ptr<Kernel> kernel;
    std::vector<int64_t> operands;  // offsets in memory
    std::vector<int> reads;         // places
    int writes = 0;
    int wave = 0;

    absl::Status Run(std::byte* memory) const {
      std::byte* pointers[256];
      SLUICE_CHECK_LE(operands.size(), 256u);
      for (size_t i = 0; i < operands.size(); ++i) pointers[i] = memory + operands[i];
      std::byte scratch[64];
      return kernel->Launch({}, pointers, scratch);
    }
  };

  struct Place {
    int64_t offset, held;  // bytes
    int64_t moved = 0;     // loaded from it and stored to it
  };

  template <typename PlaceOf>
  absl::Status Add(const plan::Instruction& instruction, PlaceOf&& place_of) {
    ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(instruction, 1));
    Box box;
    ASSIGN_OR_RETURN(box.kernel, PrepareCpuKernel(spec));
    SLUICE_CHECK_LE(box.kernel->scratch(), 0);
    for (const plan::Operand& operand : instruction.inputs()) {
      box.reads.push_back(place_of(operand));
      box.operands.push_back(places_[box.reads.back()].offset + operand.offset());
    }
    box.writes = place_of(instruction.outputs(0));
    box.operands.push_back(places_[box.writes].offset + instruction.outputs(0).offset());
    for (const FoldRegion& region : spec.regions) {
      const int64_t bytes = region.extent.NumElements() * SizeOf(spec.outputs[0].dtype);
      for (const int source : region.sources) places_[box.reads[source]].moved += bytes;
      places_[box.writes].moved += bytes;
      loaded_ += bytes * static_cast<int64_t>(region.sources.size());
      stored_ += bytes;
    }
    boxes_.push_back(std::move(box));
    return absl::OkStatus();
  }

  void PutInWaves() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Box& later : boxes_) {
        for (const Box& earlier : boxes_) {
          if (&earlier == &later || later.wave > earlier.wave ||
              std::find(later.reads.begin(), later.reads.end(), earlier.writes) ==
                  later.reads.end()) {
            continue;
          }
          later.wave = earlier.wave + 1;
          changed = true;
        }
      }
    }
    for (size_t i = 0; i < boxes_.size(); ++i) {
      waves_.resize(std::max<size_t>(waves_.size(), boxes_[i].wave + 1));
      waves_[boxes_[i].wave].push_back(static_cast<int>(i));
    }
  }

  Memory memory_;
  std::vector<Place> places_;
  std::vector<Box> boxes_;
  std::vector<std::vector<int>> waves_;
  int64_t loaded_ = 0, stored_ = 0;
};

absl::StatusOr<std::unique_ptr<Boxes>> BoxesOf(int64_t devices, const Sbp& from, const Sbp& to,
                                               int64_t bytes) {
  constexpr int64_t kColumns = 1024;
  ASSIGN_OR_RETURN(const plan::Program program,
                   ProgramOf(devices, from, to, bytes / 4 / kColumns, kColumns));
  return Boxes::Create(program);
}

void RunCase(benchmark::State& state, int64_t devices, Sbp from, Sbp to, int64_t bytes) {
  const auto boxes = BoxesOf(devices, from, to, bytes);
  if (!boxes.ok()) {
    state.SkipWithError(std::string(boxes.status().message()).c_str());
    return;
  }
  Machinery& machinery = MachineryFor(devices);
  (*boxes)->Run(&machinery.thread_pool);
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    (*boxes)->Run(&machinery.thread_pool);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count());
    state.SetIterationTime(took.count());
  }
  const double moved = static_cast<double>((*boxes)->loaded() + (*boxes)->stored());
  const double bandwidth = machinery.limits.BytesPerSecond(
      (*boxes)->WorkingSet(), (*boxes)->loaded(), (*boxes)->stored(), 0);
  const double figure = static_cast<double>(bytes) / LowerQuartile(std::move(seconds));
  const double limit = static_cast<double>(bytes) / moved * bandwidth;
  state.counters["figure"] = figure;
  state.counters["limit"] = limit;
  state.counters["share"] = figure / limit;
  state.counters["goal"] = 0.7;
  state.SetLabel("memory");
}

void RegisterCases() {
  const std::vector<std::pair<std::string, Sbp>> layouts = {
      {"p", Sbp::P(Reduction::kSum)}, {"b", Sbp::B()}, {"s0", Sbp::S(0)}, {"s1", Sbp::S(1)}};
  for (int64_t devices : {2, 4}) {
    for (const auto& [from_name, from] : layouts) {
      for (const auto& [to_name, to] : layouts) {
        if (to.is_partial() || from == to) continue;  // selection never boxes into P
        const auto small = BoxesOf(devices, from, to, int64_t{1} << 20);
        if (small.ok() && (*small)->empty()) continue;
        for (int64_t mib : {1, 16, 64}) {
          const std::string name = absl::StrCat("boxing/", from_name, "_to_", to_name,
                                                "/devices:", devices, "/mib:", mib);
          const Sbp source = from, target = to;
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
            RunCase(state, devices, source, target, mib << 20);
          })->UseManualTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  sluice::InitKernelThread();
  sluice::RegisterCases();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
