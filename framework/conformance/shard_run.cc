#include "framework/conformance/shard_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// Which of the partials a point holds; axes that are not P do not count.
int64_t PartialAt(const AxisSbps& sbps, const AxisShards& shards, const AxisShards& coordinates) {
  int64_t index = 0;
  for (size_t a = 0; a < sbps.size(); ++a) {
    if (sbps[a].is_partial()) index = index * shards[a] + coordinates[a];
  }
  return index;
}

int64_t NumPartials(const AxisSbps& sbps, const AxisShards& shards) {
  int64_t count = 1;
  for (size_t a = 0; a < sbps.size(); ++a) count *= sbps[a].is_partial() ? shards[a] : 1;
  return count;
}

Reduction ReductionOf(const AxisSbps& sbps) {
  for (const Sbp& sbp : sbps) {
    if (sbp.is_partial()) return sbp.reduction;
  }
  return Reduction::kNone;
}

// Random arrays that reduce to `whole`.
std::vector<Array> Partials(const Array& whole, Reduction reduction, int64_t count, uint64_t seed) {
  std::vector<Array> partials(count, whole);
  int64_t drawn = 0;
  for (size_t i = 0; i < whole.values.size(); ++i) {
    for (int64_t p = 1; p < count; ++p) {
      const double draw = UniformDraw(seed, drawn++, 0.25, 2);
      if (reduction == Reduction::kSum) {
        partials[p].values[i] = draw - 1;
        partials[0].values[i] -= draw - 1;
      } else {
        partials[p].values[i] += reduction == Reduction::kMax ? -draw : draw;
      }
    }
  }
  return partials;
}

std::vector<AxisSbps> PerTensor(const std::vector<Signature>& signatures,
                                std::vector<Sbp> Signature::*side) {
  std::vector<AxisSbps> layouts((signatures[0].*side).size());
  for (const Signature& signature : signatures) {
    for (size_t i = 0; i < layouts.size(); ++i) layouts[i].push_back((signature.*side)[i]);
  }
  return layouts;
}

// Position i along `dim` gets what stood at (i + 1) mod n: no position keeps its place.
Array Rotated(const Array& array, int dim) {
  const Box whole = WholeBox(array.shape);
  Array rotated(array.shape);
  const int64_t extent = array.shape[dim];
  for (int64_t i = 0; i < extent; ++i) {
    Box from = whole, to = whole;
    const int64_t next = (i + 1) % extent;
    from[dim] = {next, next + 1};
    to[dim] = {i, i + 1};
    Assign(Slice(array, whole, from), to, whole, &rotated);
  }
  return rotated;
}

}  // namespace

Box BoxAt(const Shape& shape, const AxisSbps& sbps, const AxisShards& shards,
          const AxisShards& coordinates) {
  Box box = WholeBox(shape);
  for (size_t a = 0; a < sbps.size(); ++a) {
    if (!sbps[a].is_split()) continue;
    Range& range = box[sbps[a].dim];
    range = Cut(range, shards[a], coordinates[a]);
  }
  return box;
}

