// One thread in the place of all threads, clocks and processes of a job: things happen one after
// another, in virtual time, and a seed draws how long each takes and so which comes first. The same
// seed gives the same events. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_SIMULATION_H_
#define SLUICE_FRAMEWORK_TESTING_SIMULATION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/runtime/executor.h"
#include "framework/testing/fiber.h"
#include "framework/testing/xorshift.h"

namespace sluice {

class Simulation {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;

  explicit Simulation(uint64_t seed) : random_(seed) {}

  Xorshift& random() { return random_; }
  bool Chance(int of_hundred) { return random_.Below(100) < of_hundred; }
  // Of any magnitude up to `most`: half of all draws are below a sixteenth of it or so.
  Duration Draw(Duration most);
  Clock::time_point now() const { return now_; }
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }

  // `what` tells the event from others in the digest.
  void After(Duration delay, uint64_t what, std::function<void()> run);
  // Lets the next event happen; false: there is none.
  bool Next();
  int64_t events() const { return events_; }
  // Of all events so far with their times, in their order.
  uint64_t digest() const { return digest_; }
  // What must never happen has. The first one is kept.
  void Fail(const absl::Status& violation) { violation_.Update(violation); }
  const absl::Status& violation() const { return violation_; }

 private:
  struct Event {
    Clock::time_point when;
    int64_t number;
    uint64_t what;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  Xorshift random_;
  Clock::time_point now_{};
  std::vector<Event> queue_;  // a heap
  int64_t numbered_ = 0, events_ = 0;
  uint64_t digest_ = 0xCBF29CE484222325ull;
  absl::Status violation_;
};

// A process of a simulation: a main function, which may wait, and the workers of the runtimes that
// it starts. It can stand still, and be killed at any event or inside its main.
class SimulatedProcess final : public Executor {
 public:
  // `number` tells it from others in the digest.
  SimulatedProcess(Simulation* simulation, int32_t number, std::function<void()> main);
  ~SimulatedProcess() override;

  void Start();
  // Something that happens in it; nothing if it is killed by then, later if it stands still.
  void After(Simulation::Duration delay, uint64_t what, std::function<void()> run);
  // It takes no part any more, and unwinds: `killed` has to make an end of all that it waits for,
  // and to see to it that nothing it does has an effect.
  void Kill();
  void set_killed(std::function<void()> killed) { on_killed_ = std::move(killed); }
  void StandStillUntil(Simulation::Clock::time_point until);
  Simulation::Clock::time_point stands_until() const { return stands_until_; }

  bool killed() const { return killed_; }
  bool over() const { return fiber_.done(); }  // main has returned
  bool lives() const { return started_ && !killed_ && !over(); }
  bool InMain() const { return fiber_.running(); }

  // Main: lets time pass. Ends early where it is killed.
  void Sleep(Simulation::Duration time);

  void Add(Task* task) override;
  void Remove(Task* task) override;
  void WaitUntil(const char* what, const std::function<bool()>& ready) override;
  // A line for main and each worker that waits.
  std::string WaitsFor() const;

 private:
  struct Turns {
    Task* task;  // null: removed
    bool due = false;
  };

  void Resume();
  void Consider();

  Simulation& simulation_;
  const int32_t number_;
  Fiber fiber_;
  std::vector<std::unique_ptr<Turns>> tasks_;
  std::function<void()> on_killed_;
  const std::function<bool()>* ready_ = nullptr;  // what main waits for
  const char* waits_for_ = "";
  Simulation::Duration instruction_;  // the longest
  Simulation::Clock::time_point stands_until_{};
  bool started_ = false, killed_ = false, due_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SIMULATION_H_
