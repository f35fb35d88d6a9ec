// How long a step of a compiled program takes on a calibrated machine. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SIM_PREDICTION_H_
#define SLUICE_FRAMEWORK_SIM_PREDICTION_H_

#include "absl/status/statusor.h"
#include "framework/actor/worker_clock.h"
#include "framework/base/stop.h"
#include "framework/machine/machine.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// Runs the program on the clock of its workers: as many as the runtime starts for `devices` devices
// of one process on machine.cores cores; InvalidArgument if either is none. The times of
// instructions are those in the program, which machine.ForDevices(devices) made, longer by as much
// of their operands as is not in the worker's cache by then. Cancelled where `stop` says so.
absl::StatusOr<WorkerClockResult> PredictSteps(const plan::Program& program, int devices,
                                               const Machine& machine, int steps = 4,
                                               const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SIM_PREDICTION_H_
