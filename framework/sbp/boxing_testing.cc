#include "framework/sbp/boxing_testing.h"

#include <cmath>
#include <map>

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

Machine TwoLevelMachine(int64_t devices_per_host) {
  Machine machine;
  machine.devices_per_host = devices_per_host;
  for (Link& link : machine.links) link.latency_nanoseconds = 10;
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

std::string Describe(const Layout& from, const Layout& to, const Shape& shape) {
  return absl::StrCat(from.mesh.ToString(), " ", ToString(from.sbp, from.mesh), " -> ",
                      to.mesh.ToString(), " ", ToString(to.sbp, to.mesh), " of ", shape.ToString());
}

}  // namespace sluice
