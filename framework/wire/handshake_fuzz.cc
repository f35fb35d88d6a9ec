// What a server is told before it knows anybody: a byte says what comes, a message follows, and so
// on. Only an answer that was made with the secret for the last challenge, and not changed since,
// is one.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/wire/handshake.h"

namespace sluice {
namespace {

constexpr absl::string_view kSecret = "a secret of thirty-two bytes....";
constexpr int kMostSteps = 16;  // proofs take time

class Server {
 public:
  explicit Server(absl::Span<const std::byte> input) : input_(input) {}

  void Run() {
    Take(&hello_);
    challenge_ = MakeChallenge(kSecret, hello_);
    std::byte what;
    for (int steps = 0; steps < kMostSteps && Take(&what); ++steps) {
      switch (static_cast<int>(what) % 6) {
        case 0:
          ReadHelloAndChallenge();
          break;
        case 1:  // anything
          answer_ = {};
          Take(&answer_);
          SLUICE_CHECK(!ReadAnswer(kSecret, hello_, challenge_, answer_).ok());
          break;
        case 2:
          AnswerWell();
          break;
        case 3:  // the same again, of another challenge
          challenge_ = MakeChallenge(kSecret, hello_);
          SLUICE_CHECK(!ReadAnswer(kSecret, hello_, challenge_, answer_).ok());
          break;
        case 4:  // what the server itself has said
          std::copy(challenge_.end() - kProofBytes, challenge_.end(), answer_.begin());
          SLUICE_CHECK(!ReadAnswer(kSecret, hello_, challenge_, answer_).ok());
          break;
        case 5:
          ReadAVerdict();
          break;
      }
    }
  }

 private:
  // What has come of it; the rest stays as it was. False at the end.
  template <typename Message>
  bool Take(Message* message) {
    const size_t bytes = std::min(sizeof(*message), input_.size());
    if (bytes == 0) return false;  // and there may be no pointer to copy them from
    std::memcpy(message, input_.data(), bytes);
    input_.remove_prefix(bytes);
    return true;
  }

  void ReadHelloAndChallenge() {
    Take(&hello_);
    const absl::StatusOr<Caller> caller = ReadHello(hello_);
    challenge_ = MakeChallenge(kSecret, hello_);
    if (!caller.ok()) return;
    // Whatever is read of a hello, another one that says it is read alike.
    SLUICE_CHECK(*ReadHello(MakeHello(*caller)) == *caller);
  }

  void AnswerWell() {
    std::array<char, kAddedBytes> added;
    added.fill('x');
    Take(&added);
    const absl::string_view text(added.data(), added.size());
    const absl::StatusOr<Answer> answer = MakeAnswer(kSecret, hello_, challenge_, text);
    SLUICE_CHECK_OK(answer.status());
    const absl::StatusOr<std::string> read = ReadAnswer(kSecret, hello_, challenge_, *answer);
    SLUICE_CHECK_OK(read.status());
    SLUICE_CHECK(*read == text.substr(0, std::min(text.find('\0'), text.size())));
    Answer change = {};
    Take(&change);
    answer_ = *answer;
    for (size_t i = 0; i < answer_.size(); ++i) answer_[i] ^= change[i];
    const bool same = answer_ == *answer;
    SLUICE_CHECK(ReadAnswer(kSecret, hello_, challenge_, answer_).ok() == same);
  }

  void ReadAVerdict() {
    VerdictHead head = {};
    Take(&head);
    const absl::StatusOr<ReadVerdictHead> verdict = ReadVerdict(head);
    if (!verdict.ok()) return;
    SLUICE_CHECK(verdict->bytes <= kMostVerdictBytes);
    const std::string text(verdict->bytes, 'x');
    const std::string written = MakeVerdict(absl::Status(verdict->code, text), text);
    SLUICE_CHECK_EQ(written.size(), kVerdictHeadBytes + text.size());
    SLUICE_CHECK(std::memcmp(written.data(), head.data(), head.size()) == 0);
  }

  absl::Span<const std::byte> input_;
  Hello hello_ = {};
  Challenge challenge_;
  Answer answer_ = {};
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Server({reinterpret_cast<const std::byte*>(data), size}).Run();
  return 0;
}
