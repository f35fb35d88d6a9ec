// Ranks, each with a runtime and memory of its own, must compute the bits that one rank computes:
// of every result, and of every box of every variable, replicas once. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_RANK_PARITY_H_
#define SLUICE_FRAMEWORK_TESTING_RANK_PARITY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/comm/comm_net.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/runtime.h"
#include "framework/testing/training_parity.h"

namespace sluice {

// What one rank leaves behind after a few steps: the results that it has of each, and its boxes of
// all variables, by name and box.
struct RankRecord {
  std::vector<Fetches> fetches;
  std::map<std::string, HostTensor> boxes;
  int saved = 0;  // elements that it would save
};
using RankRecords = std::vector<absl::StatusOr<RankRecord>>;  // by rank

absl::StatusOr<std::vector<plan::Plan>> PlansOfRanks(const ParityCase& of,
                                                     const TrainingSetting& setting, int32_t ranks);

// Trains on as many ranks as there are plans, each on a thread of its own. `net` is asked where
// there are several.
RankRecords TrainRanks(const ParityCase& of, const TrainingSetting& setting,
                       const std::vector<plan::Plan>& plans,
                       const std::function<CommNet*(int32_t rank)>& net,
                       const RuntimeOptions& options = {});

// "" if all bits are those of one rank, else the ranks' errors or what differs first.
std::string DifferenceOfRanks(const RankRecord& expected, const RankRecords& got);

// The same of ranks over TCP: two that read bytes from each other's memory, two whose connections
// are sealed, four that have plain ones alone.
std::string DifferenceOverTcp(const ParityCase& of, const TrainingSetting& setting);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_RANK_PARITY_H_
