// Who comes in over a sealed connection, and somebody between the two who changes what they say
// before it is sealed, and after.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/wire/acceptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Clock = EventLoop::Clock;

constexpr char kSecret[] = "a secret of thirty-two bytes....";
constexpr char kWelcome[] = "welcome to this job";
constexpr Caller kCaller = {2, 4, 1, 0, true};
constexpr size_t kSealedByte = 24;  // of the hello

enum Message { kHello, kChallenge, kAnswer, kVerdict };
using Change = std::function<void(Message message, Bytes* bytes)>;

Deadline In(int milliseconds) { return Clock::now() + std::chrono::milliseconds(milliseconds); }

class SealedEntryTest : public ::testing::Test {
 protected:
  SealedEntryTest() : loop_(*EventLoop::Start()) {}
  ~SealedEntryTest() override { acceptor_.reset(); }

  void Start(const std::string& secret = kSecret) {
    Descriptor listener = *Listen({"127.0.0.1", 0});
    endpoint_ = *LocalEndpoint(listener.number());
    AcceptorOptions options;
    options.secret = secret;
    acceptor_ = *Acceptor::Start(loop_.get(), std::move(listener), options, [this](Newcomer come) {
      Tell(&come, absl::OkStatus(), kWelcome).IgnoreError();
      std::lock_guard<std::mutex> lock(mutex_);
      taken_.push_back(std::move(come));
      changed_.notify_all();
    });
  }
  // By way of somebody who passes on what `change` makes of each message.
  absl::StatusOr<Admission> ComesIn(const Change& change, const Caller& caller = kCaller,
                                    const std::string& secret = kSecret) {
    Descriptor tap = *Listen({"127.0.0.1", 0});
    const Endpoint tapped = *LocalEndpoint(tap.number());
    std::thread between([&] { PassAll(tap.number(), change); });
    absl::StatusOr<Admission> admission =
        Enter(tapped, caller, secret, In(limit_), [](int) { return std::string("added"); });
    between.join();
    return admission;
  }
  void PassAll(int tap, const Change& change) {
    absl::StatusOr<Descriptor> from = Descriptor();
    while (!from->open()) {
      from = Accept(tap);
      ASSERT_TRUE(from.ok());
    }
    const Descriptor to = *Connect(endpoint_, In(3000));
    const auto pass = [&](int a, int b, Message message, size_t size) {
      Bytes bytes(size);
      if (!ReadAll(a, absl::MakeSpan(bytes), In(3000)).ok()) return false;
      if (change) change(message, &bytes);
      return WriteAll(b, bytes, In(3000)).ok();
    };
    const size_t verdict =
        kVerdictHeadBytes + sizeof(kWelcome) - 1 + (sealed_verdict_ ? kRecordExtraBytes : 0);
    if (pass(from->number(), to.number(), kHello, kHelloBytes) &&
        pass(to.number(), from->number(), kChallenge, kChallengeBytes) &&
        pass(from->number(), to.number(), kAnswer, kAnswerBytes)) {
      pass(to.number(), from->number(), kVerdict, verdict);
    }
    // The next try finds nobody.
  }
  size_t taken() {
    std::lock_guard<std::mutex> lock(mutex_);
    return taken_.size();
  }
  // The server has told it before it is here.
  Connection& Taken(size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return taken_.size() > index; });
    return taken_[index].connection;
  }

  bool sealed_verdict_ = true;
  int limit_ = 3000;  // milliseconds, which a caller waits that is told nothing
  std::unique_ptr<EventLoop> loop_;
  Endpoint endpoint_;
  std::unique_ptr<Acceptor> acceptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Newcomer> taken_;
};

bool Stands(const Bytes& seen, absl::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return std::search(seen.begin(), seen.end(), begin, begin + text.size()) != seen.end();
}

