// An acceptor under attack. Whatever comes, a caller that knows the secret comes in afterwards, and
// the process has no more descriptors and memory than before.
#include "framework/wire/acceptor.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Clock = EventLoop::Clock;
using std::chrono::milliseconds;

constexpr char kSecret[] = "a secret of thirty-two bytes....";
// What an attack may leave behind for the time being, and for ever.
constexpr int64_t kMostGrowth = int64_t{1} << 20;
// A sanitizer has an allocator of its own, of which mallinfo2 knows nothing.
#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
constexpr bool kCountsMemory = false;
#else
constexpr bool kCountsMemory = true;
#endif

Deadline In(int time) { return Clock::now() + milliseconds(time); }

int OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all))) - 1;
}

int64_t Memory() { return kCountsMemory ? static_cast<int64_t>(mallinfo2().uordblks) : 0; }

bool Eventually(const std::function<bool()>& there, int limit = 10000) {
  for (const auto until = In(limit); Clock::now() < until;) {
    if (there()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return there();
}

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() : loop_(*EventLoop::Start()) {}

  void Start(milliseconds limit = milliseconds(200), size_t most_unknown = 64) {
    AcceptorOptions options;
    options.secret = kSecret;
    options.limit = limit;
    options.most_unknown = most_unknown;
    absl::StatusOr<Descriptor> listener = Listen({"127.0.0.1", 0});
    ASSERT_TRUE(listener.ok()) << listener.status();
    endpoint_ = *LocalEndpoint(listener->number());
    auto acceptor = Acceptor::Start(loop_.get(), *std::move(listener), options,
                                    [this](Newcomer newcomer) { Take(std::move(newcomer)); });
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
    EXPECT_TRUE(ComesIn().ok());
    loop_->PostAndWait([] {});  // the newcomer has gone
    descriptors_ = OpenDescriptors();
    memory_ = Memory();
  }
  ~AcceptorTest() override { acceptor_.reset(); }

  // What the job would do: says welcome, and by whom the newcomer was let in.
  void Take(Newcomer newcomer) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++taken_;
    last_ = newcomer.caller;
    last_added_ = newcomer.added;
    Tell(&newcomer, absl::OkStatus(), "welcome").IgnoreError();
  }
  int taken() {
    std::lock_guard<std::mutex> lock(mutex_);
    return taken_;
  }

  absl::Status ComesIn(absl::string_view secret = kSecret) {
    const auto admission =
        Enter(endpoint_, {2, 4, 1, 0}, secret, In(20000), [](int) { return std::string("added"); });
    EXPECT_EQ(admission.ok() ? admission->text : "welcome", "welcome");
    return admission.status();
  }
  // After an attack: all is as it was before.
  void ExpectUnharmed() {
    const auto begin = Clock::now();
    const absl::Status status = ComesIn();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_LT(Clock::now() - begin, milliseconds(5000));
    EXPECT_TRUE(Eventually([this] { return OpenDescriptors() <= descriptors_; }))
        << OpenDescriptors() << " descriptors, before " << descriptors_;
    loop_->PostAndWait([] {});
    EXPECT_LT(Memory() - memory_, kMostGrowth);
  }

  Descriptor Open() {
    absl::StatusOr<Descriptor> socket = Connect(endpoint_, In(10000));
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }
  static bool Say(const Descriptor& socket, absl::string_view text) {
    return send(socket.number(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // What it says until it closes, or the time is over.
  static std::string Hear(const Descriptor& socket, bool* closed, int limit = 10000) {
    std::string heard;
    std::array<std::byte, 1> one;
    absl::Status status;
    while ((status = ReadAll(socket.number(), absl::MakeSpan(one), In(limit))).ok()) {
      heard.push_back(static_cast<char>(one[0]));
    }
    *closed = absl::IsUnavailable(status);
    return heard;
  }
  // Says it all at once on a connection of its own, and is shown the door without a word.
  void ExpectShutOut(const std::string& said) {
    const int64_t refused = acceptor_->refused();
    const Descriptor socket = Open();
    Say(socket, said);
    bool closed = false;
    EXPECT_EQ(Hear(socket, &closed), "") << "to " << said.size() << " bytes";
    EXPECT_TRUE(closed);
    EXPECT_TRUE(Eventually([&] { return acceptor_->refused() > refused; }));
  }

  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Acceptor> acceptor_;
  Endpoint endpoint_;
  int descriptors_ = 0;
  int64_t memory_ = 0;

  std::mutex mutex_;
  int taken_ = 0;
  Caller last_;
  std::string last_added_;
};

TEST_F(AcceptorTest, WhoKnowsTheSecretComesIn) {
  Start();
  EXPECT_EQ(taken(), 1);
  EXPECT_EQ(last_, (Caller{2, 4, 1, 0}));
  EXPECT_EQ(last_added_, "added");
  ExpectUnharmed();
  EXPECT_EQ(acceptor_->refused(), 0);
}

TEST_F(AcceptorTest, WhoWasThereBeforeItBeganComesIn) {
  absl::StatusOr<Descriptor> listener = Listen({"127.0.0.1", 0});
  endpoint_ = *LocalEndpoint(listener->number());
  std::thread caller([this] { EXPECT_TRUE(ComesIn().ok()); });
  std::this_thread::sleep_for(milliseconds(50));
  AcceptorOptions options;
  options.secret = kSecret;
  acceptor_ = *Acceptor::Start(loop_.get(), *std::move(listener), options,
                               [this](Newcomer newcomer) { Take(std::move(newcomer)); });
  caller.join();
}

TEST_F(AcceptorTest, AMessageMayComeByteByByte) {
  Start(milliseconds(5000));
  const Descriptor socket = Open();
  const Hello hello = MakeHello({2, 4, 1, 0});
  const auto trickle = [&](absl::Span<const std::byte> bytes) {
    for (const std::byte& byte : bytes) {
      ASSERT_TRUE(WriteAll(socket.number(), {&byte, 1}, In(1000)).ok());
      if (&byte - bytes.data() > 3) continue;
      std::this_thread::sleep_for(milliseconds(2));
    }
  };
  trickle(absl::MakeSpan(hello));
  Challenge challenge;
  ASSERT_TRUE(ReadAll(socket.number(), absl::MakeSpan(challenge), In(5000)).ok());
  const Answer answer = *MakeAnswer(kSecret, hello, challenge, "");
  trickle(absl::MakeSpan(answer));
  EXPECT_TRUE(Eventually([this] { return taken() == 2; }));
}

TEST_F(AcceptorTest, APortScan) {
  Start();
  for (int i = 0; i < 2000; ++i) Open();
  EXPECT_TRUE(Eventually([this] { return acceptor_->refused() == 2000; }));
  ExpectUnharmed();
}

// What is to be done later for a connection is not kept once it has gone.
TEST_F(AcceptorTest, ManyThatComeAndGoLeaveNothingUntilTheirTimeIsOver) {
  Start(/*limit=*/std::chrono::minutes(10));
  for (int i = 0; i < 20000; ++i) Open();
  ExpectUnharmed();
}

TEST_F(AcceptorTest, Garbage) {
  Start();
  uint64_t random = 7;
  for (int i = 0; i < 300; ++i) {
    std::string garbage(64 + i, ' ');
    for (char& c : garbage) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      c = static_cast<char>(random >> 56);
    }
    ExpectShutOut(garbage);
  }
  ExpectUnharmed();
}

TEST_F(AcceptorTest, OtherProtocolsAndLengths) {
  Start();
  const std::string tls_hello =
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(506, '\x5a');
  ExpectShutOut(tls_hello);
  ExpectShutOut(
      "GET /../../etc/passwd HTTP/1.1\r\nHost: node3\r\nUser-Agent: somebody who looks\r\n\r\n");
  ExpectShutOut("GET / HTTP/1.0\r\n\r\n");  // too short: until its time is over
  ExpectShutOut("");
  ExpectShutOut(std::string(100000, '\xff'));  // lengths of 4 GiB
  ExpectShutOut(std::string(100000, '\0'));
  ExpectShutOut(std::string("SLUICE\x01\0", 8) +
                std::string(20, '\xff'));  // a hello that never ends
  ExpectUnharmed();
}

TEST_F(AcceptorTest, AHelloAndThenNothingOrNonsense) {
  Start();
  for (const size_t size : {size_t{0}, size_t{1}, kAnswerBytes - 1, kAnswerBytes}) {
    const Descriptor socket = Open();
    const Hello hello = MakeHello({2, 4, 1, 0});
    ASSERT_TRUE(WriteAll(socket.number(), absl::MakeSpan(hello), In(1000)).ok());
    Say(socket, std::string(size, 'x'));
    bool closed = false;
    const std::string heard = Hear(socket, &closed);
    EXPECT_TRUE(closed);
    // The challenge, and of a whole answer the refusal: nothing else.
    EXPECT_EQ(heard.size() > kChallengeBytes, size == kAnswerBytes) << size;
    EXPECT_LT(heard.size(), 200);
  }
  EXPECT_EQ(taken(), 1);
  ExpectUnharmed();
}

TEST_F(AcceptorTest, WrongSecrets) {
  Start();
  for (const std::string secret : {"", "a secret of thirty-two bytes...", "another"}) {
    const absl::Status status = ComesIn(secret);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  }
  EXPECT_EQ(taken(), 1);
  ExpectUnharmed();
}

// A client that does not look at the server's proof is told no more than others.
TEST_F(AcceptorTest, AnAnswerUnderAnotherSecret) {
  Start();
  Descriptor socket = Open();
  const Hello hello = MakeHello({2, 4, 1, 0});
  ASSERT_TRUE(WriteAll(socket.number(), absl::MakeSpan(hello), In(1000)).ok());
  Challenge challenge;
  ASSERT_TRUE(ReadAll(socket.number(), absl::MakeSpan(challenge), In(1000)).ok());
  Answer answer = *MakeAnswer("another", hello, MakeChallenge("another", hello), "");
  ASSERT_TRUE(WriteAll(socket.number(), absl::MakeSpan(answer), In(1000)).ok());
  bool closed = false;
  EXPECT_THAT(Hear(socket, &closed), HasSubstr("it does not know this job's secret"));
  EXPECT_TRUE(closed);
  EXPECT_EQ(taken(), 1);
  EXPECT_EQ(acceptor_->refused(), 1);
  socket = Descriptor();
  ExpectUnharmed();
}

// Between a client and the server stands one who writes down what both say, and says it again.
TEST_F(AcceptorTest, AHandshakeThatWasRecordedFromTheWire) {
  Start();
  absl::StatusOr<Descriptor> tap = Listen({"127.0.0.1", 0});
  const Endpoint tapped = *LocalEndpoint(tap->number());
  std::thread client([&] {
    EXPECT_TRUE(
        Enter(tapped, {2, 4, 1, 0}, kSecret, In(10000), [](int) { return std::string(); }).ok());
  });
  Descriptor from;
  ASSERT_TRUE(Eventually([&] {
    from = *Accept(tap->number());
    return from.open();
  }));
  Descriptor to = Open();
  Hello hello;
  Challenge challenge;
  Answer answer;
  const auto pass = [](const Descriptor& a, const Descriptor& b, absl::Span<std::byte> message) {
    EXPECT_TRUE(ReadAll(a.number(), message, In(5000)).ok());
    EXPECT_TRUE(WriteAll(b.number(), message, In(5000)).ok());
  };
  pass(from, to, absl::MakeSpan(hello));
  pass(to, from, absl::MakeSpan(challenge));
  pass(from, to, absl::MakeSpan(answer));
  std::array<std::byte, kVerdictHeadBytes + 7> verdict;
  pass(to, from, absl::MakeSpan(verdict));
  client.join();
  EXPECT_EQ(taken(), 2);
  const int64_t refused = acceptor_->refused();

  for (int i = 0; i < 20; ++i) {
    const Descriptor again = Open();
    ASSERT_TRUE(WriteAll(again.number(), absl::MakeSpan(hello), In(1000)).ok());
    ASSERT_TRUE(WriteAll(again.number(), absl::MakeSpan(answer), In(1000)).ok());
    bool closed = false;
    EXPECT_THAT(Hear(again, &closed), HasSubstr("does not know this job's secret"));
    EXPECT_TRUE(closed);
  }
  EXPECT_EQ(taken(), 2);
  EXPECT_EQ(acceptor_->refused(), refused + 20);
  from = Descriptor();
  to = Descriptor();
  tap = Descriptor();
  ExpectUnharmed();
}

TEST_F(AcceptorTest, OfMoreThanAllowedTheOldestGo) {
  Start(/*limit=*/std::chrono::minutes(10));
  std::vector<Descriptor> callers;
  for (int i = 0; i < 500; ++i) callers.push_back(Open());
  EXPECT_TRUE(Eventually([this] { return acceptor_->refused() == 500 - 64; }));
  EXPECT_EQ(OpenDescriptors(), descriptors_ + 500 + 64);
  bool closed = false;
  Hear(callers[500 - 64 - 1], &closed, /*limit=*/1000);
  EXPECT_TRUE(closed);
  Hear(callers[500 - 64], &closed, /*limit=*/50);
  EXPECT_FALSE(closed);
  callers.clear();
  ExpectUnharmed();
}

// Those that are there, and the job itself, are not kept waiting by all that come at once.
TEST_F(AcceptorTest, OthersHaveTheirTurnAmongManyThatCome) {
  Start(/*limit=*/std::chrono::minutes(10));
  std::vector<Descriptor> callers;
  std::atomic<int64_t> refused{-1};
  loop_->PostAndWait([&] {
    for (int i = 0; i < 500; ++i) callers.push_back(Open());
    // In the round after the one in which the first of them are taken.
    loop_->Post([&] { loop_->Post([&] { refused = acceptor_->refused(); }); });
  });
  EXPECT_TRUE(Eventually([&] { return refused >= 0; }));
  EXPECT_EQ(refused, 0);
  EXPECT_TRUE(Eventually([this] { return acceptor_->refused() == 500 - 64; }));
  callers.clear();
  ExpectUnharmed();
}

// A thousand that say a byte now and then: a byte a second, in a time that is fifty times as fast.
TEST_F(AcceptorTest, SlowLoris) {
  Start(/*limit=*/milliseconds(500));
  std::vector<Descriptor> slow;
  const Hello hello = MakeHello({2, 4, 1, 0});
  for (int i = 0; i < 1000; ++i) slow.push_back(Open());
  for (size_t byte = 0; byte < 20; ++byte) {
    for (const Descriptor& socket : slow) {
      send(socket.number(), &hello[byte], 1, MSG_NOSIGNAL);
    }
    EXPECT_TRUE(byte % 5 != 0 || ComesIn().ok());
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_TRUE(Eventually([this] { return acceptor_->refused() >= 1000; }));
  slow.clear();
  ExpectUnharmed();
}

// Bytes that keep coming do not lengthen the time.
TEST_F(AcceptorTest, TheTimeIsThatOfTheWholeHandshake) {
  Start(/*limit=*/milliseconds(300));
  const Descriptor socket = Open();
  const Hello hello = MakeHello({2, 4, 1, 0});
  const auto begin = Clock::now();
  size_t said = 0;
  std::byte none;
  while (said < kHelloBytes - 1 && recv(socket.number(), &none, 1, 0) < 0 && errno == EAGAIN) {
    send(socket.number(), &hello[said++], 1, MSG_NOSIGNAL);
    std::this_thread::sleep_for(milliseconds(30));
  }
  EXPECT_LT(said, kHelloBytes - 1);
  EXPECT_GE(Clock::now() - begin, milliseconds(300));
  EXPECT_LT(Clock::now() - begin, milliseconds(1500));
}

// More than allowed come all the time, and each stays as long as it may.
TEST_F(AcceptorTest, AGoodOneComesInAmongMoreThanAllowed) {
  Start(/*limit=*/milliseconds(2000), /*most_unknown=*/8);
  std::atomic<bool> stop{false};
  std::vector<std::thread> attackers;
  for (int i = 0; i < 2; ++i) {
    attackers.emplace_back([this, &stop] {
      std::vector<Descriptor> held(100);
      const Hello hello = MakeHello({2, 4, 1, 0});
      for (size_t next = 0; !stop; ++next) {
        held[next % held.size()] = Open();
        send(held[next % held.size()].number(), hello.data(), hello.size(), MSG_NOSIGNAL);
      }
    });
  }
  EXPECT_TRUE(Eventually([this] { return acceptor_->refused() > 100; }));
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = ComesIn();
    EXPECT_TRUE(status.ok()) << i << ": " << status;
  }
  stop = true;
  for (std::thread& attacker : attackers) attacker.join();
  ExpectUnharmed();
}

// A connection that ends before anything was said of the caller is tried again, and not for ever.
TEST_F(AcceptorTest, WhoIsShutOutTriesAgainAndGivesUp) {
  absl::StatusOr<Descriptor> listener = Listen({"127.0.0.1", 0});
  endpoint_ = *LocalEndpoint(listener->number());
  std::atomic<bool> stop{false};
  std::atomic<int> shut{0};
  std::thread shutting([&] {
    while (!stop) {
      if (Accept(listener->number())->open()) ++shut;
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto begin = Clock::now();
  const absl::Status status = ComesIn();
  stop = true;
  shutting.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(EndpointText(endpoint_)));
  EXPECT_GT(shut, 5);
  EXPECT_LT(Clock::now() - begin, milliseconds(10000));
}

// Who was challenged and then sees nobody there is not kept for the whole time.
TEST_F(AcceptorTest, AServerThatDiesIsNotWaitedFor) {
  absl::StatusOr<Descriptor> listener = Listen({"127.0.0.1", 0});
  endpoint_ = *LocalEndpoint(listener->number());
  std::thread dying([&] {
    Descriptor socket;
    while (!socket.open()) socket = *Accept(listener->number());
    Hello hello;
    EXPECT_TRUE(ReadAll(socket.number(), absl::MakeSpan(hello), In(5000)).ok());
    const Challenge challenge = MakeChallenge(kSecret, hello);
    EXPECT_TRUE(WriteAll(socket.number(), absl::MakeSpan(challenge), In(5000)).ok());
    Answer answer;
    EXPECT_TRUE(ReadAll(socket.number(), absl::MakeSpan(answer), In(5000)).ok());
    listener = Descriptor();
  });
  const auto begin = Clock::now();
  const absl::Status status = ComesIn();
  dying.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("Connection refused"));
  EXPECT_LT(Clock::now() - begin, milliseconds(8000));
}

// Whoever attacks does not write the log.
TEST_F(AcceptorTest, ALineASecondIsSaidOfThoseThatAreRefused) {
  Start();
  testing::internal::CaptureStderr();
  const auto begin = Clock::now();
  constexpr int kTimes = 200;
  for (int i = 0; i < kTimes; ++i) {
    const Descriptor socket = Open();
    const Hello hello = MakeHello({2, 4, 1, 0});
    ASSERT_TRUE(WriteAll(socket.number(), absl::MakeSpan(hello), In(1000)).ok());
    Say(socket, std::string(kAnswerBytes, 'x'));
    bool closed = false;
    Hear(socket, &closed);
  }
  const auto seconds = (Clock::now() - begin) / milliseconds(1000);
  const std::string log = testing::internal::GetCapturedStderr();
  const auto lines = std::count(log.begin(), log.end(), '\n');
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 2 + seconds) << log;
  EXPECT_THAT(log, HasSubstr("refused a process at 127.0.0.1:"));
}

TEST_F(AcceptorTest, ItsEndShutsOutWhoIsThere) {
  Start(/*limit=*/milliseconds(50));
  std::vector<Descriptor> callers;
  for (int i = 0; i < 20; ++i) callers.push_back(Open());
  acceptor_.reset();
  for (const Descriptor& caller : callers) {
    bool closed = false;
    EXPECT_EQ(Hear(caller, &closed), "");
    EXPECT_TRUE(closed);
  }
  callers.clear();
  std::this_thread::sleep_for(milliseconds(100));  // what would have been done later is not
  EXPECT_LT(OpenDescriptors(), descriptors_);
}

// So many descriptors and no more, as long as it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int most) {
    SLUICE_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit few = {static_cast<rlim_t>(most), before_.rlim_max};
    SLUICE_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  ~DescriptorLimit() { SLUICE_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }

 private:
  rlimit before_;
};

TEST_F(AcceptorTest, WhenDescriptorsHaveRunOutNobodyIsForgotten) {
  Start(/*limit=*/milliseconds(20000));
  testing::internal::CaptureStderr();
  std::vector<Descriptor> knocking;
  const auto begin = Clock::now();
  {
    const DescriptorLimit limit(OpenDescriptors() + 30);
    std::vector<Descriptor> spare;
    for (int copy = 0; (copy = dup(0)) >= 0;) spare.emplace_back(copy);
    ASSERT_GT(spare.size(), 25);
    // A descriptor for each caller, and none for the acceptor.
    for (int i = 0; i < 25; ++i) {
      spare.pop_back();
      knocking.push_back(Open());
      std::this_thread::sleep_for(milliseconds(10));
    }
    // It still tries, and does not try ever more often.
    std::this_thread::sleep_for(milliseconds(1500));
  }
  const auto seconds = (Clock::now() - begin) / milliseconds(1000);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("Too many open files"));
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 2 + seconds) << log;
  const std::string others = "; and ";
  const size_t at = log.find(others);
  ASSERT_NE(at, log.npos) << log;
  EXPECT_LT(std::stoi(log.substr(at + others.size())), 20) << log;
  // Those who knocked meanwhile are all taken, and say what others may.
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() == descriptors_ + 50; }))
      << OpenDescriptors() << ", before " << descriptors_;
  knocking.clear();
  ExpectUnharmed();
}

}  // namespace
}  // namespace sluice
