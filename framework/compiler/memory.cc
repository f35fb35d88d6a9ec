#include "framework/compiler/memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/lifetimes.h"
#include "framework/plan/happens_before.h"
#include "framework/plan/proof.h"

namespace sluice {
namespace {

// Of the search for a tighter packing, once the quick ones have missed by more than a hundredth,
// and by more than a page.
constexpr int64_t kRetries = 400, kRetryWork = 200'000'000, kPage = 4096;

int64_t AlignUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Places the owners of one device.
class Placer {
 public:
  Placer(std::vector<const Owner*> owners, int64_t alignment)
      : owners_(std::move(owners)), words_((owners_.size() + 63) / 64), offset_(owners_.size()) {
    clashes_.resize(owners_.size() * words_);
    for (size_t n = 0; n < owners_.size(); ++n) {
      size_.push_back(AlignUp(owners_[n]->bytes, alignment));
      for (size_t m = 0; m < n; ++m) {
        if (!Clash(*owners_[n], *owners_[m])) continue;
        clashes_[n * words_ + m / 64] |= uint64_t{1} << (m % 64);
        clashes_[m * words_ + n / 64] |= uint64_t{1} << (n % 64);
        work_ += 16;
      }
    }
  }

  // The offsets of the best packing found, and its bytes.
  int64_t Place(int64_t lower_bound, std::vector<int64_t>* offsets) {
    const size_t n = owners_.size();
    std::vector<int> order(n), best_order;
    int64_t best = -1;
    auto keep_if_better = [&](bool best_fit) {
      const int64_t bytes = PlaceInOrder(order, best_fit);
      if (best >= 0 && bytes >= best) return;
      best = bytes;
      best_order = order;
      *offsets = offset_;
    };
    for (int key = 0; key < 4 && (best < 0 || best > lower_bound); ++key) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return KeyOf(a, key) > KeyOf(b, key); });
      keep_if_better(false);
      keep_if_better(true);
    }
    // What sticks out at the top goes first in the next try; in every other try two pairs of owners
    // change places, too. The draws are fixed, so every rank packs alike.
    const int64_t retries = n < 2 ? 0 : std::min(kRetries, kRetryWork / work_);
    uint64_t draw = 1;
    const auto below = [&draw](size_t bound) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      return static_cast<size_t>((draw >> 33) % bound);
    };
    order = best_order;
    const int64_t enough = lower_bound + std::max(lower_bound / 100, kPage);
    for (int64_t retry = 0; retry < retries && best > enough; ++retry) {
      if (retry % 8 == 7) order = best_order;
      int64_t top = 0;
      for (size_t a = 0; a < n; ++a) top = std::max(top, offset_[a] + size_[a]);
      std::stable_partition(order.begin(), order.end(),
                            [&](int a) { return offset_[a] + size_[a] == top; });
      for (int move = 0; move < (retry % 2 == 0 ? 0 : 2); ++move) {
        const size_t from = below(n), to = below(n);
        std::swap(order[from], order[to]);
      }
      keep_if_better(retry % 4 >= 2);
    }
    return std::max<int64_t>(best, 0);
  }

 private:
  using Key = std::tuple<int64_t, int64_t>;

  int64_t Span(int a) const {
    const Owner& x = *owners_[a];
    if (x.resident) return 1 << 30;
    int64_t ranks = 0;
    for (const Owner::Use& use : x.uses) ranks += use.end - use.begin + 1;
    return ranks;
  }

  Key KeyOf(int a, int key) const {
    const Owner& x = *owners_[a];
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

  int64_t PlaceInOrder(const std::vector<int>& order, bool best_fit) {
    int64_t bytes = 0;
    placed_.clear();
    for (int a : order) {
      const uint64_t* clashes = &clashes_[a * words_];
      int64_t at = 0, chosen = -1, room = 0;
      for (const Placed& b : placed_) {
        if (!(clashes[b.owner / 64] >> (b.owner % 64) & 1)) continue;
        if (b.begin - at >= size_[a] && (chosen < 0 || b.begin - at < room)) {
          chosen = at;
          room = b.begin - at;
          if (!best_fit) break;
        }
        at = std::max(at, b.end);
      }
      offset_[a] = chosen >= 0 ? chosen : at;
      const int64_t end = offset_[a] + size_[a];
      bytes = std::max(bytes, end);
      const auto behind =
          std::upper_bound(placed_.begin(), placed_.end(), offset_[a],
                           [](int64_t offset, const Placed& b) { return offset < b.begin; });
      placed_.insert(behind, {offset_[a], end, a});
    }
    return bytes;
  }

  struct Placed {
    int64_t begin, end;
    int owner;
  };

  std::vector<const Owner*> owners_;
  std::vector<int64_t> size_;
  size_t words_;                   // of a row of clashes_
  std::vector<uint64_t> clashes_;  // by owner, a bit an owner
  std::vector<int64_t> offset_;
  std::vector<Placed> placed_;  // ascending
  int64_t work_ = 1;            // of placing once, about
};

// Where each owner lies; absolute in its device's memory.
using Offsets = std::vector<int64_t>;

