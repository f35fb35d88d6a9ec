// What printer and parser of plans must agree on. Internal to plan/text.
#ifndef SLUICE_FRAMEWORK_PLAN_TEXT_NAMES_H_
#define SLUICE_FRAMEWORK_PLAN_TEXT_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/plan/plan.pb.h"

namespace sluice::plan_text {

constexpr char kIdentifierExtra[] = "./~";
constexpr int64_t kDefaultBytes = 16;
constexpr int64_t kDefaultNanoseconds = 1;

// Words that begin a statement; a name that is one of them is written in quotes.
bool IsKeyword(absl::string_view word);
// A name as it is written: bare if it reads back as one identifier, else in quotes.
std::string NameText(absl::string_view name);
// "d0.compute", or "d0.compute.1" for the second of its kind there; empty if there is no such kind.
std::vector<std::string> StreamNames(const plan::Program& program);
// What a text that does not say it means: the first actor that writes each register, or -1; the
// device of a register; the first actor that uses each local, or 0.
std::vector<int> WritersOf(const plan::Program& program);
int DefaultDevice(const plan::Program& program, int producer);
std::vector<int> TemporaryUsersOf(const plan::Program& program);

// What an instruction whose text is `name` is, if the text does not say: collective numbers make
// collectives, names of kinds those kinds, and everything else a kernel.
plan::InstructionKind KindOfText(absl::string_view name, int32_t collective);
// The name of a kind, or its number if it has none.
std::string KindText(absl::string_view name, int number);

}  // namespace sluice::plan_text

#endif  // SLUICE_FRAMEWORK_PLAN_TEXT_NAMES_H_