TEST_F(SealedEntryTest, TheVerdictIsSealedAsTheCallerSays) {
  Start();
  Bytes first;
  size_t count = 0;
  for (const bool sealed : {false, true, true}) {
    sealed_verdict_ = sealed;
    Bytes seen;
    Caller caller = kCaller;
    caller.sealed = sealed;
    const auto admission = ComesIn(
        [&](Message message, Bytes* bytes) {
          if (message == kVerdict) seen = *bytes;
        },
        caller);
    ASSERT_TRUE(admission.ok()) << admission.status();
    EXPECT_EQ(admission->text, kWelcome);
    EXPECT_EQ(admission->connection.sealed(), sealed);
    EXPECT_EQ(Taken(count++).sealed(), sealed);
    EXPECT_EQ(Stands(seen, "welcome"), !sealed);
    // The same text, of the same rank, under the same secret: by another key.
    EXPECT_NE(seen, first);
    first = seen;
  }
}

TEST_F(SealedEntryTest, BothEndsHaveTheSameKeys) {
  Start();
  absl::StatusOr<Admission> admission =
      Enter(endpoint_, kCaller, kSecret, In(3000), [](int) { return std::string(); });
  ASSERT_TRUE(admission.ok()) << admission.status();
  const std::byte said{7};
  std::byte heard{0};
  ASSERT_TRUE(Taken(0).Write({&said, 1}, In(3000)).ok());
  ASSERT_TRUE(admission->connection.Read({&heard, 1}, In(3000)).ok());
  EXPECT_EQ(heard, said);
  ASSERT_TRUE(admission->connection.Write({&said, 1}, In(3000)).ok());
  ASSERT_TRUE(Taken(0).Read({&heard, 1}, In(3000)).ok());
}

// Whether it is sealed is in the hello, which the server's proof covers.
TEST_F(SealedEntryTest, NobodyBetweenTurnsItOffOrOn) {
  Start();
  for (const bool sealed : {true, false}) {
    Caller caller = kCaller;
    caller.sealed = sealed;
    const auto admission = ComesIn(
        [&](Message message, Bytes* bytes) {
          if (message == kHello) (*bytes)[kSealedByte] ^= std::byte{1};
        },
        caller);
    EXPECT_TRUE(absl::IsPermissionDenied(admission.status())) << admission.status();
    EXPECT_THAT(admission.status().message(), HasSubstr("does not know this job's secret"));
  }
  EXPECT_EQ(taken(), 0);
}

TEST_F(SealedEntryTest, AChangedAnswerIsNotTaken) {
  Start();
  limit_ = 500;
  for (const size_t byte : {size_t{0}, kProofBytes, kAnswerBytes - 1}) {
    const auto admission = ComesIn([&](Message message, Bytes* bytes) {
      if (message == kAnswer) (*bytes)[byte] ^= std::byte{1};
    });
    EXPECT_FALSE(admission.ok());
  }
  EXPECT_EQ(taken(), 0);
}

TEST_F(SealedEntryTest, AChangedVerdictIsNotBelieved) {
  Start();
  const auto admission = ComesIn([&](Message message, Bytes* bytes) {
    if (message == kVerdict) (*bytes)[kRecordHeadBytes] ^= std::byte{1};
  });
  EXPECT_TRUE(absl::IsDataLoss(admission.status())) << admission.status();
  EXPECT_THAT(admission.status().message(), HasSubstr("record 0 of its sealed connection"));
}

// A verdict that somebody else has written, in the clear, is none.
TEST_F(SealedEntryTest, AVerdictOfSomebodyElseIsNotBelieved) {
  Start();
  const auto admission = ComesIn([&](Message message, Bytes* bytes) {
    const std::string forged = MakeVerdict(absl::OkStatus(), kWelcome);
    if (message != kVerdict) return;
    const auto* const begin = reinterpret_cast<const std::byte*>(forged.data());
    bytes->assign(begin, begin + forged.size());
  });
  EXPECT_FALSE(admission.ok());
  EXPECT_THAT(admission.status().message(), HasSubstr("sealed record of 1 to"));
}

TEST_F(SealedEntryTest, WithoutASecretNothingIsSealed) {
  Start("");
  const auto admission = ComesIn({}, kCaller, "");
  EXPECT_TRUE(absl::IsInvalidArgument(admission.status())) << admission.status();
  EXPECT_THAT(admission.status().message(), HasSubstr("expected a secret"));
  EXPECT_EQ(taken(), 0);
}

}  // namespace
}  // namespace sluice
