// How two processes of a job meet: each proves to the other that it knows the job's secret, before
// either reads anything else that the other sends. All three messages have fixed sizes.
//   client: hello      who it is, and a random number
//   server: challenge  a random number, and a proof over both
//   client: answer     a proof over all of it, and what the client adds, which the proof covers
//   server: verdict    taken or refused, and a text
// A proof is HMAC-SHA256 under the secret; it begins with the name of its side, so that none is of
// use to the other side, and covers both random numbers, so that none is of use twice. Who listens
// in learns nothing of the secret, and everything else: none of the three is encrypted; the verdict
// is where the hello says that the connection is sealed. Pure, but for random numbers.
#ifndef SLUICE_FRAMEWORK_WIRE_HANDSHAKE_H_
#define SLUICE_FRAMEWORK_WIRE_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// Who somebody says to be.
struct Caller {
  int32_t rank = 0, ranks = 1;
  int32_t channel = 0;   // of several connections of the same two
  int32_t restarts = 0;  // how often the job was begun anew
  bool sealed = false;   // whether all behind the answer is sealed (seal.h)
  friend auto operator<=>(const Caller&, const Caller&) = default;
};

inline constexpr size_t kNonceBytes = 32, kProofBytes = 32, kAddedBytes = 64;
inline constexpr size_t kHelloBytes = 64, kChallengeBytes = kNonceBytes + kProofBytes,
                        kAnswerBytes = kProofBytes + kAddedBytes, kVerdictHeadBytes = 8;
inline constexpr size_t kMostVerdictBytes = size_t{1} << 20;

using Hello = std::array<std::byte, kHelloBytes>;
using Challenge = std::array<std::byte, kChallengeBytes>;
using Answer = std::array<std::byte, kAnswerBytes>;
using VerdictHead = std::array<std::byte, kVerdictHeadBytes>;

Hello MakeHello(const Caller& caller);
// InvalidArgument: it does not speak this protocol, or another version of it.
absl::StatusOr<Caller> ReadHello(const Hello& hello);

Challenge MakeChallenge(absl::string_view secret, const Hello& hello);
// PermissionDenied: who challenges does not know the secret. InvalidArgument: `added` has more than
// kAddedBytes.
absl::StatusOr<Answer> MakeAnswer(absl::string_view secret, const Hello& hello,
                                  const Challenge& challenge, absl::string_view added);
// What the client has added. PermissionDenied: it does not know the secret.
absl::StatusOr<std::string> ReadAnswer(absl::string_view secret, const Hello& hello,
                                       const Challenge& challenge, const Answer& answer);

// The verdict: its head, and the text behind it, of a welcome or of the refusal.
std::string MakeVerdict(const absl::Status& status, absl::string_view text);
struct ReadVerdictHead {
  absl::StatusCode code = absl::StatusCode::kOk;
  size_t bytes = 0;  // of the text
};
absl::StatusOr<ReadVerdictHead> ReadVerdict(const VerdictHead& head);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_HANDSHAKE_H_
