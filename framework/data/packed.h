// Bytes that gzip or zstd may have packed, read in order. One thread a stream.
#ifndef SLUICE_FRAMEWORK_DATA_PACKED_H_
#define SLUICE_FRAMEWORK_DATA_PACKED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"
#include "framework/data/file_kind.h"
#include "framework/data/spooled_file.h"

namespace sluice {

// What gunzip or unzstd would make of some bytes, or the bytes themselves where they do not begin
// as a packed file does (file_kind.h), whatever the file's name says. Nothing is unpacked that is
// not asked for.
class PackedStream {
 public:
  // `bytes` must outlive it.
  explicit PackedStream(absl::string_view bytes);
  // Of a file, which must outlive it, too: a MiB at a time is in memory. One whose name says that
  // it is packed, and that is not, gives an error instead of its bytes.
  explicit PackedStream(const RandomAccessFile& file);
  ~PackedStream();
  PackedStream(const PackedStream&) = delete;
  PackedStream& operator=(const PackedStream&) = delete;

  // The next `size` bytes, or as many as are left. DataLoss where what is packed is damaged, or
  // ends before its end.
  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size);
  // More bytes than can be left: deflate packs none better than 1,032 to one, zstd than 32,768.
  int64_t AtMostLeft() const;
  // How many bytes the packed file says that it has, but no more than it can: of gzip its last four
  // bytes, of zstd the head of its first frame. It need not be so; 0 where nothing is said.
  int64_t AnnouncedSize() const { return announced_size_; }

  class Input;
  class Unpacker;  // of one way to pack

 private:
  explicit PackedStream(std::unique_ptr<Input> input);
  absl::Status Open();

  const std::unique_ptr<Input> input_;
  absl::Status opened_;  // whether the bytes that tell how it is packed could be read
  int64_t announced_size_ = 0;
  std::unique_ptr<Unpacker> unpacker_;  // null for bytes that are not packed
};

// All of it. `name` begins errors: DataLoss; ResourceExhausted where there is no memory for twice
// what is packed, as little may be packed of more than there is memory for.
absl::StatusOr<std::string> Unpack(absl::string_view name, absl::string_view bytes);

// Returns the first `size` bytes of a file as a stream gives them, or all of them.
absl::StatusOr<std::string> ReadUnpackedBegin(const std::string& path, int64_t size);

// Returns the error with which a reader of `expected`, "an IDX array", has given up on a file. If
// the file is of another kind than the reader's, it says instead which one that is.
absl::Status ExplainKind(const absl::Status& status, const std::string& path, FileKind kind,
                         absl::string_view expected);

// A file of which any part may be read: one that is packed, by its bytes, is unpacked first, into
// memory or, where it is large, into a file without a name.
absl::StatusOr<RandomAccessFile> OpenUnpacked(const std::string& path,
                                              const SpoolOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_PACKED_H_
