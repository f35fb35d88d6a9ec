#include "framework/session/session.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/comm/comm_net.h"
#include "framework/compiler/compile.h"
#include "framework/explain/explain.h"
#include "framework/explain/page.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/machine/gpu_peaks.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/cards.h"
#include "framework/sbp/mesh.h"
#include "framework/session/check_kernel.h"
#include "framework/session/cuda_of_build.h"
#include "framework/session/explain_measured.h"
#include "framework/session/plan_session.h"

namespace sluice {

namespace {

const DeviceSupport* CudaOf(const SessionOptions& options) {
  return options.cuda != nullptr ? options.cuda : CudaOfThisBuild();
}

const CollectiveSupport* CollectivesOf(const SessionOptions& options) {
  return options.collectives != nullptr ? options.collectives : CollectivesOfThisBuild();
}

// Why CUDA devices have no collectives though nobody asked for that; "": they have some. NCCL takes
// a card once: devices of a process that share one move by copies. Where there is no card the plan
// is explained as for those that have one each. Ranks have to decide alike and see their own cards
// alone; whether two of them have one card is found when they meet.
std::string WhyNoCollectives(int64_t devices, const SessionOptions& options) {
  if (options.net != nullptr) {
    return options.net->seals() ? "what it sends to other ranks would not be sealed" : "";
  }
  const auto cards = CudaOf(options)->free_bytes();
  if (cards.ok() && static_cast<int64_t>(cards->size()) < devices) {
    return absl::StrCat(devices, " devices share ", cards->size(), " cards");
  }
  return CollectivesOf(options) == nullptr ? "nothing here does them" : "";
}

CollectiveOptions CollectiveOptionsOf(const Mesh& mesh, const SessionOptions& options) {
  CollectiveOptions collectives;
  collectives.nccl = !options.reproducible;
  collectives.bf16_sums = options.bf16_sums;
  const int64_t devices = std::count_if(mesh.devices().begin(), mesh.devices().end(),
                                        [](DeviceId id) { return id.kind == DeviceKind::kCuda; });
  if (!collectives.nccl || devices < 2 || CudaOf(options) == nullptr) return collectives;
  const std::string why = WhyNoCollectives(devices, options);
  if (why.empty()) return collectives;
  SLUICE_LOG(INFO) << "no collectives of NCCL, as with --reproducible: " << why;
  collectives.nccl = false;
  return collectives;
}

// With a CPU's figures each op of a card would take as long as on a core, so that nothing but
// arithmetic counted: neither memory nor what is moved would be hidden behind anything.
Machine MachineFor(const Mesh& mesh, const SessionOptions& options) {
  Machine machine = options.machine;
  const bool cards = std::any_of(mesh.devices().begin(), mesh.devices().end(),
                                 [](DeviceId id) { return id.kind == DeviceKind::kCuda; });
  const DeviceSupport* const cuda = CudaOf(options);
  if (!cards || cuda == nullptr || cuda->names == nullptr || !HasDefaultFigures(machine)) {
    return machine;
  }
  const auto names = cuda->names();
  if (!names.ok() || names->empty()) return machine;
  std::optional<GpuPeaks> peaks = GpuPeaksOfCard(names->front());
  if (IsUnknownCard(names->front())) {
    SLUICE_LOG(INFO) << names->front() << ": its peaks are not known here, so plans are made with "
                     << "those of an A100; --machine gives its own";
    peaks = GpuPeaksOf("a100");
  }
  if (peaks) SetFigures(*peaks, &machine);
  return machine;
}

// What a compilation is for: to run, to be explained as it runs, device by device, or to be
// explained and no more. The last is made of one device of each class on any mesh: what the others
// are told follows from it, and all of a thousand devices take minutes and gibibytes to say so.
enum class Purpose { kRun, kExplainRun, kExplain };

absl::StatusOr<CompileOptions> CompileOptionsOf(const SessionOptions& options, Purpose purpose) {
  CompileOptions compile;
  compile.reasons = purpose != Purpose::kRun;
  ASSIGN_OR_RETURN(compile.mesh, Mesh::Parse(options.mesh));
  compile.representatives_only =
      purpose == Purpose::kExplain || (purpose == Purpose::kExplainRun && options.net != nullptr);
  if (options.net != nullptr) {
    compile.rank = options.net->rank();
    compile.ranks = options.net->ranks();
    compile.mesh = compile.mesh.OverRanks(compile.ranks);
  }
  compile.micro_batches = options.micro_batches;
  compile.script_length = options.script_length;
  compile.fuse = options.fuse;
  compile.collectives = CollectiveOptionsOf(compile.mesh, options);
  compile.machine = MachineFor(compile.mesh, options);
  compile.stop = options.stop;
  return compile;
}

// A plan of all devices is in proportion to them and to what each reads of the others, some GiB at
// a few thousand; it would be made before anything says that it is too large.
absl::Status CheckDevices(const SessionOptions& options) {
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(options.mesh));
  const int64_t ranks = options.net == nullptr ? 1 : std::max(1, options.net->ranks());
  const int64_t devices = (mesh.num_devices() + ranks - 1) / ranks;
  if (devices <= Session::kMostDevices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "mesh: expected at most ", Session::kMostDevices, " devices of one process, got ", devices,
      " of ", mesh.ToString(), "; explained (--explain) may be more"));
}

