// Files in a .zip, as .npz are made of: stored or deflated, with or without the 64-bit forms. Pure.
//
// Neither minizip nor libzip: what is needed of them is the directory, whose places an error can
// name here; zlib unpacks, as it does elsewhere.
#ifndef SLUICE_FRAMEWORK_DATA_ZIP_H_
#define SLUICE_FRAMEWORK_DATA_ZIP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/file.h"

namespace sluice {

struct ZipMember {
  std::string name;
  int64_t begin = 0;  // of its own head in the file
  int64_t packed = 0, bytes = 0;
  uint32_t crc = 0;
  bool deflated = false;
};

// In the order of the directory at the file's end. Errors name the file and the byte: no directory,
// one that is damaged, members that are encrypted or packed otherwise.
absl::StatusOr<std::vector<ZipMember>> ListZip(const RandomAccessFile& file);
// DataLoss: what is packed is damaged, or not what the directory says.
absl::StatusOr<std::string> ReadZipMember(const RandomAccessFile& file, const ZipMember& member);

// Names and bytes; InvalidArgument where they take 4 GiB or more, or are more than 65,534.
absl::StatusOr<std::string> ZipBytes(
    const std::vector<std::pair<std::string, std::string>>& members, bool deflate);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_ZIP_H_
