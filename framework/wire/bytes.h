// Numbers and texts as bytes on the wire: little endian, one behind another. A reader never reads
// behind its end: it gives zeros then, and is no longer ok().
#ifndef SLUICE_FRAMEWORK_WIRE_BYTES_H_
#define SLUICE_FRAMEWORK_WIRE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little, "the wire is little endian");

class ByteWriter {
 public:
  explicit ByteWriter(std::string* to) : to_(*to) {}

  template <typename T>
  void Fixed(T value) {
    static_assert(std::is_arithmetic_v<T>);
    to_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  // With its length.
  void Text(absl::string_view text) {
    Fixed(static_cast<uint32_t>(text.size()));
    to_.append(text.data(), text.size());
  }

 private:
  std::string& to_;
};

class ByteReader {
 public:
  explicit ByteReader(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size(); }

  template <typename T>
  T Fixed() {
    static_assert(std::is_arithmetic_v<T>);
    T value = 0;
    if (Take(sizeof(value))) {
      std::memcpy(&value, bytes_.data(), sizeof(value));
      bytes_.remove_prefix(sizeof(value));
    }
    return value;
  }
  std::string Text() {
    const auto size = Fixed<uint32_t>();
    std::string text;
    if (Take(size)) {
      text.assign(reinterpret_cast<const char*>(bytes_.data()), size);
      bytes_.remove_prefix(size);
    }
    return text;
  }

 private:
  bool Take(size_t bytes) {
    ok_ = ok_ && bytes <= bytes_.size();
    return ok_;
  }

  absl::Span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_BYTES_H_
