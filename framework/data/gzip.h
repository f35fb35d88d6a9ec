// Bytes that may be gzipped, read in order. One thread a stream.
#ifndef SLUICE_FRAMEWORK_DATA_GZIP_H_
#define SLUICE_FRAMEWORK_DATA_GZIP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// What gunzip would make of some bytes, or the bytes themselves where they do not begin as a
// gzipped file does. Nothing is unpacked that is not asked for.
class GzipStream {
 public:
  // `bytes` must outlive it.
  explicit GzipStream(absl::string_view bytes);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // The next `size` bytes, or as many as are left. DataLoss where what is packed is damaged, or
  // ends before its end.
  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t size);
  // More bytes than can be left: deflate packs none better than 1,032 to one.
  int64_t AtMostLeft() const;

 private:
  struct Inflater;
  absl::Status BeginMember();

  absl::string_view plain_;             // what is left of bytes that are not packed
  std::unique_ptr<Inflater> inflater_;  // null for these
};

// All of it. `name` begins errors: DataLoss; ResourceExhausted where there is no memory for twice
// what is packed, as little may be packed of more than there is memory for.
absl::StatusOr<std::string> Unpack(absl::string_view name, absl::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_GZIP_H_
