// For example, of two micro-batches, the order on one stream, and who lies where:
//
//     F0: x0 = matmul(..)  y0 = relu(x0)    F1: x1 = matmul(..)  y1 = relu(x1)    B0: reads y0  B1
//
// Nobody reads x0 once relu has, so y0 may lie where it lay: x and y are a chain, from F0's first
// instruction to the end of whoever reads y last, B0. But with one slot x1 would lie there, too,
// and is made before B0: x and y stay apart. With a slot for each micro-batch, or in the order F0
// B0 F1 B1, they lie in the same bytes, firing by firing.
#include "framework/compiler/take_inputs.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/plan/happens_before.h"
#include "framework/plan/takes.h"

namespace sluice {
namespace {

// Instances looked at for whether a reader is done. It mostly is by the order of one stream, which
// is told at once; an input that is not taken is only memory.
constexpr int64_t kLookedAt = 4096;

using Storage = std::pair<bool, int32_t>;  // is it a temporary, and which; else a register

Storage StorageOf(const plan::Operand& x) {
  const bool temporary = x.storage_case() == plan::Operand::kTemporary;
  return {temporary, temporary ? x.temporary() : x.register_()};
}

// What lies in the same bytes, one after the other, by firing of a step: the ranks at which the
// first of it is begun to be written, and at which the last has been read.
struct Chain {
  std::vector<int32_t> begin, end;
  std::vector<Storage> members;
};

class Taker {
 public:
  Taker(const ProgramIndex& index, absl::Span<const int32_t> begin_rank,
        absl::Span<const int32_t> end_rank)
      : index_(index), begin_(begin_rank), end_(end_rank), order_(index, begin_rank) {
    uses_.resize(index.program().temporaries_size(), {-1, -1});
    for (int a = 0; a < index.num_actors(); ++a) {
      for (int i = 0; i < index.actor(a).length; ++i) FindUses(index.instruction(a, i), i);
    }
  }

  // Lets an output of the instruction lie where the input does, if it can.
  bool Take(int a, int i, const plan::Operand& input, const plan::Operand& output) {
    if (!ReadsLast(a, i, input)) return false;
    const Chain &before = ChainOf(a, input), &after = ChainOf(a, output);
    Chain chain = {before.begin, after.end, before.members};
    chain.members.insert(chain.members.end(), after.members.begin(), after.members.end());
    // The next of the same slot must not begin while the last of this one is alive.
    const size_t slots = StorageSlots(index_, input);
    for (size_t f = slots; f < chain.begin.size(); ++f) {
      if (chain.begin[f] <= chain.end[f - slots]) return false;
    }
    const auto whole = std::make_shared<const Chain>(std::move(chain));
    for (const Storage& member : whole->members) chains_[member] = whole;
    return true;
  }

 private:
  void FindUses(const plan::Instruction& x, int i) {
    for (const auto* operands : {&x.inputs(), &x.outputs()}) {
      for (const plan::Operand& operand : *operands) {
        if (operand.storage_case() != plan::Operand::kTemporary) continue;
        auto& [first, last] = uses_[operand.temporary()];
        if (first < 0) first = i;
        last = i;
      }
    }
  }

  // Whether all who read the input have ended before any firing of the instruction begins, but for
  // the instruction, which reads it last.
  bool ReadsLast(int a, int i, const plan::Operand& input) {
    if (input.storage_case() == plan::Operand::kTemporary) {
      return uses_[input.temporary()].second == i;
    }
    for (int64_t firing = 0; firing < index_.actor(a).firings; ++firing) {
      const int32_t reader = index_.InstanceOf(a, firing, i);
      bool last = false, alone = true;
      index_.ForEachRelease(input.register_(), firing, [&](int32_t other, int64_t f, int32_t at) {
        const int32_t release = index_.InstanceOf(other, f, at);
        last = last || release == reader;
        alone = alone &&
                (release == reader || order_.Ordered(release, reader, /*wraps=*/false, kLookedAt));
      });
      if (!last || !alone) return false;
    }
    return true;
  }

