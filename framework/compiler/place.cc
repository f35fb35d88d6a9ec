#include "framework/compiler/place.h"

#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/device_classes.h"
#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"
#include "framework/plan/validate.h"

namespace sluice {

absl::StatusOr<Placed> PlaceProgram(plan::Program* program, absl::Span<const int64_t> base,
                                    const PhaseEnd& phase_end) {
  const auto ends = [&](absl::string_view phase) {
    if (phase_end) phase_end(phase);
  };
  const DeviceClasses classes(*program, base);
  plan::Program quotient = classes.Quotient();
  ends("classes");
  RETURN_IF_ERROR(RecordOrder(&quotient).status());
  ends("order");
  PackingOptions packing;
  packing.base.assign(base.begin(), base.end());
  ASSIGN_OR_RETURN(const Packing packed, PackMemory(&quotient, packing));
  ends("pack");
  ASSIGN_OR_RETURN(const ProgramIndex quotient_index, ProgramIndex::Build(quotient));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(quotient_index, &certificate));
  ends("prove");
  ClockOptions clock;
  clock.steps = 3;
  ASSIGN_OR_RETURN(const ClockResult run, RunClock(quotient_index, clock));
  program->set_predicted_nanoseconds(run.step_nanoseconds);
  ends("predict");

  classes.Expand(quotient, program);
  ends("expand");
  certificate.position = classes.LiftEvents(quotient, run.begin_rank);
  RETURN_IF_ERROR(
      AddPasses(program, certificate.position, classes.LiftEvents(quotient, run.end_rank)));
  ends("passes");
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  RETURN_IF_ERROR(ValidateProgram(index));
  RETURN_IF_ERROR(CheckCertificate(index, certificate));
  ends("check");
  Placed placed;
  placed.device_classes = classes.num_classes();
  for (size_t d = 0; d < base.size(); ++d) {
    placed.representative.push_back(classes.representative(static_cast<int32_t>(d)));
    placed.devices.push_back(packed.devices[placed.representative.back()]);
  }
  return placed;
}

}  // namespace sluice
