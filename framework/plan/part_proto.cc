#include "framework/plan/part_proto.h"

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

plan::Part PartToProto(const Part& part) {
  plan::Part out;
  out.set_dtype(static_cast<int32_t>(part.dtype));
  Put(part.local, out.mutable_local());
  Put(part.logical, out.mutable_logical());
  Put(part.offset, out.mutable_offset());
  Put(part.stride_per_micro, out.mutable_stride_per_micro());
  out.set_owed(static_cast<int32_t>(part.owed));
  return out;
}

absl::StatusOr<Part> PartFromProto(const plan::Part& part) {
  if (part.dtype() < 0 || part.dtype() > static_cast<int32_t>(DType::kI32)) {
    return absl::InvalidArgumentError(absl::StrCat("a part has unknown dtype ", part.dtype()));
  }
  if (part.owed() < 0 || part.owed() > static_cast<int32_t>(Reduction::kMin)) {
    return absl::InvalidArgumentError(absl::StrCat("a part owes unknown reduction ", part.owed()));
  }
  const int rank = part.local_size();
  if (part.logical_size() != rank || part.offset_size() != rank ||
      part.stride_per_micro_size() != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a part of rank ", rank, " has a logical shape of rank ", part.logical_size(),
                     ", an offset of ", part.offset_size(), " and strides per micro-batch of ",
                     part.stride_per_micro_size()));
  }
  Part out;
  out.dtype = static_cast<DType>(part.dtype());
  out.local = Get(part.local());
  out.logical = Get(part.logical());
  out.offset = Get(part.offset());
  out.stride_per_micro = Get(part.stride_per_micro());
  out.owed = static_cast<Reduction>(part.owed());
  return out;
}

}  // namespace sluice
