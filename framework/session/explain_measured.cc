#include "framework/session/explain_measured.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr size_t kWarmUp = 2;  // first steps, whose pages are touched for the first time

struct Extent {
  int64_t begin = 0, end = 0;
};

// What a wait is for, in the words of the predicted ones.
std::string BlockedOnOf(const plan::Program& program, const BlockedOn& blocked_on) {
  switch (blocked_on.kind) {
    case BlockedOn::kToken:
      return program.registers(blocked_on.index).name();
    case BlockedOn::kSlot:
      return "a free slot of " + program.registers(blocked_on.index).name();
    case BlockedOn::kReuse:
      return "bytes";
    case BlockedOn::kStep:
    case BlockedOn::kNothing:
      return "the next step";
  }
  return "";
}

class ProgramMeasurer {
 public:
  ProgramMeasurer(const ExplainedProgram& explained, const plan::Program& program, int index,
                  absl::Span<const WorkerTrace* const> workers)
      : explained_(explained), program_(program), index_(index), workers_(workers) {}

  std::optional<MeasuredRun> Measure() {
    FindSteps();
    if (steps_.empty()) return std::nullopt;
    ChooseStep();
    AddSpans();
    AddSums();
    return std::move(run_);
  }

 private:
  void FindSteps();
  void ChooseStep();
  void AddSpans();
  void AddSums();
  int64_t WithinSteps(const TraceSpan& span) const;
  bool Own(const TraceSpan& span) const { return span.program == index_; }
  int32_t StreamOf(int32_t actor) const { return actor < 0 ? -1 : program_.actors(actor).stream(); }

  const ExplainedProgram& explained_;
  const plan::Program& program_;
  const int index_;
  const absl::Span<const WorkerTrace* const> workers_;
  std::map<int64_t, Extent> steps_;
  std::vector<Extent> busy_;  // the same without overlaps
  Extent window_;
  MeasuredRun run_;
};

void ProgramMeasurer::FindSteps() {
  for (const WorkerTrace* worker : workers_) {
    for (const TraceSpan& span : worker->spans()) {
      if (!Own(span) || span.instruction < 0) continue;
      // Feeds run steps ahead; a step is what the devices compute.
      if (program_.streams(StreamOf(span.actor)).kind() != plan::STREAM_COMPUTE) continue;
      const auto [found, added] = steps_.emplace(span.step, Extent{span.begin, span.end});
      found->second.begin = std::min(found->second.begin, span.begin);
      found->second.end = std::max(found->second.end, span.end);
    }
  }
}

// The step of median length after those that warm up. Steps overlap: what one adds is from the end
// of the one before.
void ProgramMeasurer::ChooseStep() {
  std::vector<std::pair<int64_t, int64_t>> by_length;
  int64_t end = 0;
  for (const auto& [step, extent] : steps_) {
    busy_.push_back({std::max(end, extent.begin), extent.end});
    run_.steps.push_back(extent.end - busy_.back().begin);
    by_length.push_back({run_.steps.back(), step});
    end = extent.end;
  }
  if (steps_.size() > kWarmUp) by_length.erase(by_length.begin(), by_length.begin() + kWarmUp);
  std::sort(by_length.begin(), by_length.end());
  run_.step = by_length[by_length.size() / 2].second;
  window_ = steps_.at(run_.step);
  run_.makespan = window_.end - window_.begin;
}

// How much of a span lies in steps: between them the session waits, not the devices.
int64_t ProgramMeasurer::WithinSteps(const TraceSpan& span) const {
  auto busy = std::partition_point(busy_.begin(), busy_.end(),
                                   [&](const Extent& e) { return e.end <= span.begin; });
  int64_t within = 0;
  for (; busy != busy_.end() && busy->begin < span.end; ++busy) {
    within += std::min(busy->end, span.end) - std::max(busy->begin, span.begin);
  }
  return within;
}

void ProgramMeasurer::AddSpans() {
  run_.streams.resize(program_.streams_size());
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto worker = static_cast<int32_t>(w);
    for (const TraceSpan& span : workers_[w]->spans()) {
      if (!Own(span)) continue;
      const int64_t begin = span.begin - window_.begin, end = span.end - window_.begin;
      if (span.instruction >= 0) {
        if (span.step != run_.step) continue;
        run_.streams[StreamOf(span.actor)].push_back({explained_.actors[span.actor].representative,
                                                      span.micro, span.instruction, worker, begin,
                                                      end});
      } else if (workers_[w]->computes() && begin < run_.makespan && end > 0) {
        run_.waits.push_back({worker, StreamOf(span.actor), span.actor, span.blocked_on.actor,
                              BlockedOnOf(program_, span.blocked_on), std::max<int64_t>(begin, 0),
                              std::min(end, run_.makespan)});
      }
    }
  }
}

void ProgramMeasurer::AddSums() {
  std::map<std::pair<int32_t, int32_t>, MeasuredInstruction> instructions;  // by representative
  std::map<std::tuple<int32_t, std::string, int32_t>, MeasuredDebt> debts;
  for (const WorkerTrace* worker : workers_) {
    for (const TraceSpan& span : worker->spans()) {
      if (!Own(span)) continue;
      const int64_t length = span.end - span.begin;
      if (span.instruction >= 0) {
        if (steps_.size() > kWarmUp && span.step < static_cast<int64_t>(kWarmUp)) continue;
        const int32_t representative = explained_.actors[span.actor].representative;
        const auto [found, added] = instructions.emplace(
            std::make_pair(representative, span.instruction),
            MeasuredInstruction{representative, span.instruction, 0, 0, length, length});
        MeasuredInstruction& sum = found->second;
        ++sum.count;
        sum.total += length;
        sum.least = std::min(sum.least, length);
        sum.most = std::max(sum.most, length);
        continue;
      }
      const int64_t within = WithinSteps(span);
      if (span.blocked_on.kind == BlockedOn::kStep || within == 0) continue;
      const std::string what = BlockedOnOf(program_, span.blocked_on);
      MeasuredDebt& debt = debts
                               .emplace(std::make_tuple(span.actor, what, span.blocked_on.actor),
                                        MeasuredDebt{span.actor, span.blocked_on.actor, what, 0, 0})
                               .first->second;
      ++debt.count;
      debt.total += within;
    }
  }
  for (const auto& [where, sum] : instructions) run_.instructions.push_back(sum);
  for (const auto& [key, debt] : debts) run_.debts.push_back(debt);
}

}  // namespace

void AddMeasured(const plan::Plan& plan, absl::Span<const WorkerTrace* const> workers,
                 Explanation* explanation) {
  for (int p = 0; p < plan.programs_size(); ++p) {
    ExplainedProgram& explained = explanation->programs[p];
    explained.measured = ProgramMeasurer(explained, plan.programs(p), p, workers).Measure();
  }
}

}  // namespace sluice
