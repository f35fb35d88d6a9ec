#include "framework/wire/socket.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/wire/connected_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

// What a kernel does seldom, this program's calls do when they are told to.
std::atomic<int> accept_fails_once{0};           // with this errno
std::atomic<bool> connects_from_its_end{false};  // binds to the address that it then connects to

}  // namespace

extern "C" int accept4(int listener, sockaddr* address, socklen_t* size, int flags) {
  if (const int error = accept_fails_once.exchange(0); error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_accept4, listener, address, size, flags));
}

extern "C" int connect(int socket, const sockaddr* address, socklen_t size) {
  if (connects_from_its_end) {
    EXPECT_EQ(bind(socket, address, size), 0);
  }
  return static_cast<int>(syscall(SYS_connect, socket, address, size));
}

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Deadline In(int time) { return Clock::now() + milliseconds(time); }

Descriptor Listening(const std::string& host = "127.0.0.1") {
  absl::StatusOr<Descriptor> listener = Listen({host, 0});
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(EndpointTest, TextsThatPeopleWriteAreReadAndPrintedAsTheyWere) {
  const std::vector<std::pair<std::string, Endpoint>> texts = {
      {"node3:29500", {"node3", 29500}},
      {"10.0.0.2:0", {"10.0.0.2", 0}},
      {"[::1]:65535", {"::1", 65535}},
      {"[fe80::1%eth0]:80", {"fe80::1%eth0", 80}},
      {"gpu-01.cluster.local:1", {"gpu-01.cluster.local", 1}}};
  for (const auto& [text, expected] : texts) {
    const absl::StatusOr<Endpoint> read = ParseEndpoint(text);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->host, expected.host);
    EXPECT_EQ(read->port, expected.port);
    EXPECT_EQ(EndpointText(*read), text);
  }
}

TEST(EndpointTest, WhatIsNoAddressIsRefusedAndNamed) {
  for (const std::string text : {"",          ":",
                                 "node3",     "node3:",
                                 ":80",       "node3:x",
                                 "node3:-1",  "node3:65536",
                                 "node3:80x", "node3:99999999999999999999",
                                 "::1",       "::1:80",
                                 "[::1]",     "[::1]80",
                                 "[]:80",     "[::1:80",
                                 "::1]:80",   "[node3:80",
                                 "node3: 80", "node3:+80",
                                 "node3:80 ", "node 3:80",
                                 " node3:80", "node3\n:80",
                                 "a:b:80",    "http://node3:80"}) {
    const absl::Status status = ParseEndpoint(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << "\"" << text << "\"";
    EXPECT_THAT(status.message(), HasSubstr("got \"" + text + "\""));
  }
  EXPECT_FALSE(ParseEndpoint(std::string("node3\0:80", 9)).ok());
}

TEST(SocketTest, ListensAtTheAddressAlone) {
  const Descriptor listener = Listening();
  const absl::StatusOr<Endpoint> bound = LocalEndpoint(listener.number());
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->host, "127.0.0.1");
  EXPECT_GT(bound->port, 0);
  EXPECT_TRUE(IsLoopback(listener.number()));
  // Another address of the same host is another listener's.
  EXPECT_TRUE(absl::IsDeadlineExceeded(Connect({"127.0.0.2", bound->port}, In(100)).status()));
  EXPECT_TRUE(Connect(*bound, In(5000)).ok());
}

TEST(SocketTest, AnAddressThatOthersReachIsNotLoopback) {
  EXPECT_FALSE(IsLoopback(Listening("0.0.0.0").number()));
  EXPECT_TRUE(IsLoopback(Listening("127.9.9.9").number()));
  EXPECT_FALSE(IsLoopback(-1));
}

