#include "framework/data/masked_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int kDocuments = 9, kWords = 60;

// Documents of words that say where they stand: word 17 of document 3 is "d3w17", and every third
// one goes on with a piece "##x", every ninth with two. A sentence has seven words.
struct Numbered {
  std::vector<std::string> documents;
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n##x\n##y\n";
};

Numbered NumberedDocuments() {
  Numbered result;
  for (int d = 0; d < kDocuments; ++d) {
    std::string& text = result.documents.emplace_back();
    for (int w = 0; w < kWords + 10 * d; ++w) {
      const std::string word = absl::StrCat("d", d, "w", w);
      absl::StrAppend(&result.vocabulary, word, "\n");
      absl::StrAppend(&text, word, w % 3 == 2 ? "x" : "", w % 9 == 8 ? "y" : "",
                      w % 7 == 6 ? ". " : " ");
    }
  }
  return result;
}

// A row of each field, by name.
struct Row {
  std::vector<int32_t> tokens, segments, positions, labels;
  std::vector<float> weights;
  float masked_words = 0;
  int32_t length = 0, next = 0;
};

class MaskedTextTest : public ::testing::Test {
 protected:
  MaskedText Make(const MaskedTextOptions& options) {
    auto data = MaskedText::Create("text", numbered_.documents, vocabulary_, options);
    EXPECT_TRUE(data.ok()) << data.status();
    return *std::move(data);
  }

  static std::vector<Row> Rows(const MaskedText& data, int64_t count, int64_t first = 0,
                               const SampleOrder& order = {SampleOrder::kEpochs, 5}) {
    Batch batch(data, count);
    EXPECT_TRUE(ReadBatch(data, order, first, &batch).ok());
    std::vector<Row> rows(count);
    const auto take = [&batch](int field, int64_t row, auto* to) {
      using T = typename std::remove_reference_t<decltype(*to)>::value_type;
      const int64_t size = batch.tensors[field].shape.NumElements() / batch.rows;
      const T* values = batch.tensors[field].data<T>() + row * size;
      to->assign(values, values + size);
    };
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int32_t> one;
      std::vector<float> words;
      take(0, i, &rows[i].tokens);
      take(1, i, &rows[i].segments);
      take(2, i, &one);
      rows[i].length = one[0];
      take(3, i, &rows[i].positions);
      take(4, i, &rows[i].labels);
      take(5, i, &rows[i].weights);
      take(6, i, &words);
      rows[i].masked_words = words[0];
      take(7, i, &one);
      rows[i].next = one[0];
    }
    return rows;
  }

  // The tokens as they were before some were masked.
  static std::vector<int32_t> Unmasked(const Row& row) {
    std::vector<int32_t> tokens = row.tokens;
    for (size_t i = 0; i < row.labels.size(); ++i) {
      if (row.weights[i] > 0) tokens[row.positions[i]] = row.labels[i];
    }
    return tokens;
  }

  // Of all documents, and where each begins.
  std::vector<int32_t> All(std::vector<int64_t>* begins) const {
    std::vector<int32_t> all;
    for (const std::string& document : numbered_.documents) {
      begins->push_back(static_cast<int64_t>(all.size()));
      vocabulary_.Encode(document, &all);
    }
    begins->push_back(static_cast<int64_t>(all.size()));
    return all;
  }

  Numbered numbered_ = NumberedDocuments();
  WordPiece vocabulary_ = *WordPiece::Parse("numbered", numbered_.vocabulary);
};

// Where some tokens stand in a text in which each run of them stands once, or -1.
int64_t Find(const std::vector<int32_t>& all, const std::vector<int32_t>& some) {
  const auto found = std::search(all.begin(), all.end(), some.begin(), some.end());
  return found == all.end() ? -1 : found - all.begin();
}

int64_t DocumentOf(const std::vector<int64_t>& begins, int64_t at) {
  return std::upper_bound(begins.begin(), begins.end(), at) - begins.begin() - 1;
}

