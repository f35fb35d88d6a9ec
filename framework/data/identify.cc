#include "framework/data/identify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/parallel_for.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// More than there are cores, so that the disk always has several requests to work on: 16 threads
// read small files twice as fast as 2 do.
constexpr int kThreads = 16;
constexpr int64_t kBlock = int64_t{4} << 20;         // of which each has a digest
constexpr int64_t kPiece = int64_t{1} << 20;         // read at once
constexpr int64_t kSampleBlock = int64_t{64} << 10;  // at most, where data is sampled
constexpr uint64_t kUnreadable = 0x756e7265;         // stands for bytes that cannot be read
constexpr double kLogEvery = 10;                     // seconds

// A range of the bytes of all parts one after the other.
struct Block {
  int64_t offset = 0, size = 0;
};

// All bytes, or a sample. Sampled blocks are the middles of equal ranges of the bytes. For example,
// 4,096 blocks of 16 GiB are 64 KiB in the middle of every 4 MiB.
std::vector<Block> BlocksOf(int64_t bytes, int64_t cost, const IdentifyOptions& options) {
  std::vector<Block> blocks;
  if (cost <= options.most_bytes) {
    for (int64_t offset = 0; offset < bytes; offset += kBlock) {
      blocks.push_back({offset, std::min(kBlock, bytes - offset)});
    }
    return blocks;
  }
  const int64_t count = std::max<int64_t>(options.sampled_bytes / kSampleBlock, 1);
  const double share = static_cast<double>(options.sampled_bytes) / static_cast<double>(cost);
  const auto each = static_cast<int64_t>(share * static_cast<double>(bytes / count));
  const int64_t size = std::clamp<int64_t>(each, 1, kSampleBlock), range = bytes / count;
  for (int64_t i = 0; i < count && range >= size; ++i) {
    blocks.push_back({i * range + (range - size) / 2, size});
  }
  return blocks;
}

// Logs from time to time how much is read, and keeps what could not be. Any thread.
class Reading {
 public:
  Reading(std::string what, int64_t all, double after)
      : what_(std::move(what)), all_(all), next_(after) {}

  void Done(int64_t bytes) {
    done_ += bytes;
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    const auto elapsed = std::chrono::steady_clock::now() - begin_;
    const double seconds = std::chrono::duration<double>(elapsed).count();
    if (seconds < next_) return;
    next_ = seconds + kLogEvery;
    SLUICE_LOG(INFO) << what_
                     << absl::StrFormat(": %.1f of %.1f GB are read, to identify the data by them",
                                        static_cast<double>(done_) / 1e9,
                                        static_cast<double>(all_) / 1e9);
  }

  void Failed(int64_t part, const absl::Status& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++failed_;
    if (first_failed_ >= 0 && part >= first_failed_) return;
    first_failed_ = part;
    why_ = why;
  }

  void WarnOfFailed() const {
    if (failed_ == 0) return;
    SLUICE_LOG(WARNING) << what_ << absl::StrFormat(": %d reads failed", failed_)
                        << " while the data was identified; the first: " << why_.message();
  }

 private:
  const std::string what_;
  const int64_t all_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  double next_;  // guarded by mutex_, as are those below while threads read
  int64_t failed_ = 0, first_failed_ = -1;
  absl::Status why_;
};

// `begins` has where each part begins, and where the last ends.
absl::StatusOr<uint64_t> DigestOf(const DataParts& parts, absl::Span<const int64_t> begins,
                                  const Block& block, const Stop& stop, Reading* reading) {
  StableByteHasher hasher;
  std::vector<char> bytes(std::min(block.size, kPiece));
  int64_t part = std::ranges::upper_bound(begins, block.offset) - begins.begin() - 1;
  for (int64_t at = block.offset, end = at + block.size; at < end; ++part) {
    while (at < std::min(end, begins[part + 1])) {
      RETURN_IF_ERROR(CheckStop(stop));
      const int64_t some = std::min({kPiece, end - at, begins[part + 1] - at});
      const absl::Status status = parts.read(part, at - begins[part], some, bytes.data());
      if (status.ok()) {
        hasher.Add(bytes.data(), some);
      } else {
        hasher.Add(&kUnreadable, sizeof(kUnreadable));
        reading->Failed(part, status);
      }
      reading->Done(some);
      at += some;
    }
  }
  return hasher.digest();
}

}  // namespace

absl::StatusOr<DataIdentity> Identify(const DataParts& parts, const IdentifyOptions& options) {
  StableHasher hasher;
  hasher.Add(static_cast<int64_t>(parts.meaning));
  std::vector<int64_t> begins = {0};
  for (const int64_t size : parts.sizes) {
    hasher.Add(size);
    begins.push_back(begins.back() + size);
  }
  DataIdentity identity;
  identity.bytes = begins.back();
  const int64_t cost =
      identity.bytes + parts.cost_of_part * static_cast<int64_t>(parts.sizes.size());
  const std::vector<Block> blocks = BlocksOf(identity.bytes, cost, options);
  int64_t read = 0;
  for (const Block& block : blocks) read += block.size;
  if (read < identity.bytes) identity.sampled = read;

  Reading reading(parts.what, read, options.log_after_seconds);
  std::vector<uint64_t> digests(blocks.size());
  RETURN_IF_ERROR(ParallelFor(blocks.size(), kThreads, [&](size_t i) -> absl::Status {
    ASSIGN_OR_RETURN(digests[i], DigestOf(parts, begins, blocks[i], options.stop, &reading));
    return absl::OkStatus();
  }));
  reading.WarnOfFailed();
  hasher.Add(identity.sampled);
  for (const uint64_t digest : digests) hasher.Add(static_cast<int64_t>(digest));
  identity.digest = hasher.digest();
  return identity;
}

}  // namespace sluice
