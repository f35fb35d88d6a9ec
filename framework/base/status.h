// Short ways to hand an absl::Status on. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_BASE_STATUS_H_
#define SLUICE_FRAMEWORK_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// The same error with "context: " before its message; an OK status stays as it is.
absl::Status AddContext(const absl::Status& status, absl::string_view context);

}  // namespace sluice

// Returns from the enclosing function if the expression, an absl::Status, is an error.
#define RETURN_IF_ERROR(expression)                \
  do {                                             \
    absl::Status sluice_status = (expression);     \
    if (!sluice_status.ok()) return sluice_status; \
  } while (false)

// ASSIGN_OR_RETURN(auto plan, Load(path)): the value of an absl::StatusOr, or return its error.
#define ASSIGN_OR_RETURN(target, expression) \
  SLUICE_ASSIGN_OR_RETURN_(SLUICE_JOIN_(sluice_or_, __LINE__), target, expression)
#define SLUICE_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                                \
  if (!result.ok()) return std::move(result).status();       \
  target = *std::move(result)
#define SLUICE_JOIN_(a, b) SLUICE_JOIN_NOW_(a, b)
#define SLUICE_JOIN_NOW_(a, b) a##b

#endif  // SLUICE_FRAMEWORK_BASE_STATUS_H_
