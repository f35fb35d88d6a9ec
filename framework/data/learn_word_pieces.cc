// Learns a vocabulary of WordPiece as byte pair encoding does, which is what Hugging Face's trainer
// of WordPiece does, too: by how often pairs occur, not by how much likelier a text becomes.
#include <algorithm>
#include <cstdint>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/data/basic_tokenizer.h"
#include "framework/data/word_piece.h"

namespace sluice {
namespace {

constexpr int64_t kSpecial = 5;
// Each character that is known takes two pieces, and a text in one script has a thousand of others
// in it that stand for nothing.
constexpr int64_t kPiecesPerCharacter = 8;

struct CountedWord {
  std::string text;
  int64_t count = 0;
  std::vector<int32_t> pieces;
};

// The words of the texts, in any order: all that is made of them are sums.
std::vector<CountedWord> CountWords(absl::Span<const absl::string_view> texts,
                                    const WordPieceOptions& options) {
  absl::flat_hash_map<std::string, int64_t> counts;
  for (const absl::string_view text : texts) {
    WordReader reader(text, options.text);
    while (reader.Next()) {
      if (reader.code_points() <= options.longest_word) ++counts[reader.word()];
    }
  }
  std::vector<CountedWord> words;
  words.reserve(counts.size());
  for (const auto& [text, count] : counts) words.push_back({text, count, {}});
  return words;
}

std::vector<uint32_t> CodePoints(absl::string_view text) {
  std::vector<uint32_t> code_points;
  while (!text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    code_points.push_back(first.value);
    text.remove_prefix(first.length);
  }
  return code_points;
}

// A character, and whether it goes on in a word.
struct Character {
  bool goes_on = false;
  uint32_t code_point = 0;
  friend auto operator<=>(const Character&, const Character&) = default;
};

// Of the characters that occur most often, each where it is seen: at the beginning of words, or
// further in.
std::vector<Character> Alphabet(const std::vector<CountedWord>& words, int64_t most) {
  absl::flat_hash_map<uint32_t, int64_t> counts;
  for (const CountedWord& word : words) {
    for (const uint32_t c : CodePoints(word.text)) counts[c] += word.count;
  }
  std::vector<std::pair<int64_t, uint32_t>> order;
  for (const auto& [c, count] : counts) order.push_back({-count, c});
  std::ranges::sort(order);
  for (size_t i = static_cast<size_t>(most); i < order.size(); ++i) counts.erase(order[i].second);
  std::set<Character> seen;
  for (const CountedWord& word : words) {
    bool goes_on = false;
    for (const uint32_t c : CodePoints(word.text)) {
      if (counts.contains(c)) seen.insert({goes_on, c});
      goes_on = true;
    }
  }
  return {seen.begin(), seen.end()};
}

// Joins the most frequent pair of neighbours until there are as many pieces as asked for.
class Learner {
 public:
  Learner(std::vector<CountedWord> words, const std::vector<Character>& alphabet)
      : words_(std::move(words)) {
    for (const Character& character : alphabet) {
      std::string text = character.goes_on ? "##" : "";
      AppendUtf8(character.code_point, &text);
      Add(text);
    }
    for (CountedWord& word : words_) {
      for (const uint32_t c : CodePoints(word.text)) {
        std::string text = word.pieces.empty() ? "" : "##";
        AppendUtf8(c, &text);
        const auto found = ids_.find(text);
        if (found == ids_.end()) {
          word.pieces.clear();  // [UNK] it will be, and teaches nothing
          break;
        }
        word.pieces.push_back(found->second);
      }
    }
    for (size_t word = 0; word < words_.size(); ++word) AddPairs(word, 1);
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
  }

  void Learn(int64_t size) {
    while (static_cast<int64_t>(texts_.size()) < size && !queue_.empty()) {
      const auto [count, pair] = queue_.top();
      queue_.pop();
      State& state = pairs_[pair];
      if (state.count != count) {
        // Counts that change are looked at when they come to the top.
        if (state.count > 0) queue_.push({state.count, pair});
        continue;
      }
      if (count < 2) break;  // what occurs once is a word to know by heart
      Join(pair, std::exchange(state.words, {}));
    }
  }

