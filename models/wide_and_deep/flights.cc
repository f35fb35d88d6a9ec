#include "models/wide_and_deep/flights.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/delimited_text.h"
#include "framework/data/text_file.h"

namespace sluice {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr int kHeldOutEvery = 5, kFirstMonthHeldOut = 11;
constexpr double kLateMinutes = 15;

// A file, its columns of these names, and its rows.
class CsvFile {
 public:
  static absl::StatusOr<std::unique_ptr<CsvFile>> Open(const std::string& path,
                                                       const std::vector<std::string>& names) {
    auto file = std::make_unique<CsvFile>();
    ASSIGN_OR_RETURN(file->text_, ReadTextFile(path));
    ASSIGN_OR_RETURN(DelimitedText table, DelimitedText::Open(path, file->text_, {}));
    file->table_ = std::make_unique<DelimitedText>(std::move(table));
    ASSIGN_OR_RETURN(file->columns_, file->table_->Columns(names));
    return file;
  }
  // fn(values): of the columns, in their order.
  template <typename F>
  absl::Status ForEachRow(F&& fn) const {
    std::vector<absl::string_view> values(columns_.size());
    return table_->ForEachRow([&](int64_t, absl::Span<const absl::string_view> fields) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = fields[columns_[i]];
      return fn(values);
    });
  }

 private:
  std::string text_;
  std::unique_ptr<DelimitedText> table_;
  std::vector<int64_t> columns_;
};

bool IsMissing(absl::string_view text) { return text.empty() || text == "NA"; }

// A field of a column; one that is missing is no number.
absl::Status Number(absl::string_view column, absl::string_view text, float* number) {
  *number = kMissing;
  if (IsMissing(text)) return absl::OkStatus();
  const absl::StatusOr<float> read = NumberOfField(text, " or NA");
  if (!read.ok()) return AddContext(read.status(), column);
  *number = *read;
  return absl::OkStatus();
}

absl::Status Whole(absl::string_view column, absl::string_view text, int* number) {
  if (absl::SimpleAtoi(text, number)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(column, ": expected a whole number, got \"", text, "\""));
}

const std::vector<std::string>& WeatherNumbers() {
  static const auto* names =
      new std::vector<std::string>{"temp",      "dewp",   "humid",    "wind_dir", "wind_speed",
                                   "wind_gust", "precip", "pressure", "visib"};
  return *names;
}

// By origin, month, day and hour: the numbers above, the wind's direction as sine and cosine.
using Weather = std::map<std::string, std::vector<float>>;

absl::StatusOr<Weather> ReadWeather(const std::string& path) {
  std::vector<std::string> names = {"origin", "month", "day", "hour"};
  names.insert(names.end(), WeatherNumbers().begin(), WeatherNumbers().end());
  ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path, names));
  Weather weather;
  const absl::Status read = file->ForEachRow([&](absl::Span<const absl::string_view> row) {
    std::vector<float> numbers;
    for (size_t i = 4; i < row.size(); ++i) {
      float number;
      RETURN_IF_ERROR(Number(names[i], row[i], &number));
      if (names[i] != "wind_dir") {
        numbers.push_back(number);
        continue;
      }
      const double angle = number * M_PI / 180;
      numbers.push_back(static_cast<float>(std::sin(angle)));
      numbers.push_back(static_cast<float>(std::cos(angle)));
    }
    weather[absl::StrCat(row[0], " ", row[1], " ", row[2], " ", row[3])] = numbers;
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(read);
  return weather;
}

struct Plane {
  std::string model;
  float year = kMissing, seats = kMissing;
};

absl::StatusOr<std::map<std::string, Plane>> ReadPlanes(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file,
                   CsvFile::Open(path, {"tailnum", "model", "year", "seats"}));
  std::map<std::string, Plane> planes;
  const absl::Status read = file->ForEachRow([&](absl::Span<const absl::string_view> row) {
    Plane& plane = planes[std::string(row[0])];
    plane.model = std::string(row[1]);
    RETURN_IF_ERROR(Number("year", row[2], &plane.year));
    return Number("seats", row[3], &plane.seats);
  });
  RETURN_IF_ERROR(read);
  return planes;
}

