// Text of a graph over the whole catalogue. What reads must print as what reads back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/graph/text.h"
#include "framework/ops/all_ops.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = sluice::ParseGraph(text, sluice::AllOps());
  if (!graph.ok()) return 0;
  const std::string printed = sluice::PrintGraph(**graph);
  const auto again = sluice::ParseGraph(printed, sluice::AllOps());
  SLUICE_CHECK_OK(again.status()) << printed;
  SLUICE_CHECK(sluice::PrintGraph(**again) == printed) << printed;
  return 0;
}
