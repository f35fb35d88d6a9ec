// What the role of a tensor says about its layout, as data: selection obeys it and asks for no
// role. Pure.
#ifndef SLUICE_FRAMEWORK_COMPILER_LAYOUT_CONSTRAINTS_H_
#define SLUICE_FRAMEWORK_COMPILER_LAYOUT_CONSTRAINTS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace sluice {

struct LayoutConstraint {
  // The variable whose stored layout this variable is stored in, but for what its own storage
  // annotation says; -1: none.
  TensorId stored_like = -1;
  // The variable in whose stored layout the update phase reads this tensor; -1: as it comes.
  TensorId updated_like = -1;
};

// By tensor.
std::vector<LayoutConstraint> LayoutConstraints(const Graph& graph);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_LAYOUT_CONSTRAINTS_H_
