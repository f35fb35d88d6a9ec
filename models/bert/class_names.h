// The names of the classes that a BERT tells apart, in the order of its classifier's rows, as a run
// keeps them. One thread.
#ifndef SLUICE_MODELS_BERT_CLASS_NAMES_H_
#define SLUICE_MODELS_BERT_CLASS_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

constexpr char kClassNamesFile[] = "classes.txt";

// A name a line. REQUIRES: no name has an end of line.
std::string ClassNamesText(absl::Span<const std::string> names);
// Those of the run of a checkpoint; none where nobody has named them. InvalidArgument: which line
// is not in UTF-8.
absl::StatusOr<std::vector<std::string>> ClassNamesOf(const std::string& checkpoint);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_CLASS_NAMES_H_
