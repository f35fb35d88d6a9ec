// tensor/part.h to and from its message in plan.proto, field by field. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_PART_PROTO_H_
#define SLUICE_FRAMEWORK_PLAN_PART_PROTO_H_

#include "absl/status/statusor.h"
#include "framework/plan/plan.pb.h"
#include "framework/tensor/part.h"

namespace sluice {

plan::Part PartToProto(const Part& part);
// InvalidArgument: an unknown dtype or reduction, or ranks that differ.
absl::StatusOr<Part> PartFromProto(const plan::Part& part);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_PART_PROTO_H_
