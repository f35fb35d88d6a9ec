#include "framework/runtime/stretches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/plan/kinds.h"

namespace sluice {
namespace {

// Cuts one stream's schedule. Where a cut has to be:
//
//   backward of layer 2   writes a gradient       | the reduction waits for it: after the writer
//   backward of layer 1   reads what is its own     no cut
//   update of layer 2     reads the reduced one   | before the reader
//
// To be late with an ack or a reuse edge costs the other stream time at worst, for nothing in the
// rest of a stretch waits for anybody; so these cut nothing and are told at its end.
class Cutter {
 public:
  Cutter(const ProgramIndex& index, int32_t stream) : index_(index), stream_(stream) {}

  void Add(const plan::ScheduleEntry& entry) {
    Stretch now;
    now.actor = entry.actor();
    now.micro = entry.firing();
    now.first = now.end = entry.from();
    for (int32_t i = entry.from(); i < entry.to(); ++i) {
      const int64_t own = VariantsOf(now.actor, i);
      const int64_t joined = std::lcm(own, int64_t{now.variants});
      const bool alone = own > kMostVariants || !CanBeKept(now.actor, i);
      if (alone || joined > kMostVariants || (i > now.first && Waits(now.actor, now.micro, i))) {
        Close(&now, i);
        now.variants = alone ? 1 : static_cast<int32_t>(own);
      } else {
        now.variants = static_cast<int32_t>(joined);
      }
      now.end = i + 1;
      if (alone || Tells(now.actor, now.micro, i)) Close(&now, i + 1);
    }
    Close(&now, entry.to());
  }
  std::vector<Stretch> Take() { return std::move(stretches_); }

 private:
  void Close(Stretch* now, int32_t next) {
    if (now->end - now->first > 1) stretches_.push_back(*now);
    now->first = now->end = next;
    now->variants = 1;
  }

  bool CanBeKept(int32_t actor, int32_t i) const {
    const plan::InstructionKind kind = index_.instruction(actor, i).kind();
    return NeedsKernel(kind) && kind != plan::INSTRUCTION_COLLECTIVE;
  }

  // After how many steps all its operands lie where they lay. Token t + places of a register is
  // `ring.places` sequence numbers on, and a slot is a sequence number modulo the slots.
  int64_t VariantsOf(int32_t actor, int32_t i) const {
    const int64_t firings = index_.actor(actor).firings;
    int64_t variants = 1;
    for (const ProgramIndex::OperandUse& use : index_.Operands(actor, i)) {
      if (use.reg < 0) continue;
      const ProgramIndex::Register& x = index_.reg(use.reg);
      const ProgramIndex::Ring& ring = index_.ring(x.ring);
      const int64_t rounds = ring.slots / std::gcd(ring.slots, x.alone ? 1 : ring.places);
      const int64_t tokens = rounds * (x.alone ? 1 : x.places);
      const int64_t period = tokens * std::max(use.divisor, 1);
      variants = std::lcm(variants, period / std::gcd(period, firings));
      if (variants > kMostVariants) break;
    }
    return variants;
  }

  // For another stream, in any step: what waits for the first steps waits for later ones, too.
  bool Waits(int32_t actor, int32_t micro, int32_t i) const {
    const int64_t firings = index_.actor(actor).firings;
    bool waits = false;
    for (int64_t step = kSettled; step < kSettled + kMostVariants && !waits; ++step) {
      index_.ForEachWait(actor, step * firings + micro, i, [&](const ProgramIndex::Wait& wait) {
        waits = waits || index_.actor(wait.actor).stream != stream_;
      });
    }
    return waits;
  }

  bool Tells(int32_t actor, int32_t micro, int32_t i) const {
    const int64_t firings = index_.actor(actor).firings;
    for (const int32_t r : index_.Emits(actor, i)) {
      const ProgramIndex::Register& x = index_.reg(r);
      if (firings % x.every == 0 && (micro + 1) % x.every != 0) continue;
      for (int32_t n = x.consumers_begin; n < x.consumers_end; ++n) {
        if (index_.actor(index_.consumer(n).actor).stream != stream_) return true;
      }
    }
    return false;
  }

  // A step in which every token, slot and reuse edge is of a firing that has been.
  static constexpr int64_t kSettled = 1 << 20;

  const ProgramIndex& index_;
  const int32_t stream_;
  std::vector<Stretch> stretches_;
};

}  // namespace

std::vector<Stretch> FindStretches(const ProgramIndex& index, int32_t stream) {
  Cutter cutter(index, stream);
  for (const plan::ScheduleEntry& entry : index.program().streams(stream).order()) {
    cutter.Add(entry);
  }
  return cutter.Take();
}

}  // namespace sluice