// Sakamoto's: 0 is Sunday.
int DayOfWeek(int year, int month, int day) {
  constexpr int kOffsets[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
  year -= month < 3 ? 1 : 0;
  return (year + year / 4 - year / 100 + year / 400 + kOffsets[month - 1] + day) % 7;
}

int MinutesOf(int clock) { return clock / 100 * 60 + clock % 100; }

// What features are made of.
enum Value {
  kCarrierCode,
  kFrom,
  kTo,
  kHour,
  kWeekday,
  kTailNumber,
  kFlightNumber,
  kMonthOfYear,
  kDate,
  kModel,
  kValues
};
constexpr const char* kValueNames[kValues] = {"carrier", "origin", "dest",  "hour", "weekday",
                                              "tailnum", "flight", "month", "date", "model"};

// A feature of the schema: one value, or several crossed.
struct FeatureOf {
  CategoricalFeature feature;
  std::vector<Value> of;
};

// Rows suffice for all values of 2013; those that are too many for their worth share rows by hash.
std::vector<FeatureOf> FeaturesOf(FlightSplit split) {
  const bool calendar = split == FlightSplit::kRandom;
  std::vector<FeatureOf> features;
  const auto add = [&](const char* table, int64_t rows, std::vector<Value> of,
                       bool hashed = false) {
    std::string name;
    for (const Value value : of) {
      absl::StrAppend(&name, name.empty() ? "" : " x ", kValueNames[value]);
    }
    features.push_back({{.name = name, .table = table, .rows = rows, .hashed = hashed}, of});
  };
  const std::vector<std::pair<Value, int64_t>> single = {
      {kCarrierCode, 20}, {kFrom, 4}, {kTo, 120}, {kHour, 24}, {kWeekday, 8}};
  for (const auto& [value, rows] : single) add("wide", rows, {value});
  add("wide", 4096, {kTailNumber});
  add("wide", 4096, {kFlightNumber});
  if (calendar) add("wide", 13, {kMonthOfYear});
  add("wide", 256, {kFrom, kTo});
  add("wide", 64, {kCarrierCode, kFrom});
  add("wide", 64, {kFrom, kHour});
  add("wide", 384, {kCarrierCode, kTo});
  add("wide", 512, {kFrom, kHour, kWeekday});
  add("wide", 8192, {kCarrierCode, kFlightNumber}, /*hashed=*/true);
  if (calendar) add("wide", 1100, {kFrom, kDate});
  if (calendar) add("wide", 96, {kMonthOfYear, kWeekday});
  for (const auto& [value, rows] : single) add("places", rows, {value});
  if (calendar) {
    add("places", 13, {kMonthOfYear});
    add("places", 367, {kDate});
    add("places", 256, {kFrom, kTo});
    add("places", 64, {kFrom, kHour});
    add("places", 384, {kCarrierCode, kTo});
  }
  add("planes", 4096, {kTailNumber});
  add("planes", 160, {kModel});
  if (calendar) add("planes", 4096, {kFlightNumber}, /*hashed=*/true);
  return features;
}

// Of one line of flights.csv.
enum Column {
  kYear,
  kMonth,
  kDay,
  kDeparture,
  kArrival,
  kDelay,
  kCarrier,
  kFlight,
  kTail,
  kOrigin,
  kDestination,
  kDistance
};
const std::vector<std::string>& ColumnNames() {
  static const auto* names = new std::vector<std::string>{
      "year",    "month",  "day",     "sched_dep_time", "sched_arr_time", "arr_delay",
      "carrier", "flight", "tailnum", "origin",         "dest",           "distance"};
  return *names;
}

class FlightRows {
 public:
  FlightRows(const std::string& folder, FlightSplit split, Weather weather,
             std::map<std::string, Plane> planes)
      : split_(split),
        features_(FeaturesOf(split)),
        weather_(std::move(weather)),
        planes_(std::move(planes)),
        builder_(FlightSchema(split), folder) {}

  absl::Status Add(absl::Span<const absl::string_view> row) {
    ++lines_;
    float delay, distance;
    int year, month, day, departure, arrival;
    RETURN_IF_ERROR(Number(ColumnNames()[kDelay], row[kDelay], &delay));
    RETURN_IF_ERROR(Whole(ColumnNames()[kYear], row[kYear], &year));
    RETURN_IF_ERROR(Whole(ColumnNames()[kMonth], row[kMonth], &month));
    RETURN_IF_ERROR(Whole(ColumnNames()[kDay], row[kDay], &day));
    RETURN_IF_ERROR(Whole(ColumnNames()[kDeparture], row[kDeparture], &departure));
    RETURN_IF_ERROR(Whole(ColumnNames()[kArrival], row[kArrival], &arrival));
    RETURN_IF_ERROR(Number(ColumnNames()[kDistance], row[kDistance], &distance));
    if (month < 1 || month > 12) {
      return absl::DataLossError(absl::StrCat("expected a month of 1 to 12, got ", month));
    }
    if (std::isnan(delay)) {
      ++not_labelled_;
      return absl::OkStatus();
    }
    const std::string hour = absl::StrCat(departure / 100);
    const auto found = planes_.find(std::string(row[kTail]));
    const Plane plane = found == planes_.end() ? Plane() : found->second;
    const std::string values[kValues] = {std::string(row[kCarrier]),
                                         std::string(row[kOrigin]),
                                         std::string(row[kDestination]),
                                         hour,
                                         absl::StrCat(DayOfWeek(year, month, day)),
                                         std::string(row[kTail]),
                                         std::string(row[kFlight]),
                                         absl::StrCat(month),
                                         absl::StrCat(month, "-", day),
                                         plane.model};
    std::vector<uint64_t> encoded, crossed;
    for (const FeatureOf& feature : features_) {
      crossed.clear();
      for (const Value value : feature.of) crossed.push_back(CategoricalValue(values[value]));
      encoded.push_back(crossed.size() == 1 ? crossed[0] : CrossedValue(crossed));
    }
    const float left = static_cast<float>(MinutesOf(departure));
    std::vector<float> numbers = {distance, left, static_cast<float>(MinutesOf(arrival)),
                                  plane.year, plane.seats};
    AddWeather(absl::StrCat(row[kOrigin], " ", month, " ", day, " ", hour), &numbers);
    const bool held_out = split_ == FlightSplit::kForward
                              ? month >= kFirstMonthHeldOut
                              : StableHash(&lines_, sizeof(lines_)) % kHeldOutEvery == 0;
    return builder_.Add(held_out, delay > kLateMinutes ? 1.0f : 0.0f, encoded, numbers);
  }

  absl::StatusOr<Flights> Build() && {
    Flights flights;
    flights.not_labelled = not_labelled_;
    ASSIGN_OR_RETURN(flights.parts, std::move(builder_).Build());
    return flights;
  }

 private:
  // Of the hour in which the flight is to leave.
  void AddWeather(const std::string& when, std::vector<float>* numbers) const {
    const auto found = weather_.find(when);
    if (found == weather_.end()) {
      numbers->resize(numbers->size() + WeatherNumbers().size() + 1, kMissing);
    } else {
      numbers->insert(numbers->end(), found->second.begin(), found->second.end());
    }
  }

  const FlightSplit split_;
  const std::vector<FeatureOf> features_;
  const Weather weather_;
  const std::map<std::string, Plane> planes_;
  TabularBuilder builder_;
  int64_t lines_ = 0, not_labelled_ = 0;
};

}  // namespace

