#include "framework/testing/checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {

Checker::Checker(const ProgramIndex& index, const SymbolicState& initial)
    : index_(index),
      initial_(initial),
      temporary_first_(index.program().temporaries_size(), -1),
      temporary_last_(index.program().temporaries_size(), -1),
      running_(index.num_actors()),
      collectives_(2 * index.num_collectives()) {
  for (int q = 0; q < index.num_rings(); ++q) {
    ring_base_.push_back(static_cast<int32_t>(buffers_.size()));
    buffers_.resize(buffers_.size() + index.ring(q).slots);
  }
  temporary_base_ = static_cast<int32_t>(buffers_.size());
  buffers_.resize(buffers_.size() + index.program().temporaries_size());
  for (int a = 0; a < index.num_actors(); ++a) {
    ops_.emplace_back();
    for (int i = 0; i < index.actor(a).length; ++i) {
      const plan::Instruction& x = index.instruction(a, i);
      ops_.back().push_back(SymbolicOp::Of(x));
      for (const auto* operands : {&x.inputs(), &x.outputs()}) {
        for (const plan::Operand& operand : *operands) {
          if (operand.storage_case() != plan::Operand::kTemporary) continue;
          if (temporary_first_[operand.temporary()] < 0) temporary_first_[operand.temporary()] = i;
          temporary_last_[operand.temporary()] = i;
        }
      }
    }
  }
  for (int r = 0; r < index.num_registers(); ++r) {
    for (int64_t t = 0; t < index.reg(r).initial && index.reg(r).producer >= 0; ++t) {
      Buffer& b = buffers_[BufferOf(r, t)];
      b.reg = r;
      b.token = t;
      b.unread = index.ReleasesOf(r, t);
      auto it = initial.find(index.program().registers(r).name());
      b.value = it == initial.end() ? 0 : it->second;
    }
  }
  FindOverlaps();
}

int32_t Checker::BufferOf(int32_t reg, int64_t token) const {
  return ring_base_[index_.reg(reg).ring] + index_.SlotOf(reg, token);
}

// Only of programs whose memory has been packed.
void Checker::FindOverlaps() {
  struct Extent {
    int32_t device;
    int64_t begin, end;
    int32_t buffer;
  };
  std::vector<Extent> extents;
  const plan::Program& program = index_.program();
  for (int q = 0; q < index_.num_rings(); ++q) {
    const int32_t r = index_.PlaceOf(q, 0).reg;
    const int32_t ring = index_.ring(q).explicit_ring;
    const int given = ring >= 0 ? program.rings(ring).slot_offsets_size()
                                : program.registers(r).slot_offsets_size();
    if (given < index_.ring(q).slots || !program.registers(r).variable().empty()) continue;
    int64_t bytes = 0;
    for (int j = 0; j < index_.ring(q).places; ++j) {
      bytes = std::max<int64_t>(bytes, program.registers(index_.PlaceOf(q, j).reg).bytes());
    }
    for (int32_t s = 0; s < index_.ring(q).slots; ++s) {
      const int64_t at = index_.SlotOffset(r, s);
      extents.push_back({program.registers(r).device(), at, at + bytes, ring_base_[q] + s});
    }
  }
  if (extents.empty()) return;
  for (int n = 0; n < program.temporaries_size(); ++n) {
    const plan::Temporary& local = program.temporaries(n);
    extents.push_back({index_.device_of(local.actor()), local.offset(),
                       local.offset() + local.bytes(), temporary_base_ + n});
  }
  for (const Extent& x : extents) {
    for (const Extent& y : extents) {
      if (x.buffer == y.buffer || x.device != y.device || x.begin >= y.end || y.begin >= x.end) {
        continue;
      }
      buffers_[x.buffer].overlaps.push_back(y.buffer);
    }
  }
}

absl::Status Checker::Hazard(int a, int64_t firing, int i, const Access& access,
                             absl::string_view what) const {
  return absl::InternalError(
      absl::StrCat("hazard: ", index_.Describe(a, firing, i), access.read ? " reads " : " writes ",
                   access.reg >= 0 ? index_.RegisterName(access.reg) : std::string("a local"),
                   " token ", access.token, ", ", what));
}

bool Checker::IsFirst(int64_t firing, int i, const Access& access) const {
  if (access.reg < 0) return i == temporary_first_[access.buffer - temporary_base_];
  const ProgramIndex::Register& r = index_.reg(access.reg);
  return i == r.first_write && firing % r.every == 0;
}

