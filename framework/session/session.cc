#include "framework/session/session.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/sbp/mesh.h"
#include "framework/session/plan_session.h"

namespace sluice {

namespace {

absl::StatusOr<plan::Plan> CompilePlan(absl::Span<const ProgramGraph> programs,
                                       const SessionOptions& options, std::string* explanation) {
  CompileOptions compile;
  ASSIGN_OR_RETURN(compile.mesh, Mesh::Parse(options.mesh));
  compile.micro_batches = options.micro_batches;
  compile.script_length = options.script_length;
  compile.machine = options.machine;
  return Compile(programs, compile, explanation);
}

// The devices share one memory, and the system would end the process in which it runs out.
absl::Status CheckMemory(const plan::Plan& plan, int64_t limit) {
  if (limit == 0) limit = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  int64_t bytes = 0, variables = 0;
  for (const plan::Device& device : plan.devices()) {
    bytes += device.memory_bytes();
    variables += device.variable_bytes();
  }
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the plan does not fit: expected at most ", limit, " bytes of memory for ",
      plan.devices_size(), " devices, got ", bytes, ", of them ", variables, " for variables"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Start(absl::Span<const ProgramGraph> programs,
                                                        const SessionOptions& options) {
  std::string explanation;
  ASSIGN_OR_RETURN(plan::Plan plan, CompilePlan(programs, options, &explanation));
  RETURN_IF_ERROR(CheckMemory(plan, options.memory_limit));
  RuntimeOptions runtime;
  runtime.workers = options.workers;
  runtime.threads_per_device = options.threads_per_device;
  runtime.seed = options.seed;
  runtime.check_nan = options.check_nan;
  runtime.trace = options.trace;
  runtime.prepare = PrepareCpuKernel;
  runtime.init_thread = InitKernelThread;
  return StartPlan(std::move(plan), std::move(explanation), runtime);
}

absl::StatusOr<std::string> Session::ExplainPlan(absl::Span<const ProgramGraph> programs,
                                                 const SessionOptions& options) {
  std::string explanation;
  RETURN_IF_ERROR(CompilePlan(programs, options, &explanation).status());
  return explanation;
}

}  // namespace sluice
