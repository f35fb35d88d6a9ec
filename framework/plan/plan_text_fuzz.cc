// Text of a plan. What reads must print as what reads back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = sluice::ParsePlan(text);
  if (!plan.ok()) return 0;
  const std::string printed = sluice::PrintPlan(*plan);
  const auto again = sluice::ParsePlan(printed);
  SLUICE_CHECK_OK(again.status()) << printed;
  SLUICE_CHECK(sluice::PrintPlan(*again) == printed) << printed;
  sluice::ValidatePlan(*plan).IgnoreError();
  return 0;
}
