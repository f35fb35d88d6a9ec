#include "framework/plan/bytes.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/happens_before.h"
#include "framework/plan/lifetimes.h"

namespace sluice {
namespace {

absl::Status Shared(const ProgramIndex& index, const Buffer& a, const Buffer& b,
                    absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("program \"", index.program().name(), "\", device ", a.device, ": ",
                   Describe(index, a), " and ", Describe(index, b), " share bytes and ", what));
}

absl::Status CheckTaken(const ProgramIndex& index, absl::Span<const Buffer> buffers,
                        absl::Span<const int64_t> offsets) {
  for (size_t n = 0; n < buffers.size(); ++n) {
    const int32_t from = buffers[n].takes;
    if (from < 0 || offsets[from] == offsets[n]) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "program \"", index.program().name(), "\", device ", buffers[n].device, ": ",
        Describe(index, buffers[n]), " takes the bytes of ", Describe(index, buffers[from]),
        ": expected both at one place, got ", offsets[n], " and ", offsets[from]));
  }
  return absl::OkStatus();
}

// What lives across steps has no times of its own at which others might have its bytes.
absl::Status CheckResidents(const ProgramIndex& index, absl::Span<const Buffer> buffers,
                            absl::Span<const int64_t> offsets) {
  std::vector<size_t> sorted(buffers.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) {
    return std::tie(buffers[a].device, offsets[a]) < std::tie(buffers[b].device, offsets[b]);
  });
  // In the order of their beginnings a buffer overlaps an earlier one iff it overlaps the one that
  // reaches farthest; one of each kind is remembered, as two that are not resident may share.
  const Buffer* farthest[2] = {};  // not resident, resident
  int64_t end[2] = {};
  for (size_t n : sorted) {
    const Buffer& buffer = buffers[n];
    for (int resident = buffer.resident ? 0 : 1; resident < 2; ++resident) {
      const Buffer* before = farthest[resident];
      if (before == nullptr || before->device != buffer.device || end[resident] <= offsets[n]) {
        continue;
      }
      return Shared(index, *before, buffer, "one of them lives across steps");
    }
    const int kind = buffer.resident ? 1 : 0;
    const bool first = farthest[kind] == nullptr || farthest[kind]->device != buffer.device;
    if (!first && end[kind] >= offsets[n] + buffer.bytes) continue;
    farthest[kind] = &buffer;
    end[kind] = offsets[n] + buffer.bytes;
  }
  return absl::OkStatus();
}

absl::Status CheckReuse(const ProgramIndex& index, HappensBefore& order,
                        absl::Span<const Buffer> buffers, const Reuse& reuse) {
  const Buffer &from = buffers[reuse.from], &to = buffers[reuse.to];
  if (!reuse.wraps && reuse.after->begin <= reuse.before->end) {
    return Shared(index, from, to, "are live at one time");
  }
  for (int32_t release : reuse.before->releases) {
    if (Takes(buffers, reuse, release)) continue;
    if (order.Ordered(release, reuse.after->first, reuse.wraps)) continue;
    const ProgramIndex::Instance a = index.InstanceAt(release),
                                 b = index.InstanceAt(reuse.after->first);
    return Shared(index, from, to,
                  absl::StrCat("nothing makes ", index.Describe(b.actor, b.firing, b.instruction),
                               " wait for ", index.Describe(a.actor, a.firing, a.instruction)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProveBytes(const ProgramIndex& index, const Certificate& certificate,
                        absl::Span<const int64_t> variables, const Stop& stop) {
  ASSIGN_OR_RETURN(const std::vector<Buffer> buffers,
                   FindBuffers(index, certificate.position, certificate.position));
  std::vector<int64_t> offsets;
  for (const Buffer& buffer : buffers) {
    offsets.push_back(OffsetOf(index, buffer));
    const size_t device = static_cast<size_t>(buffer.device);
    if (device >= variables.size() || offsets.back() >= variables[device]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("program \"", index.program().name(), "\": ", Describe(index, buffer),
                     " lies at ", offsets.back(), " of device ", device, ", among its variables"));
  }
  RETURN_IF_ERROR(CheckStop(stop));
  RETURN_IF_ERROR(CheckResidents(index, buffers, offsets));
  RETURN_IF_ERROR(CheckTaken(index, buffers, offsets));
  const std::vector<Reuse> reuses = FindReuses(buffers, offsets);
  if (reuses.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckStop(stop));
  HappensBefore order(index, certificate.position);
  for (const Reuse& reuse : reuses) {
    RETURN_IF_ERROR(CheckStop(stop));
    RETURN_IF_ERROR(CheckReuse(index, order, buffers, reuse));
  }
  return absl::OkStatus();
}

}  // namespace sluice
