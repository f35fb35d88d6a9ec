#include "framework/plan/text_names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/base/text.h"
#include "framework/plan/kinds.h"

namespace sluice::plan_text {
namespace {

bool IsIdentifier(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalpha(name[0]) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '~';
  });
}

}  // namespace

bool IsKeyword(absl::string_view word) {
  static constexpr absl::string_view kWords[] = {
      "plan", "device",    "variable", "program", "stream", "feeds", "fetches", "reg",
      "ring", "temporary", "actor",    "region",  "order",  "reuse", "shard",   "decision"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

std::string NameText(absl::string_view name) {
  // "inf" and "nan" would read as numbers.
  if (IsIdentifier(name) && !IsKeyword(name) && name != "inf" && name != "nan") {
    return std::string(name);
  }
  return Quoted(name);
}

std::vector<std::string> StreamNames(const plan::Program& program) {
  std::vector<std::string> names;
  std::map<std::pair<int, int>, int> count;
  for (const plan::Stream& s : program.streams()) {
    const int n = count[{s.device(), s.kind()}]++;
    const absl::string_view kind = StreamKindName(s.kind());
    if (s.device() < 0 || kind.empty()) {
      names.emplace_back();
    } else {
      names.push_back(absl::StrCat("d", s.device(), ".", kind));
      if (n > 0) absl::StrAppend(&names.back(), ".", n);
    }
  }
  return names;
}

plan::InstructionKind KindOfText(absl::string_view name, int32_t collective) {
  if (collective > 0) return plan::INSTRUCTION_COLLECTIVE;
  plan::InstructionKind kind = plan::INSTRUCTION_KERNEL;
  if (!ParseInstructionKind(name, &kind) || HasOp(kind)) return plan::INSTRUCTION_KERNEL;
  return kind;
}

std::string KindText(absl::string_view name, int number) {
  return name.empty() ? absl::StrCat(number) : std::string(name);
}

std::vector<int> WritersOf(const plan::Program& program) {
  std::vector<int> writers(program.registers_size(), -1);
  for (int a = 0; a < program.actors_size(); ++a) {
    auto write = [&](const plan::Operand& operand) {
      if (operand.storage_case() != plan::Operand::kRegister) return;
      if (operand.register_() < 0 || operand.register_() >= program.registers_size()) return;
      int& writer = writers[operand.register_()];
      if (writer < 0) writer = a;
    };
    for (const plan::Instruction& x : program.actors(a).script()) {
      for (const plan::Operand& operand : x.inputs()) {
        if (operand.updates()) write(operand);
      }
      for (const plan::Operand& operand : x.outputs()) write(operand);
    }
  }
  return writers;
}

int DefaultDevice(const plan::Program& program, int producer) {
  if (producer < 0 || producer >= program.actors_size()) return 0;
  const int stream = program.actors(producer).stream();
  return stream >= 0 && stream < program.streams_size() ? program.streams(stream).device() : 0;
}

std::vector<int> TemporaryUsersOf(const plan::Program& program) {
  std::vector<int> users(program.temporaries_size(), -1);
  for (int a = 0; a < program.actors_size(); ++a) {
    for (const plan::Instruction& x : program.actors(a).script()) {
      for (const auto* operands : {&x.inputs(), &x.outputs()}) {
        for (const plan::Operand& operand : *operands) {
          if (operand.storage_case() != plan::Operand::kTemporary) continue;
          if (operand.temporary() < 0 || operand.temporary() >= program.temporaries_size())
            continue;
          if (users[operand.temporary()] < 0) users[operand.temporary()] = a;
        }
      }
    }
  }
  for (int& user : users) user = std::max(user, 0);
  return users;
}

}  // namespace sluice::plan_text
