#include "framework/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

// Of Linux 6.1; older headers lack it.
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace sluice {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kSmallPage = 4096;

int64_t InHugePages(int64_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

// The first huge page of a mapping that has one more than it needs.
std::byte* AlignedStart(void* mapping) {
  return reinterpret_cast<std::byte*>(
      InHugePages(static_cast<int64_t>(reinterpret_cast<uintptr_t>(mapping))));
}

void Touch(std::byte* data, int64_t bytes, int64_t step) {
  volatile std::byte* touch = data;
  for (int64_t i = 0; i < bytes; i += step) touch[i] = std::byte{0};
}

// Where the mark of a file stands: in its last bytes.
int64_t MarkOffset(int64_t file_bytes) {
  return file_bytes - static_cast<int64_t>(sizeof(MemoryMark::mark));
}

absl::Status SystemError(absl::string_view what, const MemoryMark& mark) {
  return absl::UnavailableError(absl::StrCat(what, " of memory ", mark.file, " of process ",
                                             mark.process, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Memory> Memory::Reserve(int64_t bytes, int64_t room) {
  Memory memory;
  memory.mapped_ = static_cast<size_t>(room + kHugePage);
  void* mapping = mmap(nullptr, memory.mapped_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of device memory: ", std::strerror(errno)));
  }
  memory.mapping_ = mapping;
  memory.data_ = AlignedStart(mapping);
  memory.bytes_ = bytes;
  return memory;
}

absl::StatusOr<Memory> Memory::Allocate(int64_t bytes) {
  SLUICE_CHECK_GE(bytes, 0);
  if (bytes == 0) return Memory();
  ASSIGN_OR_RETURN(Memory memory, Reserve(bytes, InHugePages(bytes)));
  // Only advice: without huge pages the same bytes are slower to touch.
  madvise(memory.data_, static_cast<size_t>(InHugePages(bytes)), MADV_HUGEPAGE);
  Touch(memory.data_, bytes, kSmallPage);
  return memory;
}

absl::StatusOr<Memory> Memory::AllocateShared(int64_t bytes) {
  SLUICE_CHECK_GE(bytes, 0);
  if (bytes == 0) return Memory();
  const int64_t room = InHugePages(bytes + static_cast<int64_t>(sizeof(MemoryMark::mark)));
  ASSIGN_OR_RETURN(Memory memory, Reserve(bytes, room));
  const absl::Status made = memory.MakeFile(room);
  if (!made.ok()) return made;
  // Files get huge pages only where the system is told so, but may be asked for them behind the
  // first touch. A page at a time of each: what is touched whole before is copied.
  madvise(memory.data_, static_cast<size_t>(room), MADV_HUGEPAGE);
  Touch(memory.data_, room, kHugePage);
  madvise(memory.data_, static_cast<size_t>(room), MADV_COLLAPSE);
  Touch(memory.data_, bytes, kSmallPage);
  std::memcpy(memory.data_ + MarkOffset(room), memory.mark_.mark.data(), memory.mark_.mark.size());
  return memory;
}

absl::Status Memory::MakeFile(int64_t room) {
  const auto error = [room](absl::string_view what) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot ", what, " ", room, " bytes of device memory: ", std::strerror(errno)));
  };
  mark_.process = getpid();
  mark_.bytes = bytes_;
  mark_.file = memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (mark_.file < 0) return error("make a file for");
  if (ftruncate(mark_.file, room) != 0) return error("give a file");
  SLUICE_CHECK(getrandom(mark_.mark.data(), mark_.mark.size(), 0) ==
               static_cast<ssize_t>(mark_.mark.size()));
  // A reader of a file that was cut short would be killed.
  if (fcntl(mark_.file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return error("seal a file of");
  }
  void* const mapped = mmap(data_, static_cast<size_t>(room), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED | MAP_NORESERVE, mark_.file, 0);
  return mapped == MAP_FAILED ? error("map") : absl::OkStatus();
}

Memory::~Memory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
  if (mark_.file >= 0) close(mark_.file);
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(mark_, other.mark_);
  return *this;
}

absl::StatusOr<PeerMemory> PeerMemory::Map(const MemoryMark& mark) {
  const std::string path = absl::StrCat("/proc/", mark.process, "/fd/", mark.file);
  // To open a device, a terminal or a pipe of that process would be noticed.
  std::array<char, 16> target = {};
  if (readlink(path.c_str(), target.data(), target.size()) < 0)
    return SystemError("the file", mark);
  const absl::Status other =
      absl::UnavailableError(absl::StrCat(path, " is no memory that is shared"));
  if (!absl::StartsWith({target.data(), target.size()}, "/memfd:")) return other;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return SystemError("the file", mark);
  const auto map = [&]() -> absl::StatusOr<PeerMemory> {
    struct stat found = {};
    const int seals = fcntl(file, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file, &found) != 0) {
      return other;
    }
    if (mark.bytes < 0 || mark.bytes > MarkOffset(found.st_size)) {
      return absl::UnavailableError(absl::StrCat(path, ": expected at least ", mark.bytes,
                                                 " bytes, got a file of ", found.st_size));
    }
    PeerMemory memory;
    memory.mapped_ = static_cast<size_t>(found.st_size + kHugePage);
    void* const room = mmap(nullptr, memory.mapped_, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return SystemError("addresses", mark);
    memory.mapping_ = room;
    std::byte* const start = AlignedStart(room);
    if (mmap(start, static_cast<size_t>(found.st_size), PROT_READ,
             MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, 0) == MAP_FAILED) {
      return SystemError("a mapping", mark);
    }
    if (std::memcmp(start + MarkOffset(found.st_size), mark.mark.data(), mark.mark.size()) != 0) {
      return absl::UnavailableError(absl::StrCat(path, " has not the mark that was told"));
    }
    memory.bytes_ = {start, static_cast<size_t>(mark.bytes)};
    return memory;
  };
  absl::StatusOr<PeerMemory> memory = map();
  close(file);
  return memory;
}

PeerMemory::~PeerMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

PeerMemory::PeerMemory(PeerMemory&& other) noexcept { *this = std::move(other); }

PeerMemory& PeerMemory::operator=(PeerMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

}  // namespace sluice
