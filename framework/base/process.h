// What a program that people start needs around its work, whatever that is: descriptors, signals,
// exceptions, and that what it printed has arrived. For main alone.
#ifndef SLUICE_FRAMEWORK_BASE_PROCESS_H_
#define SLUICE_FRAMEWORK_BASE_PROCESS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Runs `work` and returns its result, to be main's. Before it:
// - Standard descriptors that the caller had closed lead to /dev/null. Else the next file to be
//   opened would get their numbers, and with them what is printed.
// - SIGPIPE and SIGXFSZ are ignored, so that writes fail with EPIPE and EFBIG instead of ending the
//   process with what it has learned.
// An exception of the standard library, such as for memory that is not there, ends the work: one
// line on stderr that begins with `name`, result 1. Our own code throws none.
int RunProcess(absl::string_view name, const std::function<int()>& work);

// The user's home folder: of the environment, and where that has none, as the system knows it.
// Empty where nobody knows.
std::string HomeFolder();

// Unavailable, with the reason, if something printed to stdout could not be written. For a program
// whose output is its work; elsewhere a closed terminal is no reason to stop.
absl::Status FlushOutput();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_PROCESS_H_
