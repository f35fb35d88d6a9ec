// What is reported of many times of the same thing. Pure; any thread.
#ifndef SLUICE_BENCH_QUANTILES_H_
#define SLUICE_BENCH_QUANTILES_H_

#include <vector>

namespace sluice {

// The middle one of an odd number, the mean of the two in the middle of an even one, as the peers'
// statistics.median has it. Of at least one.
double Median(std::vector<double> values);

// The value that a quarter of them are below: what a noisy neighbour slows is left out. Of at least
// one.
double LowerQuartile(std::vector<double> values);

}  // namespace sluice

#endif  // SLUICE_BENCH_QUANTILES_H_
