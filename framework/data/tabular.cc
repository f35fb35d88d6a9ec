#include "framework/data/tabular.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"

namespace sluice {

// How values of one feature become rows of its table.
struct FeatureRows {
  int64_t begin = 0;  // the first of its rows
  bool hashed = false;
  int64_t rows = 0;
  absl::flat_hash_map<uint64_t, int32_t> vocabulary;  // from 1
  int32_t Of(uint64_t value) const {
    if (hashed) return static_cast<int32_t>(begin + value % static_cast<uint64_t>(rows));
    const auto found = vocabulary.find(value);
    return static_cast<int32_t>(begin + (found == vocabulary.end() ? 0 : found->second));
  }
};

struct NumberScale {
  double mean = 0, deviation = 1;
  float Of(float number) const {
    constexpr double kMost = 5;
    if (std::isnan(number)) return 0;
    return static_cast<float>(std::clamp((number - mean) / deviation, -kMost, kMost));
  }
};

namespace {

std::vector<std::string> TablesOf(const TabularSchema& schema) {
  std::vector<std::string> tables;
  for (const CategoricalFeature& feature : schema.features) {
    if (std::ranges::count(tables, feature.table) == 0) tables.push_back(feature.table);
  }
  return tables;
}

// Of equal counts the smaller hash comes first, so that the order of rows does not count.
void LearnVocabulary(const CategoricalFeature& feature,
                     const absl::flat_hash_map<uint64_t, int64_t>& counts, FeatureRows* rows) {
  std::vector<std::pair<int64_t, uint64_t>> order;
  for (const auto& [value, count] : counts) {
    if (count >= feature.least) order.emplace_back(-count, value);
  }
  std::ranges::sort(order);
  order.resize(std::min<size_t>(order.size(), static_cast<size_t>(feature.rows - 1)));
  for (size_t i = 0; i < order.size(); ++i) {
    rows->vocabulary[order[i].second] = static_cast<int32_t>(i + 1);
  }
}

// Two passes, so that the squares are of differences from the mean.
NumberScale LearnScale(absl::Span<const float> numbers, size_t column, size_t columns) {
  NumberScale scale;
  const auto mean_of = [&](auto&& value) {
    double sum = 0, count = 0;
    for (size_t i = column; i < numbers.size(); i += columns) {
      if (std::isnan(numbers[i])) continue;
      sum += value(numbers[i]);
      ++count;
    }
    return count > 0 ? sum / count : 0;
  };
  scale.mean = mean_of([](double x) { return x; });
  const double variance = mean_of([&](double x) { return (x - scale.mean) * (x - scale.mean); });
  if (variance > 0) scale.deviation = std::sqrt(variance);
  return scale;
}

absl::Status CheckPart(absl::string_view what, absl::Span<const float> labels) {
  const int64_t ones = std::ranges::count(labels, 1.0f);
  const int64_t zeros = static_cast<int64_t>(labels.size()) - ones;
  if (ones > 0 && zeros > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected rows with both labels, got ",
                                                 ones, " of 1 and ", zeros, " of 0"));
}

template <typename T>
std::byte* Put(const T* from, int64_t count, std::byte* to) {
  std::memcpy(to, from, count * sizeof(T));
  return to + count * sizeof(T);
}

}  // namespace

int64_t RowsOf(const TabularSchema& schema, absl::string_view table) {
  int64_t rows = 0;
  for (const CategoricalFeature& feature : schema.features) {
    if (feature.table == table) rows += feature.rows;
  }
  return rows;
}

int64_t FeaturesOf(const TabularSchema& schema, absl::string_view table) {
  return std::ranges::count(schema.features, table, &CategoricalFeature::table);
}

uint64_t CategoricalValue(absl::string_view text) { return StableHash(text); }

uint64_t CrossedValue(absl::Span<const uint64_t> values) {
  return StableHash(values.data(), values.size() * sizeof(uint64_t));
}

absl::Span<const int32_t> Tabular::ids(int field, int64_t sample) const {
  const int64_t count = fields_[field].shape[0];
  return absl::MakeConstSpan(ids_[field]).subspan(sample * count, count);
}

absl::Status Tabular::Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box& box,
                           std::byte* to) const {
  const int numbers = static_cast<int>(ids_.size());
  for (const int64_t sample : samples) {
    if (field < numbers) {
      to = Put(ids(field, sample).data() + box[0].begin, box[0].size(), to);
    } else if (field == numbers) {
      const int64_t count = fields_[field].shape[0];
      to = Put(numbers_.data() + sample * count + box[0].begin, box[0].size(), to);
    } else {
      to = Put(&labels_[sample], 1, to);
    }
  }
  return absl::OkStatus();
}

