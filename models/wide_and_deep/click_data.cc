#include "models/wide_and_deep/click_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/delimited_text.h"
#include "framework/data/file.h"
#include "framework/data/hugectr_raw.h"
#include "framework/data/logistic_regression.h"
#include "framework/data/packed.h"
#include "framework/tensor/random.h"
#include "models/wide_and_deep/metrics.h"

namespace sluice {
namespace {

constexpr char kFetched[] = "flights-2013", kFields[] = "fields";
constexpr int64_t kLogFeatures = 26, kLogNumbers = 13, kDrawnSamples = 1 << 20;
constexpr uint64_t kHeldOutEvery = 10;

class Drawn : public Dataset {
 public:
  Drawn(const WideAndDeepConfig& config, int64_t samples, uint64_t seed)
      : samples_(samples), seed_(seed) {
    std::vector<EmbeddingTable> tables = {config.wide};
    tables.insert(tables.end(), config.tables.begin(), config.tables.end());
    for (const EmbeddingTable& table : tables) {
      fields_.push_back({table.name, DType::kI32, {table.features}});
      rows_.push_back(table.rows);
    }
    if (config.numbers > 0) fields_.push_back({"numbers", DType::kF32, {config.numbers}});
    fields_.push_back({"label", DType::kF32, {}});
  }

  int64_t num_samples() const override { return samples_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {0, seed_}; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box& box,
                    std::byte* to) const override {
    const bool label = fields_[field].shape.rank() == 0;
    const Range range = label ? Range{0, 1} : box[0];
    for (const int64_t sample : samples) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        const int32_t bits = label ? Bits(Chance(field, sample)) : BitsAt(field, sample, i);
        std::memcpy(to, &bits, sizeof(bits));
        to += sizeof(bits);
      }
    }
    return absl::OkStatus();
  }

 private:
  static int32_t Bits(float number) {
    int32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
  }
  float Chance(int field, int64_t sample) const {
    return RandomWord(seed_, field, sample, 0) % 4 == 0 ? 1.0f : 0.0f;
  }
  // The feature i has the rows from i / features of the table on.
  int32_t BitsAt(int field, int64_t sample, int64_t i) const {
    if (field >= static_cast<int>(rows_.size())) {
      return Bits(static_cast<float>(RandomNormal(seed_, field, sample * kStride + i)));
    }
    const int64_t features = fields_[field].shape[0], rows = rows_[field];
    const int64_t begin = rows * i / features, end = rows * (i + 1) / features;
    const int64_t drawn = RandomWord(seed_, field, sample, i);
    return static_cast<int32_t>(begin + drawn % std::max<int64_t>(end - begin, 1));
  }

  static constexpr int64_t kStride = 1 << 17;  // more than a sample has numbers
  const int64_t samples_;
  const uint64_t seed_;
  std::vector<SampleField> fields_;
  std::vector<int64_t> rows_;
};

EmbeddingTable TableOf(const TabularSchema& schema, const std::string& name) {
  return {.name = name, .rows = RowsOf(schema, name), .features = FeaturesOf(schema, name)};
}

WideAndDeepConfig TablesOf(const TabularSchema& schema, const std::vector<std::string>& deep) {
  WideAndDeepConfig config;
  config.wide = TableOf(schema, "wide");
  config.wide.width = 1;
  for (const std::string& name : deep) config.tables.push_back(TableOf(schema, name));
  config.numbers = static_cast<int64_t>(schema.numbers.size());
  return config;
}

TabularSchema LogSchema(int64_t vocabulary) {
  TabularSchema schema;
  for (const char* table : {"wide", kFields}) {
    for (int64_t i = 0; i < kLogFeatures; ++i) {
      const int64_t rows = vocabulary * (i + 1) / kLogFeatures - vocabulary * i / kLogFeatures;
      schema.features.push_back(
          {.name = absl::StrCat("C", i + 1), .table = table, .rows = rows, .hashed = true});
    }
  }
  for (int64_t i = 0; i < kLogNumbers; ++i) schema.numbers.push_back(absl::StrCat("I", i + 1));
  return schema;
}

// Of a count, the logarithm; those below zero are as they are, those that are missing no number.
float LogOfCount(float count) { return count > 0 ? std::log1p(count) : count; }

