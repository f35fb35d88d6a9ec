#include "framework/train/variables.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

absl::Status CheckTypes(const Checkpoint& checkpoint, const std::vector<VariableInfo>& variables) {
  std::map<std::string, const TensorEntry*> entries;
  for (const TensorEntry& entry : checkpoint.tensors()) entries[entry.name] = &entry;
  for (const VariableInfo& variable : variables) {
    auto found = entries.find(variable.name);
    if (found == entries.end()) {
      return absl::NotFoundError(
          absl::StrCat("checkpoint: expected a tensor \"", variable.name, "\", it has none"));
    }
    const TensorEntry& entry = *found->second;
    if (entry.dtype != variable.dtype || entry.shape != variable.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint: tensor \"", variable.name, "\": expected ",
                       PrintType(variable.dtype, variable.shape), ", got ",
                       PrintType(entry.dtype, entry.shape)));
    }
    entries.erase(found);
  }
  if (entries.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("checkpoint: tensor \"", entries.begin()->first,
                                                 "\" is none of this model's variables"));
}

// Nothing is written before all that is stored of what this rank holds has been read once.
absl::Status Load(const Checkpoint& checkpoint, const std::vector<VariableInfo>& variables,
                  Session* session, const Stop& stop) {
  std::vector<std::vector<Box>> boxes;  // by variable
  for (const VariableInfo& variable : variables) {
    RETURN_IF_ERROR(CheckStop(stop));
    ASSIGN_OR_RETURN(const std::vector<VariableBox> held, session->boxes(variable.name));
    std::vector<Box>& own = boxes.emplace_back();
    for (const VariableBox& each : held) own.push_back(each.box);
    RETURN_IF_ERROR(checkpoint.VerifyBoxes(variable.name, own));
  }
  for (size_t v = 0; v < variables.size(); ++v) {
    for (const Box& box : boxes[v]) {
      RETURN_IF_ERROR(CheckStop(stop));
      ASSIGN_OR_RETURN(const HostTensor value, checkpoint.ReadBox(variables[v].name, box));
      RETURN_IF_ERROR(session->WriteBox(variables[v].name, box, value));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadVariables(const Checkpoint& checkpoint, Session* session, const Stop& stop) {
  const std::vector<VariableInfo> variables = session->variables();
  RETURN_IF_ERROR(CheckTypes(checkpoint, variables));
  return Load(checkpoint, variables, session, stop);
}

absl::StatusOr<std::vector<std::string>> LoadWhatFits(const Checkpoint& checkpoint,
                                                      absl::Span<const std::string> names,
                                                      Session* session, const Stop& stop) {
  std::map<std::string, const TensorEntry*> entries;
  for (const TensorEntry& entry : checkpoint.tensors()) entries[entry.name] = &entry;
  const std::set<std::string> wanted(names.begin(), names.end());
  std::vector<VariableInfo> fit;
  std::vector<std::string> left;
  for (VariableInfo& variable : session->variables()) {
    if (wanted.count(variable.name) == 0) continue;
    const auto found = entries.find(variable.name);
    if (found != entries.end() && found->second->dtype == variable.dtype &&
        found->second->shape == variable.shape) {
      fit.push_back(std::move(variable));
    } else {
      left.push_back(variable.name);
    }
  }
  RETURN_IF_ERROR(Load(checkpoint, fit, session, stop));
  return left;
}

absl::StatusOr<CheckpointContents> ContentsToSave(const Session& session, int32_t ranks) {
  CheckpointContents contents;
  for (const VariableInfo& variable : session.variables()) {
    contents.tensors.push_back({variable.name, variable.dtype, variable.shape});
    if (ranks == 1) {
      contents.boxes.push_back({variable.name, WholeBox(variable.shape)});
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<VariableBox> held, session.boxes(variable.name));
    for (const VariableBox& each : held) {
      if (each.saved) contents.boxes.push_back({variable.name, each.box});
    }
  }
  return contents;
}

BoxSource ValuesToSave(Session* session, int32_t ranks) {
  return [session, ranks](const BoxEntry& entry) {
    return ranks == 1 ? session->Read(entry.tensor) : session->ReadBox(entry.tensor, entry.box);
  };
}

}  // namespace sluice
