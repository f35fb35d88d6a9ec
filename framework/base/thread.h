// Threads that may not start: a process, a user and a control group may have only so many.
#ifndef SLUICE_FRAMEWORK_BASE_THREAD_H_
#define SLUICE_FRAMEWORK_BASE_THREAD_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace sluice {

// ResourceExhausted, with the system's reason, if it did not start.
absl::Status StartThread(std::function<void()> run, std::thread* thread);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_THREAD_H_
