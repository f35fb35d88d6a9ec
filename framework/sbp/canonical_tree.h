// The binary tree in which partials of one mesh axis are summed, and who holds which range of a
// tensor while a group of devices folds it node by node. Pure functions; any thread.
//
// A node of `width` devices has on its left the largest power of two below the width, on its right
// the rest. Once a node is folded, each of its devices holds one contiguous range of the tensor, of
// 1 / width of it: the devices of the two children alternate along the tensor, so that nearly all
// of what a device holds in the node is a part of what it held in its child. With powers of two it
// is exactly a half of it, and what is left is recursive halving at distances 1, 2, 4, ...
//
// Five devices, of sixteen elements. Node {0 1 2 3} of the five: order 0 2 1 3 along the tensor, a
// quarter each. Node {0 1 2 3 4}: 0 2 4 1 3, a fifth each: device 4, which held all, keeps the
// middle; device 1 held [8, 12) and has now [10, 13), for which it reads [12, 13) of device 3, too.
#ifndef SLUICE_FRAMEWORK_SBP_CANONICAL_TREE_H_
#define SLUICE_FRAMEWORK_SBP_CANONICAL_TREE_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "framework/tensor/shape.h"

namespace sluice {

// The level of a node: how many nodes lie on the longest way down from it. 0 for one device.
int TreeLevel(int64_t width);

// Devices [low, middle) and [middle, high) of a group; `middle` is strictly inside.
struct TreeNode {
  int64_t low = 0, middle = 0, high = 0;
  int64_t width() const { return high - low; }
};

// The node of a level that holds device `i` of a group of `size`; none where the tree skips that
// level above the device.
std::optional<TreeNode> TreeNodeAt(int64_t size, int64_t i, int level);

// Where device `i` of a node stands along the tensor, and who stands there.
int64_t TreePosition(int64_t width, int64_t i);
int64_t TreeDeviceAt(int64_t width, int64_t position);

// The range of [0, extent) that device `i` of a node holds once the node is folded.
Range TreeRange(int64_t width, int64_t i, int64_t extent);

// What the devices at positions [low, high) of a node hold together.
Range TreeSpan(int64_t width, int64_t low, int64_t high, int64_t extent);

// Where each device of a node has what its child has, and shall have what the node has: the device
// of the other child that `i` reads, and those that read `i`. The right child is no larger than the
// left one, so each of its devices may serve several there.
int64_t TreePartner(const TreeNode& node, int64_t i);
void ForEachTreeReader(const TreeNode& node, int64_t i, absl::FunctionRef<void(int64_t)> fn);

// The devices of a node that hold any of `range`, and what of it, in the order of the tensor.
void ForEachTreeOwner(int64_t width, int64_t extent, Range range,
                      absl::FunctionRef<void(int64_t i, Range held)> fn);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_CANONICAL_TREE_H_
