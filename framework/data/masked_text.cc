#include "framework/data/masked_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

enum Field { kTokens, kSegments, kLength, kPositions, kLabels, kWeights, kMaskedWords, kNext };

constexpr int64_t kSpecialTokens = 3;  // [CLS] and twice [SEP]
constexpr int64_t kLeastText = 2;      // tokens, one of each segment
constexpr int64_t kTriesForAnother = 16;

bool EndsSentence(absl::string_view piece) {
  return piece == "." || piece == "!" || piece == "?" || piece == "。";
}

bool ClosesQuotation(absl::string_view piece) {
  return piece == "\"" || piece == "'" || piece == ")" || piece == "]" || piece == "”" ||
         piece == "’";
}

template <typename T>
absl::string_view Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Writes the range of a row; what lies behind its values is 0.
template <typename T>
void Copy(const std::vector<T>& values, Range range, std::byte** to) {
  auto* row = reinterpret_cast<T*>(*to);
  for (int64_t i = range.begin; i < range.end; ++i) {
    *row++ = i < static_cast<int64_t>(values.size()) ? values[i] : T{};
  }
  *to = reinterpret_cast<std::byte*>(row);
}

}  // namespace

// The numbers that are drawn for a sample, one after the other.
class MaskedText::Draws {
 public:
  Draws(uint64_t seed, int64_t position) : seed_(seed), position_(position) {}

  int64_t Below(int64_t limit) {
    // The name and the order of what is drawn are part of what runs are.
    static const int64_t key = RandomKey("masked text");
    if (at_ == words_.size()) {
      words_ = Philox(seed_, key, position_, block_++);
      at_ = 0;
    }
    const uint64_t word = uint64_t{words_[at_]} << 32 | words_[at_ + 1];
    at_ += 2;
    return static_cast<int64_t>(
        static_cast<unsigned __int128>(word) * static_cast<uint64_t>(limit) >> 64);
  }

 private:
  uint64_t seed_;
  int64_t position_;
  std::array<uint32_t, 4> words_ = {};
  size_t at_ = words_.size();
  int64_t block_ = 0;
};

// A sample, without its padding.
struct MaskedText::Drawn {
  std::vector<int32_t> tokens, segments, positions, labels;
  std::vector<int32_t> words;    // the first token of each that may be predicted
  std::vector<uint8_t> goes_on;  // of each token, whether it belongs to the word before
  bool elsewhere = false;
};

absl::StatusOr<MaskedText> MaskedText::Create(absl::string_view what,
                                              absl::Span<const std::string> documents,
                                              const WordPiece& vocabulary,
                                              const MaskedTextOptions& options) {
  const auto error = [what](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected ", words...));
  };
  if (options.length < kSpecialTokens + kLeastText) {
    return error("samples of at least ", kSpecialTokens + kLeastText, " tokens, got ",
                 options.length);
  }
  if (options.most_predicted < 1 || options.most_predicted > options.length) {
    return error("from 1 to ", options.length, " predictions of as many tokens, got ",
                 options.most_predicted);
  }
  if (!(options.predicted > 0 && options.predicted <= 1)) {
    return error("a share of tokens to predict above 0, at most 1, got ", options.predicted);
  }
  MaskedText result(options);
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.IsSpecial(id)) result.replacements_.push_back(id);
  }
  if (result.replacements_.empty()) return error("a vocabulary of more than special pieces");
  result.classify_ = vocabulary.classify();
  result.separator_ = vocabulary.separator();
  result.mask_ = vocabulary.mask();
  result.padding_ = vocabulary.padding();
  std::vector<TextRange> ranges;
  result.documents_ = {0};
  for (const std::string& document : documents) {
    result.AddDocument(document, vocabulary, &ranges);
    result.identity_.bytes += static_cast<int64_t>(document.size());
  }
  if (result.num_documents() < 2) {
    return error("at least two documents of two words, one to follow and one that does not, got ",
                 result.num_documents());
  }
  result.unknown_ = std::ranges::count(result.tokens_, vocabulary.unknown());
  StableHasher hasher;
  hasher.Add(Bytes(result.tokens_)).Add(Bytes(result.flags_)).Add(Bytes(result.documents_));
  hasher.Add(options.length);
  result.identity_.digest = hasher.digest();
  const int64_t length = options.length, most = options.most_predicted;
  result.fields_ = {{"tokens", DType::kI32, {length}}, {"segments", DType::kI32, {length}},
                    {"length", DType::kI32, {}},       {"positions", DType::kI32, {most}},
                    {"labels", DType::kI32, {most}},   {"weights", DType::kF32, {most}},
                    {"masked_words", DType::kF32, {}}, {"next", DType::kI32, {}}};
  return result;
}