TEST_F(MaskedTextTest, ASampleIsTwoSegmentsOfDocuments) {
  std::vector<int64_t> begins;
  const std::vector<int32_t> all = All(&begins);
  const MaskedText data = Make({32, 5, 0.15, 3});
  EXPECT_EQ(data.num_tokens(), static_cast<int64_t>(all.size()));
  EXPECT_EQ(data.num_documents(), kDocuments);
  int next = 0;
  for (const Row& row : Rows(data, 400)) {
    const std::vector<int32_t> tokens = Unmasked(row);
    const int32_t separator = vocabulary_.separator();
    ASSERT_EQ(std::ranges::count(tokens, separator), 2);
    const auto first = std::ranges::find(tokens, separator),
               second = std::find(first + 1, tokens.end(), separator);
    EXPECT_EQ(tokens[0], vocabulary_.classify());
    EXPECT_EQ(second - tokens.begin() + 1, row.length);
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(row.segments[i], i > first - tokens.begin() && i < row.length ? 1 : 0);
      EXPECT_EQ(row.tokens[i] == vocabulary_.padding(), i >= row.length);
    }
    // Documents are longer than a sample, so that nothing but a word that did not fit is missing.
    EXPECT_GE(row.length, 28);
    const std::vector<int32_t> a(tokens.begin() + 1, first), b(first + 1, second);
    ASSERT_FALSE(a.empty() || b.empty());
    EXPECT_FALSE(vocabulary_.GoesOn(a[0]) || vocabulary_.GoesOn(b[0]));
    std::vector<int32_t> both = a;
    both.insert(both.end(), b.begin(), b.end());
    if (row.next == 0) {
      const int64_t at = Find(all, both);
      ASSERT_GE(at, 0);
      EXPECT_LE(at + static_cast<int64_t>(both.size()), begins[DocumentOf(begins, at) + 1]);
    } else {
      EXPECT_GE(Find(all, a), 0);
      EXPECT_GE(Find(all, b), 0);
      for (const int32_t token : b) {
        // Each word says of which document it is.
        const std::string name = vocabulary_.piece(token).substr(0, 3);
        if (name[0] != 'd') continue;
        EXPECT_EQ(
            std::ranges::count_if(
                a, [&](int32_t of_a) { return vocabulary_.piece(of_a).substr(0, 3) == name; }),
            0);
      }
    }
    next += row.next;
  }
  EXPECT_NEAR(next, 200, 40);
}

TEST_F(MaskedTextTest, SegmentsBeginWithSentencesWhereThereAreSome) {
  std::vector<int64_t> begins;
  const std::vector<int32_t> all = All(&begins);
  const MaskedText data = Make({40, 5, 0.15, 3});
  for (const Row& row : Rows(data, 200)) {
    const std::vector<int32_t> tokens = Unmasked(row);
    const auto first = std::ranges::find(tokens, vocabulary_.separator());
    // Seven words are at most ten pieces and a point: each half of a sample of 37 has an end of
    // one.
    const std::string piece = vocabulary_.piece(first[1]);
    const int word = std::stoi(piece.substr(piece.find('w') + 1));
    EXPECT_EQ(word % 7, 0) << piece;
  }
}

TEST_F(MaskedTextTest, LinesBeginSentences) {
  for (std::string& document : numbered_.documents) {
    std::erase(document, '.');
    for (size_t i = 0, blanks = 0; i < document.size(); ++i) {
      if (document[i] == ' ' && ++blanks % 5 == 0) document[i] = '\n';
    }
  }
  const MaskedText data = Make({40, 5, 0.15, 3});
  for (const Row& row : Rows(data, 200)) {
    const std::vector<int32_t> tokens = Unmasked(row);
    const std::string piece =
        vocabulary_.piece(std::ranges::find(tokens, vocabulary_.separator())[1]);
    EXPECT_EQ(std::stoi(piece.substr(piece.find('w') + 1)) % 5, 0) << piece;
  }
}

TEST_F(MaskedTextTest, WhatDoesNotFollowIsOfAnyOtherDocument) {
  std::map<char, std::set<char>> others;  // by the document of the first segment
  const MaskedText data = Make({24, 5, 0.15, 3});
  for (const Row& row : Rows(data, 3000)) {
    if (row.next == 0) continue;
    const std::vector<int32_t> tokens = Unmasked(row);
    const auto second = std::ranges::find(tokens, vocabulary_.separator()) + 1;
    const std::string first = vocabulary_.piece(tokens[1]);
    if (first == ".") continue;  // of which document does not show
    others[first[1]].insert(vocabulary_.piece(*second)[1]);
  }
  EXPECT_EQ(others.size(), kDocuments);
  for (const auto& [document, other] : others) EXPECT_EQ(other.size(), kDocuments - 1) << document;
}

