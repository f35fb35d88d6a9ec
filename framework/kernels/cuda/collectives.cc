#include "framework/kernels/cuda/collectives.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/comm/nccl.h"
#include "framework/device/cuda_device.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/prepared.h"

namespace sluice {
namespace {

absl::StatusOr<std::unique_ptr<Communicators>> Make(std::vector<CommunicatorGroup> groups,
                                                    std::function<void(const absl::Status&)> fail) {
  ASSIGN_OR_RETURN(const int cards, CountCudaCards());
  for (CommunicatorGroup& group : groups) {
    for (int32_t& card : group.cards) card = card < 0 ? card : card % cards;  // as OpenCudaDevices
  }
  ASSIGN_OR_RETURN(auto made, NcclCommunicators::Make(std::move(groups), std::move(fail)));
  return std::unique_ptr<Communicators>(std::move(made));
}

PreparedKernel Prepare(const KernelSpec& spec, Communicators* communicators,
                       absl::Span<const int32_t> group, int32_t device) {
  NcclMember* const member = static_cast<NcclCommunicators*>(communicators)->Find(group, device);
  if (member == nullptr) {
    return absl::InternalError(absl::StrCat(spec.op, " of devices ", absl::StrJoin(group, ", "),
                                            ": device ", device, " has no communicator of them"));
  }
  const bool sums = spec.op == "all_reduce" || spec.op == "reduce_scatter";
  if (spec.inputs.size() != 1 || spec.outputs.size() != 1 ||
      (sums && spec.reduction != Reduction::kSum)) {
    return NoKernel(spec);
  }
  const DType dtype = spec.inputs[0].dtype;
  const int64_t sent = spec.inputs[0].NumElements(), received = spec.outputs[0].NumElements();
  using Call = absl::Status (NcclMember::*)(const void*, void*, int64_t, DType, cudaStream_t);
  Call call = nullptr;
  if (spec.op == "all_reduce") call = &NcclMember::AllReduceSum;
  if (spec.op == "reduce_scatter") call = &NcclMember::ReduceScatterSum;
  if (spec.op == "all_gather") call = &NcclMember::AllGather;
  if (call == nullptr) return NoKernel(spec);
  const int64_t count = spec.op == "reduce_scatter" ? received : sent;
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    return (member->*call)(at.bytes(0), at.bytes(1), count, dtype,
                           cuda::StreamOf(context).handle());
  });
}

}  // namespace

const CollectiveSupport& NcclSupport() {
  static constexpr CollectiveSupport support = {Make, Prepare};
  return support;
}

}  // namespace sluice
