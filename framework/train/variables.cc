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

// Where each begins in a copy: at a cache line of its own.
int64_t RoomFor(const Box& box, DType dtype) {
  constexpr int64_t kLine = 64;
  return (Volume(box) * SizeOf(dtype) + kLine - 1) / kLine * kLine;
}

// By box: of which type its tensor is.
std::vector<DType> TypesOf(const CheckpointContents& contents) {
  std::map<std::string, DType> types;
  for (const TensorEntry& tensor : contents.tensors) types[tensor.name] = tensor.dtype;
  std::vector<DType> of_boxes;
  for (const BoxEntry& entry : contents.boxes) of_boxes.push_back(types.at(entry.tensor));
  return of_boxes;
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
  return [session, ranks](const BoxEntry& entry) -> absl::StatusOr<TensorValue> {
    return ranks == 1 ? session->Read(entry.tensor) : session->ReadBox(entry.tensor, entry.box);
  };
}

int64_t SavedCopy::BytesFor(const CheckpointContents& contents) {
  const std::vector<DType> types = TypesOf(contents);
  int64_t bytes = 0;
  for (size_t n = 0; n < types.size(); ++n) bytes += RoomFor(contents.boxes[n].box, types[n]);
  return bytes;
}

absl::Status SavedCopy::Prepare(const CheckpointContents& contents, Session* session) {
  // Not filled: whoever copies first touches its pages, and that is seldom the session's thread.
  auto memory = std::make_unique_for_overwrite<std::byte[]>(BytesFor(contents));
  types_ = TypesOf(contents);
  std::byte* to = memory.get();
  for (size_t n = 0; n < types_.size(); ++n) {
    const BoxEntry& entry = contents.boxes[n];
    boxes_.push_back({entry.tensor, entry.box, to});
    to += RoomFor(entry.box, types_[n]);
  }
  RETURN_IF_ERROR(session->PrepareSnapshots(boxes_));
  memory_ = std::move(memory);
  return absl::OkStatus();
}

BoxSource SavedCopy::Values() const {
  // Asked in order; boxes without elements may be left out.
  return [this, next = size_t{0}](const BoxEntry& entry) mutable -> absl::StatusOr<TensorValue> {
    while (boxes_[next].variable != entry.tensor || boxes_[next].box != entry.box) ++next;
    const size_t bytes = Volume(entry.box) * SizeOf(types_[next]);
    return TensorValue(types_[next], ShapeOf(entry.box), {boxes_[next].to, bytes});
  };
}

}  // namespace sluice
