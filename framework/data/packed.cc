#include "framework/data/packed.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"

namespace sluice {

class PackedStream::Unpacker {
 public:
  virtual ~Unpacker() = default;
  virtual absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) = 0;
  virtual int64_t AtMostLeft() const = 0;
};

namespace {

constexpr absl::string_view kGzip = "\x1f\x8b", kZstandard = "\x28\xb5\x2f\xfd";

class Gunzip : public PackedStream::Unpacker {
 public:
  explicit Gunzip(absl::string_view bytes) : left_(bytes) {
    constexpr int kGzipHeader = 16 + MAX_WBITS;  // and not zlib's own
    SLUICE_CHECK(inflateInit2(&stream_, kGzipHeader) == Z_OK) << "zlib has no memory";
  }
  ~Gunzip() override { inflateEnd(&stream_); }

  int64_t AtMostLeft() const override {
    constexpr int64_t kBestRatio = 1032;
    // A match of the longest kind may have been read and not yet written.
    constexpr int64_t kHeldBack = 258;
    return static_cast<int64_t>(left_.size() + stream_.avail_in) * kBestRatio + kHeldBack;
  }

  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) override {
    constexpr int64_t kAtOnce = int64_t{1} << 30;  // zlib counts in 32 bits
    int64_t done = 0;
    while (done < size) {
      if (stream_.avail_in == 0) {
        const size_t some = std::min<size_t>(left_.size(), kAtOnce);
        // zlib does not write there, and is compiled without const.
        stream_.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(left_.data()));
        stream_.avail_in = static_cast<uInt>(some);
        left_.remove_prefix(some);
      }
      const auto room = static_cast<uInt>(std::min(size - done, kAtOnce));
      stream_.next_out = to + done;
      stream_.avail_out = room;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      const bool all_given = stream_.avail_in == 0 && left_.empty();
      if (code == Z_STREAM_END) {
        if (all_given) break;
        RETURN_IF_ERROR(BeginMember());
      } else if (code == Z_BUF_ERROR || (code == Z_OK && all_given && stream_.avail_out > 0)) {
        return absl::DataLossError("the gzipped file is cut short");
      } else if (code != Z_OK) {
        return absl::DataLossError(absl::StrCat(
            "the gzipped file is damaged: ", stream_.msg == nullptr ? "no reason" : stream_.msg));
      }
    }
    return done;
  }

 private:
  // A gzipped file may be several, one behind the other.
  absl::Status BeginMember() {
    if (stream_.avail_in > 0 && *stream_.next_in != static_cast<uint8_t>(kGzip[0])) {
      return absl::DataLossError("expected the end or another gzipped file behind the first");
    }
    SLUICE_CHECK(inflateReset(&stream_) == Z_OK);
    return absl::OkStatus();
  }

  z_stream stream_ = {};
  absl::string_view left_;  // what the stream has not been given
};

// Frames that follow each other are one text, and those that are to be skipped are skipped, by the
// library itself.
class Unzstd : public PackedStream::Unpacker {
 public:
  explicit Unzstd(absl::string_view bytes)
      : stream_(ZSTD_createDStream()), in_({bytes.data(), bytes.size(), 0}) {
    SLUICE_CHECK(stream_ != nullptr) << "zstd has no memory";
  }
  ~Unzstd() override { ZSTD_freeDStream(stream_); }

  int64_t AtMostLeft() const override {
    // Of a block: 128 KiB of one byte are written as 4 bytes. Two may have been read and not yet
    // given.
    constexpr int64_t kBlock = ZSTD_BLOCKSIZE_MAX, kBestRatio = kBlock / 4;
    return static_cast<int64_t>(in_.size - in_.pos) * kBestRatio + 2 * kBlock;
  }

  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) override {
    ZSTD_outBuffer out = {to, static_cast<size_t>(size), 0};
    while (out.pos < out.size && !(ended_ && in_.pos == in_.size)) {
      const size_t before = out.pos + in_.pos;
      const size_t wanted = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(wanted) != 0) {
        return absl::DataLossError(absl::StrCat("the zstd file is damaged before byte ", in_.pos,
                                                ": ", ZSTD_getErrorName(wanted)));
      }
      ended_ = wanted == 0;
      // Without more to take it may have more to give.
      if (!ended_ && out.pos + in_.pos == before) {
        return absl::DataLossError("the zstd file is cut short");
      }
    }
    return static_cast<int64_t>(out.pos);
  }

 private:
  ZSTD_DStream* const stream_;
  ZSTD_inBuffer in_;
  bool ended_ = false;  // what was taken ends with the end of a frame
};

}  // namespace

