// Prints the test cases of all ops with the signatures that we give them on two devices, as JSON
// that bench/peers/sbp_oneflow.py puts before the original framework:
//   {"op", "case", "attributes", "inputs": [{"dtype", "shape"}], "outputs": [same],
//    "signatures": [{"inputs": ["S0", "B"], "outputs": ["S0"]}]}, a line each.

#include "absl/strings/str_format.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/ops/all_ops.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr int64_t kShards = 2;

Json TypesJson(absl::Span<const TensorType> types) {
  Json json = Json::array();
  for (const TensorType& type : types) {
    Json shape = Json::array();
    for (int64_t extent : type.shape) shape.push_back(extent);
    json.push_back({{"dtype", std::string(DTypeName(type.dtype))}, {"shape", shape}});
  }
  return json;
}

Json SbpsJson(absl::Span<const Sbp> sbps) {
  Json json = Json::array();
  for (Sbp sbp : sbps) json.push_back(ToString(sbp));
  return json;
}

absl::StatusOr<Json> CaseJson(const OpDef& op, const OpCase& op_case) {
  ASSIGN_OR_RETURN(const auto outputs, op.infer({op_case.attributes, op_case.inputs, {}}));
  ASSIGN_OR_RETURN(const auto signatures,
                   SignaturesOf(op, {op_case.attributes, op_case.inputs, outputs}, kShards));
  Json listed = Json::array();
  for (const Signature& signature : signatures) {
    listed.push_back(
        {{"inputs", SbpsJson(signature.inputs)}, {"outputs", SbpsJson(signature.outputs)}});
  }
  return absl::StatusOr<Json>(Json{{"op", op.name},
                                   {"case", op_case.name},
                                   {"attributes", PrintAttributes(op_case.attributes)},
                                   {"inputs", TypesJson(op_case.inputs)},
                                   {"outputs", TypesJson(outputs)},
                                   {"signatures", listed}});
}

absl::Status PrintCases() {
  for (const OpDef* op : AllOps()) {
    for (const OpCase& op_case : op->cases) {
      ASSIGN_OR_RETURN(const Json json, CaseJson(*op, op_case));
      absl::PrintF("%s\n", json.dump());
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main() {
  const absl::Status status = sluice::PrintCases();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "sbp_cases: %s\n", status.message());
  return 1;
}