TabularBuilder::TabularBuilder(TabularSchema schema) : schema_(std::move(schema)) {}

absl::Status TabularBuilder::Add(bool held_out, float label, absl::Span<const uint64_t> values,
                                 absl::Span<const float> numbers) {
  if (label != 0 && label != 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected a label of 0 or 1, got ", label));
  }
  if (values.size() != schema_.features.size() || numbers.size() != schema_.numbers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", schema_.features.size(), " values and ", schema_.numbers.size(),
                     " numbers, got ", values.size(), " and ", numbers.size()));
  }
  Part& part = held_out ? held_out_ : training_;
  part.values.insert(part.values.end(), values.begin(), values.end());
  part.numbers.insert(part.numbers.end(), numbers.begin(), numbers.end());
  part.labels.push_back(label);
  return absl::OkStatus();
}

absl::StatusOr<TabularBuilder::Parts> TabularBuilder::Build(absl::string_view what) && {
  RETURN_IF_ERROR(CheckPart(absl::StrCat(what, ", to learn from"), training_.labels));
  RETURN_IF_ERROR(CheckPart(absl::StrCat(what, ", held out"), held_out_.labels));
  Parts parts;
  std::vector<FeatureRows> rows(schema_.features.size());
  for (size_t f = 0; f < rows.size(); ++f) {
    const CategoricalFeature& feature = schema_.features[f];
    if (feature.rows < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": ", feature.name, ": expected at least 2 rows, got ", feature.rows));
    }
    for (size_t before = 0; before < f; ++before) {
      if (schema_.features[before].table == feature.table) {
        rows[f].begin += schema_.features[before].rows;
      }
    }
    rows[f].hashed = feature.hashed, rows[f].rows = feature.rows;
    absl::flat_hash_map<uint64_t, int64_t> counts;
    for (size_t i = f; i < training_.values.size(); i += rows.size()) {
      ++counts[training_.values[i]];
    }
    parts.distinct.push_back(static_cast<int64_t>(counts.size()));
    if (!feature.hashed) LearnVocabulary(feature, counts, &rows[f]);
  }
  std::vector<NumberScale> scales;
  for (size_t n = 0; n < schema_.numbers.size(); ++n) {
    scales.push_back(LearnScale(training_.numbers, n, schema_.numbers.size()));
  }
  parts.training = Encode(std::move(training_), rows, scales);
  parts.held_out = Encode(std::move(held_out_), rows, scales);
  return parts;
}

std::unique_ptr<Tabular> TabularBuilder::Encode(Part part, absl::Span<const FeatureRows> rows,
                                                absl::Span<const NumberScale> scales) const {
  std::unique_ptr<Tabular> data(new Tabular());
  StableByteHasher digest;
  for (const std::string& table : TablesOf(schema_)) {
    data->fields_.push_back({table, DType::kI32, {FeaturesOf(schema_, table)}});
    std::vector<int32_t>& ids = data->ids_.emplace_back();
    ids.reserve(part.labels.size() * static_cast<size_t>(FeaturesOf(schema_, table)));
    for (size_t i = 0; i < part.values.size(); ++i) {
      const size_t f = i % rows.size();
      if (schema_.features[f].table == table) ids.push_back(rows[f].Of(part.values[i]));
    }
    digest.Add(ids.data(), ids.size() * sizeof(int32_t));
    data->identity_.bytes += static_cast<int64_t>(ids.size() * sizeof(int32_t));
  }
  data->fields_.push_back({"numbers", DType::kF32, {static_cast<int64_t>(schema_.numbers.size())}});
  data->fields_.push_back({"label", DType::kF32, {}});
  for (size_t i = 0; i < part.numbers.size(); ++i) {
    part.numbers[i] = scales[i % scales.size()].Of(part.numbers[i]);
  }
  data->numbers_ = std::move(part.numbers);
  data->labels_ = std::move(part.labels);
  for (const std::vector<float>* values : {&data->numbers_, &data->labels_}) {
    digest.Add(values->data(), values->size() * sizeof(float));
    data->identity_.bytes += static_cast<int64_t>(values->size() * sizeof(float));
  }
  data->identity_.digest = digest.digest();
  return data;
}

}  // namespace sluice
