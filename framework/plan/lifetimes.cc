#include "framework/plan/lifetimes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/takes.h"

namespace sluice {
namespace {

class Finder {
 public:
  Finder(const ProgramIndex& index, absl::Span<const int32_t> begin, absl::Span<const int32_t> end)
      : index_(index), begin_(begin), end_(end) {}

  absl::StatusOr<std::vector<Buffer>> Find() {
    for (int q = 0; q < index_.num_rings(); ++q) AddRing(q);
    RETURN_IF_ERROR(AddTemporaries());
    AddTakes();
    AddScratch();
    for (Buffer& buffer : buffers_) {
      std::sort(buffer.uses.begin(), buffer.uses.end(),
                [](const Buffer::Use& a, const Buffer::Use& b) { return a.begin < b.begin; });
    }
    return std::move(buffers_);
  }

 private:
  void AddRing(int q) {
    const ProgramIndex::Ring& ring = index_.ring(q);
    int64_t bytes = 0;
    bool resident = false;
    int64_t takes = 0;  // of a step
    const int32_t first = index_.PlaceOf(q, 0).reg;
    if (!index_.program().registers(first).variable().empty()) return;
    for (int32_t j = 0; j < ring.places; ++j) {
      const int32_t r = index_.PlaceOf(q, j).reg;
      const ProgramIndex::Register& x = index_.reg(r);
      bytes = std::max<int64_t>(bytes, index_.program().registers(r).bytes());
      resident = resident || x.initial > 0 || x.producer < 0;
      takes += ring.explicit_ring >= 0 ? 1 : x.tokens;
    }
    if (bytes == 0) return;
    resident = resident || takes % ring.slots != 0;
    const size_t base = buffers_.size();
    of_ring_[q] = static_cast<int32_t>(base);
    for (int32_t slot = 0; slot < ring.slots; ++slot) {
      Buffer& buffer = buffers_.emplace_back();
      buffer.device = index_.program().registers(first).device();
      buffer.bytes = bytes;
      buffer.ring = q;
      buffer.slot = slot;
      buffer.resident = resident;
    }
    if (resident) return;
    for (int64_t sequence = 0; sequence < takes; ++sequence) {
      buffers_[base + sequence % ring.slots].uses.push_back(UseOf(index_.TokenAt(q, sequence)));
    }
  }

  Buffer::Use UseOf(const ProgramIndex::Token& token) const {
    const ProgramIndex::Register& x = index_.reg(token.reg);
    Buffer::Use use;
    use.first = index_.InstanceOf(x.producer, token.token * x.every, x.first_write);
    use.begin = begin_[use.first];
    use.end = end_[index_.InstanceOf(x.producer, (token.token + 1) * x.every - 1, x.last_write)];
    index_.ForEachRelease(token.reg, token.token, [&](int32_t a, int64_t firing, int32_t i) {
      use.releases.push_back(index_.InstanceOf(a, firing, i));
      use.end = std::max(use.end, end_[use.releases.back()]);
    });
    return use;
  }

  absl::Status AddTemporaries() {
    const plan::Program& program = index_.program();
    std::vector<std::pair<int32_t, int32_t>> used(program.temporaries_size(), {-1, -1});
    for (int a = 0; a < index_.num_actors(); ++a) {
      for (int i = 0; i < index_.actor(a).length; ++i) {
        const plan::Instruction& x = index_.instruction(a, i);
        for (const auto* operands : {&x.inputs(), &x.outputs()}) {
          for (const plan::Operand& operand : *operands) {
            if (operand.storage_case() != plan::Operand::kTemporary) continue;
            if (program.temporaries(operand.temporary()).actor() != a) {
              return absl::InvalidArgumentError(
                  absl::StrCat("program \"", program.name(), "\": ", index_.Describe(a, 0, i),
                               " uses temporary ", operand.temporary(), " of another actor"));
            }
            auto& range = used[operand.temporary()];
            if (range.first < 0) range.first = i;
            range.second = i;
          }
        }
      }
    }
    for (int n = 0; n < program.temporaries_size(); ++n) {
      if (used[n].first < 0 || program.temporaries(n).bytes() == 0) continue;
      const int a = program.temporaries(n).actor();
      of_temporary_[n] = static_cast<int32_t>(buffers_.size());
      Buffer& buffer = buffers_.emplace_back();
      buffer.device = index_.device_of(a);
      buffer.bytes = program.temporaries(n).bytes();
      buffer.local = n;
      for (int f = 0; f < index_.actor(a).firings; ++f) {
        const int32_t first = index_.InstanceOf(a, f, used[n].first);
        const int32_t last = index_.InstanceOf(a, f, used[n].second);
        buffer.uses.push_back({begin_[first], end_[last], first, {last}});
      }
    }
    return {};
  }

