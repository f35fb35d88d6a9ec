#include "framework/base/hash.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(HashTest, IsTheXxh3ThatFilesWereWrittenWith) {
  // XXH3_64bits of nothing, from the algorithm's published vectors.
  EXPECT_EQ(HashText(StableHash("")), "2d06800538d394c2");
  EXPECT_EQ(StableHash("sluice"), StableHash("sluice"));
  EXPECT_NE(StableHash("sluice"), StableHash("sluice", 1));
}

TEST(HashTest, DigestTellsSequencesApart) {
  std::set<uint64_t> digests;
  digests.insert(StableHasher().digest());
  digests.insert(StableHasher().Add("ab").Add("c").digest());
  digests.insert(StableHasher().Add("a").Add("bc").digest());
  digests.insert(StableHasher().Add("").digest());
  digests.insert(StableHasher().Add(1).Add(2).digest());
  digests.insert(StableHasher().Add(2).Add(1).digest());
  EXPECT_EQ(digests.size(), 6);
  EXPECT_EQ(StableHasher().Add(1).Add("x").digest(), StableHasher().Add(1).Add("x").digest());
}

TEST(HashTest, PiecesHaveTheHashOfTheWhole) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * i);
  EXPECT_EQ(StableByteHasher().digest(), StableHash(""));
  for (const size_t piece : {1, 7, 256, 1024, 4999, 5000}) {
    StableByteHasher hasher;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      hasher.Add(bytes.data() + at, std::min(piece, bytes.size() - at));
    }
    EXPECT_EQ(hasher.digest(), StableHash(bytes)) << piece;
  }
}

TEST(HashTest, FewCollisions) {
  std::set<uint64_t> hashes;
  for (int i = 0; i < 100000; ++i) hashes.insert(StableHash(absl::StrCat(i)));
  EXPECT_EQ(hashes.size(), 100000);
}

}  // namespace
}  // namespace sluice