void MaskedText::AddDocument(absl::string_view text, const WordPiece& vocabulary,
                             std::vector<TextRange>* ranges) {
  const size_t first = tokens_.size();
  ranges->clear();
  vocabulary.Encode(text, &tokens_, ranges);
  bool after_end = true;
  int64_t words = 0;
  for (size_t i = first; i < tokens_.size(); ++i) {
    const absl::string_view piece = vocabulary.piece(tokens_[i]);
    const TextRange range = (*ranges)[i - first];
    if (i > first) {
      const int64_t end = (*ranges)[i - first - 1].end;
      const absl::string_view between = text.substr(end, std::max<int64_t>(range.begin - end, 0));
      after_end |= absl::StrContains(between, '\n');
    }
    uint8_t flags = 0;
    if (!vocabulary.GoesOn(tokens_[i])) {
      flags |= kBeginsWord;
      ++words;
      // A quotation is closed by what ended it.
      const bool closes = ClosesQuotation(piece) || EndsSentence(piece);
      if (after_end && !closes) flags |= kBeginsSentence;
      if (!closes) after_end = false;
      after_end |= EndsSentence(piece);
    }
    flags_.push_back(flags);
  }
  if (words < kLeastText) {
    tokens_.resize(first);
    flags_.resize(first);
    return;
  }
  documents_.push_back(static_cast<int64_t>(tokens_.size()));
  CutDocument(num_documents() - 1);
}

// The end of the tokens that are taken of those from `first` to `last`: where a word ends, unless
// that would leave less than half of them.
int64_t MaskedText::WordEnd(int64_t first, int64_t last) const {
  const int64_t least = first + std::max<int64_t>((last - first) / 2, kLeastText);
  for (int64_t end = last; end >= least; --end) {
    if (end == static_cast<int64_t>(tokens_.size()) || BeginsWord(end)) return end;
  }
  return last;
}

void MaskedText::CutDocument(int64_t document) {
  const int64_t begin = documents_[document], end = documents_[document + 1];
  const int64_t most = options_.length - kSpecialTokens;
  int64_t at = begin;
  while (end - at > most) {
    const int64_t cut = WordEnd(at, at + most);
    samples_.push_back({at, cut, document});
    at = cut;
  }
  if (at > begin) {
    at = end - most;
    int64_t word = at;
    while (word < end - kLeastText && !BeginsWord(word)) ++word;
    if (BeginsWord(word)) at = word;
  }
  samples_.push_back({at, end, document});
}

// Where the second segment begins: at the sentence next to a place that is drawn, else at the word
// there, else there.
int64_t MaskedText::DrawSplit(const Sample& sample, Draws* draws) const {
  const int64_t place = sample.begin + 1 + draws->Below(sample.end - sample.begin - 1);
  for (const uint8_t flag : {kBeginsSentence, kBeginsWord}) {
    for (int64_t at = place; at < sample.end; ++at) {
      if (flags_[at] & flag) return at;
    }
    for (int64_t at = place - 1; at > sample.begin; --at) {
      if (flags_[at] & flag) return at;
    }
  }
  return place;
}

// At most so many tokens of another document.
TextRange MaskedText::DrawOther(int64_t document, int64_t most, Draws* draws) const {
  // Documents are drawn by how much of the text they are, as those of the first segment are: else
  // stubs would come second more often than first, and tell by their length what the model is
  // asked.
  int64_t other = document;
  for (int64_t i = 0; i < kTriesForAnother && other == document; ++i) {
    other = samples_[draws->Below(num_samples())].document;
  }
  if (other == document) other = (document + 1) % num_documents();  // nearly all of the text is one
  const int64_t begin = documents_[other], end = documents_[other + 1];
  if (end - begin <= most) return {begin, end};
  const int64_t place = begin + draws->Below(end - most - begin + 1);
  const auto from = [this, most](int64_t at) { return TextRange{at, WordEnd(at, at + most)}; };
  const int64_t near = options_.length;
  for (int64_t at = place; at <= std::min(end - most, place + near); ++at) {
    if (flags_[at] & kBeginsSentence) return from(at);
  }
  for (int64_t at = place; at >= std::max(begin, place - near); --at) {
    if (flags_[at] & kBeginsSentence) return from(at);
  }
  int64_t word = place;
  while (!BeginsWord(word)) --word;  // a document begins with a word
  return from(word);
}

