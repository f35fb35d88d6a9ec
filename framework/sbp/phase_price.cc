#include "framework/sbp/phase_price.h"

#include <algorithm>
#include <numeric>

namespace sluice {

MeshNodes NodesOf(const Mesh& mesh, const Machine& machine) {
  std::vector<int64_t> node;
  for (const DeviceId& device : mesh.devices()) node.push_back(machine.NodeOf(device));
  const int64_t devices = mesh.num_devices();
  MeshNodes nodes;
  nodes.one_node = std::count(node.begin(), node.end(), node[0]) == devices;
  int64_t stride = devices;
  for (const MeshAxis& axis : mesh.axes()) {
    const int64_t n = axis.size;
    stride /= n;
    AxisNodes& along = nodes.axes.emplace_back();
    along.inner = n;
    for (int64_t i = 0; i < devices; ++i) {
      const int64_t place = i / stride % n;
      if (place > 0 && node[i] != node[i - stride]) along.inner = std::gcd(along.inner, place);
    }
    // In a group, blocks lie in nodes of their own if the node changes from each to the next and
    // always rises. Devices in another order are priced as if every block were far.
    for (int64_t i = 0; i < devices; ++i) {
      const int64_t place = i / stride % n;
      if (place == 0 || place % along.inner != 0) continue;
      along.regular &= node[i] > node[i - stride];
    }
  }
  return nodes;
}

bool AllOnOneNode(const Mesh& a, const Mesh& b, const Machine& machine) {
  const int64_t node = machine.NodeOf(a.devices()[0]);
  const auto here = [&](DeviceId device) { return machine.NodeOf(device) == node; };
  return std::all_of(a.devices().begin(), a.devices().end(), here) &&
         std::all_of(b.devices().begin(), b.devices().end(), here);
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
    wire = machine.latency_nanoseconds + load.messages * machine.latency_nanoseconds / 2 +
           std::max(machine.LinkNanoseconds(load.near * element, false),
                    machine.LinkNanoseconds(load.far * element, true));
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