PackedStream::PackedStream(absl::string_view bytes) {
  if (absl::StartsWith(bytes, kGzip)) {
    unpacker_ = std::make_unique<Gunzip>(bytes);
  } else if (absl::StartsWith(bytes, kZstandard)) {
    unpacker_ = std::make_unique<Unzstd>(bytes);
  } else {
    plain_ = bytes;
  }
}

PackedStream::~PackedStream() = default;

int64_t PackedStream::AtMostLeft() const {
  return unpacker_ == nullptr ? static_cast<int64_t>(plain_.size()) : unpacker_->AtMostLeft();
}

absl::StatusOr<int64_t> PackedStream::Read(uint8_t* to, int64_t size) {
  if (unpacker_ != nullptr) return unpacker_->Read(to, size);
  const int64_t some = std::min(size, static_cast<int64_t>(plain_.size()));
  if (some == 0) return 0;
  std::memcpy(to, plain_.data(), some);
  plain_.remove_prefix(some);
  return some;
}

namespace {

// How many bytes the packed file says that it has: of gzip the last four bytes, of zstd the head of
// the first frame. It need not be so; 0 where nothing is said.
int64_t AnnouncedSize(absl::string_view bytes) {
  uint32_t size = 0;
  if (absl::StartsWith(bytes, kGzip) && bytes.size() >= sizeof(size)) {
    std::memcpy(&size, bytes.data() + bytes.size() - sizeof(size), sizeof(size));
    return size;
  }
  if (!absl::StartsWith(bytes, kZstandard)) return static_cast<int64_t>(bytes.size());
  const uint64_t of_frame = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  return of_frame <= INT64_MAX ? static_cast<int64_t>(of_frame) : 0;
}

}  // namespace

absl::StatusOr<std::string> Unpack(absl::string_view name, absl::string_view bytes) {
  const MemoryLimits limits = ReadMemoryLimits();
  PackedStream stream(bytes);
  std::string text;
  constexpr size_t kAtOnce = size_t{1} << 22;
  // Text that grows is copied, a few times in all, unless there is room for it from the first.
  const int64_t announced = std::min(AnnouncedSize(bytes), stream.AtMostLeft());
  if (limits.most == 0 || announced < limits.available / 2) text.reserve(announced + kAtOnce);
  for (size_t size = 0;; size = text.size()) {
    if (limits.most > 0 && 2 * (size + kAtOnce) > static_cast<size_t>(limits.available)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(name, ": expected text that there is memory for, got more than ", size >> 20,
                       " MiB of it, and reading it takes twice that; ", limits.available >> 20,
                       " MiB are left of ", limits.source));
    }
    text.resize(size + kAtOnce);
    const auto got = stream.Read(reinterpret_cast<uint8_t*>(text.data()) + size, kAtOnce);
    if (!got.ok()) return AddContext(got.status(), name);
    text.resize(size + static_cast<size_t>(*got));
    if (*got < static_cast<int64_t>(kAtOnce)) return text;
  }
}

bool IsPackedName(absl::string_view path) {
  return absl::EndsWith(path, ".gz") || absl::EndsWith(path, ".zst");
}

absl::StatusOr<RandomAccessFile> OpenUnpacked(const std::string& path) {
  if (!IsPackedName(path)) return RandomAccessFile::Open(path);
  ASSIGN_OR_RETURN(const std::string packed, ReadFile(path));
  ASSIGN_OR_RETURN(std::string bytes, Unpack(absl::StrCat("data: ", path), packed));
  return RandomAccessFile::OfBytes(path, std::move(bytes));
}

}  // namespace sluice
