#include "models/wide_and_deep/click_data.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/data/hugectr_raw.h"
#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClickDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/flights";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Write("weather.csv",
          "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,"
          "pressure,visib,time_hour\n"
          "EWR,2013,1,1,5,39,26,59,90,10,NA,0,1012,10,x\n"
          "EWR,2013,1,1,6,43,26,59,270,10,NA,0,1012,10,x\n");
    Write("planes.csv",
          "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\n"
          "N1,2004,Fixed,EMBRAER,EMB-145XR,2,55,NA,Turbo-fan\n");
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  // Of a month: the hour, the delay in minutes.
  static std::string Flight(int month, int hour, const std::string& delay) {
    return absl::StrCat("2013,", month, ",1,9999,", hour, "15,88,9999,", hour + 2, "30,", delay,
                        ",UA,1545,N1,EWR,IAH,227,1400,", hour, ",15,x\n");
  }
  void WriteFlights(const std::string& rows) {
    Write("flights.csv", absl::StrCat("year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,"
                                      "sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,"
                                      "air_time,distance,hour,minute,time_hour\n",
                                      rows));
  }
  std::string folder_;
};

// A field of a data set for one sample.
template <typename T>
std::vector<T> Row(const Dataset& data, absl::string_view name, int64_t sample) {
  for (size_t f = 0; f < data.fields().size(); ++f) {
    const SampleField& field = data.fields()[f];
    if (field.name != name) continue;
    std::vector<T> values(field.shape.NumElements());
    Box box;
    for (int d = 0; d < field.shape.rank(); ++d) box.push_back({0, field.shape[d]});
    EXPECT_EQ(data.Fill(static_cast<int>(f), {sample}, 0, box,
                        reinterpret_cast<std::byte*>(values.data())),
              absl::OkStatus());
    return values;
  }
  ADD_FAILURE() << "no field " << name;
  return {};
}

// Eight flights of January, on time at five and late at six, and four of December.
TEST_F(ClickDataTest, FlightsForwardInTime) {
  std::string rows;
  for (int i = 0; i < 4; ++i) {
    rows += Flight(1, 5, i == 0 ? "15" : "-3") + Flight(1, 6, i == 0 ? "16" : "40");
    rows += Flight(12, 5 + i % 2, i % 2 == 0 ? "0" : "300");
  }
  WriteFlights(rows + Flight(1, 5, "NA"));
  const absl::StatusOr<Flights> flights = ReadFlights(folder_, FlightSplit::kForward);
  ASSERT_TRUE(flights.ok()) << flights.status();
  EXPECT_EQ(flights->not_labelled, 1);
  const Tabular &training = *flights->parts.training, &held_out = *flights->parts.held_out;
  ASSERT_EQ(training.num_samples(), 8);
  ASSERT_EQ(held_out.num_samples(), 4);
  EXPECT_THAT(*training.Labels({0, 1, 2, 3, 4, 5, 6, 7}), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(*held_out.Labels({0, 1, 2, 3}), ElementsAre(0, 1, 0, 1));
  // By their hour alone do flights differ, and by what is crossed with it.
  const auto wide = Row<int32_t>(training, "wide", 0), other = Row<int32_t>(training, "wide", 1);
  const TabularSchema schema = FlightSchema(FlightSplit::kForward);
  ASSERT_EQ(static_cast<int64_t>(wide.size()), FeaturesOf(schema, "wide"));
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide[i] != other[i], schema.features[i].name.find("hour") != std::string::npos)
        << schema.features[i].name;
  }
  // The weather in December was not written down, so that its numbers are missing: 0.
  const auto numbers = Row<float>(training, "numbers", 0);
  ASSERT_EQ(numbers.size(), schema.numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string& name = schema.numbers[i];
    const bool by_hour = name == "departure" || name == "arrival" || name == "temp";
    EXPECT_EQ(numbers[i] == -1, by_hour) << name << numbers[i];
    EXPECT_EQ(numbers[i] == 1, name == "wind sine" || name == "wind cosine") << name << numbers[i];
  }
  EXPECT_EQ(Row<float>(held_out, "numbers", 0)[7], 0);
}