void WriteOffsets(const ProgramIndex& index, const std::vector<Owner>& owners,
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
  for (int n = 0; n < program->locals_size(); ++n) {
    program->mutable_locals(n)->set_offset(base(index.device_of(program->locals(n).actor())));
  }
  for (size_t n = 0; n < owners.size(); ++n) {
    const Owner& owner = owners[n];
    if (owner.local >= 0) {
      program->mutable_locals(owner.local)->set_offset(offsets[n]);
      continue;
    }
    const int32_t explicit_ring = index.ring(owner.ring).explicit_ring;
    if (explicit_ring >= 0) {
      program->mutable_rings(explicit_ring)->set_slot_offsets(owner.slot, offsets[n]);
    } else {
      program->mutable_registers(index.PlaceOf(owner.ring, 0).reg)
          ->set_slot_offsets(owner.slot, offsets[n]);
    }
  }
}

// One use of an owner's bytes, in the order in which a device's bytes are used.
struct Tenancy {
  const Owner* owner;
  const Owner::Use* use;
  int64_t begin, end;  // bytes
};

std::map<int32_t, std::vector<Tenancy>> TenanciesByDevice(const std::vector<Owner>& owners,
                                                          const Offsets& offsets) {
  std::map<int32_t, std::vector<Tenancy>> by_device;
  for (size_t n = 0; n < owners.size(); ++n) {
    for (const Owner::Use& use : owners[n].uses) {
      by_device[owners[n].device].push_back(
          {&owners[n], &use, offsets[n], offsets[n] + owners[n].bytes});
    }
  }
  for (auto& [device, tenancies] : by_device) {
    std::stable_sort(tenancies.begin(), tenancies.end(), [](const Tenancy& a, const Tenancy& b) {
      return a.use->begin < b.use->begin;
    });
  }
  return by_device;
}

using Handover = std::tuple<int32_t, int32_t, bool>;  // from event, to event, wraps

// Walks two steps and notes, for each tenancy, whom it has its bytes from directly. The last tenant
// of each byte stands in a map of ranges.
void FindHandovers(const std::vector<Tenancy>& tenancies, std::set<Handover>* handovers) {
  struct Tenant {
    int64_t end;
    const Tenancy* tenancy;
    int step;
  };
  std::map<int64_t, Tenant> last;  // by first byte
  auto split = [&last](int64_t at) {
    auto it = last.upper_bound(at);
    if (it == last.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    const Tenant right = it->second;
    it->second.end = at;
    last.emplace(at, right);
  };
  for (int step = 0; step < 2; ++step) {
    for (const Tenancy& tenancy : tenancies) {
      split(tenancy.begin);
      split(tenancy.end);
      auto it = last.lower_bound(tenancy.begin);
      while (it != last.end() && it->first < tenancy.end) {
        const Tenant& before = it->second;
        if (before.tenancy->owner != tenancy.owner && (step == 0 || before.step == 0)) {
          for (int32_t release : before.tenancy->use->releases) {
            handovers->insert({release, tenancy.use->first, step == 1});
          }
        }
        it = last.erase(it);
      }
      last.emplace(tenancy.begin, Tenant{tenancy.end, &tenancy, step});
    }
  }
}

int AddPasses(const ProgramIndex& index, absl::Span<const int32_t> rank,
              const std::vector<Owner>& owners, const Offsets& offsets, plan::Program* program) {
  std::set<Handover> handovers;
  for (const auto& [device, tenancies] : TenanciesByDevice(owners, offsets)) {
    FindHandovers(tenancies, &handovers);
  }
  const HappensBefore order(index, rank);
  int added = 0;
  std::vector<plan::Pass> passes;
  for (const auto& [from, to, wraps] : handovers) {
    if (order.Ordered(from, to, wraps)) continue;
    plan::Pass& pass = passes.emplace_back();
    const ProgramIndex::Event a = index.EventAt(from), b = index.EventAt(to);
    pass.mutable_after()->set_actor(a.actor);
    pass.mutable_after()->set_fire(a.fire);
    pass.mutable_after()->set_instruction(a.instruction);
    pass.mutable_before()->set_actor(b.actor);
    pass.mutable_before()->set_fire(b.fire);
    pass.mutable_before()->set_instruction(b.instruction);
    pass.set_wraps(wraps);
    ++added;
  }
  for (const plan::Pass& pass : passes) *program->add_passes() = pass;
  return added;
}

int NumDevices(const plan::Program& program, const std::vector<Owner>& owners,
               const PackingOptions& options) {
  int devices = static_cast<int>(options.base.size());
  for (const plan::Stream& stream : program.streams()) {
    devices = std::max(devices, stream.device() + 1);
  }
  for (const Owner& owner : owners) devices = std::max(devices, owner.device + 1);
  return devices;
}

}  // namespace

