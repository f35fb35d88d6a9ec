#include "framework/sbp/nd_sbp.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// "axis:sbp" entries; the axis is any name here.
absl::StatusOr<std::vector<std::pair<std::string, Sbp>>> ParseAnnotation(absl::string_view text) {
  std::vector<std::pair<std::string, Sbp>> entries;
  for (absl::string_view entry :
       absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(entry, ':');
    if (fields.size() != 2 || fields[0].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sbp: expected AXIS:SBP, such as model:S1, got \"", entry, "\""));
    }
    absl::StatusOr<Sbp> sbp = ParseSbp(fields[1]);
    if (!sbp.ok()) return AddContext(sbp.status(), absl::StrCat("in \"", entry, "\""));
    for (const auto& earlier : entries) {
      if (earlier.first == fields[0]) {
        return absl::InvalidArgumentError(
            absl::StrCat("sbp: axis ", fields[0], " stands twice in \"", text, "\""));
      }
    }
    entries.emplace_back(std::string(fields[0]), *sbp);
  }
  return entries;
}

absl::Status CheckOneReduction(const NdSbp& sbp, absl::string_view text) {
  const Reduction reduction = ReductionOf(sbp);
  for (const Sbp& axis : sbp) {
    if (axis.is_partial() && axis.reduction != reduction) {
      return absl::InvalidArgumentError(absl::StrCat("sbp: expected one kind of P, got P(",
                                                     ReductionName(reduction), ") and ",
                                                     ToString(axis), " in \"", text, "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToString(Sbp sbp) {
  switch (sbp.kind) {
    case Sbp::kBroadcast:
      return "B";
    case Sbp::kSplit:
      return absl::StrCat("S", sbp.dim);
    case Sbp::kPartial:
      return absl::StrCat("P(", ReductionName(sbp.reduction), ")");
  }
  return "?";
}

absl::StatusOr<Sbp> ParseSbp(absl::string_view text) {
  if (text == "B") return Sbp::B();
  for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    if (text == ToString(Sbp::P(reduction))) return Sbp::P(reduction);
  }
  absl::string_view digits = text;
  int dim;
  if (absl::ConsumePrefix(&digits, "S") && absl::SimpleAtoi(digits, &dim) && dim >= 0 &&
      dim <= std::numeric_limits<int8_t>::max() && absl::StrCat(dim) == digits) {
    return Sbp::S(dim);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sbp: expected B, S<dim>, P(sum), P(max) or P(min), got \"", text, "\""));
}

NdSbp AllBroadcast(const Mesh& mesh) { return NdSbp(mesh.axes().size(), Sbp::B()); }

std::string ToString(const NdSbp& sbp, const Mesh& mesh) {
  SLUICE_CHECK_EQ(sbp.size(), mesh.axes().size()) << "axes of " << mesh.ToString();
  if (sbp.empty()) return "B";
  std::string text;
  for (size_t a = 0; a < sbp.size(); ++a) {
    absl::StrAppend(&text, a == 0 ? "" : " ", mesh.axes()[a].name, ":", ToString(sbp[a]));
  }
  return text;
}

absl::StatusOr<NdSbp> ParseNdSbp(absl::string_view text, const Mesh& mesh) {
  NdSbp sbp = AllBroadcast(mesh);
  if (text == "B") return sbp;
  ASSIGN_OR_RETURN(const auto annotation, ParseAnnotation(text));
  for (const auto& entry : annotation) {
    const int axis = mesh.FindAxis(entry.first);
    if (axis < 0 || mesh.axes()[axis].kind == AxisKind::kStage) {
      return absl::InvalidArgumentError(absl::StrCat("sbp: expected an axis of \"", mesh.ToString(),
                                                     "\" that is no axis of stages, got \"",
                                                     entry.first, "\" in \"", text, "\""));
    }
    sbp[axis] = entry.second;
  }
  RETURN_IF_ERROR(CheckOneReduction(sbp, text));
  return sbp;
}

absl::Status CheckNdSbp(const NdSbp& sbp, const Mesh& mesh, const Shape& shape) {
  if (sbp.size() != mesh.axes().size()) {
    return absl::InvalidArgumentError(absl::StrCat("sbp: expected ", mesh.axes().size(),
                                                   " entries for mesh \"", mesh.ToString(),
                                                   "\", got ", sbp.size()));
  }
  for (size_t a = 0; a < sbp.size(); ++a) {
    if (mesh.axes()[a].kind == AxisKind::kStage) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sbp: expected a mesh without an axis of stages, got \"", mesh.ToString(), "\""));
    }
    if (sbp[a].is_split() && sbp[a].dim >= shape.rank()) {
      return absl::InvalidArgumentError(absl::StrCat("sbp: ", mesh.axes()[a].name, ":",
                                                     ToString(sbp[a]), " expected a dimension of ",
                                                     shape.ToString()));
    }
  }
  return CheckOneReduction(sbp, ToString(sbp, mesh));
}

Reduction ReductionOf(const NdSbp& sbp) {
  for (const Sbp& axis : sbp) {
    if (axis.is_partial()) return axis.reduction;
  }
  return Reduction::kNone;
}

absl::StatusOr<SbpAnnotation> SbpAnnotation::Parse(absl::string_view text) {
  SbpAnnotation result;
  if (text == "B") return result;
  ASSIGN_OR_RETURN(result.entries, ParseAnnotation(text));
  return result;
}

const Sbp* SbpAnnotation::Find(absl::string_view axis) const {
  for (const auto& entry : entries) {
    if (entry.first == axis) return &entry.second;
  }
  return nullptr;
}

std::string SbpAnnotation::ToString() const {
  return absl::StrJoin(entries, " ",
                       [](std::string* out, const std::pair<std::string, Sbp>& entry) {
                         absl::StrAppend(out, entry.first, ":", sluice::ToString(entry.second));
                       });
}

Placement PlacementAt(const Mesh& mesh, const NdSbp& sbp, const Shape& shape,
                      const std::vector<int64_t>& coordinates) {
  Placement placement;
  placement.box = WholeBox(shape);
  for (size_t a = 0; a < sbp.size(); ++a) {
    const int64_t size = mesh.axes()[a].size;
    if (sbp[a].is_split()) {
      Range& range = placement.box[sbp[a].dim];
      range = Cut(range, size, coordinates[a]);
    } else if (sbp[a].is_partial()) {
      placement.partial = placement.partial * size + coordinates[a];
    }
  }
  return placement;
}

int64_t LargestShard(const Mesh& mesh, const NdSbp& sbp, const Shape& shape) {
  // The first piece of a cut is never smaller than another.
  return Volume(PlacementAt(mesh, sbp, shape, std::vector<int64_t>(sbp.size(), 0)).box);
}

}  // namespace sluice