  // The buffer of an operand's first slot; those of the others follow it. -1: it has none.
  int32_t BufferOf(const plan::Operand& operand) const {
    if (operand.storage_case() == plan::Operand::kRegister) {
      const auto found = of_ring_.find(index_.reg(operand.register_()).ring);
      return found == of_ring_.end() ? -1 : found->second;
    }
    const auto found = of_temporary_.find(operand.temporary());
    return found == of_temporary_.end() ? -1 : found->second;
  }

  void AddTakes() {
    for (int a = 0; a < index_.num_actors(); ++a) {
      for (int i = 0; i < index_.actor(a).length; ++i) {
        const plan::Instruction& x = index_.instruction(a, i);
        for (int output = 0; output < x.outputs_size(); ++output) {
          if (x.outputs(output).takes() > 0) AddTake(a, i, output, x.outputs(output).takes() - 1);
        }
      }
    }
  }

  // Before the instruction begins, what it takes is nobody's any more. Others' reads are over by
  // then: whoever places bytes sees to it, as of every reuse.
  void AddTake(int a, int i, int output, int input) {
    if (!CheckTakes(index_, a, i, output, input).ok()) return;
    const plan::Instruction& x = index_.instruction(a, i);
    const int32_t from = BufferOf(x.inputs(input)), to = BufferOf(x.outputs(output));
    if (from < 0) return;  // a shard without elements
    const int32_t slots = StorageSlots(index_, x.inputs(input));
    for (int32_t slot = 0; slot < slots; ++slot) {
      buffers_[to + slot].takes = from + slot;
      std::vector<Buffer::Use>& uses = buffers_[from + slot].uses;
      for (size_t n = 0; n < uses.size(); ++n) {
        const auto firing = static_cast<int64_t>(n) * slots + slot;
        uses[n].end = begin_[index_.InstanceOf(a, firing, i)] - 1;
      }
    }
  }

  void AddScratch() {
    for (int a = 0; a < index_.num_actors(); ++a) {
      for (int i = 0; i < index_.actor(a).length; ++i) {
        const plan::Instruction& x = index_.instruction(a, i);
        if (!x.has_scratch_offset() || x.scratch() == 0) continue;
        Buffer& buffer = buffers_.emplace_back();
        buffer.device = index_.device_of(a);
        buffer.bytes = x.scratch();
        buffer.actor = a;
        buffer.instruction = i;
        for (int f = 0; f < index_.actor(a).firings; ++f) {
          const int32_t at = index_.InstanceOf(a, f, i);
          buffer.uses.push_back({begin_[at], end_[at], at, {at}});
        }
      }
    }
  }

