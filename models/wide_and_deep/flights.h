// Flights from New York in 2013, with the weather at departure and the planes, as a table of
// categorical values, crosses and numbers. A flight's label is whether it arrives more than 15
// minutes late. Nothing is a feature that is known only once it has left: when it did, how long it
// was in the air, when it landed. One thread.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_FLIGHTS_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_FLIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/data/tabular.h"

namespace sluice {

// What is held out: a fifth of the flights, by hash of the line, or November and December. Forward
// in time no feature says the month or the day: those of the months held out were never seen.
enum class FlightSplit { kRandom, kForward };

// Tables "wide", whose first features have one value each, "places" and "planes".
TabularSchema FlightSchema(FlightSplit split);
int64_t SingleFeatures(FlightSplit split);  // of table "wide", the first so many are no crosses

struct Flights {
  TabularBuilder::Parts parts;
  int64_t not_labelled = 0;  // flights without an arrival: cancelled or diverted
};
// From flights.csv, weather.csv and planes.csv in a folder. NotFound: which file is not there, or
// which column; DataLoss: file and line.
absl::StatusOr<Flights> ReadFlights(const std::string& folder, FlightSplit split);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_FLIGHTS_H_
