// What tests of fuse_on_cards.h and cut_losses.h look at: the ops of a graph once it is compiled.
#ifndef SLUICE_FRAMEWORK_COMPILER_FUSE_ON_CARDS_TESTING_H_
#define SLUICE_FRAMEWORK_COMPILER_FUSE_ON_CARDS_TESTING_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "framework/compiler/compile.h"
#include "gtest/gtest.h"

namespace sluice {

constexpr char kCuda[] = "data=1 @cuda";
using Counts = std::map<std::string, int>;

inline absl::StatusOr<Compilation> CompileOn(const Graph& graph, const std::string& mesh,
                                             bool fuse) {
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.fuse = fuse;
  return Compile({{"program", &graph}}, options);
}

inline Counts OpsOf(const absl::StatusOr<Compilation>& compiled) {
  Counts ops;
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return ops;
  for (const Node& node : compiled->programs[0].graph->nodes()) ++ops[node.op->name];
  return ops;
}

inline Counts OpsOf(const Graph& graph, const std::string& mesh = kCuda, bool fuse = true) {
  return OpsOf(CompileOn(graph, mesh, fuse));
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_FUSE_ON_CARDS_TESTING_H_
