#include "framework/session/session.h"

#include <utility>

#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/sbp/mesh.h"
#include "framework/session/plan_session.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Session>> Session::Start(absl::Span<const ProgramGraph> programs,
                                                        const SessionOptions& options) {
  CompileOptions compile;
  ASSIGN_OR_RETURN(compile.mesh, Mesh::Parse(options.mesh));
  compile.micro_batches = options.micro_batches;
  compile.script_length = options.script_length;
  compile.machine = options.machine;
  std::string explanation;
  ASSIGN_OR_RETURN(plan::Plan plan, Compile(programs, compile, &explanation));
  RuntimeOptions runtime;
  runtime.workers = options.workers;
  runtime.seed = options.seed;
  runtime.check_nan = options.check_nan;
  runtime.trace = options.trace;
  runtime.prepare = PrepareCpuKernel;
  runtime.init_thread = InitKernelThread;
  return StartPlan(std::move(plan), std::move(explanation), runtime);
}

}  // namespace sluice