  std::string Text(const SpecialPieces& special) const {
    return absl::StrCat(absl::StrJoin({special.padding, special.unknown, special.classify,
                                       special.separator, special.mask},
                                      "\n"),
                        "\n", absl::StrJoin(texts_, "\n"), "\n");
  }

 private:
  // The left piece above the right one.
  using Pair = uint64_t;
  struct State {
    int64_t count = 0;
    std::vector<int32_t> words;  // in which it occurs, or did
  };
  struct Entry {
    int64_t count = 0;
    Pair pair = 0;
    // Of those that occur alike the one of lesser pieces is on top.
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.count != b.count ? a.count < b.count : a.pair > b.pair;
    }
  };

  // Should two ways to cut a piece lead to it, it is there once.
  int32_t Add(const std::string& text) {
    const auto [found, fresh] = ids_.emplace(text, static_cast<int32_t>(texts_.size()));
    if (fresh) texts_.push_back(text);
    return found->second;
  }

  void AddPairs(size_t word, int sign) {
    const std::vector<int32_t>& pieces = words_[word].pieces;
    for (size_t i = 1; i < pieces.size(); ++i) {
      State& state = pairs_[static_cast<Pair>(pieces[i - 1]) << 32 | static_cast<Pair>(pieces[i])];
      state.count += sign * words_[word].count;
      if (sign < 0) continue;
      const auto number = static_cast<int32_t>(word);
      if (state.words.empty() || state.words.back() != number) state.words.push_back(number);
    }
  }

  void Join(Pair pair, std::vector<int32_t> in) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair);
    const int32_t joined = Add(texts_[left] + texts_[right].substr(2));  // without its "##"
    std::ranges::sort(in);
    in.erase(std::unique(in.begin(), in.end()), in.end());
    std::vector<Pair> changed;
    for (const int32_t word : in) {
      std::vector<int32_t>& pieces = words_[word].pieces;
      std::vector<int32_t> after;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const bool here = i + 1 < pieces.size() && pieces[i] == left && pieces[i + 1] == right;
        after.push_back(here ? joined : pieces[i]);
        if (here) ++i;
      }
      if (after.size() == pieces.size()) continue;
      AddPairs(word, -1);
      pieces = std::move(after);
      AddPairs(word, 1);
      for (size_t i = 1; i < pieces.size(); ++i) {
        if (pieces[i - 1] != joined && pieces[i] != joined) continue;
        changed.push_back(static_cast<Pair>(pieces[i - 1]) << 32 | static_cast<Pair>(pieces[i]));
      }
    }
    std::ranges::sort(changed);
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const Pair made : changed) queue_.push({pairs_[made].count, made});
  }

  std::vector<CountedWord> words_;
  std::vector<std::string> texts_;  // of the pieces
  absl::flat_hash_map<std::string, int32_t> ids_;
  absl::flat_hash_map<Pair, State> pairs_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

absl::StatusOr<std::string> LearnWordPieces(absl::Span<const absl::string_view> texts, int64_t size,
                                            const WordPieceOptions& options) {
  std::vector<CountedWord> words = CountWords(texts, options);
  const std::vector<Character> alphabet = Alphabet(words, size / kPiecesPerCharacter);
  if (alphabet.empty()) {
    return absl::InvalidArgumentError(
        words.empty() ? absl::StrCat("a vocabulary of ", size,
                                     " pieces: expected words to learn it from, got none")
                      : absl::StrCat("a vocabulary: expected a size of at least ",
                                     kPiecesPerCharacter, ", got ", size));
  }
  Learner learner(std::move(words), alphabet);
  learner.Learn(size - kSpecial);
  return learner.Text(options.special);
}

}  // namespace sluice
