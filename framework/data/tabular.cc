#include "framework/data/tabular.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"

namespace sluice {

// How values of one feature become rows of its table. What is kept of a value, before all values
// are known, is its row by hash, or the how-manieth value of the feature it is by appearance, and
// so 32 bits either way.
struct FeatureRows {
  int64_t begin = 0;  // the first of its rows
  bool hashed = false;
  int64_t rows = 1;
  absl::flat_hash_map<uint64_t, int32_t> seen = {};  // while rows are collected
  std::vector<int64_t> counts = {};                  // of each that was seen, in the training part
  std::vector<int32_t> row_of = {};                  // of each that was seen, once that is learned

  int32_t Keep(uint64_t value, bool counts_it) {
    if (hashed) return static_cast<int32_t>(begin + value % static_cast<uint64_t>(rows));
    const auto [place, is_new] = seen.try_emplace(value, static_cast<int32_t>(counts.size()));
    if (is_new) counts.push_back(0);
    counts[place->second] += counts_it ? 1 : 0;
    return place->second;
  }
  // Of equal counts the smaller hash comes first, so that the order of rows does not count.
  void Learn(int64_t least) {
    std::vector<std::pair<int64_t, uint64_t>> order;
    for (const auto& [value, place] : seen) {
      if (counts[place] >= std::max<int64_t>(least, 1)) order.emplace_back(-counts[place], value);
    }
    std::ranges::sort(order);
    order.resize(std::min<size_t>(order.size(), static_cast<size_t>(rows - 1)));
    row_of.assign(counts.size(), static_cast<int32_t>(begin));
    for (size_t i = 0; i < order.size(); ++i) {
      row_of[seen[order[i].second]] = static_cast<int32_t>(begin + static_cast<int64_t>(i) + 1);
    }
    seen = {}, counts = {};
  }
};

// Of one column of numbers in the training part; those that are missing do not count.
struct NumberScale {
  double mean = 0, deviation = 1;
  double count = 0, sum = 0, squares = 0;  // squares of differences from the mean
  float Of(float number) const {
    constexpr double kMost = 5;
    if (std::isnan(number)) return 0;
    return static_cast<float>(std::clamp((number - mean) / deviation, -kMost, kMost));
  }
  void Add(float number) {
    if (std::isnan(number)) return;
    sum += number, ++count;
  }
  void AddSquare(float number) {
    if (std::isnan(number)) return;
    squares += (number - mean) * (number - mean);
  }
  void LearnMean() { mean = count > 0 ? sum / count : 0; }
  void LearnDeviation() {
    const double variance = count > 0 ? squares / count : 0;
    if (variance > 0) deviation = std::sqrt(variance);
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

absl::Status CheckPart(absl::string_view what, int64_t ones, int64_t zeros) {
  if (ones > 0 && zeros > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected rows with both labels, got ",
                                                 ones, " of 1 and ", zeros, " of 0"));
}

constexpr int64_t kColumnBytes = 4;  // i32 and f32

// fn(rows, how many): all of them in order, about a MiB at a time.
absl::Status ForEachBlock(const RandomAccessFile& file, int64_t row_bytes, const Stop& stop,
                          absl::FunctionRef<void(std::byte* rows, int64_t count)> fn) {
  constexpr int64_t kBlock = int64_t{1} << 20;
  const int64_t all = file.size() / row_bytes, most = std::max<int64_t>(kBlock / row_bytes, 1);
  std::vector<std::byte> block(std::min(most, all) * row_bytes);
  for (int64_t first = 0; first < all; first += most) {
    RETURN_IF_ERROR(CheckStop(stop));
    const int64_t count = std::min(most, all - first);
    RETURN_IF_ERROR(
        file.ReadAt(first * row_bytes, count * row_bytes, reinterpret_cast<char*>(block.data())));
    fn(block.data(), count);
  }
  return absl::OkStatus();
}

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
char* Put(T value, char* to) {
  std::memcpy(to, &value, sizeof(T));
  return to + sizeof(T);
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

Tabular::Tabular(const TabularSchema& schema, RandomAccessFile samples, int64_t ones)
    : samples_(std::move(samples)), ones_(ones) {
  for (const std::string& table : TablesOf(schema)) {
    fields_.push_back({table, DType::kI32, {FeaturesOf(schema, table)}});
  }
  fields_.push_back({"numbers", DType::kF32, {static_cast<int64_t>(schema.numbers.size())}});
  fields_.push_back({"label", DType::kF32, {}});
  for (const SampleField& field : fields_) {
    begins_.push_back(columns_);
    columns_ += field.shape.NumElements();
  }
}

Tabular::~Tabular() = default;

void Tabular::Translate(int field, const Range& range, std::byte* values) const {
  const int numbers = static_cast<int>(fields_.size()) - 2;
  if (field > numbers) return;
  for (int64_t i = range.begin; i < range.end; ++i, values += kColumnBytes) {
    if (field == numbers) {
      const float number = scales_[i].Of(Load<float>(values));
      std::memcpy(values, &number, sizeof(number));
    } else if (const FeatureRows& rows = (*rows_)[begins_[field] + i]; !rows.hashed) {
      std::memcpy(values, &rows.row_of[Load<int32_t>(values)], sizeof(int32_t));
    }
  }
}

absl::Status Tabular::Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box& box,
                           std::byte* to) const {
  const Range range = fields_[field].shape.rank() == 0 ? Range{0, 1} : box[0];
  const int64_t bytes = range.size() * kColumnBytes;
  const int64_t begin = (begins_[field] + range.begin) * kColumnBytes;
  for (const int64_t sample : samples) {
    RETURN_IF_ERROR(
        samples_.ReadAt(sample * RowBytes() + begin, bytes, reinterpret_cast<char*>(to)));
    Translate(field, range, to);
    to += bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Tabular::Labels(absl::Span<const int64_t> samples) const {
  std::vector<float> labels(samples.size());
  RETURN_IF_ERROR(Fill(static_cast<int>(fields_.size()) - 1, samples, 0, {},
                       reinterpret_cast<std::byte*>(labels.data())));
  return labels;
}

// Of field after field, as a model sees them, so that it is of the data and not of how it is kept.
absl::Status Tabular::Identify(const Stop& stop) {
  StableByteHasher digest;
  for (size_t field = 0; field < fields_.size(); ++field) {
    const int64_t count = fields_[field].shape.NumElements(), bytes = count * kColumnBytes;
    std::vector<std::byte> values;
    RETURN_IF_ERROR(
        ForEachBlock(samples_, RowBytes(), stop, [&](const std::byte* rows, int64_t of_block) {
          values.resize(of_block * bytes);
          for (int64_t i = 0; i < of_block; ++i) {
            std::byte* const to = values.data() + i * bytes;
            std::copy_n(rows + i * RowBytes() + begins_[field] * kColumnBytes, bytes, to);
            Translate(static_cast<int>(field), {0, count}, to);
          }
          digest.Add(values.data(), values.size());
        }));
  }
  identity_ = {samples_.size(), digest.digest()};
  return absl::OkStatus();
}

TabularBuilder::TabularBuilder(TabularSchema schema, std::string what, const SpoolOptions& options)
    : schema_(std::move(schema)),
      what_(std::move(what)),
      scales_(schema_.numbers.size()),
      training_({SpooledFile(what_, options)}),
      held_out_({SpooledFile(what_, options)}) {
  for (const std::string& table : TablesOf(schema_)) {
    int64_t begin = 0;
    for (size_t f = 0; f < schema_.features.size(); ++f) {
      const CategoricalFeature& feature = schema_.features[f];
      if (feature.table != table) continue;
      order_.push_back(f);
      // Fewer than two are refused when all is built.
      const int64_t rows = std::max<int64_t>(feature.rows, 2);
      rows_.push_back({.begin = begin, .hashed = feature.hashed, .rows = rows});
      begin += feature.rows;
    }
  }
}

TabularBuilder::~TabularBuilder() = default;

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
  for (size_t i = 0; i < numbers.size(); ++i) {
    // One that is infinite would make all others of its column the same.
    if (!std::isinf(numbers[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(schema_.numbers[i], ": expected a finite number or none, got ", numbers[i]));
  }
  row_.resize((values.size() + numbers.size() + 1) * kColumnBytes);
  char* at = row_.data();
  for (size_t column = 0; column < order_.size(); ++column) {
    at = Put(rows_[column].Keep(values[order_[column]], !held_out), at);
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!held_out) scales_[i].Add(numbers[i]);
    at = Put(numbers[i], at);
  }
  Put(label, at);
  Part& part = held_out ? held_out_ : training_;
  (label == 1 ? part.ones : part.zeros) += 1;
  return part.samples.Append({row_.data(), row_.size()});
}

absl::Status TabularBuilder::LearnScales(const Tabular& training, const Stop& stop) {
  for (NumberScale& scale : scales_) scale.LearnMean();
  // A pass of its own, so that the squares are of differences from the mean.
  const int64_t begin = training.begins_[training.fields_.size() - 2] * kColumnBytes;
  RETURN_IF_ERROR(ForEachBlock(training.samples_, training.RowBytes(), stop,
                               [&](const std::byte* rows, int64_t count) {
                                 for (int64_t i = 0; i < count; ++i) {
                                   const std::byte* at = rows + i * training.RowBytes() + begin;
                                   for (NumberScale& scale : scales_) {
                                     scale.AddSquare(Load<float>(at));
                                     at += kColumnBytes;
                                   }
                                 }
                               }));
  for (NumberScale& scale : scales_) scale.LearnDeviation();
  return absl::OkStatus();
}

absl::StatusOr<TabularBuilder::Parts> TabularBuilder::Build(const Stop& stop) && {
  RETURN_IF_ERROR(
      CheckPart(absl::StrCat(what_, ", to learn from"), training_.ones, training_.zeros));
  RETURN_IF_ERROR(CheckPart(absl::StrCat(what_, ", held out"), held_out_.ones, held_out_.zeros));
  for (const CategoricalFeature& feature : schema_.features) {
    if (feature.rows >= 2) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what_, ": ", feature.name, ": expected at least 2 rows, got ", feature.rows));
  }
  for (size_t column = 0; column < order_.size(); ++column) {
    if (!rows_[column].hashed) rows_[column].Learn(schema_.features[order_[column]].least);
  }
  const auto make = [&](Part* part) -> absl::StatusOr<std::unique_ptr<Tabular>> {
    ASSIGN_OR_RETURN(RandomAccessFile samples, std::move(part->samples).Finish());
    return std::unique_ptr<Tabular>(new Tabular(schema_, std::move(samples), part->ones));
  };
  Parts parts;
  ASSIGN_OR_RETURN(parts.training, make(&training_));
  ASSIGN_OR_RETURN(parts.held_out, make(&held_out_));
  RETURN_IF_ERROR(LearnScales(*parts.training, stop));
  const auto rows = std::make_shared<const std::vector<FeatureRows>>(std::move(rows_));
  for (Tabular* const part : {parts.training.get(), parts.held_out.get()}) {
    part->rows_ = rows;
    part->scales_ = scales_;
    RETURN_IF_ERROR(part->Identify(stop));
  }
  return parts;
}

}  // namespace sluice
