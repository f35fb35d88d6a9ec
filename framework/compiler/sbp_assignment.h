// What selection hands on: a signature for every node on every axis, the layouts that follow for
// every tensor, and why each was taken. Values; selection fills them, lowering and explain read.
#ifndef SLUICE_FRAMEWORK_COMPILER_SBP_ASSIGNMENT_H_
#define SLUICE_FRAMEWORK_COMPILER_SBP_ASSIGNMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/compiler/grid.h"
#include "framework/compiler/selection_rules.h"
#include "framework/sbp/nd_sbp.h"

namespace sluice {

// A signature that a node might have had on one axis, beside what was chosen on the outer axes.
struct Refusal {
  int axis = 0;
  Signature signature;
  const LegalityRule* rule = nullptr;  // of SelectionRules()
};

struct Choice {
  std::vector<Signature> signatures;                          // one per axis of the grid
  std::vector<GridSbp> inputs, outputs;                       // one per operand
  int64_t nanoseconds = 0;                                    // compute and boxing of the chosen
  std::vector<std::pair<std::string, int64_t>> alternatives;  // what else was legal, and its cost
  std::vector<Refusal> refused;  // what was not legal, and by which rule
  int given_way = 0;             // rules of this rank and below had given way, see LegalityRule
};

// Of one axis: "data:S0,B->S0".
std::string DescribeSignature(const Grid& grid, int axis, const Signature& signature);
// "data:S0,B->S0 model:B,S1->S1"; axes of one shard are left out. "B" where none is left.
std::string DescribeSignatures(const Choice& choice, const Grid& grid);

struct SbpAssignment {
  std::vector<Choice> choices;    // by node
  std::vector<GridSbp> produced;  // by tensor: as its producer leaves it; a variable: as stored
  std::vector<GridSbp> consumed;  // by tensor: as annotations on it make readers see it
  std::vector<std::string> warnings;
};

// How the first program reads and stores a variable; other programs take it over.
struct VariableLayout {
  NdSbp use, stored;
  int32_t stage = 0;
};
using VariableLayouts = std::map<std::string, VariableLayout>;

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_SBP_ASSIGNMENT_H_
