// A record of another framework's run in a test of Googletest: framework/testing/reference_run.h.
// For tests. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_EXPECT_REFERENCE_RUN_H_
#define SLUICE_FRAMEWORK_TESTING_EXPECT_REFERENCE_RUN_H_

#include <string>
#include <vector>

#include "framework/testing/reference_run.h"

namespace sluice {

// The case must train to PyTorch's losses and gradient norms, those of the file `record`, to 1e-4
// relative, and the record's loss must have fallen by `learned`: a run that learns nothing compares
// nothing. `script` writes such a record. Prints the largest differences.
void ExpectReferenceRun(const ReferenceRunCase& of, const std::string& record, double learned,
                        const std::string& script);

// Every evaluation of the case must come to PyTorch's figures, to 1e-6 relative, in each of the
// layouts.
void ExpectReferenceEvaluations(const ReferenceRunCase& of, const std::string& record,
                                const std::vector<EvaluationLayout>& layouts);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_EXPECT_REFERENCE_RUN_H_