void MaskedText::AddSegment(TextRange tokens, int32_t segment, Drawn* drawn) const {
  for (int64_t at = tokens.begin; at < tokens.end; ++at) {
    // The rest of a word that was cut counts as a word.
    const bool begins = at == tokens.begin || BeginsWord(at);
    if (begins) drawn->words.push_back(static_cast<int32_t>(drawn->tokens.size()));
    drawn->tokens.push_back(tokens_[at]);
    drawn->goes_on.push_back(!begins);
  }
  drawn->tokens.push_back(separator_);
  drawn->goes_on.push_back(false);
  drawn->segments.resize(drawn->tokens.size(), segment);
}

void MaskedText::DrawPredicted(Draws* draws, Drawn* drawn) const {
  const auto length = static_cast<double>(drawn->tokens.size());
  const int64_t wanted =
      std::clamp<int64_t>(std::llround(length * options_.predicted), 1, options_.most_predicted);
  std::vector<int32_t>& words = drawn->words;
  const auto word_size = [drawn](int32_t word) {
    int64_t size = 1;
    while (drawn->goes_on[word + size] != 0) ++size;  // a separator ends the last word
    return size;
  };
  const auto add = [drawn](int32_t word, int64_t size) {
    for (int64_t i = 0; i < size; ++i) drawn->positions.push_back(word + static_cast<int32_t>(i));
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const int64_t left = wanted - static_cast<int64_t>(drawn->positions.size());
    if (left == 0) break;
    std::swap(words[i], words[i + draws->Below(static_cast<int64_t>(words.size() - i))]);
    if (const int64_t size = word_size(words[i]); size <= left) add(words[i], size);
  }
  // Each sample predicts something, also where every word has more pieces than are wanted.
  if (drawn->positions.empty()) add(words[0], wanted);
  std::ranges::sort(drawn->positions);
  for (const int32_t position : drawn->positions) {
    int32_t& token = drawn->tokens[position];
    drawn->labels.push_back(token);
    const int64_t tenth = draws->Below(10);
    if (tenth < 8) token = mask_;
    if (tenth == 8) token = replacements_[draws->Below(static_cast<int64_t>(replacements_.size()))];
  }
}

void MaskedText::Draw(int64_t sample, int64_t position, Drawn* drawn) const {
  Draws draws(options_.seed, position);
  const Sample& of = samples_[sample];
  for (auto* values :
       {&drawn->tokens, &drawn->segments, &drawn->positions, &drawn->labels, &drawn->words}) {
    values->clear();
  }
  drawn->elsewhere = draws.Below(2) == 1;
  drawn->tokens.push_back(classify_);
  drawn->goes_on.assign(1, 0);
  const int64_t split = DrawSplit(of, &draws);
  AddSegment({of.begin, split}, 0, drawn);
  const int64_t most = options_.length - kSpecialTokens - (split - of.begin);
  AddSegment(drawn->elsewhere ? DrawOther(of.document, most, &draws) : TextRange{split, of.end}, 1,
             drawn);
  DrawPredicted(&draws, drawn);
}

absl::Status MaskedText::Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                              const Box& box, std::byte* to) const {
  // Each field of a sample is asked for by itself and draws all of it anew, which takes a
  // microsecond or a few. What it is drawn into is kept for the next one that this thread fills.
  static thread_local Drawn drawn;
  for (const int64_t sample : samples) {
    Draw(sample, position++, &drawn);
    if (field == kTokens) {
      drawn.tokens.resize(options_.length, padding_);
      Copy(drawn.tokens, box[0], &to);
    } else if (field == kSegments) {
      Copy(drawn.segments, box[0], &to);
    } else if (field == kPositions || field == kLabels) {
      Copy(field == kPositions ? drawn.positions : drawn.labels, box[0], &to);
    } else if (field == kWeights) {
      const auto count = static_cast<int64_t>(drawn.positions.size());
      auto* row = reinterpret_cast<float*>(to);
      for (int64_t i = box[0].begin; i < box[0].end; ++i) {
        *row++ = i < count ? 1.0F : 0.0F;
      }
      to = reinterpret_cast<std::byte*>(row);
    } else if (field == kMaskedWords) {
      *reinterpret_cast<float*>(to) = static_cast<float>(drawn.positions.size());
      to += sizeof(float);
    } else {
      auto* value = reinterpret_cast<int32_t*>(to);
      *value = field == kNext ? static_cast<int32_t>(drawn.elsewhere)
                              : static_cast<int32_t>(drawn.tokens.size());
      to += sizeof(int32_t);
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