TEST(SocketTest, Ipv6) {
  absl::StatusOr<Descriptor> listener = Listen({"::1", 0});
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
  EXPECT_TRUE(IsLoopback(listener->number()));
  const Endpoint bound = *LocalEndpoint(listener->number());
  EXPECT_THAT(EndpointText(bound), HasSubstr("[::1]:"));
  const absl::StatusOr<Descriptor> caller = Connect(bound, In(5000));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(RemoteEndpoint(caller->number())->port, bound.port);
  const absl::StatusOr<Descriptor> any = Listen({"::", 0});
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_FALSE(IsLoopback(any->number()));
}

TEST(SocketTest, NamesAreResolved) {
  const Descriptor listener = Listening("localhost");
  const int port = LocalEndpoint(listener.number())->port;
  EXPECT_TRUE(IsLoopback(listener.number()));
  EXPECT_TRUE(Connect({"localhost", port}, In(5000)).ok());
  const absl::Status unknown = Connect({"no-such-host.invalid", port}, In(100)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(unknown));
  EXPECT_THAT(unknown.message(), HasSubstr("no address of host \"no-such-host.invalid\""));
  EXPECT_THAT(Listen({"no-such-host.invalid", 0}).status().message(), HasSubstr("no-such-host"));
}

TEST(SocketTest, AnAddressThatIsTakenIsNamed) {
  const Descriptor listener = Listening();
  const Endpoint bound = *LocalEndpoint(listener.number());
  const absl::Status status = Listen(bound).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr(EndpointText(bound)));
  EXPECT_THAT(status.message(), HasSubstr("in use"));
}

TEST(SocketTest, ConnectWaitsForWhoListensLater) {
  Descriptor listener = Listening();
  const Endpoint endpoint = *LocalEndpoint(listener.number());
  listener = Descriptor();
  const auto begin = Clock::now();
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(200));
    listener = *Listen(endpoint);
  });
  const absl::StatusOr<Descriptor> caller = Connect(endpoint, In(10000));
  EXPECT_TRUE(caller.ok()) << caller.status();
  EXPECT_GE(Clock::now() - begin, milliseconds(200));
  later.join();
}

TEST(SocketTest, ConnectEndsAtItsDeadline) {
  Descriptor listener = Listening();
  const Endpoint endpoint = *LocalEndpoint(listener.number());
  listener = Descriptor();
  const auto begin = Clock::now();
  const absl::Status status = Connect(endpoint, In(150)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr(EndpointText(endpoint) + ": Connection refused"));
  EXPECT_GE(Clock::now() - begin, milliseconds(150));
  EXPECT_LT(Clock::now() - begin, milliseconds(3000));
  EXPECT_THAT(Connect(endpoint, In(-1)).status().message(), HasSubstr("no time was left"));
}

// A full backlog leaves a caller without any answer.
TEST(SocketTest, ConnectEndsAtItsDeadlineWithoutAnAnswerToo) {
  const Descriptor listener = Listening();
  ASSERT_EQ(listen(listener.number(), 0), 0);
  const Endpoint endpoint = *LocalEndpoint(listener.number());
  std::vector<Descriptor> callers;
  absl::Status last;
  for (int i = 0; i < 8 && last.ok(); ++i) {
    auto caller = Connect(endpoint, In(150));
    last = caller.status();
    if (caller.ok()) callers.push_back(*std::move(caller));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(last));
  EXPECT_THAT(last.message(), HasSubstr("no answer"));
}

// A process that waits for one that comes later would else talk to itself, and keep its port.
TEST(SocketTest, NobodyIsConnectedToItself) {
  Descriptor listener = Listening();
  const Endpoint endpoint = *LocalEndpoint(listener.number());
  listener = Descriptor();
  connects_from_its_end = true;
  const absl::StatusOr<Descriptor> caller = Connect(endpoint, In(20));
  connects_from_its_end = false;
  EXPECT_TRUE(absl::IsDeadlineExceeded(caller.status()));
  EXPECT_TRUE(Listen(endpoint).ok());
}

TEST(SocketTest, NothingWaitsAtAListener) {
  const Descriptor listener = Listening();
  const absl::StatusOr<Descriptor> none = Accept(listener.number());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->open());
  EXPECT_FALSE(Accept(-1).ok());
}

