// The first line as a mesh, the rest as SBP annotations and as the equation of an index rule.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/sbp/index_rule.h"
#include "framework/sbp/mesh.h"
#include "framework/sbp/nd_sbp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT: a fuzz target is nothing but its one function
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), size);
  const absl::string_view first = text.substr(0, line);
  const absl::string_view rest = text.substr(std::min(line + 1, size));

  if (const auto annotation = SbpAnnotation::Parse(rest); annotation.ok()) {
    const auto again = SbpAnnotation::Parse(annotation->ToString());
    SLUICE_CHECK(again.ok() && again->entries == annotation->entries) << annotation->ToString();
  }
  if (const auto rule = IndexRule::Parse(rest); rule.ok()) {
    const Shape shape = {2, 3};
    const std::vector<Shape> inputs(rule->input_factors.size(), shape);
    const std::vector<Shape> outputs(rule->output_factors.size(), shape);
    rule->Signatures(inputs, outputs, 2).status().IgnoreError();
  }
  auto mesh = Mesh::Parse(first);
  if (!mesh.ok()) return 0;
  const auto mesh_again = Mesh::Parse(mesh->ToString());
  SLUICE_CHECK(mesh_again.ok() && *mesh_again == *mesh) << mesh->ToString();
  const Mesh stage = mesh->Stage(0);
  if (const auto sbp = ParseNdSbp(rest, stage); sbp.ok()) {
    const auto again = ParseNdSbp(ToString(*sbp, stage), stage);
    SLUICE_CHECK(again.ok() && *again == *sbp) << ToString(*sbp, stage);
  }
  return 0;
}
