#include "framework/base/hash.h"

#include "absl/strings/str_format.h"
#include "framework/base/log.h"
#include "xxhash.h"

namespace sluice {

uint64_t StableHash(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t StableHash(absl::string_view bytes, uint64_t seed) {
  return StableHash(bytes.data(), bytes.size(), seed);
}

StableHasher& StableHasher::Add(absl::string_view bytes) {
  Add(static_cast<int64_t>(bytes.size()));
  digest_ = StableHash(bytes, digest_);
  return *this;
}

StableHasher& StableHasher::Add(int64_t value) {
  unsigned char little_endian[8];
  for (int i = 0; i < 8; ++i) little_endian[i] = static_cast<uint64_t>(value) >> (8 * i);
  digest_ = StableHash(little_endian, sizeof(little_endian), digest_);
  return *this;
}

// Its size is the library's secret, and its place must be aligned as the library wants it.
struct StableByteHasher::State {
  State() : xxh(XXH3_createState()) { SLUICE_CHECK(xxh != nullptr); }
  ~State() { XXH3_freeState(xxh); }
  XXH3_state_t* const xxh;
};

StableByteHasher::StableByteHasher() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->xxh);
}

StableByteHasher::~StableByteHasher() = default;

void StableByteHasher::Add(const void* data, size_t size) {
  XXH3_64bits_update(state_->xxh, data, size);
}

uint64_t StableByteHasher::digest() const { return XXH3_64bits_digest(state_->xxh); }

std::string HashText(uint64_t hash) { return absl::StrFormat("%016x", hash); }

}  // namespace sluice
