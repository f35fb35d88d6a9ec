#include "framework/data/idx.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/packed.h"

namespace sluice {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMostDimensions = 8;

template <typename... Args>
absl::Status Expected(const Args&... what) {
  return absl::DataLossError(absl::StrCat("expected ", what...));
}

absl::StatusOr<Shape> ReadHeader(PackedStream* stream) {
  uint8_t bytes[4];
  ASSIGN_OR_RETURN(const int64_t got, stream->Read(bytes, 4));
  if (got < 4) return Expected("an IDX header of four bytes and more, got ", got, " bytes");
  if (bytes[0] != 0 || bytes[1] != 0) {
    return Expected(
        absl::StrFormat("an IDX file, which begins with 00 00, got %02x %02x", bytes[0], bytes[1]));
  }
  if (bytes[2] != kUnsignedByte) {
    return Expected(absl::StrFormat("elements of one byte, type 08, got type %02x", bytes[2]));
  }
  const int dimensions = bytes[3];
  if (dimensions < 1 || dimensions > kMostDimensions) {
    return Expected("1 to ", kMostDimensions, " dimensions, got ", dimensions);
  }
  Shape shape;
  for (int d = 0; d < dimensions; ++d) {
    ASSIGN_OR_RETURN(const int64_t more, stream->Read(bytes, 4));
    if (more < 4) return Expected("extents of ", dimensions, " dimensions, got ", d);
    shape.Append(int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3]);
  }
  return shape;
}

absl::StatusOr<IdxArray> Read(int64_t size, PackedStream* stream) {
  IdxArray array;
  ASSIGN_OR_RETURN(array.shape, ReadHeader(stream));
  int64_t elements = 1;
  const int64_t most = stream->AtMostLeft();
  for (const int64_t extent : array.shape) {
    // Before they are multiplied: a product of extents that are all too many overflows.
    if (extent > 0 && elements > most / extent) {
      return Expected(array.shape.ToString(), " elements, got ", most, " at most in ", size,
                      " bytes");
    }
    elements *= extent;
  }
  array.values.resize(elements);
  ASSIGN_OR_RETURN(const int64_t got, stream->Read(array.values.data(), elements));
  if (got < elements) {
    return Expected(elements, " elements of ", array.shape.ToString(), ", got ", got);
  }
  uint8_t beyond = 0;
  ASSIGN_OR_RETURN(const int64_t more, stream->Read(&beyond, 1));
  if (more > 0) return Expected(elements, " elements of ", array.shape.ToString(), ", got more");
  return array;
}

}  // namespace

absl::StatusOr<IdxArray> ParseIdx(absl::string_view name, absl::string_view bytes) {
  PackedStream stream(bytes);
  absl::StatusOr<IdxArray> array = Read(static_cast<int64_t>(bytes.size()), &stream);
  if (!array.ok()) return AddContext(array.status(), name);
  return array;
}

absl::StatusOr<IdxArray> ReadIdx(const std::string& path) {
  ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  PackedStream stream(file);
  absl::StatusOr<IdxArray> array = Read(file.size(), &stream);
  if (array.ok()) return array;
  return ExplainKind(AddContext(array.status(), absl::StrCat("data: ", path)), path, FileKind::kIdx,
                     "an IDX array");
}

}  // namespace sluice