TabularSchema FlightSchema(FlightSplit split) {
  TabularSchema schema;
  for (const FeatureOf& feature : FeaturesOf(split)) schema.features.push_back(feature.feature);
  schema.numbers = {"distance", "departure", "arrival", "year built", "seats"};
  for (const std::string& name : WeatherNumbers()) {
    if (name == "wind_dir") {
      schema.numbers.insert(schema.numbers.end(), {"wind sine", "wind cosine"});
    } else {
      schema.numbers.push_back(name);
    }
  }
  return schema;
}

int64_t SingleFeatures(FlightSplit split) {
  int64_t count = 0;
  for (const FeatureOf& feature : FeaturesOf(split)) {
    count += feature.feature.table == "wide" && feature.of.size() == 1 ? 1 : 0;
  }
  return count;
}

absl::StatusOr<Flights> ReadFlights(const std::string& folder, FlightSplit split) {
  ASSIGN_OR_RETURN(Weather weather, ReadWeather(absl::StrCat(folder, "/weather.csv")));
  ASSIGN_OR_RETURN(auto planes, ReadPlanes(absl::StrCat(folder, "/planes.csv")));
  ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file,
                   CsvFile::Open(absl::StrCat(folder, "/flights.csv"), ColumnNames()));
  FlightRows rows(folder, split, std::move(weather), std::move(planes));
  RETURN_IF_ERROR(
      file->ForEachRow([&](absl::Span<const absl::string_view> row) { return rows.Add(row); }));
  return std::move(rows).Build();
}

}  // namespace sluice
