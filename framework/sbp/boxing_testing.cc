#include "framework/sbp/boxing_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

double RandomValue(bool zeros, std::mt19937_64* random) {
  const int kind = std::uniform_int_distribution<int>(0, 63)(*random);
  if (kind == 0) return std::nan("");
  if (kind == 1 && zeros) return 0.0;
  if (kind == 2 && zeros) return -0.0;
  const double value = std::normal_distribution<double>()(*random);
  return std::ldexp(value, std::uniform_int_distribution<int>(-20, 20)(*random));
}

int64_t SizeOf(const BoxingBuffer& buffer) {
  int64_t size = 0;
  for (const Box& piece : buffer.pieces) size += Volume(piece);
  return size;
}

// What the shape of a boxing promises, whatever the values.
std::string CheckForm(const Boxing& boxing, const Layout& from, const Layout& to,
                      const Shape& shape, DType dtype) {
  const int64_t limit =
      std::max(LargestShard(from.mesh, from.sbp, shape), LargestShard(to.mesh, to.sbp, shape));
  for (const BoxingBuffer& buffer : boxing.buffers) {
    if (SizeOf(buffer) > limit) return "a buffer is larger than every shard";
  }
  std::set<int> written(boxing.sources.begin(), boxing.sources.end());
  int64_t bytes = 0;
  for (const BoxingStep& step : boxing.steps) {
    for (const BoxingWrite& write : step.writes) {
      if (!written.insert(write.buffer).second) return "a buffer is written twice";
      const DeviceId device = boxing.buffers[write.buffer].device;
      for (const BoxingRegion& region : write.regions) {
        for (int source : region.sources) {
          if (boxing.buffers[source].device != device) {
            bytes += Volume(region.box) * sluice::SizeOf(dtype);
          }
        }
      }
    }
  }
  if (written.size() != boxing.buffers.size()) return "a buffer is never written";
  if (bytes != boxing.bytes) {
    return absl::StrCat("moves ", bytes, " bytes, says ", boxing.bytes);
  }
  const bool in_place =
      std::any_of(boxing.destinations.begin(), boxing.destinations.end(), [&](int buffer) {
        return std::count(boxing.sources.begin(), boxing.sources.end(), buffer) > 0;
      });
  if (in_place != boxing.steps.empty()) return "a destination is a source and yet there are steps";
  if (boxing.steps.empty() && boxing.nanoseconds != 0) return "nothing is done, at a price";
  return "";
}

}  // namespace

Mesh CellGridOf(const std::vector<int64_t>& sizes, int first) {
  std::vector<MeshAxis> axes;
  int count = 1;
  for (size_t a = 0; a < sizes.size(); ++a) {
    axes.push_back({std::string(1, static_cast<char>('a' + a)), sizes[a], AxisKind::kSpace});
    count *= static_cast<int>(sizes[a]);
  }
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.push_back({0, first + i});
  return Mesh::Of(axes, devices);
}

std::vector<Sbp> BoxingSymbols() {
  return {Sbp::S(0), Sbp::S(1), Sbp::B(), Sbp::P(), Sbp::P(Reduction::kMax)};
}

Machine TwoLevelMachine(int64_t devices_per_node) {
  Machine machine;
  machine.devices_per_node = devices_per_node;
  machine.latency_nanoseconds = 10;
  machine.launch_nanoseconds = 1;
  return machine;
}

bool OneKind(const NdSbp& from, const NdSbp& to) {
  const Reduction has = ReductionOf(from), wants = ReductionOf(to);
  return has == wants || has == Reduction::kNone || wants == Reduction::kNone;
}

std::vector<NdSbp> AllNdSbps(const std::vector<Sbp>& symbols, size_t axes, int rank) {
  std::vector<NdSbp> all = {{}};
  for (size_t a = 0; a < axes; ++a) {
    std::vector<NdSbp> longer;
    for (const NdSbp& sbp : all) {
      for (const Sbp& symbol : symbols) {
        const Reduction reduction = ReductionOf(sbp);
        if (symbol.is_split() && symbol.dim >= rank) continue;
        if (symbol.is_partial() && reduction != Reduction::kNone && reduction != symbol.reduction) {
          continue;
        }
        longer.push_back(sbp);
        longer.back().push_back(symbol);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<Array> RandomShards(const Layout& layout, const Shape& shape, std::mt19937_64* random) {
  const Reduction reduction = ReductionOf(layout.sbp);
  const bool zeros = reduction == Reduction::kNone || reduction == Reduction::kSum;
  std::map<int64_t, Array> wholes;  // by partial
  std::vector<Array> shards;
  for (int64_t i = 0; i < layout.mesh.num_devices(); ++i) {
    const Placement placement =
        PlacementAt(layout.mesh, layout.sbp, shape, layout.mesh.Coordinates(i));
    if (wholes.count(placement.partial) == 0) {
      Array whole(shape);
      for (double& value : whole.values) value = RandomValue(zeros, random);
      wholes[placement.partial] = std::move(whole);
    }
    shards.push_back(Slice(wholes[placement.partial], WholeBox(shape), placement.box));
  }
  return shards;
}

std::string CheckBoxing(const Boxing& boxing, const Layout& from, const Layout& to,
                        const Shape& shape, DType dtype, const std::vector<Array>& shards) {
  const std::string form = CheckForm(boxing, from, to, shape, dtype);
  if (!form.empty()) return form;
  const absl::StatusOr<Array> expected = GatherReference(from, shape, shards);
  SLUICE_CHECK_OK(expected.status());
  const absl::StatusOr<Array> got = GatherReference(to, shape, ExecuteBoxing(boxing, shards));
  if (!got.ok()) return std::string(got.status().message());
  if (got->shape != expected->shape) return "another shape";
  for (size_t i = 0; i < got->values.size(); ++i) {
    if (std::memcmp(&got->values[i], &expected->values[i], sizeof(double)) != 0) {
      return absl::StrCat("element ", i, ": expected ", expected->values[i], ", got ",
                          got->values[i]);
    }
  }
  return "";
}

std::string Describe(const Layout& from, const Layout& to, const Shape& shape) {
  return absl::StrCat(from.mesh.ToString(), " ", ToString(from.sbp, from.mesh), " -> ",
                      to.mesh.ToString(), " ", ToString(to.sbp, to.mesh), " of ", shape.ToString());
}

}  // namespace sluice
