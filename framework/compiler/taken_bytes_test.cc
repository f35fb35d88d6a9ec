#include "framework/compiler/taken_bytes.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

Buffer Living(std::vector<std::pair<int32_t, int32_t>> ranks) {
  Buffer buffer;
  for (const auto& [begin, end] : ranks) buffer.uses.push_back({begin, end, 0, {}});
  return buffer;
}

std::vector<const Buffer*> Pointers(const std::vector<Buffer>& buffers) {
  std::vector<const Buffer*> pointers;
  for (const Buffer& buffer : buffers) pointers.push_back(&buffer);
  return pointers;
}

// Mostly short lives, some of several uses, some that begin where others end, few across steps.
std::vector<Buffer> RandomBuffers(std::mt19937* random) {
  const auto below = [random](int bound) { return static_cast<int>((*random)() % bound); };
  std::vector<Buffer> buffers(1 + below(40));
  const int ranks = 1 + below(80);
  for (Buffer& buffer : buffers) {
    buffer.resident = below(12) == 0;
    if (buffer.resident) continue;
    const int longest = 1 + below(below(4) == 0 ? ranks : 6);
    int32_t rank = below(ranks);
    for (int uses = below(4) == 0 ? 1 + below(4) : 1; uses > 0; --uses) {
      const int32_t end = rank + below(longest);
      buffer.uses.push_back({rank, end, 0, {}});
      rank = end + 1 + below(4);
    }
  }
  return buffers;
}

TEST(TakenBytesTest, TheExampleOfTheHeader) {
  const std::vector<Buffer> buffers = {Living({{0, 2}}), Living({{1, 6}}), Living({{3, 4}}),
                                       Living({{6, 7}})};
  TakenBytes taken(Pointers(buffers));
  EXPECT_EQ(taken.num_clashes(), 3);
  taken.Take(0, 0, 64);
  EXPECT_EQ(taken.Find(1, 64, false), 64);
  taken.Take(1, 64, 128);
  EXPECT_EQ(taken.Find(2, 64, false), 0);
  EXPECT_EQ(taken.Find(2, 65, false), 128);
  EXPECT_EQ(taken.Find(3, 64, false), 0);
  taken.Clear();
  EXPECT_EQ(taken.Find(3, 65, false), 0);
}

TEST(TakenBytesTest, TheSmallestGapThatFits) {
  const std::vector<Buffer> buffers(4, Living({{0, 5}}));
  TakenBytes taken(Pointers(buffers));
  taken.Take(0, 100, 200);
  taken.Take(1, 260, 300);
  taken.Take(2, 360, 400);
  EXPECT_EQ(taken.Find(3, 60, false), 0);
  EXPECT_EQ(taken.Find(3, 60, true), 200);
  EXPECT_EQ(taken.Find(3, 61, true), 0);
  EXPECT_EQ(taken.Find(3, 101, true), 400);
}

// Two share a moment, and with it bytes that only one of them can have, exactly if they clash by
// the definition.
TEST(TakenBytesTest, WhoClashesIsWhoClashesByTheDefinition) {
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Buffer> buffers = RandomBuffers(&random);
    TakenBytes taken(Pointers(buffers));
    int64_t clashes = 0;
    for (size_t a = 0; a < buffers.size(); ++a) {
      taken.Clear();
      taken.Take(static_cast<int>(a), 0, 64);
      for (size_t b = 0; b < buffers.size(); ++b) {
        if (a == b) continue;
        const bool clash = Clash(buffers[a], buffers[b]);
        EXPECT_EQ(taken.Find(static_cast<int>(b), 64, false), clash ? 64 : 0)
            << "seed " << seed << ", buffers " << a << " and " << b;
        clashes += a < b && clash ? 1 : 0;
      }
    }
    EXPECT_LE(clashes, taken.num_clashes()) << "seed " << seed;  // that counts uses
  }
}

// Where the definition puts a buffer among those placed before.
int64_t FindByDefinition(const std::vector<Buffer>& buffers, const std::vector<int64_t>& offsets,
                         const std::vector<int64_t>& sizes, const std::vector<int>& placed,
                         int buffer, bool best_fit) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int other : placed) {
    if (!Clash(buffers[buffer], buffers[other])) continue;
    taken.push_back({offsets[other], offsets[other] + sizes[other]});
  }
  std::sort(taken.begin(), taken.end());
  int64_t at = 0, chosen = -1, room = 0;
  for (const auto& [begin, end] : taken) {
    if (begin - at >= sizes[buffer] && (chosen < 0 || (best_fit && begin - at < room))) {
      chosen = at;
      room = begin - at;
    }
    at = std::max(at, end);
  }
  return chosen < 0 ? at : chosen;
}

TEST(TakenBytesTest, PlacesAreThoseOfTheDefinition) {
  for (int seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Buffer> buffers = RandomBuffers(&random);
    TakenBytes taken(Pointers(buffers));
    for (bool best_fit : {false, true}) {
      taken.Clear();
      std::vector<int64_t> offsets(buffers.size()), sizes;
      std::vector<int> order, placed;
      for (size_t n = 0; n < buffers.size(); ++n) {
        sizes.push_back(64 * (1 + static_cast<int64_t>(random() % 9)));
        order.push_back(static_cast<int>(n));
      }
      std::shuffle(order.begin(), order.end(), random);
      for (int n : order) {
        offsets[n] = taken.Find(n, sizes[n], best_fit);
        ASSERT_EQ(offsets[n], FindByDefinition(buffers, offsets, sizes, placed, n, best_fit))
            << "seed " << seed << ", buffer " << n << ", best_fit " << best_fit;
        taken.Take(n, offsets[n], offsets[n] + sizes[n]);
        placed.push_back(n);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
