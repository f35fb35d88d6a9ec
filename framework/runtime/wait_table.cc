#include "framework/runtime/wait_table.h"

#include <chrono>
#include <iterator>
#include <thread>

#include "framework/runtime/worker.h"

namespace sluice {
namespace {

// A worker that has not said by then where its actors stand runs an instruction.
constexpr std::chrono::milliseconds kWorkerLimit(100);

}  // namespace

std::vector<StreamWait> WaitTable::Streams(double quiet) {
  std::vector<std::vector<ActorState>> states = AskWorkers();
  std::vector<StreamWait> streams;
  for (size_t p = 0; p < states.size(); ++p) {
    for (ActorState& state : states[p]) state.seconds = quiet;
    std::vector<StreamWait> more =
        StreamWaitsOf(plan_, static_cast<int>(p), programs_[p].loaded->index(), states[p]);
    streams.insert(streams.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  return streams;
}

std::vector<std::vector<ActorState>> WaitTable::AskWorkers() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::vector<ActorState>> states(programs_.size());
  const int64_t question = ++question_;
  for (const auto& worker : workers_) worker->AskStates(question);
  const auto end = std::chrono::steady_clock::now() + kWorkerLimit;
  for (const auto& worker : workers_) {
    auto said = worker->States(question);
    while (!said.has_value() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      said = worker->States(question);
    }
    if (said.has_value()) {
      for (size_t p = 0; p < said->size(); ++p) {
        states[p].insert(states[p].end(), (*said)[p].begin(), (*said)[p].end());
      }
      continue;
    }
    const Worker::Running running = worker->running();
    if (running.program < 0) continue;
    const ProgramIndex& index = programs_[running.program].loaded->index();
    const ProgramIndex::Instance instance = index.InstanceAt(running.instance);
    ActorState state;
    state.kind = ActorState::Kind::kRuns;
    state.actor = instance.actor;
    state.micro = instance.firing;
    state.instruction = instance.instruction;
    state.step = running.step;
    states[running.program].push_back(state);
  }
  return states;
}

}  // namespace sluice
