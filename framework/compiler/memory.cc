#include "framework/compiler/memory.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/taken_bytes.h"
#include "framework/plan/bytes.h"
#include "framework/plan/happens_before.h"
#include "framework/plan/lifetimes.h"
#include "framework/plan/proof.h"

namespace sluice {
namespace {

// Of the search for a tighter packing, once the quick ones have missed by more than a hundredth,
// and by more than a page.
constexpr int64_t kRetries = 400, kRetryWork = 200'000'000, kPage = 4096;
// A packing that misses the least possible by less than a part in so many needs no other try: seven
// more would take longer than the rest of PackMemory, for less than such a part.
constexpr int64_t kTight = 10'000;
// Instances looked at for whether a program waits already where memory is used again: so many in
// all, but some for every question. Plans of a few devices then miss nothing, one of 64 devices 3 %
// of what waits, one of 1,024 10 %, in 4 of its 12 s. An edge too many is only a wait that is over
// when it is met.
constexpr int64_t kLookedAt = 32'000'000, kLeastLookedAt = 256;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Places the buffers of one device.
class Placer {
 public:
  Placer(std::vector<const Buffer*> buffers, int64_t alignment, const Stop& stop)
      : buffers_(std::move(buffers)),
        alignment_(alignment),
        stop_(stop),
        offset_(buffers_.size()),
        taken_(buffers_),
        work_(1 + 16 * taken_.num_clashes()) {
    for (const Buffer* buffer : buffers_) size_.push_back(AlignUp(buffer->bytes, alignment));
  }

  // The offsets of the best packing found, and its bytes. Near `live` bytes is good enough.
  int64_t Place(int64_t live, std::vector<int64_t>* offsets) {
    const size_t n = buffers_.size();
    const int64_t least = PeakOfLive(buffers_, alignment_);  // no packing can be smaller
    const int64_t tight = least + least / kTight;
    const int64_t enough = live + std::max(live / 100, kPage);
    std::vector<int> order(n), best_order;
    int64_t best = kNoLimit;
    auto keep_if_better = [&](bool best_fit, int64_t limit) {
      const int64_t bytes = PlaceInOrder(order, best_fit, limit);
      if (bytes >= best) return;
      best = bytes;
      best_order = order;
      *offsets = offset_;
    };
    for (int key = 0; key < 4 && best > tight; ++key) {
      SortBy(key, &order);
      keep_if_better(false, best);
      // The first retry begins with what the last quick try has at its top, so that one goes on to
      // its end though it be no better.
      if (best > tight) keep_if_better(true, key == 3 && best > enough ? kNoLimit : best);
    }
    // What sticks out at the top goes first in the next try; in every other try two pairs of
    // buffers change places, too. The draws are fixed, so every rank packs alike.
    const int64_t retries = n < 2 ? 0 : std::min(kRetries, kRetryWork / work_);
    uint64_t draw = 1;
    const auto below = [&draw](size_t bound) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      return static_cast<size_t>((draw >> 33) % bound);
    };
    order = best_order;
    for (int64_t retry = 0; retry < retries && best > enough && best > tight; ++retry) {
      if (stop_ && stop_()) break;
      if (retry % 8 == 7) order = best_order;
      int64_t top = 0;
      for (size_t a = 0; a < n; ++a) top = std::max(top, offset_[a] + size_[a]);
      std::stable_partition(order.begin(), order.end(),
                            [&](int a) { return offset_[a] + size_[a] == top; });
      for (int move = 0; move < (retry % 2 == 0 ? 0 : 2); ++move) {
        const size_t from = below(n), to = below(n);
        std::swap(order[from], order[to]);
      }
      keep_if_better(retry % 4 >= 2, kNoLimit);
    }
    return best;
  }

 private:
  using Key = std::tuple<int64_t, int64_t>;

  int64_t Span(int a) const {
    const Buffer& x = *buffers_[a];
    if (x.resident) return 1 << 30;
    int64_t ranks = 0;
    for (const Buffer::Use& use : x.uses) ranks += use.end - use.begin + 1;
    return ranks;
  }

  Key KeyOf(int a, int key) const {
    const Buffer& x = *buffers_[a];
    switch (key) {
      case 0:
        return {size_[a], Span(a)};
      case 1:
        return {Span(a), size_[a]};
      case 2:
        return {Span(a) * static_cast<int64_t>(size_[a] / 64), size_[a]};
      default:
        return {x.resident ? 1 : -x.uses.front().begin, size_[a]};
    }
  }

