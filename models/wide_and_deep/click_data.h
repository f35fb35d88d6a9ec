// What a Wide & Deep model learns from: flights, the click logs of Criteo, or samples that are
// drawn at random. One thread.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_CLICK_DATA_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_CLICK_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/data/spooled_file.h"
#include "framework/train/app.h"
#include "models/wide_and_deep/flights.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {

struct ClickDataOptions {
  bool synthetic = false;
  FlightSplit split = FlightSplit::kRandom;  // of flights
  uint64_t seed = 1;                         // of what is drawn
  Stop stop = {};                            // ends the reading soon after it says so: Cancelled
  SpoolOptions spool = {};                   // of samples of logs
};

// Tables and numbers of flights, without the widths; of logs and drawn samples: 26 features with an
// equal share of `vocabulary` rows each, once in the wide part and once in a table "fields", and 13
// numbers.
WideAndDeepConfig FlightTables(FlightSplit split);
WideAndDeepConfig LogTables(int64_t vocabulary);

// A folder has flights. A file is a log as Criteo gives it: without names, a TAB between a label,
// 13 counts and 26 categorical values, of which any may be empty; .gz and .zst are unpacked. A file
// .raw or .bin is the same in HugeCTR's Raw format: its f32 counts are NaN where they are empty,
// its keys the values' 32 bits, 0 where one is empty. Every tenth line, by hash, is held out. Logs
// are read once, in order; where their samples do not fit into memory they lie in a file. The
// config says which tables the model has. NotFound: `data` is not there, and how it is fetched.
// DataLoss: which file is damaged, and where.
absl::StatusOr<AppData> OpenClickData(const std::string& data, const ClickDataOptions& options,
                                      const WideAndDeepConfig& config);

// Samples for these tables, whose ids each are drawn evenly from the feature's share of the rows,
// numbers normally, and one label in four is 1.
std::unique_ptr<Dataset> DrawnClicks(const WideAndDeepConfig& config, int64_t samples,
                                     uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_CLICK_DATA_H_
