#include "framework/explain/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/plan/lifetimes.h"
#include "framework/plan/program_index.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

constexpr size_t kLargest = 10;  // tensors that are named at the peak

class PlacementExplainer {
 public:
  PlacementExplainer(const ProgramIndex& index, const ClockResult& run,
                     const DeviceClasses& classes, ExplainedProgram* explained)
      : index_(index), run_(run), classes_(classes), explained_(*explained) {
    time_of_rank_.resize(2 * run.end_rank.size() + 2);
    for (size_t e = 0; e < run.end_rank.size(); ++e) {
      for (const auto& [rank, time] : {std::make_pair(run.begin_rank[e], run.begin_time[e]),
                                       std::make_pair(run.end_rank[e], run.end_time[e])}) {
        if (static_cast<size_t>(rank) >= time_of_rank_.size()) time_of_rank_.resize(rank + 1);
        time_of_rank_[rank] = time;
      }
      makespan_ = std::max(makespan_, run.end_time[e]);
    }
    explained_.makespan = makespan_;
  }

  void FindRepresentatives();
  void FillTimelines();
  absl::Status FillMemory(const plan::Plan& plan, absl::Span<const PackedDevice> packed,
                          absl::Span<const ExplainedVariable> variables);

 private:
  bool Stands(int32_t device) const { return classes_.representative(device) == device; }
  void BlameWait(ExplainedSpan* span) const;
  void AddBuffer(const Buffer& buffer);
  void FindPeak(absl::Span<const Buffer* const> buffers, ExplainedDevice* device) const;
  MemoryKind KindOf(const Buffer& buffer, const Buffer::Use& use) const;
  std::string NameOf(const Buffer& buffer, const Buffer::Use& use) const;
  int32_t InstanceOfEnd(const Buffer::Use& use) const;

  const ProgramIndex& index_;
  const ClockResult& run_;
  const DeviceClasses& classes_;
  ExplainedProgram& explained_;
  std::vector<int64_t> time_of_rank_;
  int64_t makespan_ = 0;
};

// Devices of a class have the same actors in the same order, but for fetches, which stand last;
// scripts are kept for one of them.
void PlacementExplainer::FindRepresentatives() {
  std::map<int32_t, std::vector<int32_t>> of_device;
  for (size_t a = 0; a < explained_.actors.size(); ++a) {
    of_device[explained_.actors[a].device].push_back(static_cast<int32_t>(a));
  }
  for (const auto& [device, actors] : of_device) {
    const std::vector<int32_t>& representatives = of_device.at(classes_.representative(device));
    for (size_t n = 0; n < actors.size(); ++n) {
      ExplainedActor& actor = explained_.actors[actors[n]];
      actor.representative = representatives[n];
      if (actor.representative != actors[n]) actor.script.clear();
    }
  }
}

void PlacementExplainer::BlameWait(ExplainedSpan* span) const {
  int64_t latest = -1;
  index_.ForEachWait(
      span->actor, span->firing, span->instruction, [&](const ProgramIndex::Wait& wait) {
        std::string what;
        if (wait.kind == ProgramIndex::WaitKind::kToken) {
          what = index_.program().registers(wait.what).name();
        } else if (wait.kind == ProgramIndex::WaitKind::kSlot) {
          what = "a free slot of " + index_.program().registers(wait.what).name();
        } else if (wait.kind == ProgramIndex::WaitKind::kReuse) {
          what = "bytes";
        } else {
          return;  // the stream itself
        }
        const int64_t end =
            run_.end_time[index_.InstanceOf(wait.actor, wait.firing, wait.instruction)];
        if (end <= latest) return;
        latest = end;
        span->wait = what;
        span->owed_by = wait.actor;
      });
}