TEST(SocketTest, AConnectionThatHasGoneHidesNoneBehindIt) {
  const Descriptor listener = Listening();
  for (const int error : {ECONNABORTED, EPROTO, EINTR}) {
    const auto caller = Connect(*LocalEndpoint(listener.number()), In(5000));
    ASSERT_TRUE(caller.ok());
    accept_fails_once = error;
    const auto taken = Accept(listener.number());
    ASSERT_TRUE(taken.ok());
    EXPECT_TRUE(taken->open()) << error;
  }
  accept_fails_once = EMFILE;
  EXPECT_TRUE(absl::IsResourceExhausted(Accept(listener.number()).status()));
}

TEST(SocketTest, DescriptorsAreClosedOnce) {
  int number = 0;
  {
    Descriptor first = Listening();
    number = first.number();
    Descriptor second = std::move(first);
    EXPECT_FALSE(first.open());
    first = std::move(second);
    EXPECT_EQ(first.number(), number);
    EXPECT_TRUE(LocalEndpoint(number).ok());
  }
  EXPECT_FALSE(LocalEndpoint(number).ok());
}

TEST(ReadWriteTest, WholeThingsOfAnySize) {
  auto [caller, taken] = Connected();
  const std::vector<std::byte> sent = Pattern(size_t{8} << 20);  // more than the kernel keeps
  std::vector<std::byte> got(sent.size());
  std::thread writer([&, number = caller.number()] {
    EXPECT_TRUE(WriteAll(number, sent, In(20000)).ok());
    EXPECT_TRUE(WriteAll(number, {}, In(-1)).ok());
  });
  EXPECT_TRUE(ReadAll(taken.number(), absl::MakeSpan(got), In(20000)).ok());
  EXPECT_TRUE(ReadAll(taken.number(), {}, In(-1)).ok());
  writer.join();
  EXPECT_EQ(got, sent);
}

TEST(ReadWriteTest, AReadSaysHowMuchWasMissingInTime) {
  auto [caller, taken] = Connected();
  ASSERT_TRUE(WriteAll(caller.number(), Pattern(10), In(1000)).ok());
  std::array<std::byte, 64> bytes;
  const auto begin = Clock::now();
  const absl::Status status = ReadAll(taken.number(), absl::MakeSpan(bytes), In(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("expected 64 bytes, got 10"));
  EXPECT_GE(Clock::now() - begin, milliseconds(100));
  EXPECT_LT(Clock::now() - begin, milliseconds(3000));
}

TEST(ReadWriteTest, AReadOfAConnectionThatIsCutOff) {
  auto [caller, taken] = Connected();
  ASSERT_TRUE(WriteAll(caller.number(), Pattern(10), In(1000)).ok());
  caller = Descriptor();
  std::array<std::byte, 64> bytes;
  const absl::Status status = ReadAll(taken.number(), absl::MakeSpan(bytes), In(5000));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("closed"));
}

TEST(ReadWriteTest, AWriteSaysHowMuchWasTakenInTime) {
  auto [caller, taken] = Connected();
  const std::vector<std::byte> bytes = Pattern(size_t{32} << 20);
  const absl::Status status = WriteAll(caller.number(), bytes, In(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("of 33554432 bytes "));
}

// Neither blocks nor ends the process by a signal.
TEST(ReadWriteTest, AWriteToAConnectionThatIsCutOff) {
  auto [caller, taken] = Connected();
  std::thread reader([&reading = taken] {
    std::array<std::byte, 1000> some;
    EXPECT_TRUE(ReadAll(reading.number(), absl::MakeSpan(some), In(5000)).ok());
    reading = Descriptor();
  });
  const absl::Status status = WriteAll(caller.number(), Pattern(size_t{32} << 20), In(10000));
  reader.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  // The first is told by an error alone, those after it by SIGPIPE as well.
  EXPECT_TRUE(absl::IsUnavailable(WriteAll(caller.number(), Pattern(10), In(1000))));
}

}  // namespace
}  // namespace sluice
