#include "framework/data/identify.h"

#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "framework/base/hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

using Files = std::vector<std::string>;

DataParts PartsOf(const Files& files) {
  DataParts parts;
  parts.what = "files";
  for (const std::string& file : files) parts.sizes.push_back(static_cast<int64_t>(file.size()));
  parts.read = [&files](int64_t part, int64_t offset, int64_t size, char* to) {
    std::memcpy(to, files[part].data() + offset, size);
    return absl::OkStatus();
  };
  return parts;
}

DataIdentity IdentityOf(const Files& files, const IdentifyOptions& options = {}) {
  return *Identify(PartsOf(files), options);
}

// Bytes that follow from their places.
std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * i % 251);
  return bytes;
}

TEST(IdentifyTest, EveryByteAndEveryEndOfAPartCounts) {
  const Files files = {"one", "", "a second", "x"};
  const DataIdentity identity = IdentityOf(files);
  EXPECT_EQ(identity.bytes, 12);
  EXPECT_EQ(identity.sampled, 0);
  EXPECT_EQ(IdentityOf(Files(files)), identity);
  std::set<uint64_t> digests = {identity.digest};
  for (size_t file = 0; file < files.size(); ++file) {
    for (size_t byte = 0; byte < files[file].size(); ++byte) {
      Files changed = files;
      changed[file][byte] ^= 1;
      digests.insert(IdentityOf(changed).digest);
    }
  }
  digests.insert(IdentityOf({"one", "a second", "", "x"}).digest);
  digests.insert(IdentityOf({"onea", "", " second", "x"}).digest);
  digests.insert(IdentityOf({"one", "", "a second"}).digest);
  EXPECT_EQ(digests.size(), 1u + 12 + 3);
  DataParts labelled = PartsOf(files);
  labelled.meaning = 1;
  EXPECT_NE(Identify(labelled, {})->digest, identity.digest);
}

// Blocks of 4 MiB, pieces of 1 MiB, and parts that begin and end anywhere.
TEST(IdentifyTest, PartsMayBeLargerThanABlock) {
  Files files = {Bytes(5 << 20), Bytes(7), Bytes((9 << 20) + 3), ""};
  const DataIdentity identity = IdentityOf(files);
  EXPECT_EQ(identity.bytes, (14 << 20) + 10);
  EXPECT_EQ(IdentityOf(files), identity);
  for (const size_t byte : {size_t{0}, size_t{4 << 20}, size_t{(9 << 20) + 2}}) {
    files[2][byte] ^= 1;
    EXPECT_NE(IdentityOf(files), identity) << byte;
    files[2][byte] ^= 1;
  }
  EXPECT_EQ(IdentityOf(files), identity);
}

// Of 10,240,000 bytes, 16 blocks of 65,536 bytes are sampled, in the middle of each 640,000: the
// first has the bytes 287,232 to 352,768.
TEST(IdentifyTest, LargeDataIsSampledEvenly) {
  Files files(10, Bytes(1024000));
  IdentifyOptions options;
  options.most_bytes = 10240000 - 1;
  options.sampled_bytes = 1 << 20;
  const DataIdentity identity = IdentityOf(files, options);
  EXPECT_EQ(identity.bytes, 10240000);
  EXPECT_EQ(identity.sampled, 1 << 20);
  const auto counts = [&](int64_t byte) {
    char& changed = files[byte / 1024000][byte % 1024000];
    changed ^= 1;
    const bool differs = IdentityOf(files, options) != identity;
    changed ^= 1;
    return differs;
  };
  for (int64_t i = 0; i < 16; ++i) {
    const int64_t begin = 640000 * i + 287232;
    EXPECT_FALSE(counts(begin - 1)) << i;
    EXPECT_TRUE(counts(begin)) << i;
    EXPECT_TRUE(counts(begin + 65535)) << i;
    EXPECT_FALSE(counts(begin + 65536)) << i;
  }
  // What is not read counts by its size.
  files[0].pop_back(), files[9] += 'x';
  EXPECT_NE(IdentityOf(files, options), identity);
  options.most_bytes = 10240000;
  EXPECT_EQ(IdentityOf(files, options).sampled, 0);
}

// Opening files takes time, too: of very many small ones few are opened.
TEST(IdentifyTest, ManyPartsCostMoreThanTheirBytes) {
  const Files files(100000, "12345678");
  DataParts parts = PartsOf(files);
  std::mutex mutex;
  std::set<int64_t> opened;
  parts.read = [&, from = parts.read](int64_t part, int64_t offset, int64_t size, char* to) {
    const std::lock_guard<std::mutex> lock(mutex);
    opened.insert(part);
    return from(part, offset, size, to);
  };
  IdentifyOptions options;
  options.most_bytes = int64_t{1} << 30;
  options.sampled_bytes = int64_t{1} << 26;
  EXPECT_EQ(Identify(parts, options)->sampled, 0);
  EXPECT_EQ(opened.size(), files.size());
  opened.clear();
  parts.cost_of_part = 1 << 16;
  EXPECT_GT(Identify(parts, options)->sampled, 0);
  EXPECT_GE(opened.size(), 1000u);
  EXPECT_LE(opened.size(), 2048u);
}

TEST(IdentifyTest, WhatCannotBeReadIsNamedAndCounts) {
  const Files files = {"one", "two", "three"};
  DataParts parts = PartsOf(files);
  parts.read = [from = parts.read](int64_t part, int64_t offset, int64_t size, char* to) {
    if (part > 0) return absl::DataLossError(part == 1 ? "two is gone" : "three is gone");
    return from(part, offset, size, to);
  };
  CaptureStderr();
  const absl::StatusOr<DataIdentity> identity = Identify(parts, {});
  const std::string warning = GetCapturedStderr();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_NE(*identity, IdentityOf(files));
  EXPECT_THAT(warning, HasSubstr("files: 2 reads failed while the data was identified; the first: "
                                 "two is gone\n"));
}

TEST(IdentifyTest, EndsSoonAfterItIsStopped) {
  const Files files(64, Bytes(1 << 20));
  DataParts parts = PartsOf(files);
  std::mutex mutex;
  int reads = 0;
  parts.read = [&](int64_t, int64_t, int64_t, char*) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++reads;
    return absl::OkStatus();
  };
  IdentifyOptions options;
  options.stop = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return reads > 0;
  };
  EXPECT_TRUE(absl::IsCancelled(Identify(parts, options).status()));
  EXPECT_LT(reads, 64);
}

TEST(IdentifyTest, SaysHowFarItIs) {
  const Files files = {Bytes(3000000)};
  CaptureStderr();
  IdentifyOptions options;
  options.log_after_seconds = 0;
  IdentityOf(files, options);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("files: 0.0 of 0.0 GB are read, to identify"));
}

}  // namespace
}  // namespace sluice