TEST_F(MaskedTextTest, PredictsWholeWords) {
  const MaskedText data = Make({64, 12, 0.15, 3});
  int64_t predicted = 0, masked = 0, kept = 0, count = 0;
  std::set<int32_t> replacements;
  for (const Row& row : Rows(data, 2000)) {
    const std::vector<int32_t> tokens = Unmasked(row);
    const int64_t number = std::ranges::count_if(row.weights, [](float w) { return w > 0; });
    // One token less where the last word that would fit has two.
    EXPECT_LE(number, std::lround(row.length * 0.15));
    EXPECT_GE(number, std::lround(row.length * 0.15) - 1);
    std::set<int32_t> positions;
    for (size_t i = 0; i < row.weights.size(); ++i) {
      if (static_cast<int64_t>(i) >= number) {
        EXPECT_EQ(row.positions[i], 0);
        EXPECT_EQ(row.labels[i], 0);
        EXPECT_EQ(row.weights[i], 0);
        continue;
      }
      EXPECT_EQ(row.weights[i], 1);
      EXPECT_TRUE(i == 0 || row.positions[i] > row.positions[i - 1]);
      positions.insert(row.positions[i]);
      EXPECT_FALSE(vocabulary_.IsSpecial(row.labels[i]));
      const int32_t token = row.tokens[row.positions[i]];
      ++predicted;
      if (token == vocabulary_.mask()) {
        ++masked;
      } else if (token == row.labels[i]) {
        ++kept;
      } else {
        EXPECT_FALSE(vocabulary_.IsSpecial(token));
        replacements.insert(token);
      }
    }
    EXPECT_EQ(row.masked_words, static_cast<float>(number));
    for (int32_t i = 2; i < row.length; ++i) {
      if (vocabulary_.GoesOn(tokens[i]) && tokens[i - 1] != vocabulary_.separator()) {
        EXPECT_EQ(positions.contains(i), positions.contains(i - 1));
      }
    }
    count += row.length;
  }
  EXPECT_NEAR(static_cast<double>(predicted) / static_cast<double>(count), 0.15, 0.01);
  EXPECT_NEAR(static_cast<double>(masked) / static_cast<double>(predicted), 0.8, 0.02);
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(predicted), 0.1, 0.02);
  EXPECT_GT(replacements.size(), 700);  // of some 900 pieces
}

TEST_F(MaskedTextTest, PredictsSomethingWhereNoWordFits) {
  numbered_.documents = {"d0w2xy d0w8xy d0w2xy", "d1w2xy d1w8xy d1w2xy"};
  const MaskedText data = Make({12, 2, 0.9, 3});
  for (const Row& row : Rows(data, 20)) {
    EXPECT_EQ(row.weights, std::vector<float>({1, 1}));
    EXPECT_EQ(row.positions[1], row.positions[0] + 1);
  }
}

TEST_F(MaskedTextTest, EveryTokenIsInASample) {
  std::vector<int64_t> begins;
  const std::vector<int32_t> all = All(&begins);
  const MaskedText data = Make({24, 1, 0.01, 3});
  std::set<int64_t> seen;
  for (int64_t round = 0; round < 12; ++round) {
    for (const Row& row : Rows(data, data.num_samples(), round * data.num_samples())) {
      if (row.next == 1) continue;
      std::vector<int32_t> tokens = Unmasked(row);
      tokens.resize(row.length - 1);
      tokens.erase(tokens.begin());
      std::erase(tokens, vocabulary_.separator());
      const int64_t at = Find(all, tokens);
      ASSERT_GE(at, 0);
      for (size_t i = 0; i < tokens.size(); ++i) seen.insert(at + static_cast<int64_t>(i));
    }
  }
  EXPECT_EQ(seen.size(), all.size());
}

