// Parity of layouts in a test of Googletest: framework/testing/training_parity.h for suites that
// compare many layouts with few references. For tests. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_EXPECT_PARITY_H_
#define SLUICE_FRAMEWORK_TESTING_EXPECT_PARITY_H_

#include "absl/status/status.h"
#include "framework/testing/training_parity.h"

namespace sluice {

// What `one` trains to, run once a process for each setting, name and batch of a case; without
// records, and a failure of the test, where it cannot be run.
const Reference& SharedReference(const TrainingSetting& setting, const ParityCase& one);

// The case must train as `one` does. Prints the largest differences.
void ExpectParity(const TrainingSetting& setting, const ParityCase& of, const ParityCase& one);

// What the lockstep says of a case whose plan was changed; it is printed, too.
absl::Status LockstepOf(const Reference& reference, const ParityCase& of,
                        const PlanMutation& mutate);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_EXPECT_PARITY_H_