  // Of an operand of actor a; of it alone where it is asked for the first time.
  const Chain& ChainOf(int a, const plan::Operand& x) {
    std::shared_ptr<const Chain>& known = chains_[StorageOf(x)];
    if (known != nullptr) return *known;
    Chain chain;
    chain.members = {StorageOf(x)};
    for (int64_t f = 0; f < index_.actor(a).firings; ++f) {
      if (x.storage_case() == plan::Operand::kTemporary) {
        const auto [first, last] = uses_[x.temporary()];
        chain.begin.push_back(begin_[index_.InstanceOf(a, f, first)]);
        chain.end.push_back(end_[index_.InstanceOf(a, f, last)]);
        continue;
      }
      const ProgramIndex::Register& reg = index_.reg(x.register_());
      chain.begin.push_back(begin_[index_.InstanceOf(reg.producer, f, reg.first_write)]);
      chain.end.push_back(end_[index_.InstanceOf(reg.producer, f, reg.last_write)]);
      index_.ForEachRelease(x.register_(), f, [&](int32_t other, int64_t firing, int32_t at) {
        chain.end.back() = std::max(chain.end.back(), end_[index_.InstanceOf(other, firing, at)]);
      });
    }
    known = std::make_shared<const Chain>(std::move(chain));
    return *known;
  }

  const ProgramIndex& index_;
  absl::Span<const int32_t> begin_, end_;
  HappensBefore order_;
  std::vector<std::pair<int, int>> uses_;  // by temporary: its actor's first and last instruction
  std::map<Storage, std::shared_ptr<const Chain>> chains_;
};

bool SameType(const plan::Operand& x, const plan::Operand& y) {
  const auto &a = x.shard(), &b = y.shard();
  return a.dtype() == b.dtype() &&
         std::equal(a.local().begin(), a.local().end(), b.local().begin(), b.local().end());
}

// Sets what the outputs of one instruction take. Calls of one launch run at once, so each takes its
// own inputs alone; an input goes once.
void TakeFor(const ProgramIndex& index, int a, int i, const TakeOptions& options, Taker* taker,
             plan::Instruction* x) {
  const int calls = std::max(1, x->calls());
  const int inputs = x->inputs_size() / calls, outputs = x->outputs_size() / calls;
  std::vector<bool> taken(x->inputs_size());
  for (int output = 0; output < x->outputs_size(); ++output) {
    const int first = output / outputs * inputs;
    for (int input = first; input < first + inputs; ++input) {
      const plan::Operand &from = x->inputs(input), &to = x->outputs(output);
      if (taken[input] || !options.in_place(x->op(), static_cast<size_t>(input - first))) continue;
      if (StorageBytes(index.program(), from) < options.least || !SameType(from, to)) continue;
      if (!CheckTakes(index, a, i, output, input).ok() || !taker->Take(a, i, from, to)) continue;
      x->mutable_outputs(output)->set_takes(input + 1);
      taken[input] = true;
      break;
    }
  }
}

}  // namespace

absl::Status TakeInputs(const ProgramIndex& index, absl::Span<const int32_t> begin_rank,
                        absl::Span<const int32_t> end_rank, const TakeOptions& options,
                        const Stop& stop, plan::Program* program) {
  if (options.in_place == nullptr) return absl::OkStatus();
  for (plan::Actor& actor : *program->mutable_actors()) {
    for (plan::Instruction& x : *actor.mutable_script()) {
      for (plan::Operand& output : *x.mutable_outputs()) output.clear_takes();
    }
  }
  Taker taker(index, begin_rank, end_rank);
  for (int a = 0; a < program->actors_size(); ++a) {
    RETURN_IF_ERROR(CheckStop(stop));
    for (int i = 0; i < program->actors(a).script_size(); ++i) {
      plan::Instruction* x = program->mutable_actors(a)->mutable_script(i);
      if (x->kind() == plan::INSTRUCTION_KERNEL) TakeFor(index, a, i, options, &taker, x);
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