  void SortBy(int key, std::vector<int>* order) const {
    std::vector<Key> keys;
    for (size_t a = 0; a < buffers_.size(); ++a) keys.push_back(KeyOf(static_cast<int>(a), key));
    std::iota(order->begin(), order->end(), 0);
    std::stable_sort(order->begin(), order->end(), [&](int a, int b) { return keys[a] > keys[b]; });
  }

  // The bytes that the buffers then take. Gives up with more where they cannot be below `limit`.
  int64_t PlaceInOrder(const std::vector<int>& order, bool best_fit, int64_t limit) {
    int64_t bytes = 0;
    taken_.Clear();
    for (int a : order) {
      offset_[a] = taken_.Find(a, size_[a], best_fit);
      const int64_t end = offset_[a] + size_[a];
      taken_.Take(a, offset_[a], end);
      bytes = std::max(bytes, end);
      if (bytes >= limit) break;
    }
    return bytes;
  }

  std::vector<const Buffer*> buffers_;
  int64_t alignment_;
  const Stop& stop_;
  std::vector<int64_t> size_, offset_;  // by buffer
  TakenBytes taken_;
  int64_t work_;  // of placing once, about
};

// Where each buffer lies; absolute in its device's memory.
using Offsets = std::vector<int64_t>;

void WriteOffsets(const ProgramIndex& index, const std::vector<Buffer>& buffers,
                  const Offsets& offsets, const PackingOptions& options, plan::Program* program) {
  auto base = [&](int device) {
    return device < static_cast<int>(options.base.size()) ? options.base[device] : 0;
  };
  for (int q = 0; q < index.num_rings(); ++q) {
    const ProgramIndex::Ring& ring = index.ring(q);
    const int32_t r = index.PlaceOf(q, 0).reg;
    if (!program->registers(r).variable().empty()) continue;
    auto* slots = ring.explicit_ring >= 0
                      ? program->mutable_rings(ring.explicit_ring)->mutable_slot_offsets()
                      : program->mutable_registers(r)->mutable_slot_offsets();
    slots->Resize(0, 0);
    slots->Resize(ring.slots, base(program->registers(r).device()));
  }
  for (int n = 0; n < program->temporaries_size(); ++n) {
    program->mutable_temporaries(n)->set_offset(
        base(index.device_of(program->temporaries(n).actor())));
  }
  for (plan::Actor& actor : *program->mutable_actors()) {
    for (plan::Instruction& instruction : *actor.mutable_script()) {
      if (!instruction.has_scratch_offset()) continue;
      instruction.set_scratch_offset(base(program->streams(actor.stream()).device()));
    }
  }
  for (size_t n = 0; n < buffers.size(); ++n) {
    const Buffer& buffer = buffers[n];
    if (buffer.local >= 0) {
      program->mutable_temporaries(buffer.local)->set_offset(offsets[n]);
      continue;
    }
    if (buffer.actor >= 0) {
      program->mutable_actors(buffer.actor)
          ->mutable_script(buffer.instruction)
          ->set_scratch_offset(offsets[n]);
      continue;
    }
    const int32_t explicit_ring = index.ring(buffer.ring).explicit_ring;
    if (explicit_ring >= 0) {
      program->mutable_rings(explicit_ring)->set_slot_offsets(buffer.slot, offsets[n]);
    } else {
      program->mutable_registers(index.PlaceOf(buffer.ring, 0).reg)
          ->set_slot_offsets(buffer.slot, offsets[n]);
    }
  }
}

// `index`: of the program.
absl::Status ReplaceReuseEdges(absl::Span<const int32_t> rank, const std::vector<Buffer>& buffers,
                               const Offsets& offsets, const Stop& stop, plan::Program* program,
                               ProgramIndex* index) {
  using Edge = std::tuple<int32_t, int32_t, bool>;  // from instance, to instance, wraps
  std::vector<Edge> edges;
  for (const Reuse& reuse : FindReuses(buffers, offsets)) {
    for (int32_t release : reuse.before->releases) {
      if (Takes(buffers, reuse, release)) continue;
      edges.push_back({release, reuse.after->first, reuse.wraps});
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  RETURN_IF_ERROR(CheckStop(stop));
  HappensBefore order(*index, rank);
  const int64_t most = std::max(
      kLeastLookedAt, kLookedAt / std::max<int64_t>(1, static_cast<int64_t>(edges.size())));
  std::vector<bool> ordered(edges.size(), false);
  for (size_t n = 0; n < edges.size(); ++n) {
    if (n % 4096 == 0) RETURN_IF_ERROR(CheckStop(stop));
    const auto& [from, to, wraps] = edges[n];
    ordered[n] = order.Ordered(from, to, wraps, most);
  }
  google::protobuf::RepeatedPtrField<plan::ReuseEdge> added;
  for (size_t n = 0; n < edges.size(); ++n) {
    if (ordered[n]) continue;
    const auto& [from, to, wraps] = edges[n];
    plan::ReuseEdge* reuse_edge = added.Add();
    const ProgramIndex::Instance a = index->InstanceAt(from), b = index->InstanceAt(to);
    reuse_edge->mutable_after()->set_actor(a.actor);
    reuse_edge->mutable_after()->set_firing(a.firing);
    reuse_edge->mutable_after()->set_instruction(a.instruction);
    reuse_edge->mutable_before()->set_actor(b.actor);
    reuse_edge->mutable_before()->set_firing(b.firing);
    reuse_edge->mutable_before()->set_instruction(b.instruction);
    reuse_edge->set_wraps(wraps);
  }
  program->mutable_reuse_edges()->Swap(&added);
  return index->ReadReuseEdges();
}

int NumDevices(const plan::Program& program, const std::vector<Buffer>& buffers,
               const PackingOptions& options) {
  int devices = static_cast<int>(options.base.size());
  for (const plan::Stream& stream : program.streams()) {
    devices = std::max(devices, stream.device() + 1);
  }
  for (const Buffer& buffer : buffers) devices = std::max(devices, buffer.device + 1);
  return devices;
}

// Buffers that lie at one place, for each takes the bytes of the one before it: to the placer, one
// buffer that is alive while any of them is.
struct Together {
  Buffer whole;                 // whose uses are those of all
  std::vector<size_t> members;  // of `buffers`
};

std::vector<Together> PutTogether(const std::vector<Buffer>& buffers,
                                  absl::Span<const size_t> on_device) {
  std::map<size_t, Together> by_first;
  for (const size_t n : on_device) {
    size_t first = n;
    while (buffers[first].takes >= 0) first = buffers[first].takes;
    Together& together = by_first[first];
    together.members.push_back(n);
    if (together.members.size() == 1) {
      together.whole = buffers[n];
      continue;
    }
    std::vector<Buffer::Use>& uses = together.whole.uses;
    uses.insert(uses.end(), buffers[n].uses.begin(), buffers[n].uses.end());
    std::sort(uses.begin(), uses.end(),
              [](const Buffer::Use& a, const Buffer::Use& b) { return a.begin < b.begin; });
  }
  std::vector<Together> all;
  for (auto& [first, together] : by_first) all.push_back(std::move(together));
  return all;
}

// Whether what lies there is handed from step to step, whichever program makes the next.
bool IsCache(const ProgramIndex& index, const Buffer& buffer) {
  return buffer.ring >= 0 && index.reg(index.PlaceOf(buffer.ring, 0).reg).initial > 0;
}

// Takes the caches out of a device's buffers and places them side by side, from 0 on, by name.
// Returns their bytes.
int64_t PlaceCaches(const ProgramIndex& index, const std::vector<Buffer>& buffers,
                    int64_t alignment, std::vector<size_t>* on_device,
                    std::vector<std::pair<size_t, int64_t>>* placed) {
  const auto name_of = [&](size_t n) {
    return absl::string_view(
        index.program().registers(index.PlaceOf(buffers[n].ring, 0).reg).name());
  };
  std::vector<size_t> caches, others;
  for (const size_t n : *on_device) (IsCache(index, buffers[n]) ? caches : others).push_back(n);
  std::stable_sort(caches.begin(), caches.end(),
                   [&](size_t a, size_t b) { return name_of(a) < name_of(b); });
  int64_t bytes = 0;
  for (const size_t n : caches) {
    placed->emplace_back(n, bytes);
    bytes += AlignUp(buffers[n].bytes, alignment);
  }
  *on_device = std::move(others);
  return bytes;
}

}  // namespace

int64_t AlignmentOf(const plan::Plan& plan) {
  const bool cards =
      std::any_of(plan.devices().begin(), plan.devices().end(),
                  [](const plan::Device& device) { return device.kind() == plan::DEVICE_CUDA; });
  return cards ? kScratchAlignment : PackingOptions().alignment;
}

absl::StatusOr<Packing> PackMemory(plan::Program* program, const PackingOptions& options) {
  program->clear_reuse_edges();
  ASSIGN_OR_RETURN(ProgramIndex index, ProgramIndex::Build(*program));
  ClockOptions clock;
  clock.stop = options.stop;
  ASSIGN_OR_RETURN(const ClockResult run, RunClock(index, clock));
  RETURN_IF_ERROR(
      TakeInputs(index, run.begin_rank, run.end_rank, options.take, options.stop, program));
  ASSIGN_OR_RETURN(const std::vector<Buffer> buffers,
                   FindBuffers(index, run.begin_rank, run.end_rank));
  Packing packing;
  packing.devices.resize(NumDevices(*program, buffers, options));
  std::vector<std::vector<size_t>> on(packing.devices.size());  // buffers by device
  for (size_t n = 0; n < buffers.size(); ++n) on[buffers[n].device].push_back(n);
  Offsets offsets(buffers.size(), 0);
  for (size_t device = 0; device < on.size(); ++device) {
    if (on[device].empty()) continue;
    const int64_t base = device < options.base.size() ? options.base[device] : 0;
    PackedDevice& bytes = packing.devices[device];
    std::vector<std::pair<size_t, int64_t>> caches;
    const int64_t cached = PlaceCaches(index, buffers, options.alignment, &on[device], &caches);
    for (const auto& [n, offset] : caches) {
      offsets[n] = base + offset;
      bytes.unshared += buffers[n].bytes;
      bytes.live += buffers[n].bytes;
    }
    const std::vector<Together> placed_together = PutTogether(buffers, on[device]);
    std::vector<const Buffer*> here;
    for (const Together& together : placed_together) here.push_back(&together.whole);
    for (const size_t n : on[device]) bytes.unshared += buffers[n].bytes;
    const int64_t live = PeakOfLive(here);
    std::vector<int64_t> placed;
    const int64_t packed = Placer(here, options.alignment, options.stop).Place(live, &placed);
    RETURN_IF_ERROR(CheckStop(options.stop));
    for (size_t n = 0; n < placed.size(); ++n) {
      for (const size_t member : placed_together[n].members) {
        offsets[member] = base + cached + placed[n];
      }
    }
    bytes.live += live;
    bytes.packed = cached + (here.empty() ? 0 : packed);
  }
  WriteOffsets(index, buffers, offsets, options, program);
  RETURN_IF_ERROR(
      ReplaceReuseEdges(run.begin_rank, buffers, offsets, options.stop, program, &index));
  packing.index = std::move(index);
  return packing;
}

absl::StatusOr<RankPacking> PackRank(absl::Span<const int64_t> base,
                                     absl::Span<const int32_t> begin_rank,
                                     absl::Span<const int32_t> end_rank, plan::Program* program,
                                     const Stop& stop) {
  program->clear_reuse_edges();
  ASSIGN_OR_RETURN(ProgramIndex index, ProgramIndex::Build(*program));
  RETURN_IF_ERROR(CheckStop(stop));
  ASSIGN_OR_RETURN(const std::vector<Buffer> buffers, FindBuffers(index, begin_rank, end_rank));
  RETURN_IF_ERROR(CheckStop(stop));
  const auto is_staging = [&](const Buffer& buffer) {
    if (buffer.ring < 0) return false;
    const int32_t producer = index.reg(index.PlaceOf(buffer.ring, 0).reg).producer;
    return producer >= 0 && index.instruction(producer, 0).kind() == plan::INSTRUCTION_PULL;
  };
  std::map<int32_t, std::vector<const Buffer*>> by_device;
  for (const Buffer& buffer : buffers) {
    if (is_staging(buffer)) by_device[buffer.device].push_back(&buffer);
  }
  RankPacking packing;
  packing.staging.resize(base.size(), 0);
  for (const auto& [device, here] : by_device) {
    std::vector<int64_t> offsets;
    packing.staging[device] =
        Placer(here, PackingOptions().alignment, stop).Place(PeakOfLive(here), &offsets);
    RETURN_IF_ERROR(CheckStop(stop));
    for (size_t n = 0; n < here.size(); ++n) {
      plan::Register* reg = program->mutable_registers(index.PlaceOf(here[n]->ring, 0).reg);
      reg->add_slot_offsets(base[device] + offsets[n]);
    }
  }
  Offsets offsets;
  for (const Buffer& buffer : buffers) offsets.push_back(OffsetOf(index, buffer));
  RETURN_IF_ERROR(ReplaceReuseEdges(begin_rank, buffers, offsets, stop, program, &index));
  packing.index = std::move(index);
  return packing;
}

absl::Status CheckPacking(const plan::Program& program, const PackingOptions& options) {
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  return ProveBytes(index, certificate, options.base);
}

}  // namespace sluice
