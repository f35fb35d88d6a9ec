// A 64-bit hash of bytes that is the same on every machine, in every run and in every release: it
// may be written to files and compared between ranks. For tables in memory use absl's. Pure.
#ifndef SLUICE_FRAMEWORK_BASE_HASH_H_
#define SLUICE_FRAMEWORK_BASE_HASH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// XXH3, 64 bits.
uint64_t StableHash(const void* data, size_t size, uint64_t seed = 0);
uint64_t StableHash(absl::string_view bytes, uint64_t seed = 0);

// A rolling digest of a sequence of values: every value and its place in the sequence count.
class StableHasher {
 public:
  StableHasher& Add(absl::string_view bytes);  // with its length: "ab","c" is not "a","bc"
  StableHasher& Add(int64_t value);
  uint64_t digest() const { return digest_; }

 private:
  uint64_t digest_ = 0;
};

// StableHash of bytes that come in pieces: how they were cut does not count.
class StableByteHasher {
 public:
  StableByteHasher();
  ~StableByteHasher();
  StableByteHasher(const StableByteHasher&) = delete;
  StableByteHasher& operator=(const StableByteHasher&) = delete;
  void Add(const void* data, size_t size);
  uint64_t digest() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// 16 hexadecimal digits.
std::string HashText(uint64_t hash);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_HASH_H_
