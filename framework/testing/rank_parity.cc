#include "framework/testing/rank_parity.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/testing/local_job.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 3;

absl::StatusOr<RankRecord> RecordOf(ParityRun* run) {
  RankRecord record;
  for (int64_t step = 0; step < kSteps; ++step) {
    RETURN_IF_ERROR(run->Step(step).status());
    record.fetches.push_back(run->fetches());
  }
  RETURN_IF_ERROR(run->session()->CheckReplicas());
  for (const VariableInfo& variable : run->session()->variables()) {
    ASSIGN_OR_RETURN(const auto boxes, run->session()->boxes(variable.name));
    for (const VariableBox& each : boxes) {
      const std::string name = absl::StrCat(variable.name, " ", BoxToString(each.box));
      ASSIGN_OR_RETURN(record.boxes[name], run->session()->ReadBox(variable.name, each.box));
      if (each.saved) record.saved += static_cast<int>(Volume(each.box));
    }
  }
  return record;
}

}  // namespace

absl::StatusOr<std::vector<plan::Plan>> PlansOfRanks(const ParityCase& of,
                                                     const TrainingSetting& setting,
                                                     int32_t ranks) {
  std::vector<plan::Plan> plans;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    ASSIGN_OR_RETURN(plan::Plan plan, CompileParityPlan(of, setting, rank, ranks));
    plans.push_back(std::move(plan));
  }
  return plans;
}

RankRecords TrainRanks(const ParityCase& of, const TrainingSetting& setting,
                       const std::vector<plan::Plan>& plans,
                       const std::function<CommNet*(int32_t rank)>& net,
                       const RuntimeOptions& options) {
  const auto ranks = static_cast<int32_t>(plans.size());
  RankRecords records(ranks, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RuntimeOptions own = options;
      own.workers = 1 + rank % 2;
      if (ranks > 1) own.net = net(rank);
      auto run = ParityRun::Start(of, setting, plans[rank], own);
      records[rank] = run.ok() ? RecordOf(run->get()) : run.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return records;
}

std::string DifferenceOfRanks(const RankRecord& expected, const RankRecords& got) {
  std::string errors;
  for (size_t rank = 0; rank < got.size(); ++rank) {
    if (got[rank].ok()) continue;
    absl::StrAppend(&errors, "rank ", rank, ": ", got[rank].status().message(), "; ");
  }
  if (!errors.empty()) return errors;
  int saved = 0;
  for (size_t rank = 0; rank < got.size(); ++rank) {
    saved += got[rank]->saved;
    for (const auto& [name, tensor] : got[rank]->boxes) {
      const auto found = expected.boxes.find(name);
      if (found == expected.boxes.end() || found->second.bytes != tensor.bytes) {
        return absl::StrCat("rank ", rank, ", ", name);
      }
    }
  }
  for (size_t step = 0; step < expected.fetches.size(); ++step) {
    for (const auto& [name, tensor] : expected.fetches[step]) {
      const auto found = got[0]->fetches[step].find(name);
      if (found == got[0]->fetches[step].end() || found->second.bytes != tensor.bytes) {
        return absl::StrCat(name, " of step ", step);
      }
    }
  }
  // Replicas once: the whole of every variable, no more.
  return saved == expected.saved ? "" : absl::StrCat("saves ", saved, " of ", expected.saved);
}

std::string DifferenceOverTcp(const ParityCase& of, const TrainingSetting& setting) {
  const auto over_tcp = [&](int32_t ranks, bool read_memory = false,
                            bool seal = false) -> absl::StatusOr<RankRecords> {
    ASSIGN_OR_RETURN(const std::vector<plan::Plan> plans, PlansOfRanks(of, setting, ranks));
    ASSIGN_OR_RETURN(const std::unique_ptr<LocalJob> job,
                     LocalJob::Start(ranks, read_memory, seal));
    return TrainRanks(of, setting, plans, [&job](int32_t rank) { return job->net(rank); });
  };
  const absl::StatusOr<RankRecords> one = over_tcp(1);
  if (!one.ok()) return std::string(one.status().message());
  if (!(*one)[0].ok()) return std::string((*one)[0].status().message());
  const auto difference_of = [&one](const char* ranks, const absl::StatusOr<RankRecords>& got) {
    const std::string difference =
        got.ok() ? DifferenceOfRanks(*(*one)[0], *got) : std::string(got.status().message());
    return difference.empty() ? "" : absl::StrCat("of ", ranks, ": ", difference);
  };
  std::string difference = difference_of("two ranks", over_tcp(2, /*read_memory=*/true));
  if (difference.empty()) {
    difference = difference_of("two sealed ranks", over_tcp(2, false, /*seal=*/true));
  }
  return difference.empty() ? difference_of("four ranks", over_tcp(4)) : difference;
}

}  // namespace sluice
