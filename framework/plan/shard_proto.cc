#include "framework/plan/shard_proto.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

void Put(const Shape& shape, google::protobuf::RepeatedField<int64_t>* out) {
  out->Assign(shape.begin(), shape.end());
}

Shape Get(const google::protobuf::RepeatedField<int64_t>& values) {
  return Shape(absl::MakeConstSpan(values.data(), static_cast<size_t>(values.size())));
}

}  // namespace

plan::Shard ShardToProto(const Shard& shard) {
  plan::Shard out;
  out.set_dtype(static_cast<int32_t>(shard.dtype));
  Put(shard.local, out.mutable_local());
  Put(shard.logical, out.mutable_logical());
  Put(shard.offset, out.mutable_offset());
  Put(shard.stride_per_micro, out.mutable_stride_per_micro());
  out.set_partial(static_cast<int32_t>(shard.partial));
  return out;
}

absl::StatusOr<Shard> ShardFromProto(const plan::Shard& shard) {
  if (!IsDType(shard.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("a shard has unknown dtype ", shard.dtype()));
  }
  if (shard.partial() < 0 || shard.partial() > static_cast<int32_t>(Reduction::kMin)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shard is partial in an unknown reduction ", shard.partial()));
  }
  const int rank = shard.local_size();
  if (shard.logical_size() != rank || shard.offset_size() != rank ||
      shard.stride_per_micro_size() != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shard of rank ", rank, " has a logical shape of rank ",
                     shard.logical_size(), ", an offset of ", shard.offset_size(),
                     " and strides per micro-batch of ", shard.stride_per_micro_size()));
  }
  Shard out;
  out.dtype = static_cast<DType>(shard.dtype());
  out.local = Get(shard.local());
  out.logical = Get(shard.logical());
  out.offset = Get(shard.offset());
  out.stride_per_micro = Get(shard.stride_per_micro());
  out.partial = static_cast<Reduction>(shard.partial());
  return out;
}

}  // namespace sluice
