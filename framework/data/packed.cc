#include "framework/data/packed.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/memory.h"
#include "framework/base/status.h"

namespace sluice {

// What is packed, in order: pieces of what is in memory, or of a file.
class PackedStream::Input {
 public:
  explicit Input(absl::string_view bytes) : bytes_(bytes) {}
  explicit Input(const RandomAccessFile* file) : file_(file), left_in_file_(file->size()) {}

  const RandomAccessFile* file() const { return file_; }  // null: the bytes are in memory
  int64_t left() const { return static_cast<int64_t>(bytes_.size()) + left_in_file_; }
  // As many bytes as are left, if `size` of them are not; they are given again.
  absl::StatusOr<absl::string_view> Peek(size_t size) {
    if (bytes_.empty()) RETURN_IF_ERROR(ReadSome());
    return bytes_.substr(0, size);
  }
  // The last `size` of all, or nothing where there are fewer.
  absl::Status ReadLast(int64_t size, char* to) const {
    if (left() < size) return absl::OkStatus();
    if (file_ != nullptr) return file_->ReadAt(file_->size() - size, size, to);
    std::memcpy(to, bytes_.data() + bytes_.size() - size, size);
    return absl::OkStatus();
  }
  // As many as there are; what is large goes from a file to its place at once.
  absl::StatusOr<int64_t> Read(char* to, int64_t size) {
    int64_t done = 0;
    while (done < size && left() > 0) {
      if (const int64_t large = std::min(size - done, left_in_file_);
          bytes_.empty() && large >= kBuffer) {
        RETURN_IF_ERROR(file_->ReadAt(file_->size() - left_in_file_, large, to + done));
        left_in_file_ -= large, done += large;
        continue;
      }
      ASSIGN_OR_RETURN(const absl::string_view piece, Next(size - done));
      std::memcpy(to + done, piece.data(), piece.size());
      done += static_cast<int64_t>(piece.size());
    }
    return done;
  }
  // At least one, unless none is left, and at most `most`.
  absl::StatusOr<absl::string_view> Next(int64_t most) {
    ASSIGN_OR_RETURN(const absl::string_view piece, Peek(most));
    bytes_.remove_prefix(piece.size());
    return piece;
  }

 private:
  static constexpr int64_t kBuffer = int64_t{1} << 20;

  absl::Status ReadSome() {
    if (file_ == nullptr) return absl::OkStatus();
    const int64_t size = std::min(left_in_file_, kBuffer);
    buffer_.resize(size);
    RETURN_IF_ERROR(file_->ReadAt(file_->size() - left_in_file_, size, buffer_.data()));
    left_in_file_ -= size;
    bytes_ = buffer_;
    return absl::OkStatus();
  }

  absl::string_view bytes_;  // in memory, and not yet given
  const RandomAccessFile* const file_ = nullptr;
  int64_t left_in_file_ = 0;
  std::string buffer_;
};

class PackedStream::Unpacker {
 public:
  virtual ~Unpacker() = default;
  virtual absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) = 0;
  virtual int64_t AtMostLeft() const = 0;
};

namespace {

constexpr size_t kMostZstandardHead = 18;  // of a frame

class Gunzip : public PackedStream::Unpacker {
 public:
  explicit Gunzip(PackedStream::Input* input) : input_(*input) {
    constexpr int kGzipHeader = 16 + MAX_WBITS;  // and not zlib's own
    SLUICE_CHECK(inflateInit2(&stream_, kGzipHeader) == Z_OK) << "zlib has no memory";
  }
  ~Gunzip() override { inflateEnd(&stream_); }

