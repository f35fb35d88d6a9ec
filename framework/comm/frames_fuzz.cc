// Frames, one behind another, as a connection reads them: what reads is written as what was read,
// and takes at most eight times its memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/comm/frames.h"

// clang's has a header, gcc's has none.
#if defined(ADDRESS_SANITIZER) && __has_include(<sanitizer/allocator_interface.h>)
#include <sanitizer/allocator_interface.h>
#define SLUICE_COUNTS_HEAP
#endif

namespace {

// Bytes of the heap, and the most of them since `peak` was set; where no sanitizer says, none.
size_t live = 0, peak = 0;

#if defined(SLUICE_COUNTS_HEAP)
void Given(const volatile void*, size_t bytes) {
  live += bytes;
  peak = std::max(peak, live);
}
void TakenBack(const volatile void* given) { live -= __sanitizer_get_allocated_size(given); }
const int hooks = __sanitizer_install_malloc_and_free_hooks(Given, TakenBack);
#endif

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::Span<const std::byte> left(reinterpret_cast<const std::byte*>(data), size);
  // Of an error's text, and of a frame's pieces before there are many.
  constexpr size_t kAnyway = 2048;
  while (left.size() >= sluice::kFrameHeadBytes) {
    const absl::StatusOr<size_t> bytes = sluice::ReadFrameHead(left);
    if (!bytes.ok()) return 0;
    SLUICE_CHECK(*bytes >= 1 && *bytes <= sluice::kMostFrameBytes);
    if (left.size() < sluice::kFrameHeadBytes + *bytes) return 0;
    const size_t before = live;
    peak = live;
    const absl::StatusOr<sluice::Frame> frame =
        sluice::ReadFrame(left.subspan(sluice::kFrameHeadBytes, *bytes));
    SLUICE_CHECK(peak - before <= 8 * *bytes + kAnyway)
        << peak - before << " bytes for a frame of " << *bytes;
    if (!frame.ok()) return 0;
    std::string written;
    sluice::WriteFrame(*frame, &written);
    SLUICE_CHECK_EQ(written.size(), sluice::kFrameHeadBytes + *bytes);
    SLUICE_CHECK(std::memcmp(written.data(), left.data(), written.size()) == 0);
    left.remove_prefix(written.size());
  }
  return 0;
}
