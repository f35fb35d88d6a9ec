#include "framework/compiler/task_graph.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string BoxingSummary(absl::Span<const BoxingNote> boxings) {
  std::string text;
  for (const BoxingNote& note : boxings) {
    absl::StrAppend(&text, PhaseName(note.phase), " ", note.tensor, ": ", note.recipe, " ",
                    note.from, " -> ", note.to, ", ", note.firings, " x ", note.bytes, " bytes\n");
  }
  return text;
}

}  // namespace sluice
