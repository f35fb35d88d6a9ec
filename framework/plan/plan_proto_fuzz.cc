// Bytes of a plan: parsed, validated, and where a program is small, proven live.
#include <cstddef>
#include <cstdint>

#include "framework/base/log.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"
#include "framework/plan/shard_proto.h"
#include "framework/plan/validate.h"

namespace {

constexpr int kMostInstances = 4096;

void TryShards(const sluice::plan::Program& program) {
  for (const auto& actor : program.actors()) {
    for (const auto& instruction : actor.script()) {
      for (const auto& operand : instruction.inputs()) {
        sluice::ShardFromProto(operand.shard()).status().IgnoreError();
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
    TryShards(program);
    const auto index = sluice::ProgramIndex::Build(program);
    if (!index.ok() || !sluice::ValidateProgram(*index).ok() ||
        index->num_instances() > kMostInstances) {
      continue;
    }
    sluice::Certificate certificate;
    if (sluice::ProveLive(*index, &certificate).ok()) {
      SLUICE_CHECK_OK(sluice::CheckCertificate(*index, certificate));
    }
  }
  return 0;
}
