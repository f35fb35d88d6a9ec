// From moves to buffers: gives every device's writes of one step a buffer, every step its writes.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "framework/base/log.h"
#include "framework/sbp/boxing_candidates.h"

namespace sluice {
namespace {

// Joins boxes that meet along dimension `d` and are folded alike.
void MergeAlong(size_t d, std::vector<BoxingRegion>* regions) {
  const auto key = [d](const BoxingRegion& region) {
    Box others = region.box;
    others[d] = {};
    return std::make_tuple(region.sources, region.fold, others, region.box[d]);
  };
  std::sort(regions->begin(), regions->end(),
            [&](const BoxingRegion& a, const BoxingRegion& b) { return key(a) < key(b); });
  std::vector<BoxingRegion> merged;
  for (BoxingRegion& region : *regions) {
    if (!merged.empty() && merged.back().box[d].end == region.box[d].begin) {
      BoxingRegion longer = merged.back();
      longer.box[d] = region.box[d];
      if (key(longer) == key(region)) {
        merged.back().box[d].end = region.box[d].end;
        continue;
      }
    }
    merged.push_back(std::move(region));
  }
  *regions = std::move(merged);
}

// Whether each region comes from elsewhere, so that no two can be joined.
bool AllDiffer(const std::vector<BoxingRegion>& regions) {
  std::vector<int> first;
  for (const BoxingRegion& region : regions) first.push_back(region.sources[0]);
  std::sort(first.begin(), first.end());
  return std::adjacent_find(first.begin(), first.end()) == first.end();
}

class Assembly {
 public:
  explicit Assembly(const std::vector<DeviceId>& devices)
      : devices_(devices), current_(devices.size(), -1) {}

  int AddBuffer(int device, std::vector<Box> pieces, int role) {
    boxing_.buffers.push_back({devices_[device], std::move(pieces), role});
    return static_cast<int>(boxing_.buffers.size()) - 1;
  }
  // What a device holds now, where that has no buffer yet: of a share.
  void Hold(int device, const Box& box) {
    if (current_[device] < 0) current_[device] = AddBuffer(device, {box}, HeldRole());
  }
  // Buffers that hold the shards between stages, and those of moves on their way.
  int HeldRole() const { return stages_ * kMoveBuffers; }
  void SetCurrent(int device, int buffer) { current_[device] = buffer; }
  int current(int device) const { return current_[device]; }

  void AddStage(const BoxingStage& stage) {
    if (std::all_of(stage.begin(), stage.end(),
                    [](const BoxingGroup& group) { return group.moves.identity; })) {
      return;
    }
    const size_t first_step = boxing_.steps.size();
    std::vector<int> next(devices_.size(), -1);
    for (const BoxingGroup& group : stage) AddGroup(group, first_step, &next);
    current_ = std::move(next);
    ++stages_;
  }

  Boxing Take() { return std::move(boxing_); }

 private:
  // The buffers of one group, by device of the group and kind of buffer.
  struct Group {
    const BoxingGroup& of;
    std::vector<std::vector<int>> buffers;  // -1: none
    std::vector<MoveBuffer> last;           // what becomes the destination; kSource: nothing moved
    int steps[kMoveSteps];                  // where each step of the moves stands in the Boxing
    std::vector<std::vector<BoxingWrite>> writes;  // as buffers
  };

  void AddGroup(const BoxingGroup& of, size_t first_step, std::vector<int>* next) {
    const size_t count = of.devices.size();
    Group group = {
        of,
        std::vector<std::vector<int>>(count, std::vector<int>(kMoveBuffers, -1)),
        std::vector<MoveBuffer>(count, MoveBuffer::kSource),
        {},
        std::vector<std::vector<BoxingWrite>>(count, std::vector<BoxingWrite>(kMoveBuffers))};
    int at = static_cast<int>(first_step);
    for (int s = 0; s < kMoveSteps; ++s) {
      group.steps[s] = at;
      if (!of.moves.steps[s].empty()) ++at;
      for (const Move& move : of.moves.steps[s]) {
        if (move.write != MoveBuffer::kNode && move.write != MoveBuffer::kTransit) {
          group.last[move.to] = std::max(group.last[move.to], move.write);
        }
      }
    }
    const size_t steps = std::max<size_t>(at, first_step + 1);  // one even if nothing moves
    if (boxing_.steps.size() < steps) boxing_.steps.resize(steps);

    for (size_t d = 0; d < count; ++d) {
      const BoxingShard& shard = of.problem.source.shards[d];
      if (shard.present) Hold(of.devices[d], shard.box);
      group.buffers[d][0] = current_[of.devices[d]];
    }
    for (int s = 0; s < kMoveSteps; ++s) FoldStep(s, &group);
    for (size_t d = 0; d < count; ++d) {
      if (of.problem.target.shards[d].present && of.problem.Wanted(static_cast<int>(d))) {
        (*next)[of.devices[d]] = Finish(static_cast<int>(d), static_cast<int>(steps) - 1, &group);
      }
    }
  }

