// .npy and .npz, NumPy's files of an array, and of several with names. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_DATA_NPY_H_
#define SLUICE_FRAMEWORK_DATA_NPY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/file.h"
#include "framework/tensor/shape.h"

namespace sluice {

// An array of numbers of NumPy's, of which there are more types than tensors have.
struct NpyArray {
  char kind = 'f';         // b truth, i and u integers, f and c (complex) numbers with a point
  int64_t item_bytes = 4;  // 1, 2, 4, 8 or 16
  Shape shape;
  std::string values;  // row-major, little-endian

  std::string TypeName() const;  // as NumPy has it: "f4"
};

// Versions 1 to 3, row-major or Fortran's order, either order of bytes; the bytes may be packed.
// Errors begin with `name`: another format, a header that is none, and at which byte; arrays of
// objects, texts and records; more or fewer values than the header says.
absl::StatusOr<NpyArray> ParseNpy(absl::string_view name, absl::string_view bytes);
absl::StatusOr<NpyArray> ReadNpy(const std::string& path);
// Version 1, as NumPy itself writes it.
std::string NpyBytes(const NpyArray& array);

// Where the values of an array are in a file, which is not packed.
struct NpyLayout {
  char kind = 'f';
  int64_t item_bytes = 4;
  bool big_endian = false, fortran = false;
  Shape shape;
  int64_t begin = 0;  // the byte of the first value
};
// Reads the header only. Errors as ParseNpy, and DataLoss where the file has more or fewer values.
absl::StatusOr<NpyLayout> FindNpyValues(absl::string_view name, const RandomAccessFile& file);

using NamedArrays = std::vector<std::pair<std::string, NpyArray>>;
// In the order of the file; names are without .npy. What is no array in it is refused.
absl::StatusOr<NamedArrays> ParseNpz(absl::string_view name, std::string bytes);
absl::StatusOr<NamedArrays> ReadNpz(const std::string& path);
absl::StatusOr<std::string> NpzBytes(const NamedArrays& arrays, bool deflate);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_NPY_H_