std::vector<AxisShards> AllCoordinates(const AxisShards& shards) {
  std::vector<AxisShards> all = {{}};
  for (int64_t extent : shards) {
    std::vector<AxisShards> longer;
    for (const AxisShards& prefix : all) {
      for (int64_t i = 0; i < extent; ++i) {
        longer.push_back(prefix);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<ShardArray> Scatter(const TensorType& type, const Array& whole, const AxisSbps& sbps,
                                const AxisShards& shards, uint64_t seed) {
  const int64_t count = NumPartials(sbps, shards);
  const std::vector<Array> partials = Partials(whole, ReductionOf(sbps), count, seed);
  std::vector<ShardArray> points;
  for (const AxisShards& coordinates : AllCoordinates(shards)) {
    const Box box = BoxAt(type.shape, sbps, shards, coordinates);
    const Array& from = partials[PartialAt(sbps, shards, coordinates)];
    points.push_back({type, box, Slice(from, WholeBox(type.shape), box)});
  }
  return points;
}

bool AlmostEqual(const Array& a, const Array& b) {
  if (a.shape != b.shape) return false;
  double largest = 1;
  for (double value : b.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i] == b.values[i]) continue;
    if (!(std::abs(a.values[i] - b.values[i]) <= 1e-9 * largest)) return false;
  }
  return true;
}

absl::StatusOr<Array> Assemble(const std::vector<ShardArray>& points, const Shape& shape,
                               const AxisSbps& sbps, const AxisShards& shards) {
  const Box whole = WholeBox(shape);
  const std::vector<AxisShards> coordinates = AllCoordinates(shards);
  std::vector<Array> partials(NumPartials(sbps, shards), Array(shape));
  std::vector<Array> written = partials;
  for (size_t i = 0; i < points.size(); ++i) {
    const int64_t partial = PartialAt(sbps, shards, coordinates[i]);
    const ShardArray& point = points[i];
    const Array marks = Slice(written[partial], whole, point.box);
    const Array before = Slice(partials[partial], whole, point.box);
    const bool replica =
        std::find(marks.values.begin(), marks.values.end(), 1) != marks.values.end();
    if (replica && !AlmostEqual(before, point.array)) {
      return absl::InternalError(absl::StrCat("replicas differ at ", BoxToString(point.box)));
    }
    Assign(point.array, point.box, whole, &partials[partial]);
    Assign(Array(point.array.shape, 1), point.box, whole, &written[partial]);
  }
  for (size_t p = 0; p < partials.size(); ++p) {
    for (double mark : written[p].values) {
      if (mark != 1) return absl::InternalError("an element is held nowhere");
    }
    if (p == 0) continue;
    for (size_t i = 0; i < partials[0].values.size(); ++i) {
      partials[0].values[i] =
          Reduce(ReductionOf(sbps), partials[0].values[i], partials[p].values[i]);
    }
  }
  return partials[0];
}

absl::StatusOr<ShardResults> RunShards(const OpDef& op, const OpCase& op_case,
                                       const CaseValues& values,
                                       const std::vector<AxisSbps>& inputs,
                                       const std::vector<AxisSbps>& outputs,
                                       const AxisShards& shards) {
  std::vector<std::vector<ShardArray>> scattered;
  for (size_t i = 0; i < inputs.size(); ++i) {
    scattered.push_back(
        Scatter(values.input_types[i], values.inputs[i], inputs[i], shards, 100 + i));
  }
  ShardResults results;
  results.updated.resize(inputs.size());
  results.outputs.resize(outputs.size());
  const std::vector<AxisShards> coordinates = AllCoordinates(shards);
  for (size_t point = 0; point < coordinates.size(); ++point) {
    std::vector<ShardArray> ins, outs;
    for (auto& tensor : scattered) ins.push_back(std::move(tensor[point]));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorType& type = values.output_types[i];
      const Box box = BoxAt(type.shape, outputs[i], shards, coordinates[point]);
      outs.push_back({type, box, Array(ShapeOf(box))});
    }
    RETURN_IF_ERROR(op.reference(
        {op_case.attributes, absl::MakeSpan(ins), absl::MakeSpan(outs), kCaseSeed, kCaseStep}));
    for (size_t i = 0; i < ins.size(); ++i) results.updated[i].push_back(std::move(ins[i]));
    for (size_t i = 0; i < outs.size(); ++i) results.outputs[i].push_back(std::move(outs[i]));
  }
  return results;
}

absl::Status CheckSignatures(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                             const std::vector<Signature>& signatures, const AxisShards& shards) {
  const std::string where =
      absl::StrCat(op.name, "/", op_case.name, " ",
                   absl::StrJoin(signatures, " and ",
                                 [](std::string* out, const Signature& s) { *out += ToString(s); }),
                   " in ", absl::StrJoin(shards, " x "), " shards");
  const std::vector<AxisSbps> inputs = PerTensor(signatures, &Signature::inputs);
  const std::vector<AxisSbps> outputs = PerTensor(signatures, &Signature::outputs);
  if (inputs.size() != values.inputs.size() || outputs.size() != values.outputs.size()) {
    return AddContext(absl::InternalError("wrong number of operands"), where);
  }
  absl::StatusOr<ShardResults> results = RunShards(op, op_case, values, inputs, outputs, shards);
  RETURN_IF_ERROR(AddContext(results.status(), where));
  const auto compare = [&](const std::vector<ShardArray>& points, const Array& expected,
                           const AxisSbps& sbps, const std::string& what) -> absl::Status {
    absl::StatusOr<Array> got = Assemble(points, expected.shape, sbps, shards);
    RETURN_IF_ERROR(AddContext(got.status(), absl::StrCat(where, ": ", what)));
    if (AlmostEqual(*got, expected)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(where, ": ", what, " differs from the whole"));
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    RETURN_IF_ERROR(
        compare(results->outputs[i], values.outputs[i], outputs[i], absl::StrCat("output ", i)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!Updates(op, i)) continue;
    RETURN_IF_ERROR(compare(results->updated[i], values.updated[i], inputs[i],
                            absl::StrCat("updated input ", i)));
  }
  return absl::OkStatus();
}

absl::Status CheckAnyOrder(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                           const Signature& signature) {
  const std::string where =
      absl::StrCat(op.name, "/", op_case.name, " ", ToString(signature), " in another order");
  CaseValues permuted = values;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const Sbp& split = signature.inputs[i];
    if (split.is_split()) permuted.inputs[i] = Rotated(values.inputs[i], split.dim);
  }
  const std::vector<AxisSbps> inputs(values.inputs.size(), {Sbp::B()}),
      outputs(values.outputs.size(), {Sbp::B()});
  absl::StatusOr<ShardResults> results = RunShards(op, op_case, permuted, inputs, outputs, {1});
  RETURN_IF_ERROR(AddContext(results.status(), where));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (AlmostEqual(results->outputs[i][0].array, values.outputs[i])) continue;
    return absl::InternalError(absl::StrCat(where, ": output ", i, " differs"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
