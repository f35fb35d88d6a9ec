#include "framework/sbp/phase_price.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace sluice {

namespace {

// Along an axis whose neighbours in a group are `stride` devices apart.
AxisNodes NodesAlong(const Mesh& mesh, const MeshAxis& axis, int64_t stride,
                     const Machine& machine) {
  AxisNodes along;
  along.inner = axis.size;
  // From the neighbour before it in its group to each device; of the first ones, none.
  std::vector<std::optional<LinkKind>> link(mesh.num_devices());
  for (int64_t i = 0; i < mesh.num_devices(); ++i) {
    if (i / stride % axis.size == 0) continue;
    link[i] = machine.LinkBetween(mesh.devices()[i - stride], mesh.devices()[i]);
    along.links.far = std::max(along.links.far, *link[i]);
  }
  if (along.links.far == LinkKind::kProcess) return along;
  for (int64_t i = 0; i < mesh.num_devices(); ++i) {
    if (link[i] == along.links.far) {
      along.inner = std::gcd(along.inner, i / stride % axis.size);
    } else if (link[i]) {
      along.links.near = std::max(along.links.near, *link[i]);
    }
  }
  // In a group, blocks lie in nodes of their own if the node changes from each to the next and
  // always rises. Devices in another order are priced as if every block were far.
  const auto node = [&](int64_t i) {
    const DeviceId device = mesh.devices()[i];
    return along.links.far == LinkKind::kHost ? device.rank : machine.HostOf(device);
  };
  for (int64_t i = 0; i < mesh.num_devices(); ++i) {
    const int64_t place = i / stride % axis.size;
    if (place == 0 || place % along.inner != 0) continue;
    along.regular &= node(i) > node(i - stride);
  }
  return along;
}

}  // namespace

MeshNodes NodesOf(const Mesh& mesh, const Machine& machine) {
  MeshNodes nodes;
  int64_t stride = mesh.num_devices();
  for (const MeshAxis& axis : mesh.axes()) {
    stride /= axis.size;
    nodes.axes.push_back(NodesAlong(mesh, axis, stride, machine));
    nodes.slowest = std::max(nodes.slowest, nodes.axes.back().links.far);
  }
  return nodes;
}

LinkKind SlowestLink(const Mesh& a, const Mesh& b, const Machine& machine) {
  LinkKind slowest = LinkKind::kProcess;
  for (const Mesh* mesh : {&a, &b}) {
    for (DeviceId device : mesh->devices()) {
      slowest = std::max(slowest, machine.LinkBetween(a.devices()[0], device));
    }
  }
  return slowest;
}

int64_t PhaseLoad::BetweenHosts() const {
  if (steps.empty()) return 0;
  const NearAndFar& links = steps[0].links;
  return (links.near == LinkKind::kNetwork ? near : 0) +
         (links.far == LinkKind::kNetwork ? far : 0);
}

PhaseLoad LoadOf(const BoxingPhase& phase, const Shape& shape, const MeshNodes& nodes,
                 const Machine& machine) {
  return phase.axis < 0 ? WholeMeshLoadOf(phase, shape, nodes, machine)
                        : AxisLoadOf(phase, shape, nodes.axes[phase.axis]);
}

int64_t PhaseStepNanoseconds(const PhaseStepLoad& load, DType dtype, const Machine& machine) {
  if (load.in_place) return 0;
  const int64_t element = SizeOf(dtype);
  int64_t wire = 0;
  if (load.near + load.far > 0) {
    const int64_t near = machine.link(load.links.near).latency_nanoseconds;
    const int64_t far = machine.link(load.links.far).latency_nanoseconds;
    wire = (load.far > 0 ? far : near) + (load.messages - load.far_messages) * near / 2 +
           load.far_messages * far / 2 +
           std::max(machine.LinkNanoseconds(load.near * element, load.links.near),
                    machine.LinkNanoseconds(load.far * element, load.links.far));
  }
  // A local element is read and written.
  const double copy =
      static_cast<double>(2 * load.local * element) / machine.memory_bytes_per_second * 1e9;
  return machine.launch_nanoseconds + std::max(wire, static_cast<int64_t>(copy));
}

BoxingCost PhaseCost(const PhaseLoad& load, DType dtype, const Machine& machine) {
  BoxingCost cost = {0, (load.near + load.far) * SizeOf(dtype)};
  for (const PhaseStepLoad& step : load.steps) {
    cost.nanoseconds += PhaseStepNanoseconds(step, dtype, machine);
  }
  return cost;
}

}  // namespace sluice
