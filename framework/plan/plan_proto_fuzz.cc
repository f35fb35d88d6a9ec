// Bytes of a plan: parsed, validated, and where a program is small, proven live.
#include <cstddef>
#include <cstdint>

#include "framework/base/log.h"
#include "framework/plan/part_proto.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"
#include "framework/plan/validate.h"

namespace {

constexpr int kMostEvents = 4096;

void TryParts(const sluice::plan::Program& program) {
  for (const auto& actor : program.actors()) {
    for (const auto& instruction : actor.script()) {
      for (const auto& operand : instruction.inputs()) {
        sluice::PartFromProto(operand.part()).status().IgnoreError();
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::plan::Plan plan;
  if (!plan.ParseFromArray(data, static_cast<int>(size))) return 0;
  sluice::ValidatePlan(plan).IgnoreError();
  for (const sluice::plan::Program& program : plan.programs()) {
    TryParts(program);
    const auto index = sluice::ProgramIndex::Build(program);
    if (!index.ok() || !sluice::ValidateProgram(*index).ok() || index->num_events() > kMostEvents) {
      continue;
    }
    sluice::Certificate certificate;
    if (sluice::ProveLive(*index, &certificate).ok()) {
      SLUICE_CHECK_OK(sluice::CheckCertificate(*index, certificate));
    }
  }
  return 0;
}