bool Checker::IsLast(int64_t firing, int i, const Access& access) const {
  if (access.reg < 0) return i == temporary_last_[access.buffer - temporary_base_];
  const ProgramIndex::Register& r = index_.reg(access.reg);
  return i == r.last_write && (firing + 1) % r.every == 0;
}

absl::Status Checker::CheckWrite(int a, int64_t firing, int i, const Access& access) {
  const bool first = IsFirst(firing, i, access);
  Buffer& b = buffers_[access.buffer];
  if (b.readers > 0) return Hazard(a, firing, i, access, "which is being read");
  if (b.writing) return Hazard(a, firing, i, access, "which is being written");
  if (b.unread > 0) return Hazard(a, firing, i, access, "which somebody has still to read");
  if (first && b.open) return Hazard(a, firing, i, access, "whose last token is not complete");
  if (!first && !(b.open && b.token == access.token)) {
    return Hazard(a, firing, i, access, "whose bytes were lost since its first write");
  }
  for (int32_t o : b.overlaps) {
    Buffer& other = buffers_[o];
    if (o == access.taken && other.readers == 1 && other.unread <= 1) {
      other.token = -1;  // it was for this instruction alone
      continue;
    }
    if (other.readers > 0 || other.writing || other.unread > 0 || other.open) {
      return Hazard(a, firing, i, access, "whose bytes another buffer still holds");
    }
    other.token = -1;
  }
  return {};
}

absl::Status Checker::CheckRead(int a, int64_t firing, int i, const Access& access) {
  const Buffer& b = buffers_[access.buffer];
  if (access.reg >= 0 && index_.reg(access.reg).producer < 0) return {};
  if (b.writing) return Hazard(a, firing, i, access, "which is being written");
  if (b.reg != access.reg || b.token != access.token) {
    return Hazard(a, firing, i, access, absl::StrCat("finds token ", b.token));
  }
  const bool own = access.reg >= 0 && index_.reg(access.reg).producer == a;
  if (access.reg >= 0 && b.open && !own) {
    return Hazard(a, firing, i, access, "which is not complete");
  }
  return {};
}

absl::Status Checker::Begin(int a, int64_t firing, int i) {
  const plan::Instruction& x = index_.instruction(a, i);
  const auto operands = index_.Operands(a, i);
  Running& run = running_[a];
  run.accesses.clear();
  run.inputs.clear();
  const auto operand_at = [&x](int n) -> const plan::Operand& {
    return n < x.inputs_size() ? x.inputs(n) : x.outputs(n - x.inputs_size());
  };
  const auto token_of = [&](int n) {
    const ProgramIndex::OperandUse& use = operands[n];
    return use.reg < 0 ? firing : firing / use.divisor + use.offset;
  };
  const auto buffer_of = [&](int n) {
    return operands[n].reg < 0 ? temporary_base_ + operand_at(n).temporary()
                               : BufferOf(operands[n].reg, token_of(n));
  };
  for (int n = 0; n < x.inputs_size() + x.outputs_size(); ++n) {
    const bool is_input = n < x.inputs_size();
    const plan::Operand& operand = operand_at(n);
    Access access;
    access.reg = operands[n].reg;
    access.token = token_of(n);
    access.buffer = buffer_of(n);
    access.read = is_input && !operand.updates();
    access.update = is_input && operand.updates();
    if (operand.takes() > 0) access.taken = buffer_of(operand.takes() - 1);
    const bool again =
        !access.read && std::any_of(run.accesses.begin(), run.accesses.end(), [&](const Access& y) {
          return !y.read && y.buffer == access.buffer;
        });
    if (!again) run.accesses.push_back(access);
  }
  for (const Access& access : run.accesses) {
    if (access.read) {
      RETURN_IF_ERROR(CheckRead(a, firing, i, access));
      Buffer& b = buffers_[access.buffer];
      int64_t value = b.value;
      if (access.reg >= 0 && index_.reg(access.reg).producer < 0) {
        auto it = initial_.find(index_.program().registers(access.reg).name());
        value = it == initial_.end() ? 0 : it->second;
      }
      run.inputs.push_back(value);
      ++b.readers;
      continue;
    }
    const auto reads =
        std::count_if(run.accesses.begin(), run.accesses.end(),
                      [&](const Access& y) { return y.read && y.buffer == access.buffer; });
    Buffer& b = buffers_[access.buffer];
    b.readers -= static_cast<int32_t>(reads);  // its own, of what it wrote before
    const absl::Status status = CheckWrite(a, firing, i, access);
    b.readers += static_cast<int32_t>(reads);
    RETURN_IF_ERROR(status);
    if (IsFirst(firing, i, access)) {
      if (access.update && (access.reg < 0 || index_.reg(access.reg).initial == 0)) b.value = 0;
      b.open = true;
      b.reg = access.reg;
      b.token = access.token;
    }
    b.writing = true;
  }
  if (const int32_t c = index_.CollectiveOf(a, i); c >= 0) {
    Collective& group = collectives_[2 * c + firing % 2];
    ++group.begun;
    for (int64_t v : run.inputs) group.sum += v;
  }
  return {};
}

