#include "framework/runtime/stretches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/plan/kinds.h"

namespace sluice {
namespace {

// What a token is told late by, behind work of so many bytes or operations, is thought as of a card
// of 1.5 TB/s and 1e14 operations a second. A launch costs the host 3 to 5 us: of kernels that take
// less than that ten or so are given at once, those of a large model one or two.
constexpr int64_t kMostLateNanoseconds = 30'000;
int64_t NanosecondsOf(const plan::Instruction& instruction) {
  return instruction.bytes() / 1500 + instruction.flops() / 100'000;
}

// Cuts one stream's schedule. Where a cut has to be, and where it may not:
//
//   backward of layer 2   writes a gradient       | its reduction waits: soon after the writer
//   backward of layer 1   reads what is its own     no cut
//   backward of layer 1   writes a gradient         no cut: who had its bytes did so a step ago
//   update of layer 2     reads the reduced one   | before the reader
//
// To be late with an ack or a reuse edge costs the other stream time at worst, for nothing in the
// rest of a stretch waits for anybody but of an earlier step; so these cut nothing and are told at
// its end. A token waits for the end, too, if that is near: then its reader has nothing else to do.
class Cutter {
 public:
  Cutter(const ProgramIndex& index, int32_t stream) : index_(index), stream_(stream) {}

  void Add(const plan::ScheduleEntry& entry) {
    Begin(entry.actor(), entry.firing(), entry.from());
    for (int32_t i = entry.from(); i < entry.to(); ++i) {
      const int64_t own = VariantsOf(now_.actor, i);
      const int64_t joined = std::lcm(own, int64_t{now_.variants});
      const bool alone = own > kMostVariants || !CanBeKept(now_.actor, i);
      const Waits waits = WaitsOf(i);
      const int64_t takes = NanosecondsOf(index_.instruction(now_.actor, i));
      const bool late = tells_ && late_ + takes > kMostLateNanoseconds;
      if (alone || late || joined > kMostVariants || (i > now_.first && waits == Waits::kOfStep)) {
        Close(i);
        now_.variants = alone ? 1 : static_cast<int32_t>(own);
      } else {
        now_.variants = static_cast<int32_t>(joined);
        if (i > now_.first && waits == Waits::kOfEarlierSteps) now_.takers.push_back(i);
      }
      now_.end = i + 1;
      if (tells_) late_ += takes;
      tells_ = tells_ || Tells(now_.actor, now_.micro, i);
      if (alone) Close(i + 1);
    }
    Close(entry.to());
  }
  std::vector<Stretch> Take() { return std::move(stretches_); }

 private:
  // For other streams: for nothing, for what they did in earlier steps, or also for what they do in
  // the same one.
  enum class Waits { kForNothing, kOfEarlierSteps, kOfStep };

  void Begin(int32_t actor, int32_t micro, int32_t first) {
    now_ = {actor, micro, first, first};
    tells_ = false;
    late_ = 0;
  }
  void Close(int32_t next) {
    if (now_.end - now_.first > 1) stretches_.push_back(now_);
    Begin(now_.actor, now_.micro, next);
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

  // In any step: what waits for the first steps waits for later ones, too.
  Waits WaitsOf(int32_t i) const {
    const int64_t firings = index_.actor(now_.actor).firings;
    Waits found = Waits::kForNothing;
    for (int64_t step = kSettled; step < kSettled + kMostVariants; ++step) {
      index_.ForEachWait(
          now_.actor, step * firings + now_.micro, i, [&](const ProgramIndex::Wait& wait) {
            const ProgramIndex::Actor& of = index_.actor(wait.actor);
            if (of.stream == stream_) return;
            const bool earlier =
                wait.kind != ProgramIndex::WaitKind::kToken && wait.firing < step * of.firings;
            found = std::max(found, earlier ? Waits::kOfEarlierSteps : Waits::kOfStep);
          });
    }
    return found;
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
  Stretch now_;         // as far as it has come
  bool tells_ = false;  // another stream waits for a token of it
  int64_t late_ = 0;    // nanoseconds since
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
