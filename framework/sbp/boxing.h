// Boxing brings a logical tensor from one (mesh, NdSbp) to another (OneFlow paper, section 3.2).
// PlanBoxing gives it as steps; every step writes whole buffers, each from slices of buffers that
// were written before it. Selection prices and lowering emits from the same plan, so they cannot
// disagree. Meshes here have space axes only; time axes are the lowering's (docs/sbp.md).
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/machine/machine.h"
#include "framework/sbp/mesh.h"
#include "framework/sbp/nd_sbp.h"

namespace sluice {

// A contiguous run of memory on one device that holds boxes of the logical tensor one after
// another.
struct BoxingBuffer {
  DeviceId device;
  std::vector<Box> pieces;
  // What it is to its device: buffers of one role are alike on all devices of a share.
  int role = 0;
};

// The elements of `box` in the written buffer are the fold of the same elements in `sources`.
struct BoxingRegion {
  Box box;                   // inside one piece of each source and of the written buffer
  std::vector<int> sources;  // buffers
  // Postfix: an index into `sources`, or -1 to combine the two results before it, in the canonical
  // order of sums (facts: innermost P axis first, tree cut at the largest power of two).
  std::vector<int> fold;
};

struct BoxingWrite {
  int buffer = 0;
  std::vector<BoxingRegion> regions;
  bool fill_identity = false;  // elements in no region are the reduction's identity
};

struct BoxingStep {
  std::vector<BoxingWrite> writes;
};

// The devices along one axis, among which a stage of a path moves things.
struct BoxingAxis {
  bool at_destination = false;  // of the destination's mesh, or of the source's
  int axis = 0;
  bool first_differs = false;  // the first device along it holds the value, others the identity
};

struct Boxing {
  std::string recipe;                      // "all_reduce[0]", "general:home", ...
  Reduction reduction = Reduction::kNone;  // of folds and of identities
  std::vector<BoxingBuffer> buffers;
  std::vector<int> sources;       // buffer of the i-th device of the source mesh
  std::vector<int> destinations;  // buffer of the i-th device of the destination mesh
  std::vector<BoxingStep> steps;  // empty where every destination is its source (identity)
  int64_t bytes = 0;              // that cross between devices
  int64_t nanoseconds = 0;
  // A share holds the writes of some devices, and of others only buffers that those read; sources
  // and destinations that it does not touch are -1. Bytes and time are of all.
  bool share = false;
  std::vector<BoxingAxis> axes;  // of a share
};

struct Layout {
  Mesh mesh;
  NdSbp sbp;
};

// The cheapest known boxing in predicted time; ties go to fewer bytes, then to one-axis recipes.
// Errors: an NdSbp that does not suit its mesh or the shape; P(sum) into P(max) and the like.
absl::StatusOr<Boxing> PlanBoxing(const Layout& from, const Layout& to, const Shape& shape,
                                  DType dtype, const Machine& machine);

struct BoxingPrice {
  int64_t bytes = 0, nanoseconds = 0;
};

// PlanBoxing with a memory: selection asks for the same few pairs over and over. On a mesh of more
// than `large` devices with even shards only paths are looked at, in closed form. One thread.
class BoxingPlanner {
 public:
  explicit BoxingPlanner(const Machine& machine, int64_t large = 64)
      : machine_(machine), large_(large) {}
  absl::StatusOr<BoxingPrice> Price(const Layout& from, const Layout& to, const Shape& shape,
                                    DType dtype);
  absl::StatusOr<const Boxing*> Plan(const Layout& from, const Layout& to, const Shape& shape,
                                     DType dtype);
  // Of a large boxing, the share of some devices; otherwise all of it. `wanted` is ascending;
  // `wanted_key` stands for it in the memory.
  absl::StatusOr<const Boxing*> PlanShare(const Layout& from, const Layout& to, const Shape& shape,
                                          DType dtype, absl::Span<const DeviceId> wanted,
                                          uint64_t wanted_key);

 private:
  bool IsLarge(const Layout& from, const Layout& to) const;

  Machine machine_;
  int64_t large_;
  std::map<std::string, std::unique_ptr<Boxing>> plans_;
  std::map<std::string, BoxingPrice> prices_;
};

// By reference implementation, for tests and for reading and writing variables: the shards of a
// whole tensor, and the whole of its shards. Scatter puts the values in partial 0 of a P axis and
// the identity in the others. Shards are in the order of mesh.devices(). Gather checks that
// replicas agree bit for bit.
std::vector<Array> ScatterReference(const Layout& layout, const Array& whole);
absl::StatusOr<Array> GatherReference(const Layout& layout, const Shape& shape,
                                      const std::vector<Array>& shards);
// Runs a boxing on host arrays; `sources` and the result are in the order of the meshes' devices.
std::vector<Array> ExecuteBoxing(const Boxing& boxing, const std::vector<Array>& sources);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_H_
