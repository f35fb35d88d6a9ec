#include "framework/wire/seal.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr absl::string_view kClientSends = "sluice seal, client to server",
                            kServerSends = "sluice seal, server to client",
                            kNextKey = "sluice seal, next key";
constexpr size_t kRecordNonceBytes = 12;

const unsigned char* Bytes(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* Bytes(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

OSSL_PARAM Octets(const char* name, absl::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

// HKDF-SHA256 (RFC 5869); with an empty salt only its second half, as `from` is a key by then.
SealKey Hkdf(absl::string_view from, absl::string_view salt, absl::string_view info) {
  EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(kdf);
  int mode = salt.empty() ? EVP_KDF_HKDF_MODE_EXPAND_ONLY : EVP_KDF_HKDF_MODE_EXTRACT_AND_EXPAND;
  std::string digest = "SHA256";
  std::array<OSSL_PARAM, 6> parameters;
  size_t count = 0;
  parameters[count++] = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
  parameters[count++] =
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size());
  parameters[count++] = Octets(OSSL_KDF_PARAM_KEY, from);
  if (!salt.empty()) parameters[count++] = Octets(OSSL_KDF_PARAM_SALT, salt);
  parameters[count++] = Octets(OSSL_KDF_PARAM_INFO, info);
  parameters[count] = OSSL_PARAM_construct_end();
  SealKey key;
  // Nothing may go on with a key that is not one.
  SLUICE_CHECK(context != nullptr &&
               EVP_KDF_derive(context, Bytes(key.data()), key.size(), parameters.data()) == 1);
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return key;
}

}  // namespace

absl::StatusOr<SealKeys> DeriveSealKeys(absl::string_view secret, absl::string_view handshake,
                                        Side side) {
  if (secret.empty()) {
    return absl::InvalidArgumentError("expected a secret to seal a connection with, got none");
  }
  const SealKey client = Hkdf(secret, handshake, kClientSends),
                server = Hkdf(secret, handshake, kServerSends);
  return side == Side::kClient ? SealKeys{client, server} : SealKeys{server, client};
}

SealCipher::SealCipher(const SealKey& key, bool seals, uint64_t first)
    : key_(key), seals_(seals), context_(EVP_CIPHER_CTX_new()), number_(first) {
  UseKey();
}

void SealCipher::UseKey() {
  SLUICE_CHECK(context_ != nullptr &&
               EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, Bytes(key_.data()),
                                 nullptr, seals_ ? 1 : 0) == 1);
}

absl::Status SealCipher::Begin(absl::Span<const std::byte> head) {
  if (number_ == std::numeric_limits<uint64_t>::max()) {
    return absl::ResourceExhaustedError("a sealed connection has no number left for a record");
  }
  if (number_ > 0 && number_ % kRecordsAKey == 0) {
    key_ = Hkdf({reinterpret_cast<const char*>(key_.data()), key_.size()}, "", kNextKey);
    UseKey();
  }
  std::array<std::byte, kRecordNonceBytes> nonce = {};
  std::memcpy(nonce.data(), &number_, sizeof(number_));
  ++number_;
  int size = 0;
  SLUICE_CHECK(EVP_CipherInit_ex(context(), nullptr, nullptr, nullptr, Bytes(nonce.data()), -1) ==
                   1 &&
               EVP_CipherUpdate(context(), nullptr, &size, Bytes(head.data()),
                                static_cast<int>(head.size())) == 1);
  return absl::OkStatus();
}

absl::Status Sealer::Seal(absl::Span<const absl::Span<const std::byte>> parts, size_t bytes,
                          std::byte* to) {
  SLUICE_CHECK(bytes > 0 && bytes <= kMostRecordBytes);
  const auto count = static_cast<uint32_t>(bytes);
  std::memcpy(to, &count, kRecordHeadBytes);
  RETURN_IF_ERROR(cipher_.Begin({to, kRecordHeadBytes}));
  EVP_CIPHER_CTX* const context = cipher_.context();
  to += kRecordHeadBytes;
  size_t sealed = 0;
  int size = 0;
  for (const absl::Span<const std::byte> part : parts) {
    if (part.empty()) continue;
    SLUICE_CHECK(sealed + part.size() <= bytes &&
                 EVP_EncryptUpdate(context, Bytes(to + sealed), &size, Bytes(part.data()),
                                   static_cast<int>(part.size())) == 1);
    sealed += part.size();
  }
  SLUICE_CHECK(sealed == bytes && EVP_EncryptFinal_ex(context, Bytes(to + sealed), &size) == 1 &&
               EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kRecordTagBytes, to + sealed) ==
                   1);
  return absl::OkStatus();
}

absl::StatusOr<size_t> Opener::ReadHead(absl::Span<const std::byte> head) {
  uint32_t bytes = 0;
  static_assert(sizeof(bytes) == kRecordHeadBytes);
  std::memcpy(&bytes, head.data(), sizeof(bytes));
  if (bytes > 0 && bytes <= kMostRecordBytes) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("expected a sealed record of 1 to ", kMostRecordBytes, " bytes, got ", bytes));
}

absl::Status Opener::Open(absl::Span<const std::byte> record, std::byte* to) {
  RETURN_IF_ERROR(broken_);
  const uint64_t number = cipher_.number();
  RETURN_IF_ERROR(cipher_.Begin(record.first(kRecordHeadBytes)));
  const size_t bytes = record.size() - kRecordExtraBytes;
  EVP_CIPHER_CTX* const context = cipher_.context();
  // OpenSSL asks for a pointer that it may write to, and reads it.
  auto* const tag = const_cast<std::byte*>(record.last(kRecordTagBytes).data());
  int size = 0;
  std::array<unsigned char, kRecordTagBytes> none;
  const bool right =
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kRecordTagBytes, tag) == 1 &&
      EVP_DecryptUpdate(context, Bytes(to), &size, Bytes(record.data() + kRecordHeadBytes),
                        static_cast<int>(bytes)) == 1 &&
      EVP_DecryptFinal_ex(context, none.data(), &size) == 1;
  if (right) return absl::OkStatus();
  std::memset(to, 0, bytes);
  broken_ = absl::DataLossError(
      absl::StrCat("record ", number,
                   " of its sealed connection does not open: it was changed, lost, repeated or out "
                   "of order on its way"));
  return broken_;
}

}  // namespace sluice
