#include "framework/data/bag_of_words.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "framework/data/basic_tokenizer.h"
#include "framework/data/sample_order.h"

namespace sluice {
namespace {

constexpr int64_t kLeastCharacters = 2;  // of a word that counts

struct Weight {
  int32_t word = 0;
  float value = 0;
};
// The weights of a text's words, ascending; their squares sum to 1.
using Weights = std::vector<Weight>;

class Vectorizer {
 public:
  // Learns words, and of how many texts each is.
  explicit Vectorizer(const std::vector<std::string>& texts) {
    std::vector<int64_t> of_texts;
    for (const std::string& text : texts) {
      for (const auto& [word, count] : Count(text, /*learn=*/true)) {
        if (word >= static_cast<int32_t>(of_texts.size())) of_texts.resize(word + 1);
        ++of_texts[word];
      }
    }
    const auto all = static_cast<double>(texts.size());
    for (const int64_t count : of_texts) {
      inverse_.push_back(
          static_cast<float>(std::log((1 + all) / (1 + static_cast<double>(count))) + 1));
    }
  }

  Weights operator()(const std::string& text) {
    Weights weights;
    double squares = 0;
    for (const auto& [word, count] : Count(text, /*learn=*/false)) {
      weights.push_back({word, static_cast<float>(count) * inverse_[word]});
      squares += static_cast<double>(weights.back().value) * weights.back().value;
    }
    for (Weight& weight : weights) weight.value /= static_cast<float>(std::sqrt(squares));
    return weights;
  }

  int64_t size() const { return static_cast<int64_t>(inverse_.size()); }

 private:
  // The words of a text by their numbers, ascending, and how often each occurs.
  std::vector<std::pair<int32_t, int64_t>> Count(const std::string& text, bool learn) {
    std::vector<int32_t> words;
    WordReader reader(text);
    while (reader.Next()) {
      if (reader.code_points() < kLeastCharacters) continue;
      if (learn) numbers_.emplace(reader.word(), static_cast<int32_t>(numbers_.size()));
      const auto found = numbers_.find(reader.word());
      if (found != numbers_.end()) words.push_back(found->second);
    }
    std::ranges::sort(words);
    std::vector<std::pair<int32_t, int64_t>> counts;
    for (const int32_t word : words) {
      if (counts.empty() || counts.back().first != word) counts.push_back({word, 0});
      ++counts.back().second;
    }
    return counts;
  }

  absl::flat_hash_map<std::string, int32_t> numbers_;
  std::vector<float> inverse_;  // document frequency, by word
};

// In which order the texts are taken, in each round.
using Orders = std::vector<std::vector<int32_t>>;

Orders DrawOrders(size_t texts) {
  constexpr int64_t kMostRounds = 50;
  const auto count = static_cast<int64_t>(texts);
  Orders orders(kMostRounds);
  for (int64_t round = 0; round < kMostRounds; ++round) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t text = SampleAt({SampleOrder::kEpochs, /*seed=*/1}, round * count + i, count);
      orders[round].push_back(static_cast<int32_t>(text));
    }
  }
  return orders;
}

// A support vector machine by coordinate descent in its dual (Hsieh et al. 2008, which LIBLINEAR
// is): each text in turn takes the weight `alpha` that is best while the others keep theirs, and
// the plane is the sum of all texts by their weights.
class Plane {
 public:
  Plane(const std::vector<Weights>& texts, const std::vector<int32_t>& labels, int32_t label,
        int64_t words, const Orders& orders)
      : normal_(words) {
    constexpr double kTolerance = 1e-2;
    std::vector<double> alpha(texts.size());
    for (const std::vector<int32_t>& order : orders) {
      double furthest = 0;  // from what would be best
      for (const int32_t text : order) {
        const double sign = labels[text] == label ? 1 : -1;
        furthest = std::max(furthest, Improve(texts[text], sign, &alpha[text]));
      }
      if (furthest < kTolerance) break;
    }
  }

  double operator()(const Weights& text) const {
    double sum = bias_;
    for (const Weight& weight : text) sum += normal_[weight.word] * weight.value;
    return sum;
  }

 private:
  double Improve(const Weights& text, double sign, double* alpha) {
    constexpr double kDiagonal = 0.5;            // 1 / (2 C)
    const double square = text.empty() ? 1 : 2;  // of the text's weights and of the bias's 1
    const double gradient = sign * (*this)(text)-1 + kDiagonal * *alpha;
    const double projected = *alpha == 0 ? std::min(gradient, 0.0) : gradient;
    if (projected == 0) return 0;
    const double better = std::max(*alpha - gradient / (square + kDiagonal), 0.0);
    const double step = (better - *alpha) * sign;
    for (const Weight& weight : text) normal_[weight.word] += step * weight.value;
    bias_ += step;
    *alpha = better;
    return std::abs(projected);
  }

  std::vector<double> normal_;
  double bias_ = 0;
};

}  // namespace

double MajorityAccuracy(const TextClasses& classes) {
  std::vector<int64_t> counts(classes.names.size());
  for (const int32_t label : classes.training.labels) ++counts[label];
  const auto most = static_cast<int32_t>(std::ranges::max_element(counts) - counts.begin());
  return static_cast<double>(std::ranges::count(classes.held_out.labels, most)) /
         static_cast<double>(classes.held_out.labels.size());
}

double BagOfWordsAccuracy(const TextClasses& classes) {
  Vectorizer vectorizer(classes.training.texts);
  std::vector<Weights> training, held_out;
  for (const std::string& text : classes.training.texts) training.push_back(vectorizer(text));
  for (const std::string& text : classes.held_out.texts) held_out.push_back(vectorizer(text));
  const Orders orders = DrawOrders(training.size());
  std::vector<int32_t> best(held_out.size());
  std::vector<double> score(held_out.size());
  for (int32_t label = 0; label < static_cast<int32_t>(classes.names.size()); ++label) {
    const Plane plane(training, classes.training.labels, label, vectorizer.size(), orders);
    for (size_t i = 0; i < held_out.size(); ++i) {
      const double of_class = plane(held_out[i]);
      if (label > 0 && of_class <= score[i]) continue;
      best[i] = label;
      score[i] = of_class;
    }
  }
  int64_t right = 0;
  for (size_t i = 0; i < best.size(); ++i) right += best[i] == classes.held_out.labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(best.size());
}

}  // namespace sluice
