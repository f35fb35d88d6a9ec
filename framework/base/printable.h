// Text from anywhere, such as a model's or a file's names, as a terminal may show it. Pure.
#ifndef SLUICE_FRAMEWORK_BASE_PRINTABLE_H_
#define SLUICE_FRAMEWORK_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// The text with whatever a terminal cannot show, or takes for a command, as \xHH: controls and
// bytes that are no UTF-8. Tabs and ends of lines stay.
std::string Printable(absl::string_view text);
// The same on one line, as errors are told: an end of line is a blank.
std::string PrintableLine(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_PRINTABLE_H_