// What is known only after the flight has left is not even read.
TEST_F(ClickDataTest, NothingThatLeaksIsAFeature) {
  for (const FlightSplit split : {FlightSplit::kRandom, FlightSplit::kForward}) {
    const TabularSchema schema = FlightSchema(split);
    std::set<std::string> names(schema.numbers.begin(), schema.numbers.end());
    for (const CategoricalFeature& feature : schema.features) names.insert(feature.name);
    for (const char* leak : {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"}) {
      EXPECT_EQ(names.count(leak), 0u);
    }
    EXPECT_EQ(names.count("date"), split == FlightSplit::kRandom ? 1u : 0u);
    EXPECT_EQ(names.count("month"), split == FlightSplit::kRandom ? 1u : 0u);
    const WideAndDeepConfig config = FlightTables(split);
    EXPECT_EQ(config.wide.rows, RowsOf(schema, "wide"));
    EXPECT_EQ(config.tables.size(), 2u);
    EXPECT_LT(SingleFeatures(split), config.wide.features);
  }
  std::string rows, changed;
  for (int i = 0; i < 40; ++i) rows += Flight(1 + i % 12, 5 + i % 3, i % 2 == 0 ? "0" : "90");
  WriteFlights(rows);
  const auto before = ReadFlights(folder_, FlightSplit::kRandom);
  for (int i = 0; i < 40; ++i) {
    std::string row = Flight(1 + i % 12, 5 + i % 3, i % 2 == 0 ? "0" : "90");
    row.replace(row.find("9999"), 4, "1");
    changed += row;
  }
  WriteFlights(changed);
  const auto after = ReadFlights(folder_, FlightSplit::kRandom);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_EQ(before->parts.training->identity(), after->parts.training->identity());
}

TEST_F(ClickDataTest, DamagedFlightsAreNamed) {
  const auto error = [&](const std::string& rows) {
    WriteFlights(rows);
    return std::string(ReadFlights(folder_, FlightSplit::kRandom).status().message());
  };
  EXPECT_THAT(error(Flight(1, 5, "late")),
              HasSubstr("flights.csv:2: arr_delay: expected a number or NA, got \"late\""));
  for (const char* none : {"inf", "nan", "-1e39"}) {
    EXPECT_THAT(
        error(Flight(1, 5, none)),
        HasSubstr(absl::StrCat("flights.csv:2: arr_delay: expected a finite number or NA, got \"",
                               none, "\"")));
  }
  EXPECT_THAT(error(Flight(13, 5, "3")), HasSubstr("expected a month of 1 to 12, got 13"));
  EXPECT_THAT(error(Flight(1, 5, "3")), HasSubstr("expected rows with both labels"));
  EXPECT_THAT(error("2013\n"), HasSubstr("flights.csv:2: expected 19 fields, got 1"));
  fs::remove(folder_ + "/weather.csv");
  EXPECT_THAT(error(""), HasSubstr("weather.csv"));
}

// A label, 13 counts, 26 values.
std::string LogLine(int label, const std::string& count, const std::string& value) {
  std::string line = absl::StrCat(label);
  for (int i = 0; i < 13; ++i) absl::StrAppend(&line, "\t", i == 0 ? count : "");
  for (int i = 0; i < 26; ++i) absl::StrAppend(&line, "\t", i == 25 ? value : "68fd1e64");
  return line + "\n";
}

TEST_F(ClickDataTest, LogsAsCriteoGivesThem) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += LogLine(i % 3 == 0, absl::StrCat(i % 3), i % 2 ? "ab" : "");
  Write("train.txt", text);
  const WideAndDeepConfig config = LogTables(260);
  const absl::StatusOr<AppData> data = OpenClickData(folder_ + "/train.txt", {}, config);
  ASSERT_TRUE(data.ok()) << data.status();
  const int64_t training = data->training->num_samples();
  EXPECT_EQ(training + data->held_out->num_samples(), 200);
  EXPECT_GT(training, 160);
  EXPECT_LT(training, 198);
  const auto wide = Row<int32_t>(*data->training, "wide", 0);
  EXPECT_EQ(wide, Row<int32_t>(*data->training, "fields", 0));
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide[i] / 10, static_cast<int32_t>(i));  // ten rows each
  }
  EXPECT_EQ(Row<float>(*data->training, "numbers", 0).size(), 13u);
  EXPECT_GT(data->baseline->value, 0);
  ClickDataOptions stopped;
  stopped.stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(OpenClickData(folder_ + "/train.txt", stopped, config).status()));
  Write("train.txt", LogLine(0, "1", "x") + "1\t2\n");
  EXPECT_THAT(std::string(OpenClickData(folder_ + "/train.txt", {}, config).status().message()),
              HasSubstr("train.txt:2: expected 40 fields, got 2"));
  Write("train.txt", LogLine(0, "many", "x"));
  EXPECT_THAT(std::string(OpenClickData(folder_ + "/train.txt", {}, config).status().message()),
              HasSubstr("train.txt:1: count 1: expected a number or nothing, got \"many\""));
  EXPECT_THAT(std::string(OpenClickData(folder_ + "/none", {}, config).status().message()),
              AllOf(HasSubstr("none: expected flights or a log"), HasSubstr("fetch flights-2013")));
}

