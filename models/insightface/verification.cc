#include "models/insightface/verification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

constexpr int64_t kPairKey = 0x70616972;
// What an axis begins with: no test of thousands of pairs says more.
constexpr double kLeastRate = 1e-3;

int64_t Draw(uint64_t seed, int64_t* drawn, size_t below) {
  return RandomWord(seed, kPairKey, 0, (*drawn)++) % static_cast<int64_t>(below);
}

// Replaces what would end a text of XML: a set has the name of somebody's file.
std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Pairs in the order of falling cosines; of equal ones the impostors first, for no threshold lies
// between them.
std::vector<size_t> ByCosine(absl::Span<const Pair> pairs, absl::Span<const float> cosines) {
  std::vector<size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (cosines[a] != cosines[b]) return cosines[a] > cosines[b];
    return std::pair(pairs[a].same, a) < std::pair(pairs[b].same, b);
  });
  return order;
}

// The cosine from which on `order`'s pairs are best called the same, but for those of a fold.
float BestThreshold(absl::Span<const Pair> pairs, absl::Span<const float> cosines,
                    absl::Span<const size_t> order, int64_t left_out) {
  int64_t right = 0, best = 0;
  float threshold = 2;  // none is the same
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t pair = order[i];
    if (static_cast<int64_t>(pair / 2) % kFolds != left_out) right += pairs[pair].same ? 1 : -1;
    const bool between = i + 1 == order.size() || cosines[order[i + 1]] < cosines[pair];
    if (!between || right <= best) continue;
    best = right;
    const float next = i + 1 == order.size() ? cosines[pair] : cosines[order[i + 1]];
    threshold = (cosines[pair] + next) / 2;
  }
  return threshold;
}

}  // namespace

absl::StatusOr<std::vector<Pair>> DrawPairs(absl::Span<const int32_t> labels, int64_t count,
                                            uint64_t seed) {
  std::map<int32_t, std::vector<int64_t>> of_identity;
  for (size_t i = 0; i < labels.size(); ++i) {
    of_identity[labels[i]].push_back(static_cast<int64_t>(i));
  }
  std::vector<const std::vector<int64_t>*> several;
  for (const auto& [label, samples] : of_identity) {
    if (samples.size() > 1) several.push_back(&samples);
  }
  if (several.empty() || of_identity.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("pairs: expected two identities, and two pictures of one, got ", labels.size(),
                     " pictures of ", of_identity.size()));
  }
  std::vector<Pair> pairs;
  int64_t drawn = 0;
  while (static_cast<int64_t>(pairs.size()) < count) {
    if (pairs.size() % 2 == 0) {
      const std::vector<int64_t>& samples = *several[Draw(seed, &drawn, several.size())];
      const int64_t a = Draw(seed, &drawn, samples.size());
      const int64_t b = Draw(seed, &drawn, samples.size() - 1);
      pairs.push_back({samples[a], samples[b < a ? b : b + 1], true});
    } else {
      const int64_t a = Draw(seed, &drawn, labels.size()), b = Draw(seed, &drawn, labels.size());
      if (labels[a] != labels[b]) pairs.push_back({a, b, false});
    }
  }
  return pairs;
}

std::vector<Pair> SpreadPairs(absl::Span<const Pair> pairs, int64_t most) {
  if (most >= static_cast<int64_t>(pairs.size())) return {pairs.begin(), pairs.end()};
  std::array<std::vector<Pair>, 2> kinds;
  for (const Pair& pair : pairs) kinds[pair.same ? 0 : 1].push_back(pair);
  std::vector<Pair> some;
  const auto of_each =
      std::min((most + 1) / 2, static_cast<int64_t>(std::min(kinds[0].size(), kinds[1].size())));
  for (int64_t i = 0; i < of_each; ++i) {
    for (const std::vector<Pair>& kind : kinds) {
      some.push_back(kind[i * static_cast<int64_t>(kind.size()) / of_each]);
    }
  }
  return some;
}

