#include "framework/comm/peer_memory.h"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

MemoryMark MakeMark() {
  // Read by other processes: it must stay where it is.
  static std::array<std::byte, 16> stands;
  SLUICE_CHECK(getrandom(stands.data(), stands.size(), 0) == static_cast<ssize_t>(stands.size()));
  return {getpid(), reinterpret_cast<uintptr_t>(stands.data()), stands};
}

}  // namespace

const MemoryMark& OwnMemoryMark() {
  static const MemoryMark mark = MakeMark();
  return mark;
}

bool CanReadMemory(const MemoryMark& mark) {
  std::array<std::byte, 16> read = {};
  const MemoryRun run = {mark.address, read.size()};
  return ReadMemory(mark.process, {&run, 1}, read.data()).ok() && read == mark.mark;
}

// The kernel reads as far as it can and says how far that was: the rest is tried again, and gives
// the reason. A call takes at most 2 GiB.
absl::Status ReadMemory(int32_t process, absl::Span<const MemoryRun> runs, std::byte* to) {
  for (const MemoryRun& run : runs) {
    uint64_t done = 0;
    while (done < run.bytes) {
      iovec local = {to + done, run.bytes - done};
      iovec remote = {reinterpret_cast<void*>(run.address + done), run.bytes - done};
      const ssize_t got = process_vm_readv(process, &local, 1, &remote, 1, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        return absl::UnavailableError(
            absl::StrCat("memory of process ", process, ": ", std::strerror(errno)));
      }
      done += static_cast<uint64_t>(got);
    }
    to += run.bytes;
  }
  return absl::OkStatus();
}

}  // namespace sluice