void PlacementExplainer::FillTimelines() {
  for (int a = 0; a < index_.num_actors(); ++a) {
    if (!Stands(index_.device_of(a))) continue;
    const ProgramIndex::Actor& actor = index_.actor(a);
    for (int32_t firing = 0; firing < actor.firings; ++firing) {
      for (int32_t i = 0; i < actor.length; ++i) {
        const int32_t instance = index_.InstanceOf(a, firing, i);
        ExplainedSpan span;
        span.actor = a, span.firing = firing, span.instruction = i;
        span.begin = run_.begin_time[instance];
        span.end = run_.end_time[instance];
        explained_.streams[actor.stream].spans.push_back(span);
      }
    }
  }
  for (ExplainedStream& stream : explained_.streams) {
    std::sort(stream.spans.begin(), stream.spans.end(),
              [](const ExplainedSpan& a, const ExplainedSpan& b) {
                return std::tie(a.begin, a.end, a.actor, a.firing, a.instruction) <
                       std::tie(b.begin, b.end, b.actor, b.firing, b.instruction);
              });
    int64_t end = 0;
    for (ExplainedSpan& span : stream.spans) {
      if (span.begin > end) BlameWait(&span);
      end = std::max(end, span.end);
    }
  }
}

int32_t PlacementExplainer::InstanceOfEnd(const Buffer::Use& use) const {
  for (const int32_t release : use.releases) {
    if (run_.end_rank[release] == use.end) return release;
  }
  return use.first;
}

std::string PlacementExplainer::NameOf(const Buffer& buffer, const Buffer::Use& use) const {
  if (buffer.ring >= 0) {
    return index_.program().registers(index_.PlaceOf(buffer.ring, 0).reg).name();
  }
  const ProgramIndex::Instance at = index_.InstanceAt(use.first);
  const std::string& scope = index_.instruction(at.actor, at.instruction).scope();
  return buffer.actor >= 0 ? absl::StrCat("scratch of ", scope) : scope;
}

MemoryKind PlacementExplainer::KindOf(const Buffer& buffer, const Buffer::Use& use) const {
  const ProgramIndex::Instance at = index_.InstanceAt(use.first);
  const ExplainedInstruction& made = explained_.actors[at.actor].script[at.instruction];
  if (made.boxing >= 0) return MemoryKind::kBoxing;
  if (made.node < 0) return MemoryKind::kPort;
  if (made.phase == Phase::kBackward) return MemoryKind::kGradient;
  if (made.phase == Phase::kUpdate) return MemoryKind::kUpdate;
  if (buffer.ring < 0) return MemoryKind::kActivation;
  const bool kept = std::any_of(use.releases.begin(), use.releases.end(), [&](int32_t release) {
    const ProgramIndex::Instance reader = index_.InstanceAt(release);
    return explained_.actors[reader.actor].script[reader.instruction].phase == Phase::kBackward;
  });
  return kept ? MemoryKind::kSavedActivation : MemoryKind::kActivation;
}

void PlacementExplainer::AddBuffer(const Buffer& buffer) {
  ExplainedDevice& device = explained_.devices[buffer.device];
  ExplainedBytes bytes;
  bytes.bytes = buffer.bytes;
  bytes.offset = OffsetOf(index_, buffer);
  if (buffer.resident) {
    const int32_t reg = index_.PlaceOf(buffer.ring, 0).reg;
    bytes.name = index_.program().registers(reg).name();
    const bool cache = index_.reg(reg).initial > 0;
    bytes.kind = cache ? MemoryKind::kActivation : MemoryKind::kPort;
    bytes.end = makespan_;
    device.memory.push_back(bytes);
    return;
  }
  for (const Buffer::Use& use : buffer.uses) {
    bytes.name = NameOf(buffer, use);
    bytes.kind = KindOf(buffer, use);
    bytes.begin = time_of_rank_[use.begin];
    bytes.end = time_of_rank_[use.end];
    const ProgramIndex::Instance first = index_.InstanceAt(use.first);
    const ProgramIndex::Instance last = index_.InstanceAt(InstanceOfEnd(use));
    bytes.maker = first.actor, bytes.made_at = first.instruction;
    bytes.last = last.actor, bytes.freed_at = last.instruction;
    device.memory.push_back(bytes);
  }
}