// Devices that share a card share its memory.
absl::Status CheckCards(const plan::Plan& plan, const SessionOptions& options) {
  std::vector<int64_t> needed;
  for (const plan::Device& device : plan.devices()) {
    if (device.rank() != plan.rank() || KindOf(device) != DeviceKind::kCuda) continue;
    needed.push_back(device.memory_bytes());
  }
  if (needed.empty() || CudaOf(options) == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> free, CudaOf(options)->free_bytes());
  const std::vector<int32_t> cards = CardsOf(plan, options.net);
  std::vector<int64_t> taken(free.size(), 0);
  for (size_t n = 0; n < needed.size(); ++n) taken[cards[n] % free.size()] += needed[n];
  for (size_t card = 0; card < free.size(); ++card) {
    const int64_t bytes = taken[card];
    if (bytes <= free[card]) continue;
    return absl::ResourceExhaustedError(absl::StrCat("the plan does not fit: expected at most ",
                                                     free[card], " bytes of memory on card ", card,
                                                     ", which it has free; got ", bytes));
  }
  return absl::OkStatus();
}

// The devices of a rank that are no cards share one memory, and the system would end the process in
// which it runs out.
absl::Status CheckMemory(const plan::Plan& plan, const SessionOptions& options) {
  for (int d = 0; d < plan.devices_size(); ++d) {
    const plan::Device& device = plan.devices(d);
    if (options.device_memory_limit == 0 || device.rank() != plan.rank()) continue;
    if (device.memory_bytes() <= options.device_memory_limit) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("the plan does not fit: expected at most ", options.device_memory_limit,
                     " bytes of memory for a device; device ", d, " got ", device.memory_bytes(),
                     ", of them ", device.variable_bytes(), " for variables"));
  }
  RETURN_IF_ERROR(CheckCards(plan, options));
  int64_t limit = options.memory_limit;
  std::string source;
  if (limit == 0) {
    const MemoryLimits limits = ReadMemoryLimits();
    if (limits.most == 0) return absl::OkStatus();
    limit = limits.most;
    source = absl::StrCat(", which is what ", limits.source, " has");
  }
  int64_t bytes = 0, variables = 0;
  int devices = 0;
  for (const plan::Device& device : plan.devices()) {
    if (device.rank() != plan.rank() || KindOf(device) == DeviceKind::kCuda) continue;
    ++devices;
    bytes += device.memory_bytes();
    variables += device.variable_bytes();
  }
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the plan does not fit: expected at most ", limit, " bytes of memory for ", devices,
      " devices", source, "; got ", bytes, ", of them ", variables, " for variables"));
}

// The same, with the ten tensors that take most where it does not fit; a card that is not there is
// another error.
absl::Status ExplainMemory(const absl::Status& fits, const Explanation& explanation) {
  if (!absl::IsResourceExhausted(fits)) return fits;
  return absl::Status(fits.code(), absl::StrCat(fits.message(), "\n", LargestAtPeak(explanation)));
}

