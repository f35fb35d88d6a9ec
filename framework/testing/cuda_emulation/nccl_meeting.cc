#include "framework/testing/cuda_emulation/nccl_meeting.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/tensor/dtype.h"

namespace sluice::cuda_emulation {
namespace {

const char* NameOf(NcclKind kind) {
  switch (kind) {
    case NcclKind::kAllReduce:
      return "ncclAllReduce";
    case NcclKind::kReduce:
      return "ncclReduce";
    case NcclKind::kReduceScatter:
      return "ncclReduceScatter";
    case NcclKind::kAllGather:
      return "ncclAllGather";
    case NcclKind::kBroadcast:
      return "ncclBroadcast";
    case NcclKind::kSend:
      return "ncclSend";
    case NcclKind::kRecv:
      return "ncclRecv";
  }
  return "";
}

const char* NameOf(ncclDataType_t type) {
  constexpr const char* kNames[] = {"i8",  "u8",  "i32", "u32", "i64",
                                    "u64", "f16", "f32", "f64", "bf16"};
  return type >= 0 && type < 10 ? kNames[type] : "?";
}

bool Reduces(NcclKind kind) {
  return kind == NcclKind::kAllReduce || kind == NcclKind::kReduce ||
         kind == NcclKind::kReduceScatter;
}

template <typename T>
T Combine(ncclRedOp_t op, T a, T b) {
  switch (op) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

// Of elements whose sums are of the same type.
template <typename T>
void FoldAs(ncclRedOp_t op, const std::vector<const char*>& from, size_t count, char* to) {
  for (size_t i = 0; i < count; ++i) {
    T total;
    std::memcpy(&total, from[0] + i * sizeof(T), sizeof(T));
    for (size_t rank = 1; rank < from.size(); ++rank) {
      T next;
      std::memcpy(&next, from[rank] + i * sizeof(T), sizeof(T));
      total = Combine(op, total, next);
    }
    if (op == ncclAvg) total = total / static_cast<T>(from.size());
    std::memcpy(to + i * sizeof(T), &total, sizeof(T));
  }
}

// Each hop rounds to bf16.
void FoldBf16(ncclRedOp_t op, const std::vector<const char*>& from, size_t count, char* to) {
  const auto get = [&](size_t rank, size_t i) {
    uint16_t bits;
    std::memcpy(&bits, from[rank] + i * 2, 2);
    return BFloat16ToFloat(bits);
  };
  for (size_t i = 0; i < count; ++i) {
    float total = get(0, i);
    for (size_t rank = 1; rank < from.size(); ++rank) {
      total = BFloat16ToFloat(FloatToBFloat16(Combine(op, total, get(rank, i))));
    }
    if (op == ncclAvg) total /= static_cast<float>(from.size());
    const uint16_t bits = FloatToBFloat16(total);
    std::memcpy(to + i * 2, &bits, 2);
  }
}

// In the order of ranks, which NCCL's rings and trees have not: no test may count on NCCL's order.
void Fold(ncclDataType_t type, ncclRedOp_t op, const std::vector<const char*>& from, size_t count,
          char* to) {
  switch (type) {
    case ncclInt8:
      return FoldAs<int8_t>(op, from, count, to);
    case ncclUint8:
      return FoldAs<uint8_t>(op, from, count, to);
    case ncclInt32:
      return FoldAs<int32_t>(op, from, count, to);
    case ncclUint32:
      return FoldAs<uint32_t>(op, from, count, to);
    case ncclInt64:
      return FoldAs<int64_t>(op, from, count, to);
    case ncclUint64:
      return FoldAs<uint64_t>(op, from, count, to);
    case ncclFloat32:
      return FoldAs<float>(op, from, count, to);
    case ncclFloat64:
      return FoldAs<double>(op, from, count, to);
    case ncclBfloat16:
      return FoldBf16(op, from, count, to);
    case ncclFloat16:
      return;  // refused before
  }
}

}  // namespace

size_t BytesOfNcclType(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

size_t NcclCall::SendBytes(int rank, int ranks) const {
  const size_t bytes = count * BytesOfNcclType(type);
  if (kind == NcclKind::kRecv) return 0;
  if (kind == NcclKind::kBroadcast) return rank == root ? bytes : 0;
  return kind == NcclKind::kReduceScatter ? bytes * ranks : bytes;
}

size_t NcclCall::ReceiveBytes(int rank, int ranks) const {
  const size_t bytes = count * BytesOfNcclType(type);
  if (kind == NcclKind::kSend) return 0;
  if (kind == NcclKind::kReduce) return rank == root ? bytes : 0;
  return kind == NcclKind::kAllGather ? bytes * ranks : bytes;
}

std::string NcclCall::Text() const {
  constexpr const char* kOps[] = {"sum", "product", "maximum", "minimum", "average"};
  std::string text = absl::StrCat(NameOf(kind), " of ", count, " ", NameOf(type));
  if (Reduces(kind)) absl::StrAppend(&text, ", ", kOps[op]);
  if (kind == NcclKind::kReduce || kind == NcclKind::kBroadcast) {
    absl::StrAppend(&text, ", root ", root);
  }
  return text;
}

void Meeting::Join(int participant, const NcclCall& call) {
  calls_[participant] = {call, true};
  // What each gets of these is of all.
  const bool of_all = call.kind == NcclKind::kAllReduce || call.kind == NcclKind::kReduceScatter ||
                      call.kind == NcclKind::kAllGather;
  if (of_all && call.count > 0 && point_ == nullptr) point_ = NewMeetingPoint();
}

bool Meeting::AllJoined() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Participant& x) { return x.joined; });
}

bool Meeting::Arrive(int participant) {
  const int64_t next = left_[participant] + 1;
  arrived_[participant] = next;
  return std::all_of(arrived_.begin(), arrived_.end(), [&](int64_t n) { return n >= next; });
}

void Meeting::Leave(int participant) {
  if (computed_ < ++left_[participant]) {
    computed_ = left_[participant];
    results_.assign(calls_.size(), {});
    if (calls_[0].call.IsPair()) {
      ComputePair();
    } else {
      Compute();
    }
  }
  const std::vector<char>& result = results_[participant];
  if (!result.empty()) {
    std::memcpy(calls_[participant].call.receive, result.data(), result.size());
  }
}

void Meeting::ComputePair() {
  const NcclCall& from = calls_[0].call;
  const auto* const begin = static_cast<const char*>(from.send);
  results_[1].assign(begin, begin + from.SendBytes(0, 2));
}

void Meeting::Compute() {
  const NcclCall& first = calls_[0].call;
  const int ranks = static_cast<int>(calls_.size());
  const size_t bytes = first.count * BytesOfNcclType(first.type);
  std::vector<const char*> from;
  for (const Participant& each : calls_) from.push_back(static_cast<const char*>(each.call.send));
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<char>& result = results_[rank];
    result.resize(first.ReceiveBytes(rank, ranks));
    if (result.empty()) continue;
    if (first.kind == NcclKind::kBroadcast) {
      std::memcpy(result.data(), from[first.root], bytes);
    } else if (first.kind == NcclKind::kAllGather) {
      for (int i = 0; i < ranks; ++i) std::memcpy(result.data() + i * bytes, from[i], bytes);
    } else {
      std::vector<const char*> mine = from;
      if (first.kind == NcclKind::kReduceScatter) {
        for (const char*& each : mine) each += rank * bytes;
      }
      Fold(first.type, first.op, mine, first.count, result.data());
    }
  }
}

}  // namespace sluice::cuda_emulation