absl::StatusOr<Packing> PackMemory(plan::Program* program, const PackingOptions& options) {
  program->clear_passes();
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  ASSIGN_OR_RETURN(const ClockResult run, RunClock(index));
  ASSIGN_OR_RETURN(const std::vector<Owner> owners,
                   FindOwners(index, run.begin_rank, run.end_rank));
  Packing packing;
  packing.devices.resize(NumDevices(*program, owners, options));
  Offsets offsets(owners.size(), 0);
  for (size_t device = 0; device < packing.devices.size(); ++device) {
    std::vector<const Owner*> here;
    std::vector<size_t> which;
    PackedDevice& bytes = packing.devices[device];
    for (size_t n = 0; n < owners.size(); ++n) {
      if (owners[n].device != static_cast<int>(device)) continue;
      here.push_back(&owners[n]);
      which.push_back(n);
      bytes.unshared += owners[n].bytes;
    }
    bytes.live = PeakOfLive(here);
    std::vector<int64_t> placed;
    bytes.packed = Placer(here, options.alignment).Place(bytes.live, &placed);
    const int64_t base = device < options.base.size() ? options.base[device] : 0;
    for (size_t n = 0; n < which.size(); ++n) offsets[which[n]] = base + placed[n];
  }
  WriteOffsets(index, owners, offsets, options, program);
  packing.passes = AddPasses(index, run.begin_rank, owners, offsets, program);
  return packing;
}

namespace {

int64_t OffsetOf(const ProgramIndex& index, const Owner& owner) {
  if (owner.local >= 0) return index.program().locals(owner.local).offset();
  return index.SlotOffset(index.PlaceOf(owner.ring, 0).reg, owner.slot);
}

std::string NameOf(const ProgramIndex& index, const Owner& owner) {
  if (owner.local >= 0) {
    return absl::StrCat("local ", owner.local, " of ",
                        index.ActorName(index.program().locals(owner.local).actor()));
  }
  return absl::StrCat("slot ", owner.slot, " of ",
                      index.RegisterName(index.PlaceOf(owner.ring, 0).reg));
}

// The uses of two owners of the same bytes, in turn: each hand-over must be forced.
absl::Status CheckPair(const ProgramIndex& index, const HappensBefore& order, const Owner& a,
                       const Owner& b) {
  auto error = [&](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("program \"", index.program().name(), "\", device ", a.device, ": ",
                     NameOf(index, a), " and ", NameOf(index, b), " share bytes and ", what));
  };
  if (a.resident || b.resident) return error("one of them lives across steps");
  std::vector<std::pair<const Owner::Use*, const Owner*>> uses;
  for (const Owner* owner : {&a, &b}) {
    for (const Owner::Use& use : owner->uses) uses.push_back({&use, owner});
  }
  std::sort(uses.begin(), uses.end(),
            [](const auto& x, const auto& y) { return x.first->begin < y.first->begin; });
  for (size_t n = 0; n < uses.size(); ++n) {
    const bool wraps = n + 1 == uses.size();
    const auto& next = uses[wraps ? 0 : n + 1];
    if (next.second == uses[n].second) continue;
    if (!wraps && next.first->begin <= uses[n].first->end) return error("are live at one time");
    for (int32_t release : uses[n].first->releases) {
      if (order.OrderedExactly(release, next.first->first, wraps)) continue;
      const ProgramIndex::Event from = index.EventAt(release),
                                to = index.EventAt(next.first->first);
      return error(absl::StrCat("nothing makes ", index.Describe(to.actor, to.fire, to.instruction),
                                " wait for ",
                                index.Describe(from.actor, from.fire, from.instruction)));
    }
  }
  return {};
}

}  // namespace

absl::Status AddPasses(plan::Program* program, absl::Span<const int32_t> begin_rank,
                       absl::Span<const int32_t> end_rank) {
  program->clear_passes();
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  ASSIGN_OR_RETURN(const std::vector<Owner> owners, FindOwners(index, begin_rank, end_rank));
  Offsets offsets;
  for (const Owner& owner : owners) offsets.push_back(OffsetOf(index, owner));
  AddPasses(index, begin_rank, owners, offsets, program);
  return absl::OkStatus();
}

absl::Status CheckPacking(const plan::Program& program, const PackingOptions& options) {
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  ASSIGN_OR_RETURN(const std::vector<Owner> owners,
                   FindOwners(index, certificate.position, certificate.position));
  const HappensBefore order(index, certificate.position);
  std::vector<size_t> sorted(owners.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::vector<int64_t> offset;
  for (const Owner& owner : owners) {
    offset.push_back(OffsetOf(index, owner));
    if (owner.device >= static_cast<int>(options.base.size()) ||
        offset.back() >= options.base[owner.device]) {
      continue;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("program \"", program.name(), "\": ", NameOf(index, owner), " lies at ",
                     offset.back(), " of device ", owner.device, ", among its variables"));
  }
  std::sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) {
    return std::tie(owners[a].device, offset[a]) < std::tie(owners[b].device, offset[b]);
  });
  for (size_t n = 0; n < sorted.size(); ++n) {
    const Owner& a = owners[sorted[n]];
    for (size_t m = n + 1; m < sorted.size(); ++m) {
      const Owner& b = owners[sorted[m]];
      if (b.device != a.device || offset[sorted[m]] >= offset[sorted[n]] + a.bytes) break;
      RETURN_IF_ERROR(CheckPair(index, order, a, b));
    }
  }
  return {};
}

}  // namespace sluice