// A field of a log: a count, or nothing, which is no number.
absl::StatusOr<float> CountOf(absl::string_view text) {
  if (text.empty()) return std::numeric_limits<float>::quiet_NaN();
  return NumberOfField(text, " or nothing");
}

// A line of a log, its 13 counts and 26 values, whichever format it stands in.
struct LogSample {
  float label = 0;
  std::array<float, kLogNumbers> counts;
  std::array<uint64_t, 2 * kLogFeatures> values;  // the second half is the first, once it is added
};

absl::Status AddSample(int64_t line, LogSample* sample, TabularBuilder* builder) {
  for (float& count : sample->counts) count = LogOfCount(count);
  // Once in the wide part and once in the other.
  std::copy_n(sample->values.begin(), kLogFeatures, sample->values.begin() + kLogFeatures);
  const bool held_out = StableHash(&line, sizeof(line)) % kHeldOutEvery == 0;
  return builder->Add(held_out, sample->label, sample->values, sample->counts);
}

absl::Status AddLogLine(int64_t line, absl::Span<const absl::string_view> fields,
                        TabularBuilder* builder) {
  if (static_cast<int64_t>(fields.size()) != 1 + kLogNumbers + kLogFeatures) {
    return absl::DataLossError(absl::StrCat("expected a label, ", kLogNumbers, " counts and ",
                                            kLogFeatures, " values, got ", fields.size(),
                                            " fields"));
  }
  LogSample sample;
  const absl::StatusOr<float> label = NumberOfField(fields[0]);
  if (!label.ok()) return AddContext(label.status(), "label");
  sample.label = *label;
  for (int64_t i = 0; i < kLogNumbers; ++i) {
    const absl::StatusOr<float> count = CountOf(fields[1 + i]);
    if (!count.ok()) return AddContext(count.status(), absl::StrCat("count ", i + 1));
    sample.counts[i] = *count;
  }
  for (int64_t i = 0; i < kLogFeatures; ++i) {
    sample.values[i] = CategoricalValue(fields[1 + kLogNumbers + i]);
  }
  return AddSample(line, &sample, builder);
}

// A key is the number that eight hexadecimal digits of a log are; 0 is a value that is missing.
uint64_t ValueOfKey(uint32_t key) {
  return CategoricalValue(key == 0 ? "" : absl::StrFormat("%08x", key));
}

// What both kinds of data say of themselves, and what a model should beat.
absl::StatusOr<AppData> DataOf(TabularBuilder::Parts parts, int64_t singles, int64_t rows,
                               const Stop& stop) {
  AppData data;
  const Tabular &training = *parts.training, &held_out = *parts.held_out;
  const auto share = [](const Tabular& part) {
    return static_cast<double>(part.ones()) / static_cast<double>(part.num_samples());
  };
  data.lines.push_back(
      absl::StrFormat("data       %d samples to learn from (%.1f %% are 1), %d held out (%.1f %%)",
                      training.num_samples(), 100 * share(training), held_out.num_samples(),
                      100 * share(held_out)));
  ASSIGN_OR_RETURN(const std::vector<float> logits,
                   LogisticRegressionLogits(training, held_out, /*field=*/0, singles, rows, stop));
  std::vector<int64_t> all(held_out.num_samples());
  std::iota(all.begin(), all.end(), 0);
  ASSIGN_OR_RETURN(const std::vector<float> labels, held_out.Labels(all));
  const double area = AreaUnderCurve(logits, labels);
  data.lines.push_back(
      absl::StrFormat("baseline   logistic regression on single values: auc %.4f, log_loss %.4f",
                      area, LogLoss(logits, labels)));
  data.baseline = {"logistic regression", area};
  data.training = std::move(parts.training);
  data.held_out = std::move(parts.held_out);
  data.order = SampleOrder::kEpochs;
  return data;
}

absl::StatusOr<AppData> OpenLog(const std::string& path, const WideAndDeepConfig& config,
                                const ClickDataOptions& options) {
  constexpr int64_t kAskEvery = 1 << 14;  // lines
  ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  PackedStream text(file);
  TabularBuilder builder(LogSchema(config.wide.rows), path, options.spool);
  const auto add = [&](int64_t line, absl::Span<const absl::string_view> fields) {
    if (line % kAskEvery == 0) RETURN_IF_ERROR(CheckStop(options.stop));
    return AddLogLine(line, fields, &builder);
  };
  RETURN_IF_ERROR(ForEachLine(path, '\t', &text, add));
  ASSIGN_OR_RETURN(TabularBuilder::Parts parts, std::move(builder).Build(options.stop));
  return DataOf(std::move(parts), kLogFeatures, config.wide.rows, options.stop);
}

