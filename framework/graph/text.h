// The text form of a graph, one line a node:
//   %5 = matmul(%3, %4) {transpose_b=true} name="h0/q" stage=0 -> f32[8,64] annotation="data:S0"
//   adamw(%4, %9) name="h0/q/w/adamw" stage=0 phase=update
//   %7 = matmul(%6, %4) name="h0/q/backward" stage=0 phase=backward forward="h0/q" -> f32[8,64]
// then one line each of:  output "loss" = %5
// Tensors are numbered in order of creation. What has its default is left out: stage, block and
// region -1, phase forward, no annotation, no storage, no state, the roles of parameters and
// activations; others read gradient_of=%4, state_of=%4. Any thread.
#ifndef SLUICE_FRAMEWORK_GRAPH_TEXT_H_
#define SLUICE_FRAMEWORK_GRAPH_TEXT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace sluice {

std::string PrintGraph(const Graph& graph);

// Reads what PrintGraph writes, and verifies it. `ops` are those that may occur, besides inputs and
// variables. Errors say line and column, what was expected and what came.
absl::StatusOr<std::unique_ptr<Graph>> ParseGraph(absl::string_view text,
                                                  absl::Span<const OpDef* const> ops);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_GRAPH_TEXT_H_
