// The page that --explain_html writes: an Explanation as JSON in a template of HTML, CSS and
// JavaScript (page/), one file that needs nothing else. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_EXPLAIN_PAGE_H_
#define SLUICE_FRAMEWORK_EXPLAIN_PAGE_H_

#include <string>

#include "framework/explain/explanation.h"

namespace sluice {

// Objects for what there is one of, arrays in the order of the structs' fields for what there are
// many of; page/data.js names them again. A string is a number: its place in "strings".
std::string ExplanationJson(const Explanation& explanation);

// Any string in the explanation is safe in the page, whatever its bytes.
std::string ExplanationPage(const Explanation& explanation);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_EXPLAIN_PAGE_H_
