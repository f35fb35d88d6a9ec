// The program that writes what a peer repeats (reference_run.h), but for the model. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_REFERENCE_RUN_MAIN_H_
#define SLUICE_FRAMEWORK_TESTING_REFERENCE_RUN_MAIN_H_

#include "framework/testing/reference_run.h"

namespace sluice {

// What main returns. Writes the run's initial values, its batches, and in sluice.json the losses
// and norms that Sluice gets, into the folder that --out names.
int RunReferenceRunMain(const ReferenceRunCase& of, int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_REFERENCE_RUN_MAIN_H_
