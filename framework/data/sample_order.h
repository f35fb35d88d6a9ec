// The order of samples: which sample of a data set is the n-th that a run sees. A function of
// (seed, n) and of the data's size alone, so the position in the data is one number in a
// checkpoint, and no layout, number of loaders or resumed run changes what is seen. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_SAMPLE_ORDER_H_
#define SLUICE_FRAMEWORK_DATA_SAMPLE_ORDER_H_

#include <cstdint>

namespace sluice {

struct SampleOrder {
  enum Kind : uint8_t {
    kRandom,  // each drawn from all of them, whatever came before
    // `count` of them evenly from the first to the last, in their order; at positions from `count`
    // on the last one stands again.
    kSpread,
    kEpochs,  // all of them, then all again, each time in an order of its own
  };
  Kind kind = kRandom;
  uint64_t seed = 1;  // of kRandom and kEpochs
  int64_t count = 1;  // of kSpread, at least 1; more than there are samples repeats some
};

// The sample that stands at `position`, counted from 0, out of `num_samples`.
int64_t SampleAt(const SampleOrder& order, int64_t position, int64_t num_samples);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_SAMPLE_ORDER_H_