absl::StatusOr<AppData> OpenRaw(const std::string& path, const WideAndDeepConfig& config,
                                const ClickDataOptions& options) {
  constexpr int64_t kAtOnce = 1 << 12;
  ASSIGN_OR_RETURN(RandomAccessFile file, OpenUnpacked(path, options.spool));
  ASSIGN_OR_RETURN(const HugeCtrRaw raw, HugeCtrRaw::Open(RawColumns(), std::move(file)));
  TabularBuilder builder(LogSchema(config.wide.rows), path, options.spool);
  LogSample sample;
  for (int64_t first = 0; first < raw.num_samples(); first += kAtOnce) {
    RETURN_IF_ERROR(CheckStop(options.stop));
    ASSIGN_OR_RETURN(const std::vector<RawSample> samples,
                     raw.Read(first, std::min(kAtOnce, raw.num_samples() - first)));
    for (size_t i = 0; i < samples.size(); ++i) {
      sample.label = samples[i].labels[0];
      std::ranges::copy(samples[i].numbers, sample.counts.begin());
      std::ranges::transform(samples[i].keys, sample.values.begin(), ValueOfKey);
      const int64_t line = first + static_cast<int64_t>(i) + 1;
      const absl::Status added = AddSample(line, &sample, &builder);
      if (!added.ok()) return AddContext(added, absl::StrCat(path, ": sample ", line - 1));
    }
  }
  ASSIGN_OR_RETURN(TabularBuilder::Parts parts, std::move(builder).Build(options.stop));
  ASSIGN_OR_RETURN(AppData data,
                   DataOf(std::move(parts), kLogFeatures, config.wide.rows, options.stop));
  if (raw.cut_bytes() > 0) {
    data.lines.push_back(absl::StrFormat(
        "left out   the last %d bytes, of a sample that is cut short", raw.cut_bytes()));
  }
  return data;
}

absl::StatusOr<AppData> OpenFlights(const std::string& folder, FlightSplit split,
                                    const Stop& stop) {
  ASSIGN_OR_RETURN(Flights flights, ReadFlights(folder, split));
  const int64_t not_labelled = flights.not_labelled;
  ASSIGN_OR_RETURN(AppData data, DataOf(std::move(flights.parts), SingleFeatures(split),
                                        FlightTables(split).wide.rows, stop));
  data.lines.push_back(absl::StrFormat("left out   %d flights that did not arrive", not_labelled));
  data.held_out_name =
      split == FlightSplit::kForward ? "flights of November and December" : "held-out flights";
  return data;
}

}  // namespace

WideAndDeepConfig FlightTables(FlightSplit split) {
  return TablesOf(FlightSchema(split), {"places", "planes"});
}

WideAndDeepConfig LogTables(int64_t vocabulary) {
  return TablesOf(LogSchema(vocabulary), {kFields});
}

std::unique_ptr<Dataset> DrawnClicks(const WideAndDeepConfig& config, int64_t samples,
                                     uint64_t seed) {
  return std::make_unique<Drawn>(config, samples, seed);
}

absl::StatusOr<AppData> OpenClickData(const std::string& data, const ClickDataOptions& options,
                                      const WideAndDeepConfig& config) {
  if (options.synthetic) {
    AppData drawn;
    drawn.training = DrawnClicks(config, kDrawnSamples, options.seed);
    drawn.lines = {"data       drawn at random: nothing can be learned of it"};
    return drawn;
  }
  std::error_code error;
  if (!std::filesystem::exists(data, error)) {
    return absl::NotFoundError(absl::StrCat("data: ", data,
                                            ": expected flights or a log, got none; bazel run "
                                            "//tools:dataset -- fetch ",
                                            kFetched, " brings flights"));
  }
  if (std::filesystem::is_directory(data, error))
    return OpenFlights(data, options.split, options.stop);
  const absl::string_view name = absl::StripSuffix(data, PackedEnding(data));
  if (absl::EndsWith(name, ".raw") || absl::EndsWith(name, ".bin"))
    return OpenRaw(data, config, options);
  return OpenLog(data, config, options);
}

}  // namespace sluice