  int64_t AtMostLeft() const override {
    constexpr int64_t kBestRatio = 1032;
    // A match of the longest kind may have been read and not yet written.
    constexpr int64_t kHeldBack = 258;
    return (input_.left() + stream_.avail_in) * kBestRatio + kHeldBack;
  }

  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) override {
    int64_t done = 0;
    while (done < size) {
      if (stream_.avail_in == 0) {
        ASSIGN_OR_RETURN(const absl::string_view piece, input_.Next(kAtOnce));
        // zlib does not write there, and is compiled without const.
        stream_.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(piece.data()));
        stream_.avail_in = static_cast<uInt>(piece.size());
      }
      const auto room = static_cast<uInt>(std::min(size - done, kAtOnce));
      stream_.next_out = to + done;
      stream_.avail_out = room;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      const bool all_given = stream_.avail_in == 0 && input_.left() == 0;
      if (code == Z_STREAM_END) {
        if (all_given) break;
        ASSIGN_OR_RETURN(const bool another, BeginMember());
        if (!another) break;
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
  static constexpr int64_t kAtOnce = int64_t{1} << 30;  // zlib counts in 32 bits

  // Begins the next of several gzipped files that follow each other in one, and returns whether
  // there is one. Zeros up to the end, as tapes and blocks leave them, are skipped.
  absl::StatusOr<bool> BeginMember() {
    absl::string_view next(reinterpret_cast<const char*>(stream_.next_in), stream_.avail_in);
    if (next.empty()) {
      ASSIGN_OR_RETURN(next, input_.Peek(1));
    }
    if (next[0] == '\x1f') {
      SLUICE_CHECK(inflateReset(&stream_) == Z_OK);
      return true;
    }
    stream_.avail_in = 0;
    for (; !next.empty() || input_.left() > 0; next = {}) {
      if (next.empty()) {
        ASSIGN_OR_RETURN(next, input_.Next(kAtOnce));
      }
      if (next.find_first_not_of('\0') == next.npos) continue;
      return absl::DataLossError(
          "expected the end, zeros or another gzipped file after the first one");
    }
    return false;
  }

  z_stream stream_ = {};
  PackedStream::Input& input_;
};

// Frames that follow each other are one text, and those that are to be skipped are skipped, by the
// library itself.
class Unzstd : public PackedStream::Unpacker {
 public:
  explicit Unzstd(PackedStream::Input* input)
      : stream_(ZSTD_createDStream()), input_(*input), size_(input->left()) {
    SLUICE_CHECK(stream_ != nullptr) << "zstd has no memory";
  }
  ~Unzstd() override { ZSTD_freeDStream(stream_); }

  int64_t AtMostLeft() const override {
    // Of a block: 128 KiB of one byte are written as 4 bytes. Two may have been read and not yet
    // given.
    constexpr int64_t kBlock = ZSTD_BLOCKSIZE_MAX, kBestRatio = kBlock / 4;
    return Left() * kBestRatio + 2 * kBlock;
  }

  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size) override {
    ZSTD_outBuffer out = {to, static_cast<size_t>(size), 0};
    while (out.pos < out.size && !(ended_ && Left() == 0)) {
      if (in_.pos == in_.size) {
        ASSIGN_OR_RETURN(const absl::string_view piece, input_.Next(input_.left()));
        in_ = {piece.data(), piece.size(), 0};
      }
      const size_t before = out.pos + in_.pos;
      const size_t wanted = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(wanted) != 0) {
        return absl::DataLossError(absl::StrCat("the zstd file is damaged before byte ",
                                                size_ - Left(), ": ", ZSTD_getErrorName(wanted)));
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
  int64_t Left() const { return input_.left() + static_cast<int64_t>(in_.size - in_.pos); }

  ZSTD_DStream* const stream_;
  PackedStream::Input& input_;
  const int64_t size_;  // of all that is packed
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool ended_ = false;  // what was taken ends with the end of a frame
};

}  // namespace

PackedStream::PackedStream(absl::string_view bytes)
    : PackedStream(std::make_unique<Input>(bytes)) {}

PackedStream::PackedStream(const RandomAccessFile& file)
    : PackedStream(std::make_unique<Input>(&file)) {}

PackedStream::PackedStream(std::unique_ptr<Input> input) : input_(std::move(input)) {
  opened_ = Open();
}

absl::Status PackedStream::Open() {
  ASSIGN_OR_RETURN(const absl::string_view begin, input_->Peek(kMostZstandardHead));
  uint64_t announced = input_->left();
  const FileKind kind = KindOfMagic(begin);
  if (kind == FileKind::kGzip) {
    uint32_t of_gzip = 0;
    RETURN_IF_ERROR(input_->ReadLast(sizeof(of_gzip), reinterpret_cast<char*>(&of_gzip)));
    announced = of_gzip;
    unpacker_ = std::make_unique<Gunzip>(input_.get());
  } else if (kind == FileKind::kZstandard) {
    announced = ZSTD_getFrameContentSize(begin.data(), begin.size());
    unpacker_ = std::make_unique<Unzstd>(input_.get());
  } else if (input_->file() != nullptr && !PackedEnding(input_->file()->path()).empty()) {
    ASSIGN_OR_RETURN(const absl::string_view more, input_->Peek(kRecognizedBytes));
    RETURN_IF_ERROR(CheckPackedName(input_->file()->path(), more));
  }
  if (announced <= INT64_MAX) {
    announced_size_ = std::min(static_cast<int64_t>(announced), AtMostLeft());
  }
  return absl::OkStatus();
}

PackedStream::~PackedStream() = default;

int64_t PackedStream::AtMostLeft() const {
  return unpacker_ == nullptr ? input_->left() : unpacker_->AtMostLeft();
}

absl::StatusOr<int64_t> PackedStream::Read(uint8_t* to, int64_t size) {
  RETURN_IF_ERROR(opened_);
  return unpacker_ != nullptr ? unpacker_->Read(to, size)
                              : input_->Read(reinterpret_cast<char*>(to), size);
}

absl::StatusOr<std::string> Unpack(absl::string_view name, absl::string_view bytes) {
  const MemoryLimits limits = ReadMemoryLimits();
  PackedStream stream(bytes);
  std::string text;
  constexpr size_t kAtOnce = size_t{1} << 22;
  // Text that grows is copied, a few times in all, unless there is room for it from the first.
  const int64_t announced = stream.AnnouncedSize();
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

absl::StatusOr<std::string> ReadUnpackedBegin(const std::string& path, int64_t size) {
  ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  PackedStream stream(file);
  std::string begin(size, '\0');
  const absl::StatusOr<int64_t> got = stream.Read(reinterpret_cast<uint8_t*>(begin.data()), size);
  if (!got.ok()) return AddContext(got.status(), absl::StrCat("data: ", path));
  begin.resize(*got);
  return begin;
}

absl::Status ExplainKind(const absl::Status& status, const std::string& path, FileKind kind,
                         absl::string_view expected) {
  if (!absl::IsDataLoss(status) && !absl::IsInvalidArgument(status)) return status;
  const absl::StatusOr<std::string> begin = ReadUnpackedBegin(path, kRecognizedBytes);
  if (!begin.ok()) return status;
  const RecognizedFile got = RecognizeBytes(*begin);
  if (got.kind == kind || !got.IsOtherThanNumbers()) return status;
  return absl::Status(status.code(), absl::StrCat("data: ", path, ": expected ", expected, ", got ",
                                                  DescribeFile(got, path)));
}

absl::StatusOr<RandomAccessFile> OpenUnpacked(const std::string& path,
                                              const SpoolOptions& options) {
  ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  // Many files are opened that are not packed: a stream reads more of one than this.
  ASSIGN_OR_RETURN(const std::string begin, ReadBegin(file, kMostZstandardHead));
  if (!IsPacked(KindOfMagic(begin)) && PackedEnding(path).empty()) return file;
  PackedStream stream(file);
  SpooledFile unpacked(path, options);
  unpacked.Reserve(stream.AnnouncedSize());
  std::string bytes(kAtOnce, '\0');
  while (true) {
    const auto got = stream.Read(reinterpret_cast<uint8_t*>(bytes.data()), kAtOnce);
    if (!got.ok()) return AddContext(got.status(), absl::StrCat("data: ", path));
    RETURN_IF_ERROR(unpacked.Append(absl::string_view(bytes.data(), *got)));
    if (*got < kAtOnce) return std::move(unpacked).Finish();
  }
}

}  // namespace sluice