absl::Status WritePage(const std::string& path, const Explanation& explanation) {
  const auto error = [&path](const char* what) {
    return absl::UnavailableError(
        absl::StrCat("explain_html: cannot ", what, " ", path, ": ", std::strerror(errno)));
  };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return error("open");
  const std::string page = ExplanationPage(explanation);
  const bool written = std::fwrite(page.data(), 1, page.size(), file) == page.size();
  if (std::fclose(file) != 0 || !written) return error("write");
  return absl::OkStatus();
}

// What the compiler leaves besides the plan is gone before memory is mapped; what explain_html
// shows of it stays.
absl::StatusOr<plan::Plan> PlanFor(absl::Span<const ProgramGraph> programs,
                                   const SessionOptions& options,
                                   std::shared_ptr<Explanation>* explanation) {
  RETURN_IF_ERROR(CheckDevices(options));
  ASSIGN_OR_RETURN(CompileOptions compile, CompileOptionsOf(options, Purpose::kRun));
  absl::Status fits;
  compile.fits = [&](const plan::Plan& plan) {
    fits = CheckMemory(plan, options);
    return fits.ok();
  };
  ASSIGN_OR_RETURN(Compilation compilation, Compile(programs, compile));
  *explanation = std::make_shared<Explanation>();
  if (!fits.ok()) {
    ASSIGN_OR_RETURN(**explanation, Explain(compilation, compile.machine));
    return ExplainMemory(fits, **explanation);
  }
  fits = CheckMemory(compilation.plan, options);  // now with what is pulled
  if (fits.ok() && options.explain_html.empty()) {
    explanation->reset();
    return std::move(compilation.plan);
  }
  ASSIGN_OR_RETURN(compile, CompileOptionsOf(options, Purpose::kExplainRun));
  ASSIGN_OR_RETURN(const Compilation explained, Compile(programs, compile));
  ASSIGN_OR_RETURN(**explanation, Explain(explained, compile.machine));
  RETURN_IF_ERROR(ExplainMemory(fits, **explanation));
  RETURN_IF_ERROR(WritePage(options.explain_html, **explanation));
  return std::move(compilation.plan);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Start(absl::Span<const ProgramGraph> programs,
                                                        const SessionOptions& options) {
  // Others are not told: they may be at work with the session that has it.
  if (options.net != nullptr) RETURN_IF_ERROR(options.net->CheckFree());
  std::shared_ptr<Explanation> explanation;
  absl::StatusOr<plan::Plan> plan = PlanFor(programs, options, &explanation);
  if (!plan.ok()) {
    if (options.net != nullptr) RefuseToJoin(options.net, plan.status());
    return plan.status();
  }
  RuntimeOptions runtime;
  runtime.workers = options.workers;
  runtime.threads_per_device = options.threads_per_device;
  runtime.seed = options.seed;
  runtime.check_nan = options.check_nan;
  runtime.cuda_graphs = options.cuda_graphs;
  runtime.trace = options.trace;
  runtime.net = options.net;
  runtime.wait_limit = options.wait_limit;
  runtime.stop = options.stop;
  runtime.check = CheckKernel;
  runtime.prepare = PrepareCpuKernel;
  runtime.cuda = CudaOf(options);
  runtime.collectives = CollectivesOf(options);
  runtime.init_thread = InitKernelThread;
  if (explanation != nullptr && options.net == nullptr) {
    runtime.traced = [explanation, path = options.explain_html](
                         const plan::Plan& ran, absl::Span<const WorkerTrace* const> workers) {
      AddMeasured(ran, workers, explanation.get());
      return WritePage(path, *explanation);
    };
  }
  return StartPlan(*std::move(plan), runtime);
}

absl::StatusOr<std::string> Session::ExplainPlan(absl::Span<const ProgramGraph> programs,
                                                 const SessionOptions& options) {
  ASSIGN_OR_RETURN(const CompileOptions compile, CompileOptionsOf(options, Purpose::kExplain));
  ASSIGN_OR_RETURN(const Compilation compilation, Compile(programs, compile));
  ASSIGN_OR_RETURN(const Explanation explanation, Explain(compilation, compile.machine));
  if (!options.explain_html.empty()) {
    RETURN_IF_ERROR(WritePage(options.explain_html, explanation));
  }
  const absl::Status fits = ExplainMemory(CheckMemory(compilation.plan, options), explanation);
  return absl::StrCat(ExplanationText(explanation), fits.message(), fits.ok() ? "" : "\n");
}

}  // namespace sluice
