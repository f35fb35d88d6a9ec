#include "framework/testing/symbolic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "framework/base/log.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

int64_t Mod(int64_t value) { return ((value % kSymbolicPrime) + kSymbolicPrime) % kSymbolicPrime; }

class Reference {
 public:
  Reference(const ProgramIndex& index, const SymbolicState& initial)
      : index_(index), initial_(initial), temporaries_(index.program().temporaries_size(), 0) {}

  void KernelContext(int a, int64_t firing, int i) {
    const plan::Instruction& x = index_.instruction(a, i);
    const SymbolicOp op = SymbolicOp::Of(x);
    std::vector<int64_t> inputs = Inputs(a, firing, i);
    int64_t value = 0;
    if (const int32_t c = index_.CollectiveOf(a, i); c >= 0) {
      for (const ProgramIndex::Member& m : index_.Members(c)) {
        for (int64_t v : Inputs(m.actor, firing, m.instruction)) value += v;
      }
      value = Mod(value);
    } else {
      value = op.Evaluate(firing, inputs);
    }
    if (op.kind == SymbolicOp::Kind::kLog) {
      outcome_.log.push_back({index_.program().actors(a).name(), firing, i, std::move(inputs)});
    }
    const auto operands = index_.Operands(a, i);
    std::vector<int32_t> written;
    for (size_t n = 0; n < operands.size(); ++n) {
      const bool is_input = static_cast<int>(n) < x.inputs_size();
      const plan::Operand& operand = is_input ? x.inputs(static_cast<int>(n))
                                              : x.outputs(static_cast<int>(n) - x.inputs_size());
      if (is_input && !operand.updates()) continue;
      const ProgramIndex::OperandUse& use = operands[n];
      if (use.reg < 0) {
        temporaries_[operand.temporary()] =
            is_input ? Updated(op, temporaries_[operand.temporary()], value) : value;
        continue;
      }
      if (std::find(written.begin(), written.end(), use.reg) != written.end()) continue;
      written.push_back(use.reg);
      const ProgramIndex::Register& r = index_.reg(use.reg);
      const int64_t token = firing / use.divisor + use.offset;
      const bool first = i == r.first_write && firing % r.every == 0;
      int64_t old = Token(use.reg, token);
      if (first) old = r.initial > 0 ? Token(use.reg, token - 1) : 0;
      tokens_[{use.reg, token}] = is_input ? Updated(op, old, value) : value;
    }
  }

  SymbolicOutcome Finish(int steps) {
    std::sort(outcome_.log.begin(), outcome_.log.end());
    for (int r = 0; r < index_.num_registers(); ++r) {
      const ProgramIndex::Register& x = index_.reg(r);
      if (x.initial == 0 || x.producer < 0) continue;
      outcome_.state[index_.program().registers(r).name()] =
          Token(r, x.initial - 1 + static_cast<int64_t>(steps) * x.tokens);
    }
    return std::move(outcome_);
  }

 private:
  int64_t Token(int32_t r, int64_t token) const {
    const ProgramIndex::Register& x = index_.reg(r);
    if (x.producer >= 0 && token >= x.initial) {
      auto it = tokens_.find({r, token});
      return it == tokens_.end() ? 0 : it->second;
    }
    auto it = initial_.find(index_.program().registers(r).name());
    return it == initial_.end() ? 0 : it->second;
  }

  std::vector<int64_t> Inputs(int a, int64_t firing, int i) const {
    const plan::Instruction& x = index_.instruction(a, i);
    const auto operands = index_.Operands(a, i);
    std::vector<int64_t> inputs;
    for (int n = 0; n < x.inputs_size(); ++n) {
      if (x.inputs(n).updates()) continue;
      const ProgramIndex::OperandUse& use = operands[n];
      inputs.push_back(use.reg < 0 ? temporaries_[x.inputs(n).temporary()]
                                   : Token(use.reg, firing / use.divisor + use.offset));
    }
    return inputs;
  }

  const ProgramIndex& index_;
  const SymbolicState& initial_;
  std::vector<int64_t> temporaries_;
  std::map<std::pair<int32_t, int64_t>, int64_t> tokens_;
  SymbolicOutcome outcome_;
};

}  // namespace

SymbolicOp SymbolicOp::Of(const plan::Instruction& instruction) {
  static constexpr std::pair<const char*, Kind> kKinds[] = {
      {"feed", Kind::kFeed}, {"copy", Kind::kCopy}, {"add", Kind::kSum},   {"sum", Kind::kSum},
      {"mul", Kind::kMul},   {"sq", Kind::kSquare}, {"clip", Kind::kClip}, {"log", Kind::kLog}};
  SymbolicOp op;
  for (const auto& [name, kind] : kKinds) {
    if (InstructionName(instruction) == name) op.kind = kind;
  }
  for (absl::string_view word : absl::StrSplit(instruction.attributes(), ' ', absl::SkipEmpty())) {
    int64_t constant = 0;
    if (word == "subtract") op.subtract = true;
    if (absl::SimpleAtoi(word, &constant)) op.constants.push_back(constant);
  }
  return op;
}

int64_t SymbolicOp::Evaluate(int64_t firing, const std::vector<int64_t>& inputs) const {
  int64_t sum = 0, product = 1, mix = 7 * firing, weight = 2;
  for (const std::vector<int64_t>* values : {&inputs, &constants}) {
    for (int64_t v : *values) {
      sum = Mod(sum + v);
      product = Mod(product * Mod(v));
      mix = Mod(mix + weight++ * v);
    }
  }
  switch (kind) {
    case Kind::kFeed:
      return Mod((constants.empty() ? 0 : constants[0]) + 3 * firing);
    case Kind::kCopy:
      return inputs.empty() ? sum : inputs[0];
    case Kind::kSum:
      return sum;
    case Kind::kMul:
      return product;
    case Kind::kSquare:
      return inputs.empty() ? 0 : Mod(inputs[0] * inputs[0]);
    case Kind::kClip:
      return 1 + sum % 7;
    case Kind::kLog:
      return 0;
    case Kind::kMix:
      return Mod(mix);
  }
  return 0;
}

int64_t Updated(const SymbolicOp& op, int64_t old, int64_t added) {
  return Mod(op.subtract ? old - added : old + added);
}

SymbolicOutcome RunReference(const ProgramIndex& index, const Certificate& certificate, int steps,
                             const SymbolicState& initial) {
  std::vector<int32_t> order(index.num_instances());
  for (int32_t e = 0; e < index.num_instances(); ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return certificate.position[a] < certificate.position[b];
  });
  Reference reference(index, initial);
  for (int step = 0; step < steps; ++step) {
    for (int32_t instance : order) {
      const ProgramIndex::Instance e = index.InstanceAt(instance);
      reference.KernelContext(e.actor,
                              e.firing + static_cast<int64_t>(step) * index.actor(e.actor).firings,
                              e.instruction);
    }
  }
  return reference.Finish(steps);
}

}  // namespace sluice
