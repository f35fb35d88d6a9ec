#include "framework/wire/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/wire/connected_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

const SealKeys kKeys = {{std::byte{1}}, {std::byte{2}}};

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(10); }

Bytes Counting(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// Whoever sends and receives sees no difference.
class ConnectionTest : public ::testing::TestWithParam<bool> {
 protected:
  ConnectionTest() {
    auto [here, there] = Connected();
    here_ = Connection(std::move(here));
    there_ = Connection(std::move(there));
    if (!GetParam()) return;
    here_.Seal(kKeys);
    there_.Seal({kKeys.receives, kKeys.sends});
  }

  Connection here_, there_;
};

INSTANTIATE_TEST_SUITE_P(PlainAndSealed, ConnectionTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sealed" : "Plain"; });

TEST_P(ConnectionTest, WholeThingsGoBothWays) {
  EXPECT_EQ(here_.sealed(), GetParam());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70000}, size_t{5} << 20}) {
    const Bytes said = Counting(size);
    Bytes heard(size), back(size);
    std::thread other([&] {
      EXPECT_TRUE(there_.Read(absl::MakeSpan(heard), Soon()).ok());
      EXPECT_TRUE(there_.Write(heard, Soon()).ok());
    });
    EXPECT_TRUE(here_.Write(said, Soon()).ok());
    EXPECT_TRUE(here_.Read(absl::MakeSpan(back), Soon()).ok());
    other.join();
    EXPECT_TRUE(back == said) << size;
  }
}

TEST_P(ConnectionTest, WhatIsWrittenAtOnceIsReadByAndBy) {
  ASSERT_TRUE(here_.Write(Counting(100), Soon()).ok());
  Bytes heard(100);
  for (size_t i = 0; i < 100; i += 20) {
    ASSERT_TRUE(there_.Read(absl::MakeSpan(heard).subspan(i, 20), Soon()).ok());
  }
  EXPECT_EQ(heard, Counting(100));
}

// The kernel takes only so much of what nobody reads.
TEST_P(ConnectionTest, WhatTheKernelDoesNotTakeIsSentLater) {
  const Bytes said = Counting(size_t{32} << 20);
  Bytes heard(said.size());
  const size_t half = said.size() / 2 + 1;
  const auto send = [&](size_t from) {
    const absl::Span<const std::byte> all = said;
    const std::vector<Connection::Run> runs = {all.subspan(from, half - std::min(half, from)),
                                               all.subspan(std::max(half, from))};
    const auto sent = here_.Send(runs);
    EXPECT_TRUE(sent.ok()) << sent.status();
    return sent.value_or(0);
  };
  size_t sent = send(0), received = 0;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, said.size());
  EXPECT_EQ(send(sent), 0);
  EXPECT_EQ(here_.Flush(), !GetParam());
  const Deadline deadline = Soon();
  while (received < said.size() && std::chrono::steady_clock::now() < deadline) {
    const auto got = there_.Receive(heard.data() + received, heard.size() - received);
    ASSERT_TRUE(got.ok()) << got.status();
    received += got->bytes;
    if (got->bytes > 0) continue;
    sent += send(sent);
    here_.Flush();
  }
  EXPECT_EQ(sent, said.size());
  EXPECT_TRUE(heard == said);
  EXPECT_TRUE(here_.Flush());
  const auto none = there_.Receive(heard.data(), 1);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->bytes, 0);
}

TEST_P(ConnectionTest, AnEndThatIsGoneIsTold) {
  ASSERT_TRUE(there_.Write(Counting(3), Soon()).ok());
  there_ = Connection();
  Bytes heard(3);
  EXPECT_TRUE(here_.Read(absl::MakeSpan(heard), Soon()).ok());
  const auto got = here_.Receive(heard.data(), 3);
  EXPECT_TRUE(absl::IsUnavailable(got.status())) << got.status();
  EXPECT_EQ(got.status().message(), "its connection was closed");
}

TEST_P(ConnectionTest, ReadingHasADeadline) {
  ASSERT_TRUE(there_.Write(Counting(3), Soon()).ok());
  Bytes heard(4);
  const absl::Status status = here_.Read(
      absl::MakeSpan(heard), std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(status.message(), "expected 4 bytes, got 3 in time");
}

// Nobody who listens sees what is said, and a part of a record is none.
TEST(SealedConnectionTest, IsNotReadableBetweenItsEnds) {
  auto [here, there] = Connected();
  Connection sealed(std::move(here));
  sealed.Seal(kKeys);
  const Bytes said = Counting(1000);
  ASSERT_TRUE(sealed.Write(said, Soon()).ok());
  Bytes seen(said.size() + kRecordExtraBytes);
  ASSERT_TRUE(ReadAll(there.number(), absl::MakeSpan(seen), Soon()).ok());
  EXPECT_EQ(std::search(seen.begin(), seen.end(), said.begin(), said.begin() + 8), seen.end());

  auto [near, far] = Connected();
  ASSERT_TRUE(WriteAll(near.number(), absl::MakeSpan(seen).first(900), Soon()).ok());
  near = Descriptor();
  Connection reader(std::move(far));
  reader.Seal({kKeys.receives, kKeys.sends});
  Bytes heard(said.size());
  const absl::Status status = reader.Read(absl::MakeSpan(heard), Soon());
  EXPECT_THAT(status.message(), HasSubstr("its sealed connection was closed within a record"));
  EXPECT_EQ(heard, Bytes(said.size()));
}

}  // namespace
}  // namespace sluice