bool Checker::MayEnd(int a, int64_t firing, int i) const {
  const int32_t c = index_.CollectiveOf(a, i);
  return c < 0 ||
         collectives_[2 * c + firing % 2].begun == static_cast<int32_t>(index_.Members(c).size());
}

void Checker::End(int a, int64_t firing, int i) {
  Running& run = running_[a];
  const SymbolicOp& op = ops_[a][i];
  int64_t value = 0;
  if (const int32_t c = index_.CollectiveOf(a, i); c >= 0) {
    Collective& group = collectives_[2 * c + firing % 2];
    value = group.sum % kSymbolicPrime;
    if (++group.ended == static_cast<int32_t>(index_.Members(c).size())) group = {};
  } else {
    value = op.Evaluate(firing, run.inputs);
  }
  for (const Access& access : run.accesses) {
    Buffer& b = buffers_[access.buffer];
    if (access.read) {
      --b.readers;
      continue;
    }
    b.writing = false;
    b.value = access.update ? Updated(op, b.value, value) : value;
    if (access.reg < 0 || !IsLast(firing, i, access)) continue;
    b.open = false;
    const ProgramIndex::Register& r = index_.reg(access.reg);
    if (r.consumers_begin != r.consumers_end)
      b.unread += index_.ReleasesOf(access.reg, access.token);
  }
  // A local is free after its last use, by whichever kind of operand.
  for (const Access& access : run.accesses) {
    if (access.reg < 0 && IsLast(firing, i, access)) buffers_[access.buffer].open = false;
  }
  for (int32_t n : index_.Releases(a, i)) {
    const ProgramIndex::Consumer& consumer = index_.consumer(n);
    if ((firing + 1) % consumer.serves != 0 || index_.reg(consumer.reg).producer < 0) continue;
    --buffers_[BufferOf(consumer.reg, index_.TokenOf(consumer, firing))].unread;
  }
  if (op.kind == SymbolicOp::Kind::kLog) {
    outcome_.log.push_back({index_.program().actors(a).name(), firing, i, run.inputs});
  }
}

absl::Status Checker::CheckSettled(int64_t steps) const {
  std::vector<int32_t> expected(buffers_.size(), 0);
  for (int r = 0; r < index_.num_registers(); ++r) {
    const ProgramIndex::Register& x = index_.reg(r);
    if (x.producer < 0) continue;
    for (int64_t t = steps * x.tokens; t < steps * x.tokens + x.initial; ++t) {
      const int32_t b = BufferOf(r, t);
      if (buffers_[b].reg != r || buffers_[b].token != t) {
        return absl::InternalError(absl::StrCat(index_.RegisterName(r), " ended at token ",
                                                buffers_[b].token, ", expected ", t));
      }
      // Late own readers do not read what is there at the start; the last tokens are theirs too.
      const int32_t own = x.late_own_consumer ? 1 : 0;
      expected[b] = x.consumers_end - x.consumers_begin - own;
    }
  }
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& x = buffers_[b];
    if (x.readers == 0 && !x.writing && !x.open && x.unread == expected[b]) continue;
    return absl::InternalError(absl::StrCat("buffer ", b, " ended with ", x.unread,
                                            " releases owed, expected ", expected[b],
                                            x.open ? ", and an incomplete token" : ""));
  }
  return {};
}

SymbolicOutcome Checker::TakeOutcome(int64_t steps) {
  std::sort(outcome_.log.begin(), outcome_.log.end());
  for (int r = 0; r < index_.num_registers(); ++r) {
    const ProgramIndex::Register& x = index_.reg(r);
    if (x.initial == 0 || x.producer < 0) continue;
    outcome_.state[index_.program().registers(r).name()] =
        buffers_[BufferOf(r, x.initial - 1 + steps * x.tokens)].value;
  }
  return std::move(outcome_);
}

}  // namespace sluice
