#include "framework/wire/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/wire/bytes.h"

namespace sluice {
namespace {

constexpr absl::string_view kMagic = "SLUICE";
constexpr uint16_t kVersion = 2;
constexpr absl::string_view kServer = "sluice server", kClient = "sluice client";

// A process that cannot get random numbers must not go on as if it had.
void FillRandom(absl::Span<std::byte> bytes) {
  SLUICE_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

absl::string_view Text(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

using Proof = std::array<std::byte, kProofBytes>;

// Each part has a fixed size, so that what they are together is said by their order alone.
Proof Prove(absl::string_view secret, std::initializer_list<absl::string_view> parts) {
  std::string all;
  for (absl::string_view part : parts) absl::StrAppend(&all, part);
  Proof proof;
  unsigned int size = 0;
  const unsigned char* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(all.data()), all.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &size);
  SLUICE_CHECK(made != nullptr && size == kProofBytes);
  return proof;
}

// Takes as long wherever they differ.
bool Equal(const Proof& proof, absl::Span<const std::byte> other) {
  return CRYPTO_memcmp(proof.data(), other.data(), kProofBytes) == 0;
}

Proof ClientProof(absl::string_view secret, const Hello& hello, const Challenge& challenge,
                  absl::Span<const std::byte> added) {
  return Prove(secret, {kClient, Text(hello), Text(challenge), Text(added)});
}

}  // namespace

Hello MakeHello(const Caller& caller) {
  std::string text(kMagic);
  ByteWriter writer(&text);
  writer.Fixed(kVersion);
  writer.Fixed(caller.rank);
  writer.Fixed(caller.ranks);
  writer.Fixed(caller.channel);
  writer.Fixed(caller.restarts);
  writer.Fixed(static_cast<uint8_t>(caller.sealed));
  Hello hello = {};
  std::memcpy(hello.data(), text.data(), text.size());
  FillRandom(absl::MakeSpan(hello).last(kNonceBytes));
  return hello;
}

absl::StatusOr<Caller> ReadHello(const Hello& hello) {
  if (Text(hello).substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("expected a process of Sluice, got something else");
  }
  ByteReader reader(absl::MakeSpan(hello).subspan(kMagic.size()));
  const auto version = reader.Fixed<uint16_t>();
  if (version != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected version ", kVersion, " of the wire's protocol, got ", version));
  }
  Caller caller;
  caller.rank = reader.Fixed<int32_t>();
  caller.ranks = reader.Fixed<int32_t>();
  caller.channel = reader.Fixed<int32_t>();
  caller.restarts = reader.Fixed<int32_t>();
  const auto sealed = reader.Fixed<uint8_t>();
  if (sealed > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected 0 or 1 for a connection that is sealed, got ", sealed));
  }
  caller.sealed = sealed == 1;
  return caller;
}

Challenge MakeChallenge(absl::string_view secret, const Hello& hello) {
  Challenge challenge;
  FillRandom(absl::MakeSpan(challenge).first(kNonceBytes));
  const Proof proof =
      Prove(secret, {kServer, Text(hello), Text(absl::MakeSpan(challenge).first(kNonceBytes))});
  std::copy(proof.begin(), proof.end(), challenge.begin() + kNonceBytes);
  return challenge;
}

absl::StatusOr<Answer> MakeAnswer(absl::string_view secret, const Hello& hello,
                                  const Challenge& challenge, absl::string_view added) {
  const auto bytes = absl::MakeSpan(challenge);
  const Proof expected = Prove(secret, {kServer, Text(hello), Text(bytes.first(kNonceBytes))});
  if (!Equal(expected, bytes.last(kProofBytes))) {
    return absl::PermissionDeniedError("who listens there does not know this job's secret");
  }
  if (added.size() > kAddedBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected to add at most ", kAddedBytes,
                                                   " bytes, got ", added.size(), ": ", added));
  }
  Answer answer = {};
  std::memcpy(answer.data() + kProofBytes, added.data(), added.size());
  const Proof proof =
      ClientProof(secret, hello, challenge, absl::MakeSpan(answer).last(kAddedBytes));
  std::copy(proof.begin(), proof.end(), answer.begin());
  return answer;
}

absl::StatusOr<std::string> ReadAnswer(absl::string_view secret, const Hello& hello,
                                       const Challenge& challenge, const Answer& answer) {
  const absl::Span<const std::byte> added = absl::MakeSpan(answer).last(kAddedBytes);
  if (!Equal(ClientProof(secret, hello, challenge, added),
             absl::MakeSpan(answer).first(kProofBytes))) {
    return absl::PermissionDeniedError("it does not know this job's secret");
  }
  const absl::string_view text = Text(added);
  return std::string(text.substr(0, std::min(text.find('\0'), text.size())));
}

std::string MakeVerdict(const absl::Status& status, absl::string_view text) {
  std::string verdict;
  ByteWriter writer(&verdict);
  const absl::string_view said =
      (status.ok() ? text : status.message()).substr(0, kMostVerdictBytes);
  writer.Fixed(static_cast<int32_t>(status.code()));
  writer.Fixed(static_cast<uint32_t>(said.size()));
  absl::StrAppend(&verdict, said);
  return verdict;
}

absl::StatusOr<ReadVerdictHead> ReadVerdict(const VerdictHead& head) {
  ByteReader reader(head);
  const auto code = reader.Fixed<int32_t>();
  ReadVerdictHead verdict;
  verdict.code = static_cast<absl::StatusCode>(code);
  verdict.bytes = reader.Fixed<uint32_t>();
  if (code < 0 || code > 16 || verdict.bytes > kMostVerdictBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected a verdict of at most ",
                                                   kMostVerdictBytes, " bytes, got one of code ",
                                                   code, " and ", verdict.bytes, " bytes"));
  }
  return verdict;
}

}  // namespace sluice