  const ProgramIndex& index_;
  absl::Span<const int32_t> begin_, end_;
  std::vector<Buffer> buffers_;
  std::map<int32_t, int32_t> of_ring_, of_temporary_;  // their first buffers
};

// One use of a buffer's bytes.
struct LiveRange {
  int32_t buffer;
  const Buffer::Use* use;
  int64_t begin, end;  // bytes
};

// Live ranges by device, in the order in which its bytes are used.
std::map<int32_t, std::vector<LiveRange>> LiveRangesByDevice(absl::Span<const Buffer> buffers,
                                                             absl::Span<const int64_t> offsets) {
  std::map<int32_t, std::vector<LiveRange>> by_device;
  for (size_t n = 0; n < buffers.size(); ++n) {
    for (const Buffer::Use& use : buffers[n].uses) {
      by_device[buffers[n].device].push_back(
          {static_cast<int32_t>(n), &use, offsets[n], offsets[n] + buffers[n].bytes});
    }
  }
  for (auto& [device, live_ranges] : by_device) {
    std::stable_sort(
        live_ranges.begin(), live_ranges.end(),
        [](const LiveRange& a, const LiveRange& b) { return a.use->begin < b.use->begin; });
  }
  return by_device;
}

// Walks two steps and notes, for each live range, whom it has its bytes from directly. The last
// holder of each byte stands in a map of ranges.
void FindReuses(const std::vector<LiveRange>& live_ranges, std::vector<Reuse>* reuses) {
  struct Holder {
    int64_t end;
    const LiveRange* live_range;
    int step;
  };
  absl::btree_map<int64_t, Holder> last;  // by first byte
  auto split = [&last](int64_t at) {
    auto it = last.upper_bound(at);
    if (it == last.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    const Holder right = it->second;
    it->second.end = at;
    last.emplace(at, right);
  };
  for (int step = 0; step < 2; ++step) {
    for (const LiveRange& live_range : live_ranges) {
      split(live_range.begin);
      split(live_range.end);
      auto it = last.lower_bound(live_range.begin);
      while (it != last.end() && it->first < live_range.end) {
        const Holder& before = it->second;
        if (before.live_range->buffer != live_range.buffer && (step == 0 || before.step == 0)) {
          reuses->push_back({before.live_range->buffer, live_range.buffer, before.live_range->use,
                             live_range.use, step == 1});
        }
        it = last.erase(it);
      }
      last.emplace(live_range.begin, Holder{live_range.end, &live_range, step});
    }
  }
}

}  // namespace

int64_t OffsetOf(const ProgramIndex& index, const Buffer& buffer) {
  if (buffer.local >= 0) return index.program().temporaries(buffer.local).offset();
  if (buffer.actor >= 0) {
    return index.instruction(buffer.actor, buffer.instruction).scratch_offset();
  }
  return index.SlotOffset(index.PlaceOf(buffer.ring, 0).reg, buffer.slot);
}

std::string Describe(const ProgramIndex& index, const Buffer& buffer) {
  if (buffer.local >= 0) {
    return absl::StrCat("temporary ", buffer.local, " of ",
                        index.ActorName(index.program().temporaries(buffer.local).actor()));
  }
  if (buffer.actor >= 0) {
    return absl::StrCat("scratch of ", index.Describe(buffer.actor, 0, buffer.instruction));
  }
  return absl::StrCat("slot ", buffer.slot, " of ",
                      index.RegisterName(index.PlaceOf(buffer.ring, 0).reg));
}

std::vector<Reuse> FindReuses(absl::Span<const Buffer> buffers, absl::Span<const int64_t> offsets) {
  std::vector<Reuse> reuses;
  for (const auto& [device, live_ranges] : LiveRangesByDevice(buffers, offsets)) {
    FindReuses(live_ranges, &reuses);
  }
  return reuses;
}

absl::StatusOr<std::vector<Buffer>> FindBuffers(const ProgramIndex& index,
                                                absl::Span<const int32_t> begin_rank,
                                                absl::Span<const int32_t> end_rank) {
  return Finder(index, begin_rank, end_rank).Find();
}

bool Clash(const Buffer& a, const Buffer& b) {
  if (a.resident || b.resident) return true;
  auto x = a.uses.begin();
  auto y = b.uses.begin();
  while (x != a.uses.end() && y != b.uses.end()) {
    if (x->end < y->begin) {
      ++x;
    } else if (y->end < x->begin) {
      ++y;
    } else {
      return true;
    }
  }
  return false;
}

int64_t PeakOfLive(absl::Span<const Buffer* const> buffers, int64_t alignment) {
  int64_t live = 0;
  std::vector<std::pair<int32_t, int64_t>> change;  // what begins at a rank comes before what ends
  for (const Buffer* buffer : buffers) {
    const int64_t bytes = (buffer->bytes + alignment - 1) / alignment * alignment;
    if (buffer->resident) live += bytes;
    for (const Buffer::Use& use : buffer->uses) {
      change.push_back({2 * use.begin, bytes});
      change.push_back({2 * use.end + 1, -bytes});
    }
  }
  std::sort(change.begin(), change.end());
  int64_t peak = live;
  for (const auto& [rank, bytes] : change) peak = std::max(peak, live += bytes);
  return peak;
}

}  // namespace sluice
