#include "framework/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr absl::string_view kMagic = "\x1f\x8b";
constexpr int64_t kBestRatio = 1032;
// A match of the longest kind may have been read and not yet written.
constexpr int64_t kHeldBack = 258;
constexpr int kGzipHeader = 16 + MAX_WBITS;  // and not zlib's own

}  // namespace

struct GzipStream::Inflater {
  z_stream stream = {};
  absl::string_view left;  // what the stream has not been given
};

GzipStream::GzipStream(absl::string_view bytes) : plain_(bytes) {
  if (!absl::StartsWith(bytes, kMagic)) return;
  plain_ = absl::string_view();
  inflater_ = std::make_unique<Inflater>();
  inflater_->left = bytes;
  SLUICE_CHECK(inflateInit2(&inflater_->stream, kGzipHeader) == Z_OK) << "zlib has no memory";
}

GzipStream::~GzipStream() {
  if (inflater_ != nullptr) inflateEnd(&inflater_->stream);
}

int64_t GzipStream::AtMostLeft() const {
  if (inflater_ == nullptr) return static_cast<int64_t>(plain_.size());
  const auto packed = static_cast<int64_t>(inflater_->left.size() + inflater_->stream.avail_in);
  return packed * kBestRatio + kHeldBack;
}

// A gzipped file may be several, one behind the other.
absl::Status GzipStream::BeginMember() {
  z_stream& stream = inflater_->stream;
  if (stream.avail_in > 0 && *stream.next_in != static_cast<uint8_t>(kMagic[0])) {
    return absl::DataLossError("expected the end or another gzipped file behind the first");
  }
  SLUICE_CHECK(inflateReset(&stream) == Z_OK);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> GzipStream::Read(uint8_t* to, int64_t size) {
  if (inflater_ == nullptr) {
    const int64_t some = std::min(size, static_cast<int64_t>(plain_.size()));
    if (some == 0) return 0;
    std::memcpy(to, plain_.data(), some);
    plain_.remove_prefix(some);
    return some;
  }
  constexpr int64_t kAtOnce = int64_t{1} << 30;  // zlib counts in 32 bits
  z_stream& stream = inflater_->stream;
  int64_t done = 0;
  while (done < size) {
    if (stream.avail_in == 0) {
      const size_t some = std::min<size_t>(inflater_->left.size(), kAtOnce);
      // zlib does not write there, and is compiled without const.
      stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(inflater_->left.data()));
      stream.avail_in = static_cast<uInt>(some);
      inflater_->left.remove_prefix(some);
    }
    const auto room = static_cast<uInt>(std::min(size - done, kAtOnce));
    stream.next_out = to + done;
    stream.avail_out = room;
    const int code = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (code == Z_STREAM_END) {
      if (stream.avail_in == 0 && inflater_->left.empty()) break;
      RETURN_IF_ERROR(BeginMember());
    } else if (code == Z_BUF_ERROR || (code == Z_OK && stream.avail_in == 0 &&
                                       inflater_->left.empty() && stream.avail_out > 0)) {
      return absl::DataLossError("the gzipped file is cut short");
    } else if (code != Z_OK) {
      return absl::DataLossError(absl::StrCat("the gzipped file is damaged: ",
                                              stream.msg == nullptr ? "no reason" : stream.msg));
    }
  }
  return done;
}

absl::StatusOr<std::string> Unpack(absl::string_view name, absl::string_view bytes) {
  const MemoryLimits limits = ReadMemoryLimits();
  GzipStream stream(bytes);
  std::string text;
  constexpr size_t kAtOnce = size_t{1} << 22;
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

}  // namespace sluice
