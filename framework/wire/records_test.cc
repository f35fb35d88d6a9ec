#include "framework/wire/records.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Run = absl::Span<const std::byte>;

const SealKey kKey = {std::byte{1}, std::byte{2}, std::byte{3}};

Run BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string TextOf(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

// All records of the parts.
std::string Sealed(RecordWriter* writer, const std::vector<Run>& parts) {
  std::string sealed;
  for (size_t done = 0;;) {
    const auto taken = writer->Seal(parts, done);
    EXPECT_TRUE(taken.ok()) << taken.status();
    if (!taken.ok() || *taken == 0) return sealed;
    done += *taken;
    sealed.append(reinterpret_cast<const char*>(writer->left().data()), writer->left().size());
    writer->Sent(writer->left().size());
    EXPECT_TRUE(writer->left().empty());
  }
}

// What a reader gives that gets `piece` bytes at a time and is asked for `room` at a time.
struct Given {
  std::string text;
  absl::Status status;
  size_t waiting = 0;
};
Given Read(absl::string_view sealed, size_t piece, size_t room) {
  RecordReader reader(kKey);
  Given given;
  std::vector<std::byte> to(room);
  while (true) {
    const auto taken = reader.Take(to.data(), room);
    given.status = taken.status();
    if (!taken.ok()) break;
    given.text.append(reinterpret_cast<const char*>(to.data()), *taken);
    if (*taken > 0) continue;
    if (sealed.empty()) break;
    const absl::Span<std::byte> free = reader.Room();
    EXPECT_FALSE(free.empty());
    EXPECT_LE(free.size(), 4 * kMostSealedBytes);
    const size_t came = std::min({piece, free.size(), sealed.size()});
    std::memcpy(free.data(), sealed.data(), came);
    sealed.remove_prefix(came);
    reader.Came(came);
  }
  given.waiting = reader.waiting();
  return given;
}

TEST(RecordsTest, AreCutAnywhere) {
  const std::string head = TextOf(33), text = TextOf(3 * kMostRecordBytes + 1000);
  RecordWriter writer(kKey);
  std::string sealed = Sealed(&writer, {BytesOf(head), {}, BytesOf(text)});
  EXPECT_EQ(sealed.size(), head.size() + text.size() + 4 * kRecordExtraBytes);
  sealed += Sealed(&writer, {BytesOf(head)});
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{19}, size_t{4096}, kMostSealedBytes - 1,
                             kMostSealedBytes + 1, sealed.size()}) {
    for (const size_t room : {size_t{1}, size_t{33}, kMostRecordBytes, sealed.size()}) {
      const Given given = Read(sealed, piece, room);
      EXPECT_TRUE(given.status.ok()) << given.status;
      EXPECT_TRUE(given.text == head + text + head) << piece << ", " << room;
      EXPECT_EQ(given.waiting, 0);
    }
  }
}

TEST(RecordsTest, NothingOfARecordIsGivenBeforeAllOfIt) {
  RecordWriter writer(kKey);
  const std::string first = Sealed(&writer, {BytesOf("first")});
  const std::string second = Sealed(&writer, {BytesOf("second")});
  for (size_t size = 0; size < second.size(); ++size) {
    const Given given = Read(first + second.substr(0, size), 100, 100);
    EXPECT_TRUE(given.status.ok());
    EXPECT_EQ(given.text, "first");
    EXPECT_EQ(given.waiting, size);
  }
}

TEST(RecordsTest, WhatStandsBehindABadOneIsNotRead) {
  RecordWriter writer(kKey);
  std::string sealed = Sealed(&writer, {BytesOf("first")});
  const size_t size = sealed.size();
  sealed += Sealed(&writer, {BytesOf("second")}) + Sealed(&writer, {BytesOf("third")});
  sealed[size + kRecordHeadBytes] ^= 1;
  for (const size_t room : {1, 100}) {
    const Given given = Read(sealed, 1000, room);
    EXPECT_TRUE(absl::IsDataLoss(given.status)) << given.status;
    EXPECT_THAT(given.status.message(), HasSubstr("record 1 of its sealed connection"));
    EXPECT_EQ(given.text, "first");
  }
}

TEST(RecordsTest, ALengthIsNotBelieved) {
  RecordReader reader(kKey);
  const absl::Span<std::byte> free = reader.Room();
  const size_t room = free.size();
  std::memset(free.data(), 0xff, kRecordHeadBytes);
  reader.Came(kRecordHeadBytes);
  std::byte to[8];
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = reader.Take(to, sizeof(to)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(status.message(), HasSubstr("expected a sealed record of 1 to 65536 bytes"));
  }
  EXPECT_EQ(reader.Room().size(), room - kRecordHeadBytes);
}

// Many short ones do not make a reader take more memory, a long one does once it has come.
TEST(RecordsTest, AReaderIsAsLargeAsItMustBe) {
  RecordWriter writer(kKey);
  RecordReader reader(kKey);
  std::byte to[8];
  const size_t room = reader.Room().size();
  for (int i = 0; i < 1000; ++i) {
    const std::string sealed = Sealed(&writer, {BytesOf("short")});
    std::memcpy(reader.Room().data(), sealed.data(), sealed.size());
    reader.Came(sealed.size());
    EXPECT_EQ(*reader.Take(to, sizeof(to)), 5);
    EXPECT_EQ(*reader.Take(to, sizeof(to)), 0);
  }
  EXPECT_EQ(reader.Room().size(), room);
}

}  // namespace
}  // namespace sluice