  // The regions of one step, packed into fresh buffers unless they go to the destination.
  void FoldStep(int s, Group* group) {
    const BoxingGroup& of = group->of;
    const std::vector<Move>& moves = of.moves.steps[s];
    AddUnwritten(moves, group);
    for (size_t m = 0; m < moves.size();) {
      size_t end = m + 1;
      while (end < moves.size() && moves[end].to == moves[m].to && moves[end].box == moves[m].box &&
             moves[end].write == moves[m].write) {
        ++end;
      }
      BoxingRegion region;
      region.box = of.moves.boxes[moves[m].box];
      std::vector<FoldRange> ranges;
      for (; m < end; ++m) {
        const int source = group->buffers[moves[m].from][static_cast<int>(moves[m].read)];
        SLUICE_CHECK(source >= 0) << "a move from a buffer that nobody wrote";
        region.sources.push_back(source);
        ranges.push_back(moves[m].range);
      }
      region.fold = FoldOrder(ranges, of.problem.source.reduction, of.problem.source.partial_sizes);
      const Move& move = moves[end - 1];
      group->writes[move.to][static_cast<int>(move.write)].regions.push_back(std::move(region));
    }
    // All of a step first, then its buffers: no move may read what its own step writes.
    for (size_t d = 0; d < of.devices.size(); ++d) {
      for (int b = 1; b < kMoveBuffers; ++b) {
        BoxingWrite& write = group->writes[d][b];
        const bool destination = group->last[d] == static_cast<MoveBuffer>(b);
        if (kWriteStep[b] != s || write.regions.empty() || destination) continue;
        Merge(&write.regions);
        std::vector<Box> pieces;
        for (const BoxingRegion& region : write.regions) pieces.push_back(region.box);
        write.buffer = group->buffers[d][b] =
            AddBuffer(of.devices[d], std::move(pieces), HeldRole() + b);
        boxing_.steps[group->steps[s]].writes.push_back(write);
      }
    }
    for (size_t d = 0; d < of.devices.size(); ++d) {
      const int b = static_cast<int>(group->last[d]);
      if (b > 0 && kWriteStep[b] == s)
        WriteDestination(static_cast<int>(d), group->steps[s], group);
    }
  }

  // Of what others of a share wrote, the pieces that are read.
  void AddUnwritten(const std::vector<Move>& moves, Group* group) {
    if (group->of.problem.wanted.empty()) return;
    std::map<std::pair<int, int>, std::vector<Box>> pieces;  // by device and kind of buffer
    for (const Move& move : moves) {
      const int kind = static_cast<int>(move.read);
      if (group->buffers[move.from][kind] >= 0) continue;
      pieces[{move.from, kind}].push_back(group->of.moves.boxes[move.box]);
    }
    for (auto& [at, boxes] : pieces) {
      std::sort(boxes.begin(), boxes.end());
      boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
      group->buffers[at.first][at.second] =
          AddBuffer(group->of.devices[at.first], std::move(boxes), HeldRole() + at.second);
    }
  }

  // The destination holds its last pieces and copies of those that came in earlier steps.
  void WriteDestination(int d, int step, Group* group) {
    const int last = static_cast<int>(group->last[d]);
    const BoxingShard& shard = group->of.problem.target.shards[d];
    BoxingWrite write = std::move(group->writes[d][last]);
    for (MoveBuffer earlier : {MoveBuffer::kHome, MoveBuffer::kEntry}) {
      const int b = static_cast<int>(earlier);
      if (b >= last || group->buffers[d][b] < 0) continue;
      for (const BoxingRegion& piece : group->writes[d][b].regions) {
        write.regions.push_back({piece.box, {group->buffers[d][b]}, {0}});
      }
    }
    Merge(&write.regions);
    int64_t written = 0;
    for (const BoxingRegion& region : write.regions) written += Volume(region.box);
    write.fill_identity = written < Volume(shard.box);
    SLUICE_CHECK(!write.fill_identity || group->of.problem.target.reduction != Reduction::kNone)
        << "a shard with holes";
    write.buffer = group->buffers[d][last] =
        AddBuffer(group->of.devices[d], {shard.box}, HeldRole() + kMoveBuffers);
    boxing_.steps[step].writes.push_back(std::move(write));
  }