// `memory` has a block for each use of each buffer, in their order.
void PlacementExplainer::FindPeak(absl::Span<const Buffer* const> buffers,
                                  ExplainedDevice* device) const {
  std::vector<std::pair<int32_t, int64_t>> change;  // what begins at a rank is before what ends
  for (const Buffer* buffer : buffers) {
    for (const Buffer::Use& use : buffer->uses) {
      change.push_back({2 * use.begin, buffer->bytes});
      change.push_back({2 * use.end + 1, -buffer->bytes});
    }
  }
  std::sort(change.begin(), change.end());
  int64_t live = 0, most = -1;
  int32_t peak = 0;
  for (const auto& [rank, bytes] : change) {
    live += bytes;
    if (live <= most) continue;
    most = live;
    peak = rank / 2;
  }
  device->peak_time = change.empty() ? 0 : time_of_rank_[peak];
  std::map<std::string, std::vector<int32_t>> alive;
  int32_t block = 0;
  for (const Buffer* buffer : buffers) {
    if (buffer->resident) alive[device->memory[block].name].push_back(block);
    if (buffer->resident) ++block;
    for (const Buffer::Use& use : buffer->uses) {
      if (use.begin <= peak && peak <= use.end) alive[device->memory[block].name].push_back(block);
      ++block;
    }
  }
  const auto bytes_of = [device](const std::vector<int32_t>& blocks) {
    int64_t bytes = 0;
    for (const int32_t b : blocks) bytes += device->memory[b].bytes;
    return bytes;
  };
  for (auto& [name, blocks] : alive) device->peak.push_back(std::move(blocks));
  std::stable_sort(device->peak.begin(), device->peak.end(),
                   [&](const auto& a, const auto& b) { return bytes_of(a) > bytes_of(b); });
  device->peak.resize(std::min(device->peak.size(), kLargest));
}

absl::Status PlacementExplainer::FillMemory(const plan::Plan& plan,
                                            absl::Span<const PackedDevice> packed,
                                            absl::Span<const ExplainedVariable> variables) {
  ASSIGN_OR_RETURN(const std::vector<Buffer> buffers,
                   FindBuffers(index_, run_.begin_rank, run_.end_rank));
  std::vector<std::vector<const Buffer*>> of_device(plan.devices_size());
  explained_.devices.resize(plan.devices_size());
  for (int d = 0; d < plan.devices_size(); ++d) {
    ExplainedDevice& device = explained_.devices[d];
    device.representative = classes_.representative(d);
    device.variables = plan.devices(d).variable_bytes();
    device.packed = packed[device.representative].packed;
    device.live = packed[device.representative].live;
  }
  for (const Buffer& buffer : buffers) {
    if (!Stands(buffer.device)) continue;
    AddBuffer(buffer);
    of_device[buffer.device].push_back(&buffer);
  }
  for (size_t d = 0; d < of_device.size(); ++d) {
    if (Stands(static_cast<int32_t>(d))) FindPeak(of_device[d], &explained_.devices[d]);
  }
  for (int v = 0; v < plan.variables_size(); ++v) {
    for (const plan::VariableShard& shard : plan.variables(v).shards()) {
      if (!Stands(shard.device())) continue;
      ExplainedBytes bytes;
      bytes.name = variables[v].name;
      bytes.kind = variables[v].state ? MemoryKind::kOptimizer : MemoryKind::kParameter;
      bytes.offset = shard.offset();
      ASSIGN_OR_RETURN(const Shard whole, ShardFromProto(shard.shard()));
      bytes.bytes = whole.NumBytes();
      bytes.end = makespan_;
      explained_.devices[shard.device()].memory.push_back(bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ExplainPlacement(const plan::Plan& plan, const plan::Program& program,
                              absl::Span<const PackedDevice> packed, const DeviceClasses& classes,
                              absl::Span<const ExplainedVariable> variables,
                              ExplainedProgram* explained) {
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  ASSIGN_OR_RETURN(const ClockResult run, RunClock(index));
  explained->device_classes = classes.num_classes();
  explained->registers = program.registers_size();
  explained->reuse_edges = program.reuse_edges_size();
  explained->step_nanoseconds = program.predicted_nanoseconds();
  PlacementExplainer explainer(index, run, classes, explained);
  RETURN_IF_ERROR(explainer.FillMemory(plan, packed, variables));
  explainer.FillTimelines();
  explainer.FindRepresentatives();
  return absl::OkStatus();
}

}  // namespace sluice
