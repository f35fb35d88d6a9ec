// What devices with memory spaces of their own exchange in a job of several ranks, where no
// collective does it: in the memory of their hosts, between copies, or from device to device where
// no rank reads another. Each copy is an item of the stage as any other: all devices of the stage
// have it, whether or not another rank reads what it brings.
#include <algorithm>

#include "framework/compiler/lower.h"

namespace sluice {
namespace {

// Each element that is written is one that is read.
bool OnlyMoves(BoxingRecipe recipe) {
  switch (recipe) {
    case BoxingRecipe::kAllGather:
    case BoxingRecipe::kAllGatherTwoLevel:
    case BoxingRecipe::kAllGatherDoubling:
    case BoxingRecipe::kAllToAll:
    case BoxingRecipe::kCopy:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Asked of all devices of the stage together, by the slowest link over which one of them reads, for
// all have the same items. A CPU cannot reach what a device has. A sum would need the parts in the
// reader's own memory first: it is made on hosts.
bool Boxer::CopiesInRanks(const PhaseStep& step) const {
  if (!classes_.through_hosts() || step.on_hosts || !step.reads_others()) return false;
  for (const int32_t stage : {step.from_stage, step.to_stage}) {
    const int32_t first = grid_.DeviceIndex(stage, 0);
    if (classes_.host(first) == first) return false;
  }
  return step.load().links.far == LinkKind::kProcess && OnlyMoves(step.symbolic().recipe);
}

// New values on the hosts, without producer, of what `values` are on devices.
Boxer::Values Boxer::HostsOf(const Values& values) {
  const Value& first = tasks_->values[values[0]];
  if (classes_.host(first.device) == first.device) return values;
  Values hosts;
  const int32_t number = NextNumber(first.stage);
  for (const ValueId v : values) {
    const Value& held = tasks_->values[v];
    Value host;
    host.name = held.name;
    host.number = number;
    host.stage = held.stage;
    host.device = classes_.host(held.device);
    host.shard = held.shard;
    host.reserved_bytes = std::max(held.reserved_bytes, tasks_->values[held.root].reserved_bytes);
    host.tokens = held.tokens;
    hosts.push_back(Add(std::move(host)));
    on_hosts_[v] = hosts.back();
  }
  return hosts;
}

Boxer::Values Boxer::OnHosts(const Values& values, Phase phase, int32_t boxing) {
  if (on_hosts_.count(values[0]) == 0) {
    const Values hosts = HostsOf(values);
    CopyTo(values, hosts, phase, boxing);
    return hosts;
  }
  Values hosts;
  for (const ValueId v : values) hosts.push_back(on_hosts_.at(v));
  return hosts;
}

// Streams of devices that have a memory space have an order, but those of computing are full.
plan::StreamKind Boxer::StreamOf(ValueId output) const {
  const int32_t device = tasks_->values[output].device;
  const bool of_mesh = device < grid_.mesh().num_devices();
  return of_mesh && classes_.host(device) != device ? plan::STREAM_COPY : plan::STREAM_COMM;
}

// A copy stands right behind what made the bytes; of what is there from the start, before all else,
// as whoever reads it from another stage does.
void Boxer::CopyTo(const Values& from, const Values& to, Phase phase, int32_t boxing) {
  if (from == to) return;  // their devices are hosts
  const Link& link = machine_.link(LinkKind::kProcess);
  ++sequence_;
  for (size_t m = 0; m < from.size(); ++m) {
    const Value &source = tasks_->values[from[m]], &target = tasks_->values[to[m]];
    const int64_t bytes = source.shard.NumBytes();
    Task task;
    task.kind = plan::INSTRUCTION_COPY;
    task.scope = source.name;
    task.boxing = boxing;
    task.phase = phase;
    task.device = std::min(source.device, target.device);  // hosts stand behind all devices
    task.stream = task.device == target.device ? plan::STREAM_COPY : plan::STREAM_COPY_OUT;
    task.stage = target.stage;
    task.firings = source.tokens;
    if (source.producer >= 0) task.position.first = tasks_->tasks[source.producer].position.first;
    task.position.second = sequence_;
    task.inputs = {{from[m], false}};
    task.outputs = {to[m]};
    task.bytes = 2 * bytes;
    task.wire_bytes = bytes;
    task.nanoseconds =
        link.latency_nanoseconds + machine_.LinkNanoseconds(bytes, LinkKind::kProcess);
    Add(std::move(task));
  }
}

}  // namespace sluice