  // The destination buffer of a device, also of one that nothing moved to.
  int Finish(int d, int step, Group* group) {
    const int last = static_cast<int>(group->last[d]);
    if (last > 0) return group->buffers[d][last];
    group->last[d] = MoveBuffer::kLast;
    WriteDestination(d, step, group);
    return group->buffers[d][static_cast<int>(MoveBuffer::kLast)];
  }

  // Fewer regions where they are read from whole shards; packed pieces stay as they are.
  void Merge(std::vector<BoxingRegion>* regions) const {
    if (regions->size() < 2 || (*regions)[0].box.empty()) return;
    for (const BoxingRegion& region : *regions) {
      for (int source : region.sources) {
        if (boxing_.buffers[source].pieces.size() != 1) return;
      }
    }
    if (!AllDiffer(*regions)) {
      for (size_t d = (*regions)[0].box.size(); d-- > 0;) MergeAlong(d, regions);
    }
    std::sort(regions->begin(), regions->end(),
              [](const BoxingRegion& a, const BoxingRegion& b) { return a.box < b.box; });
  }

  const std::vector<DeviceId>& devices_;
  std::vector<int> current_;  // by device: the buffer that holds its part now
  int stages_ = 0;            // in which something moved
  Boxing boxing_;
};

std::vector<int> Numbers(const Mesh& mesh, const std::vector<DeviceId>& devices) {
  std::map<DeviceId, int> number;
  for (size_t i = 0; i < devices.size(); ++i) number[devices[i]] = static_cast<int>(i);
  std::vector<int> numbers;
  for (const DeviceId& device : mesh.devices()) numbers.push_back(number.at(device));
  return numbers;
}

Boxing Finished(Boxing boxing, const BoxingCandidate& candidate, const Layout& from,
                const Layout& to, std::vector<int> sources, std::vector<int> destinations) {
  boxing.recipe = candidate.recipe;
  boxing.reduction = ReductionOf(from.sbp);
  if (boxing.reduction == Reduction::kNone) boxing.reduction = ReductionOf(to.sbp);
  boxing.sources = std::move(sources);
  boxing.destinations = std::move(destinations);
  boxing.bytes = candidate.cost.bytes;
  boxing.nanoseconds = candidate.cost.nanoseconds;
  return boxing;
}

}  // namespace

Boxing AssembleBoxing(const BoxingCandidate& candidate, const std::vector<DeviceId>& devices,
                      const Layout& from, const Layout& to, const Shape& shape) {
  Assembly assembly(devices);
  std::vector<int> sources, destinations;
  const std::vector<int> held = Numbers(from.mesh, devices);
  for (size_t i = 0; i < held.size(); ++i) {
    const Placement placement =
        PlacementAt(from.mesh, from.sbp, shape, from.mesh.Coordinates(static_cast<int64_t>(i)));
    sources.push_back(assembly.AddBuffer(held[i], {placement.box}, 0));
    assembly.SetCurrent(held[i], sources.back());
  }
  for (const BoxingStage& stage : candidate.stages) assembly.AddStage(stage);
  for (int device : Numbers(to.mesh, devices)) destinations.push_back(assembly.current(device));

  return Finished(assembly.Take(), candidate, from, to, std::move(sources),
                  std::move(destinations));
}

Boxing AssembleShare(const BoxingCandidate& candidate, const std::vector<DeviceId>& devices,
                     const Layout& from, const Layout& to, const Shape& shape,
                     const std::vector<int>& wanted) {
  Assembly assembly(devices);
  const int count = static_cast<int>(from.mesh.num_devices());
  const int behind = static_cast<int>(devices.size()) - static_cast<int>(to.mesh.num_devices());
  std::vector<int> sources(count, -1), destinations(to.mesh.num_devices(), -1);
  for (int device : wanted) {
    if (device >= count) continue;
    assembly.Hold(device,
                  PlacementAt(from.mesh, from.sbp, shape, from.mesh.Coordinates(device)).box);
  }
  for (const BoxingStage& stage : candidate.stages) assembly.AddStage(stage);
  for (int device : wanted) {
    if (device >= behind) destinations[device - behind] = assembly.current(device);
  }
  std::map<DeviceId, int> number;
  for (int i = 0; i < count; ++i) number[devices[i]] = i;
  Boxing share = assembly.Take();
  for (size_t b = 0; b < share.buffers.size(); ++b) {
    if (share.buffers[b].role == 0) {
      sources[number.at(share.buffers[b].device)] = static_cast<int>(b);
    }
  }
  share.share = true;
  share.axes = candidate.axes;
  return Finished(std::move(share), candidate, from, to, std::move(sources),
                  std::move(destinations));
}

}  // namespace sluice
