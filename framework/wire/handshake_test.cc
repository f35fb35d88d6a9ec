#include "framework/wire/handshake.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr absl::string_view kSecret = "a secret of thirty-two bytes....";
constexpr absl::string_view kAdded = "10.0.0.2:41523 0123456789abcdef";

// One handshake as far as it comes.
struct Talk {
  Hello hello;
  Challenge challenge;
  Answer answer;
};

Talk Whole(absl::string_view secret = kSecret) {
  Talk talk;
  talk.hello = MakeHello({3, 16, 1, 2});
  talk.challenge = MakeChallenge(secret, talk.hello);
  const absl::StatusOr<Answer> answer = MakeAnswer(secret, talk.hello, talk.challenge, kAdded);
  EXPECT_TRUE(answer.ok()) << answer.status();
  talk.answer = *answer;
  return talk;
}

bool Accepts(const Talk& talk, absl::string_view secret = kSecret) {
  return ReadAnswer(secret, talk.hello, talk.challenge, talk.answer).ok();
}

TEST(HandshakeTest, WhoKnowsTheSecretComesIn) {
  const Talk talk = Whole();
  const absl::StatusOr<Caller> caller = ReadHello(talk.hello);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(*caller, (Caller{3, 16, 1, 2}));
  EXPECT_EQ(*ReadAnswer(kSecret, talk.hello, talk.challenge, talk.answer), kAdded);
}

TEST(HandshakeTest, WhatIsAddedMayBeAnythingThatFits) {
  const Hello hello = MakeHello({});
  const Challenge challenge = MakeChallenge(kSecret, hello);
  for (const size_t size : {size_t{0}, size_t{1}, kAddedBytes - 1, kAddedBytes}) {
    const std::string added(size, '\xff');
    const absl::StatusOr<Answer> answer = MakeAnswer(kSecret, hello, challenge, added);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(*ReadAnswer(kSecret, hello, challenge, *answer), added);
  }
  const absl::Status status =
      MakeAnswer(kSecret, hello, challenge, std::string(kAddedBytes + 1, 'x')).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("at most 64 bytes, got 65"));
}