TEST_F(MaskedTextTest, FollowsFromSeedAndPosition) {
  const MaskedText data = Make({32, 5, 0.15, 3}), again = Make({32, 5, 0.15, 3}),
                   other = Make({32, 5, 0.15, 4});
  const std::vector<Row> rows = Rows(data, 40), others = Rows(other, 40);
  const std::vector<Row> later = Rows(again, 8, 30);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(later[i].tokens, rows[30 + i].tokens);
    EXPECT_EQ(later[i].labels, rows[30 + i].labels);
    EXPECT_EQ(later[i].next, rows[30 + i].next);
  }
  int same = 0;
  for (int i = 0; i < 40; ++i) same += rows[i].tokens == others[i].tokens ? 1 : 0;
  EXPECT_LE(same, 1);
  // Seen again in the next round it is another one.
  const std::vector<int64_t> twice = {7, 7};
  std::vector<int32_t> tokens(64);
  ASSERT_TRUE(
      data.Fill(0, twice, 100, Box{{0, 32}}, reinterpret_cast<std::byte*>(tokens.data())).ok());
  EXPECT_FALSE(std::equal(tokens.begin(), tokens.begin() + 32, tokens.begin() + 32));
}

TEST_F(MaskedTextTest, FillsTheBoxAlone) {
  const MaskedText data = Make({32, 6, 0.15, 3});
  const std::vector<int64_t> samples = {3, 0, 11};
  for (const int field : {0, 1, 3, 4, 5}) {
    const int64_t size = data.fields()[field].shape[0];
    std::vector<int32_t> whole(3 * size), part(6, -7);  // weights are as wide
    ASSERT_TRUE(
        data.Fill(field, samples, 9, Box{{0, size}}, reinterpret_cast<std::byte*>(whole.data()))
            .ok());
    ASSERT_TRUE(
        data.Fill(field, samples, 9, Box{{2, 4}}, reinterpret_cast<std::byte*>(part.data())).ok());
    for (int i = 0; i < 6; ++i) EXPECT_EQ(part[i], whole[i / 2 * size + 2 + i % 2]) << field;
  }
}

TEST_F(MaskedTextTest, KnowsItsTextAgain) {
  const DataIdentity identity = Make({32, 5, 0.15, 3}).identity();
  EXPECT_EQ(identity, Make({32, 5, 0.15, 9}).identity());
  EXPECT_FALSE(identity == Make({48, 5, 0.15, 3}).identity());
  std::swap(numbered_.documents[0], numbered_.documents[1]);
  EXPECT_FALSE(identity == Make({32, 5, 0.15, 3}).identity());
}

TEST_F(MaskedTextTest, SaysWhatItNeeds) {
  const auto error = [this](std::vector<std::string> documents, const MaskedTextOptions& options) {
    return std::string(
        MaskedText::Create("data: x", documents, vocabulary_, options).status().message());
  };
  EXPECT_EQ(
      error({"d0w0 d0w1", "d1w0", ""}, {}),
      "data: x: expected at least two documents of two words, one to follow and one that does "
      "not, got 1");
  EXPECT_THAT(error(numbered_.documents, {4, 1}), HasSubstr("at least 5 tokens, got 4"));
  EXPECT_THAT(error(numbered_.documents, {8, 9}),
              HasSubstr("from 1 to 8 predictions of as many tokens, got 9"));
  EXPECT_THAT(error(numbered_.documents, {8, 2, 0}), HasSubstr("above 0, at most 1, got 0"));
  const WordPiece special = *WordPiece::Parse("special", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  EXPECT_THAT(std::string(MaskedText::Create("x", numbered_.documents, special).status().message()),
              HasSubstr("more than special pieces"));
}

// Words longer than a sample, samples as short as can be, documents of two words: what is cut fits.
TEST_F(MaskedTextTest, AnyTextFitsAnyLength) {
  std::string longest = "d0w0";
  for (int i = 0; i < 40; ++i) longest += i % 2 == 0 ? "x" : "y";
  numbered_.documents.insert(numbered_.documents.end(),
                             {longest + " d0w0 " + longest, "d0w1 d0w2x", ". ."});
  for (int64_t length = 5; length < 24; ++length) {
    const MaskedText data = Make({length, 3, 0.3, 3});
    for (const Row& row : Rows(data, 3 * data.num_samples())) {
      ASSERT_LE(row.length, length);
      ASSERT_EQ(std::ranges::count(Unmasked(row), vocabulary_.separator()), 2);
    }
  }
}

}  // namespace
}  // namespace sluice
