// Long work that its caller no longer wants, for Ctrl-C while a run begins, a plan is compiled or
// held-out data is evaluated: phases ask as they end, and their long loops as they go. Any thread.
#ifndef SLUICE_FRAMEWORK_BASE_STOP_H_
#define SLUICE_FRAMEWORK_BASE_STOP_H_

#include <functional>

#include "absl/status/status.h"

namespace sluice {

// Whether to end early. Asked often, so it must be cheap. Empty: never.
using Stop = std::function<bool()>;

inline absl::Status CheckStop(const Stop& stop) {
  if (!stop || !stop()) return absl::OkStatus();
  return absl::CancelledError("stopped before it was done, as was asked for");
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_STOP_H_
