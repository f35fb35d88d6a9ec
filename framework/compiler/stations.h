// The stations of a program between its graph and its plan: what each phase hands on to the next.
// A phase takes the station before it by value and gives one of its own, which nobody changes; each
// can be printed, and verified by itself. The compiler proves what it emits, and does not stop at
// the others: tests do (CompileOptions::observe). Pure; any thread.
#ifndef SLUICE_FRAMEWORK_COMPILER_STATIONS_H_
#define SLUICE_FRAMEWORK_COMPILER_STATIONS_H_

#include <functional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/place.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/task_graph.h"

namespace sluice {

using Station = std::variant<const TaskGraph*, const Schedule*, const Ordered*, const Placed*>;
// `program`: its name. An error ends the compilation.
using StationObserver =
    std::function<absl::Status(absl::string_view program, const Station& station)>;

absl::string_view StationName(const Station& station);  // "tasks", "schedule", "ordered", "placed"
std::string ToText(const Station& station);
// What must hold there, and that it holds nothing which a later phase is to find. Internal (of
// tasks) or the error of the plan's own check names station, task, value, actor or register.
absl::Status Verify(const Station& station);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_STATIONS_H_
