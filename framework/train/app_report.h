// What a program that trains a model prints before its first step and after its last. The session's
// thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_APP_REPORT_H_
#define SLUICE_FRAMEWORK_TRAIN_APP_REPORT_H_

#include "absl/status/statusor.h"
#include "framework/train/app.h"
#include "framework/train/app_options.h"
#include "framework/train/job.h"
#include "framework/train/trainer.h"

namespace sluice {

// Prints what is about to be run: data, machine, ranks, folder. Returns how fast matmuls are here,
// in floating-point operations a second, which it measures; 0 where that is not known: of several
// processes each would measure while the others do.
absl::StatusOr<double> PrintBeginning(const AppOptions& options, const AppData& data,
                                      const Job& job);

// Prints the page about the plan, if one was asked for.
void PrintPage(const SessionOptions& session);

// Prints what came of a run: its curves, its figures, where it is saved.
void PrintEnd(const TrainingRecord& record, const AppModel& model, const AppData& data,
              const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_APP_REPORT_H_
