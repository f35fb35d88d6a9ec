#include "framework/testing/expect_parity.h"

#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {

const Reference& SharedReference(const TrainingSetting& setting, const ParityCase& one) {
  static auto* references = new std::map<std::string, Reference>();
  const std::string name = absl::StrCat(setting.name, " ", one.name, ", batch ", one.batch);
  const auto found = references->find(name);
  if (found != references->end()) return found->second;
  absl::StatusOr<Reference> made = RunReference(one, setting);
  EXPECT_TRUE(made.ok()) << made.status();
  Reference& reference = (*references)[name];
  if (!made.ok()) return reference;
  reference = *std::move(made);
  const StepRecord &first = reference.records.front(), &last = reference.records.back();
  std::printf("%s: loss %.4f -> %.4f, gradient norm %.3f -> %.3f\n", name.c_str(), first.loss,
              last.loss, first.grad_norm, last.grad_norm);
  return reference;
}

void ExpectParity(const TrainingSetting& setting, const ParityCase& of, const ParityCase& one) {
  const Reference& reference = SharedReference(setting, one);
  ASSERT_FALSE(reference.records.empty());
  ParityFigures figures;
  const absl::Status status = CheckCase(reference, of, &figures);
  EXPECT_TRUE(status.ok()) << status;
  std::printf("%s: %s\n", of.name.c_str(), figures.ToString().c_str());
}

absl::Status LockstepOf(const Reference& reference, const ParityCase& of,
                        const PlanMutation& mutate) {
  const auto run = ParityRun::Start(of, reference.setting, mutate);
  if (!run.ok()) return run.status();
  ParityFigures figures;
  const absl::Status found = CheckLockstep(reference, run->get(), &figures);
  std::printf("  %s\n", found.ToString().c_str());
  return found;
}

}  // namespace sluice