// What other versions of this program and other programs count on; the names of the sides, too.
TEST(HandshakeTest, ProofsAreWhatTheProtocolSays) {
  const Talk talk = Whole();
  const auto text = [](absl::Span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto prove = [](const std::string& all) {
    std::string proof(kProofBytes, ' ');
    unsigned int size = 0;
    HMAC(EVP_sha256(), kSecret.data(), static_cast<int>(kSecret.size()),
         reinterpret_cast<const unsigned char*>(all.data()), all.size(),
         reinterpret_cast<unsigned char*>(proof.data()), &size);
    return proof;
  };
  const std::string hello = text(talk.hello), challenge = text(talk.challenge);
  const std::string answer = text(talk.answer);
  EXPECT_EQ(challenge.substr(kNonceBytes),
            prove("sluice server" + hello + challenge.substr(0, kNonceBytes)));
  EXPECT_EQ(answer.substr(0, kProofBytes),
            prove("sluice client" + hello + challenge + answer.substr(kProofBytes)));
  EXPECT_EQ(hello.substr(0, 8), std::string("SLUICE\x02\0", 8));
}

// Every byte of every message is covered by a proof, or by the check that it is this protocol.
TEST(HandshakeTest, OneFlippedBitIsFound) {
  const Talk talk = Whole();
  for (size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
    Talk flipped = talk;
    flipped.hello[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(Accepts(flipped)) << "hello, bit " << bit;
    EXPECT_TRUE(absl::IsPermissionDenied(
        MakeAnswer(kSecret, flipped.hello, flipped.challenge, kAdded).status()))
        << "hello, bit " << bit;
    if (bit / 8 < 8) {
      EXPECT_FALSE(ReadHello(flipped.hello).ok()) << "hello, bit " << bit;
    }
  }
  for (size_t bit = 0; bit < 8 * kChallengeBytes; ++bit) {
    Talk flipped = talk;
    flipped.challenge[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(Accepts(flipped)) << "challenge, bit " << bit;
    EXPECT_TRUE(absl::IsPermissionDenied(
        MakeAnswer(kSecret, flipped.hello, flipped.challenge, kAdded).status()))
        << "challenge, bit " << bit;
  }
  for (size_t bit = 0; bit < 8 * kAnswerBytes; ++bit) {
    Talk flipped = talk;
    flipped.answer[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(Accepts(flipped)) << "answer, bit " << bit;
  }
}

TEST(HandshakeTest, AnotherSecretIsFoundByEitherSide) {
  const Talk talk = Whole();
  for (const std::string other :
       {"", "a secret of thirty-two bytes...", "a secret of thirty-two bytes.....", "another"}) {
    EXPECT_FALSE(Accepts(talk, other)) << other;
    const Challenge challenge = MakeChallenge(other, talk.hello);
    const absl::Status status = MakeAnswer(kSecret, talk.hello, challenge, "").status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << other;
    EXPECT_THAT(status.message(), HasSubstr("does not know this job's secret"));
  }
}

// It then shuts nobody out, and is as whole as another.
TEST(HandshakeTest, AnEmptySecretIsASecretThatAllKnow) {
  for (const absl::string_view empty : {absl::string_view(), absl::string_view("")}) {
    EXPECT_TRUE(Accepts(Whole(empty), ""));
    EXPECT_FALSE(Accepts(Whole(empty), kSecret));
    EXPECT_FALSE(Accepts(Whole(kSecret), empty));
  }
  EXPECT_FALSE(Accepts(Whole(""), absl::string_view("\0", 1)) && Accepts(Whole(""), "0"));
}

// An attacker gives a server back what servers have said, and clients what clients have.
TEST(HandshakeTest, AProofIsOfNoUseToTheOtherSide) {
  Talk talk = Whole();
  // The server's own proof, as the answer's, of which the rest is chosen freely.
  std::copy(talk.challenge.begin() + kNonceBytes, talk.challenge.end(), talk.answer.begin());
  EXPECT_FALSE(Accepts(talk));
  // Another server's challenge over the same hello: the attacker is the client of both.
  const Challenge other = MakeChallenge(kSecret, talk.hello);
  std::copy(other.begin() + kNonceBytes, other.end(), talk.answer.begin());
  EXPECT_FALSE(Accepts(talk));
  // A hello that is sent back, as it has a challenge's size.
  static_assert(kHelloBytes == kChallengeBytes);
  Challenge reflected;
  std::copy(talk.hello.begin(), talk.hello.end(), reflected.begin());
  EXPECT_FALSE(MakeAnswer(kSecret, talk.hello, reflected, "").ok());
}

TEST(HandshakeTest, NothingIsOfUseTwice) {
  const Talk old = Whole();
  // The same hello and answer again, as recorded from the wire: the server's number is another.
  Talk again = old;
  again.challenge = MakeChallenge(kSecret, old.hello);
  EXPECT_FALSE(Accepts(again));
  // A server that replays a challenge: the client's number is another.
  EXPECT_FALSE(MakeAnswer(kSecret, MakeHello({3, 16, 1, 2}), old.challenge, "").ok());
}

TEST(HandshakeTest, RandomNumbersAreNeverTwice) {
  const Hello hello = MakeHello({}), other = MakeHello({});
  EXPECT_TRUE(std::equal(hello.begin(), hello.end() - kNonceBytes, other.begin()));
  EXPECT_FALSE(std::equal(hello.end() - kNonceBytes, hello.end(), other.end() - kNonceBytes));
  const Challenge first = MakeChallenge(kSecret, hello), second = MakeChallenge(kSecret, hello);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + kNonceBytes, second.begin()));
}

TEST(HandshakeTest, AHelloOfSomethingElseIsRefused) {
  for (const absl::string_view other :
       {"GET / HTTP/1.1\r\nHost: node3\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "SSH-2.0-x", ""}) {
    Hello hello = {};
    std::memcpy(hello.data(), other.data(), other.size());
    const absl::Status status = ReadHello(hello).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << other;
    EXPECT_THAT(status.message(), HasSubstr("expected a process of Sluice"));
  }
}

TEST(HandshakeTest, AnotherVersionIsNamed) {
  Hello hello = MakeHello({});
  hello[6] = std::byte{3};
  EXPECT_THAT(ReadHello(hello).status().message(), HasSubstr("expected version 2"));
  EXPECT_THAT(ReadHello(hello).status().message(), HasSubstr("got 3"));
}

TEST(HandshakeTest, AHelloSaysWhetherTheConnectionIsSealed) {
  for (const bool sealed : {false, true}) {
    Hello hello = MakeHello({1, 2, 0, 0, sealed});
    EXPECT_EQ(ReadHello(hello)->sealed, sealed);
    hello[24] = std::byte{2};
    EXPECT_THAT(ReadHello(hello).status().message(), HasSubstr("expected 0 or 1"));
  }
}

TEST(HandshakeTest, AHelloSaysAnyNumbers) {
  const Caller wild = {INT32_MIN, INT32_MAX, -1, INT32_MIN};
  EXPECT_EQ(*ReadHello(MakeHello(wild)), wild);
}

VerdictHead HeadOf(const std::string& verdict) {
  VerdictHead head;
  std::memcpy(head.data(), verdict.data(), head.size());
  return head;
}

TEST(VerdictTest, SaysWelcomeOrWhyNot) {
  const std::string welcome = MakeVerdict(absl::OkStatus(), "node1:1\nnode2:2");
  EXPECT_EQ(ReadVerdict(HeadOf(welcome))->code, absl::StatusCode::kOk);
  EXPECT_EQ(ReadVerdict(HeadOf(welcome))->bytes, 15);
  EXPECT_EQ(welcome.substr(kVerdictHeadBytes), "node1:1\nnode2:2");
  const std::string refusal = MakeVerdict(absl::FailedPreconditionError("two are rank 3"), "x");
  EXPECT_EQ(ReadVerdict(HeadOf(refusal))->code, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refusal.substr(kVerdictHeadBytes), "two are rank 3");
}

TEST(VerdictTest, ALongTextIsCutToWhatIsRead) {
  const std::string verdict =
      MakeVerdict(absl::OkStatus(), std::string(kMostVerdictBytes + 9, 'x'));
  EXPECT_EQ(verdict.size(), kVerdictHeadBytes + kMostVerdictBytes);
  EXPECT_EQ(ReadVerdict(HeadOf(verdict))->bytes, kMostVerdictBytes);
}

// Whatever a head has, what is read says a known code and few bytes, or nothing.
TEST(VerdictTest, AHeadOfAnyContent) {
  const auto head = [](int32_t code, uint32_t bytes) {
    VerdictHead made;
    std::memcpy(made.data(), &code, 4);
    std::memcpy(made.data() + 4, &bytes, 4);
    return ReadVerdict(made);
  };
  EXPECT_TRUE(head(0, 0).ok());
  EXPECT_TRUE(head(16, kMostVerdictBytes).ok());
  for (const int32_t code : {-1, 17, 256, INT32_MIN, INT32_MAX}) {
    EXPECT_FALSE(head(code, 0).ok()) << code;
  }
  for (const uint32_t bytes :
       {static_cast<uint32_t>(kMostVerdictBytes) + 1, uint32_t{1} << 31, UINT32_MAX}) {
    EXPECT_FALSE(head(0, bytes).ok()) << bytes;
    EXPECT_THAT(head(0, bytes).status().message(), HasSubstr("1048576 bytes"));
  }
  uint64_t random = 1;
  for (int i = 0; i < 100000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto read = head(static_cast<int32_t>(random >> 32) >> (i % 32),
                           static_cast<uint32_t>(random) >> (i / 32 % 32));
    if (!read.ok()) continue;
    ASSERT_GE(static_cast<int>(read->code), 0);
    ASSERT_LE(static_cast<int>(read->code), 16);
    ASSERT_LE(read->bytes, kMostVerdictBytes);
  }
}

}  // namespace
}  // namespace sluice