// One would make its column a constant for all other lines.
TEST_F(ClickDataTest, ACountThatIsNotFiniteIsRefused) {
  const WideAndDeepConfig config = LogTables(260);
  std::string text;
  for (int i = 0; i < 136; ++i) text += LogLine(i % 3 == 0, absl::StrCat(i % 3), "ab");
  for (const std::string count : {"1e400", "1e39", "-1e39", "inf", "nan", "-infinity"}) {
    Write("train.txt", text + LogLine(0, count, "x"));
    EXPECT_EQ(OpenClickData(folder_ + "/train.txt", {}, config).status().message(),
              absl::StrCat(folder_,
                           "/train.txt:137: count 1: expected a finite number or nothing, got \"",
                           count, "\""));
  }
  Write("train.txt", text + "inf" + LogLine(0, "1", "x").substr(1));
  EXPECT_THAT(std::string(OpenClickData(folder_ + "/train.txt", {}, config).status().message()),
              HasSubstr("train.txt:137: label: expected a finite number, got \"inf\""));
  Write("train.txt", text + LogLine(0, "3e38", "x"));
  EXPECT_TRUE(OpenClickData(folder_ + "/train.txt", {}, config).ok());
}

// Ids of a feature are of its share of the rows; samples differ, and are always the same.
TEST_F(ClickDataTest, DrawnSamples) {
  WideAndDeepConfig config;
  config.wide = {"wide", 10, 1, 3};
  config.tables = {{"t", 100, 4, 4}};
  config.numbers = 2;
  const std::unique_ptr<Dataset> data = DrawnClicks(config, 1000, 1);
  std::set<int32_t> seen;
  double ones = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto ids = Row<int32_t>(*data, "t", i);
    for (int f = 0; f < 4; ++f) EXPECT_EQ(ids[f] / 25, f);
    seen.insert(ids.begin(), ids.end());
    ones += Row<float>(*data, "label", i)[0];
    for (const int32_t id : Row<int32_t>(*data, "wide", i)) EXPECT_LT(id, 10);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_NEAR(ones / 1000, 0.25, 0.05);
  EXPECT_EQ(Row<int32_t>(*data, "t", 7), Row<int32_t>(*DrawnClicks(config, 1000, 1), "t", 7));
  EXPECT_NE(Row<int32_t>(*data, "t", 7), Row<int32_t>(*DrawnClicks(config, 1000, 2), "t", 7));
  std::vector<int32_t> part(2);
  ASSERT_EQ(data->Fill(1, {7}, 0, {{1, 3}}, reinterpret_cast<std::byte*>(part.data())),
            absl::OkStatus());
  EXPECT_EQ(part[1], Row<int32_t>(*data, "t", 7)[2]);
}

// The same lines in three formats are the same data.
TEST_F(ClickDataTest, LogsInOtherFormatsAreTheSameSamples) {
  std::string text, raw;
  for (uint32_t i = 0; i < 60; ++i) {
    const uint32_t key = i % 7 == 0 ? 0 : 0xabc0000 + i % 5;
    const std::string value = key == 0 ? "" : absl::StrFormat("%08x", key);
    RawSample sample = {{static_cast<float>(i % 2)}, {}, std::vector<uint32_t>(26, key)};
    absl::StrAppend(&text, i % 2);
    for (uint32_t n = 0; n < 13; ++n) {
      const bool missing = (i + n) % 9 == 0;
      const int count = static_cast<int>(n * i) - 3;
      absl::StrAppend(&text, "\t", missing ? "" : absl::StrCat(count));
      sample.numbers.push_back(missing ? std::nanf("") : static_cast<float>(count));
    }
    for (int c = 0; c < 26; ++c) absl::StrAppend(&text, "\t", value);
    text += "\n";
    raw += RawBytes(RawColumns(), sample);
  }
  Write("train.txt", text);
  Write("train.txt.zst", Zstandard(text));
  Write("train.bin", raw + "tail");
  Write("train.raw", raw);
  const WideAndDeepConfig config = LogTables(5200);
  const auto log = OpenClickData(folder_ + "/train.txt", {}, config);
  ASSERT_TRUE(log.ok()) << log.status();
  for (const char* other : {"train.txt.zst", "train.bin", "train.raw"}) {
    const auto data = OpenClickData(folder_ + "/" + other, {}, config);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->training->num_samples(), log->training->num_samples());
    EXPECT_EQ(data->training->identity(), log->training->identity()) << other;
    EXPECT_EQ(data->held_out->identity(), log->held_out->identity()) << other;
    if (absl::string_view(other) == "train.bin") {
      EXPECT_EQ(data->lines.back(), "left out   the last 4 bytes, of a sample that is cut short");
    }
  }
  Write("train.raw.zst", Zstandard(raw));
  const auto packed = OpenClickData(folder_ + "/train.raw.zst", {}, config);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->training->identity(), log->training->identity());
  for (const char* name : {"train.raw", "train.bin", "train.txt", "train"}) {
    Write(name, std::string("PAR1\0PAR1", 9));
    EXPECT_THAT(std::string(OpenClickData(folder_ + "/" + name, {}, config).status().message()),
                HasSubstr("got Apache Parquet; write it as text with bazel run"))
        << name;
  }
  raw.replace(320, 4, std::string("\0\0\0\x40", 4));  // 2, of the third sample
  Write("train.bin", raw);
  EXPECT_THAT(std::string(OpenClickData(folder_ + "/train.bin", {}, config).status().message()),
              HasSubstr("train.bin: sample 2: "));
}

}  // namespace
}  // namespace sluice