Verification Verify(absl::Span<const Pair> pairs, absl::Span<const float> cosines) {
  const std::vector<size_t> order = ByCosine(pairs, cosines);
  Verification verification;
  for (int64_t fold = 0; fold < kFolds; ++fold) {
    const float threshold = BestThreshold(pairs, cosines, order, fold);
    int64_t right = 0, of_fold = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (static_cast<int64_t>(i / 2) % kFolds != fold) continue;
      ++of_fold;
      right += (cosines[i] > threshold) == pairs[i].same ? 1 : 0;
    }
    verification.accuracy +=
        static_cast<double>(right) / static_cast<double>(of_fold) / static_cast<double>(kFolds);
  }
  const int64_t genuine =
      std::count_if(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.same; });
  const int64_t impostors = static_cast<int64_t>(pairs.size()) - genuine;
  int64_t same = 0, passed = 0;
  const auto add = [&] {
    verification.roc.push_back({static_cast<double>(passed) / static_cast<double>(impostors),
                                static_cast<double>(same) / static_cast<double>(genuine)});
  };
  add();
  for (const size_t pair : order) {
    if (pairs[pair].same) {
      ++same;
      continue;
    }
    add();  // the most that pass before this one does
    ++passed;
  }
  add();
  return verification;
}

double TruePositivesAt(double false_positives, absl::Span<const RocPoint> roc) {
  double best = 0;
  for (const RocPoint& point : roc) {
    if (point.false_positives <= false_positives) best = std::max(best, point.true_positives);
  }
  return best;
}

std::vector<float> CosinesOf(absl::Span<const Pair> pairs, absl::Span<const float> rows,
                             int64_t width) {
  std::vector<float> cosines;
  for (const Pair& pair : pairs) {
    const float *a = rows.data() + pair.a * width, *b = rows.data() + pair.b * width;
    double product = 0, a_squares = 0, b_squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      product += static_cast<double>(a[i]) * b[i];
      a_squares += static_cast<double>(a[i]) * a[i];
      b_squares += static_cast<double>(b[i]) * b[i];
    }
    const double lengths = std::sqrt(a_squares * b_squares);
    cosines.push_back(lengths > 0 ? static_cast<float>(product / lengths) : 0);
  }
  return cosines;
}

std::string RocAsSvg(absl::Span<const RocPoint> roc, const std::array<std::string, 2>& title) {
  constexpr double kLeft = 60, kTop = 40, kWidth = 480, kHeight = 320;
  const auto x = [&](double rate) {
    const double decades = -std::log10(kLeastRate);
    return kLeft + kWidth * (1 + std::log10(std::max(rate, kLeastRate)) / decades);
  };
  const auto y = [&](double rate) { return kTop + kHeight * (1 - rate); };
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 580 420\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"580\" height=\"420\" fill=\"white\"/>\n"
      "<text x=\"16\" y=\"17\">%s</text>\n<text x=\"16\" y=\"32\">%s</text>\n",
      Escaped(title[0]), Escaped(title[1]));
  for (const double rate : {0.001, 0.01, 0.1, 1.0}) {
    absl::StrAppendFormat(&svg,
                          "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
                          x(rate), kTop, kTop + kHeight, x(rate), kTop + kHeight + 18, rate);
  }
  for (const double rate : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    absl::StrAppendFormat(&svg,
                          "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
                          kLeft, y(rate), kLeft + kWidth, kLeft - 6, y(rate) + 4, rate);
  }
  absl::StrAppendFormat(
      &svg,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">false positives</text>\n"
      "<text x=\"16\" y=\"%.1f\" text-anchor=\"middle\" "
      "transform=\"rotate(-90 16 %.1f)\">true positives</text>\n"
      "<path fill=\"none\" stroke=\"#1f5fbf\" stroke-width=\"2\" d=\"",
      kLeft + kWidth / 2, kTop + kHeight + 40, kTop + kHeight / 2, kTop + kHeight / 2);
  for (size_t i = 0; i < roc.size(); ++i) {
    absl::StrAppendFormat(&svg, "%s%.1f %.1f", i == 0 ? "M" : "L", x(roc[i].false_positives),
                          y(roc[i].true_positives));
  }
  return svg + "\"/>\n</svg>\n";
}

}  // namespace sluice
