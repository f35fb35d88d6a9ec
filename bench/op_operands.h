// The distinct instructions of a compiled step, and operands of their own for each: what programs
// share that time kernels one by one. Any thread.
#ifndef SLUICE_BENCH_OP_OPERANDS_H_
#define SLUICE_BENCH_OP_OPERANDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

// An instruction that stands `count` times in a step, if the places of its operands are left out.
struct DistinctInstruction {
  plan::Instruction instruction;
  std::vector<int> place;  // of operands, inputs first: which of the places that differ
  int64_t count = 0;
};

std::vector<DistinctInstruction> DistinctInstructions(const plan::Program& program);

// The op and the shapes of its operands, shortened.
std::string KernelName(const KernelSpec& spec);
int64_t LastExtent(const Shard& shard);

// What is held against the limit of products or convolutions, and summed apart.
bool IsProduct(absl::string_view op);

// Of an op that looks at rows of tables by their ids and leaves the others alone.
struct TableUse {
  int ids = -1;             // the operand that has them; -1: it is no such op
  int64_t rows = 0;         // how many there are
  std::vector<int> tables;  // operands
  bool writes = false;
};

TableUse TableUseOf(const KernelSpec& spec, const plan::Instruction& instruction);

// Ids that are drawn are below it.
int32_t IdLimit(const KernelSpec& spec);
std::vector<int32_t> DrawIds(int64_t n, uint32_t limit, uint32_t seed);

// Bytes of a run that pass the memory's ports, of which some are stored where they were loaded
// from.
struct Traffic {
  int64_t loaded = 0, stored = 0, in_place = 0;
  int64_t total() const { return loaded + stored; }
};

// Of all operands but those that a table's rows are part of.
Traffic TrafficOf(const DistinctInstruction& one, const KernelSpec& spec, const TableUse& use);

// Where operands lie, inputs first; those that lie at one address in the plan do so here.
struct OperandPlaces {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // of all
};
OperandPlaces PlaceOperands(const DistinctInstruction& one, const KernelSpec& spec,
                            int64_t alignment);
// Floats from 0.25 to 0.75: whatever the last kernel left may be denormal, or beyond what a step
// ever sees.
void FillValues(int64_t bytes, std::byte* memory);
// What an input of integers has: the number of a step, lengths, or ids and labels that are drawn;
// where ids are sorted, those that DrawIds draws from the seed.
std::vector<int32_t> DrawIntegers(const KernelSpec& spec, size_t input, uint32_t seed);
// Both, of all operands.
void FillOperands(const KernelSpec& spec, const OperandPlaces& places, uint32_t seed,
                  std::byte* memory);

}  // namespace sluice

#endif  // SLUICE_BENCH_OP_OPERANDS_H_
