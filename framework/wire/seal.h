// Sealing what goes over a connection, so that whoever stands between its ends can neither read nor
// change it: records of AES-256-GCM, each {u32 bytes, sealed bytes, tag}, where the tag covers the
// count as well. Each direction of each connection has a key of its own, drawn from the job's
// secret and the whole handshake, whose random numbers no other connection has. A record's number
// is its nonce and is not sent: one that is lost, repeated or out of order does not open. Pure; one
// thread at a time.
#ifndef SLUICE_FRAMEWORK_WIRE_SEAL_H_
#define SLUICE_FRAMEWORK_WIRE_SEAL_H_

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

inline constexpr size_t kRecordHeadBytes = 4, kRecordTagBytes = 16;
inline constexpr size_t kRecordExtraBytes = kRecordHeadBytes + kRecordTagBytes;
inline constexpr size_t kMostRecordBytes = size_t{64} << 10;  // before it is sealed
inline constexpr size_t kMostSealedBytes = kMostRecordBytes + kRecordExtraBytes;

using SealKey = std::array<std::byte, 32>;

// Of one end of a connection.
struct SealKeys {
  SealKey sends, receives;
};

enum class Side { kClient, kServer };

// HKDF-SHA256 of the secret for each direction, salted with all messages of the handshake before
// the verdict, one behind another. Without a secret there is nothing to draw from: InvalidArgument.
absl::StatusOr<SealKeys> DeriveSealKeys(absl::string_view secret, absl::string_view handshake,
                                        Side side);

// The numbers of one direction's records, and the key that the next one has. After kRecordsAKey
// records both ends take the next key, which follows from the last: what AES-GCM may seal with one
// key is limited, and a run goes on for weeks. The last number ends the connection.
class SealCipher {
 public:
  static constexpr uint64_t kRecordsAKey = uint64_t{1} << 20;

  SealCipher(const SealKey& key, bool seals, uint64_t first);

  uint64_t number() const { return number_; }  // of the next record
  // Begins the next record. ResourceExhausted: there is no number left.
  absl::Status Begin(absl::Span<const std::byte> head);
  EVP_CIPHER_CTX* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };

  void UseKey();

  SealKey key_;
  const bool seals_;
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  uint64_t number_;
};

class Sealer {
 public:
  // `first`: the number of the first record, for tests.
  explicit Sealer(const SealKey& key, uint64_t first = 0) : cipher_(key, /*seals=*/true, first) {}

  // All parts, one behind another, as one record of `bytes` in all, to `to`, which has
  // kRecordExtraBytes more. At least one byte, at most kMostRecordBytes.
  absl::Status Seal(absl::Span<const absl::Span<const std::byte>> parts, size_t bytes,
                    std::byte* to);

 private:
  SealCipher cipher_;
};

class Opener {
 public:
  explicit Opener(const SealKey& key, uint64_t first = 0) : cipher_(key, /*seals=*/false, first) {}

  // The bytes of a record that begins with that head; InvalidArgument if there is none like that.
  static absl::StatusOr<size_t> ReadHead(absl::Span<const std::byte> head);

  // A whole record, head and tag included, to `to`, which may be where its bytes stand. Nothing
  // that is written there is to be used before this says OK: the tag is known to be right only when
  // all is opened. Else those bytes are zeros, DataLoss says which record it was, and nothing
  // opens any more.
  absl::Status Open(absl::Span<const std::byte> record, std::byte* to);

 private:
  SealCipher cipher_;
  absl::Status broken_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_SEAL_H_
