// tensor/shard.h to and from its message in plan.proto, field by field. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_SHARD_PROTO_H_
#define SLUICE_FRAMEWORK_PLAN_SHARD_PROTO_H_

#include "absl/status/statusor.h"
#include "framework/plan/plan.pb.h"
#include "framework/tensor/shard.h"

namespace sluice {

plan::Shard ShardToProto(const Shard& shard);
// InvalidArgument: an unknown dtype or reduction, or ranks that differ.
absl::StatusOr<Shard> ShardFromProto(const plan::Shard& shard);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_SHARD_PROTO_H_
