// Joins the processes of a simulation as CommNet says: between two ranks messages stay in order, if
// it is asked for, and bytes come on a way of their own. A rank is lost by its silence (comm/
// silence.h) or when its connections end. It watches what it carries: tokens are told and given
// back in order, each once, and a slot does not change while somebody pulls from it. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_SIMULATED_NET_H_
#define SLUICE_FRAMEWORK_TESTING_SIMULATED_NET_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/comm_net.h"
#include "framework/testing/simulation.h"

namespace sluice {

// How the bytes of a pull come, as TcpNet does it.
enum class PullWay {
  kAsked,    // they are asked for
  kAlong,    // once asked for, they come with each token
  kInPlace,  // once asked for, the reader takes them where they lie
  kAhead,    // they are asked for before their token is told, and leave with it
};

// Mistakes of a net or of the protocol above it, planted to see that they are found.
enum class NetFault {
  kNone,
  kEarlyEnd,          // a pull is said to have ended whose bytes are still on their way
  kLostToken,         // a token is not told
  kTokenTwice,        // a token is told twice
  kPulledTwice,       // a rank says twice that it has a token's bytes
  kEarlyPulled,       // a rank says that it has a token's bytes when it is told of the token
  kEndedTwice,        // a rank's end of a step counts twice
  kErrorForgotten,    // the end of a step does not say that it failed, to one rank
  kUnnoticedSilence,  // nobody is given up
};

struct SimulatedNetOptions {
  bool ordered = true;
  PullWay way = PullWay::kAsked;
  Simulation::Duration most_delay = std::chrono::milliseconds(1);
  Simulation::Duration beat = std::chrono::seconds(1), silence = std::chrono::seconds(4),
                       silence_limit = std::chrono::seconds(20);
  NetFault fault = NetFault::kNone;
};

class SimulatedNet {
 public:
  // A process a rank. All must outlive it.
  SimulatedNet(Simulation* simulation, std::vector<SimulatedProcess*> processes,
               const SimulatedNetOptions& options);
  ~SimulatedNet();

  CommNet* endpoint(int32_t rank);
  // What two ranks send each other waits until then.
  void CutUntil(int32_t rank, int32_t other, Simulation::Clock::time_point until);
  // The process is gone: its connections end, or, with its host, say nothing any more.
  void Ended(int32_t rank, bool silently);
  // What a process still waits for is told that all others are lost.
  void LoseAll(int32_t rank);
  // Steps whose end a rank has told rank 0, which tells nobody of its own.
  int64_t StepsEnded(int32_t rank) const;
  // How much has come behind something that was sent later on the same way.
  int64_t overtaken() const { return overtaken_; }

 private:
  class Endpoint;
  enum Channel { kMessages, kBytes, kChannels };
  struct Way {                            // from one rank to another
    Simulation::Clock::time_point last;   // when the last of it comes
    Simulation::Clock::time_point asked;  // when the last pull comes, which no kPulled overtakes
    int64_t sent = 0, came = 0;           // came: behind the latest sent that has come
  };

  // From one rank to another. Something comes there; nothing does that a killed one sends.
  void Post(Channel channel, int32_t from, int32_t to, uint64_t what, std::function<void()> arrive);
  void Deliver(Channel channel, int32_t from, int32_t to, uint64_t what, int64_t number,
               const std::function<void()>& arrive);
  Simulation::Clock::time_point& CutEnd(int32_t a, int32_t b) {
    return cut_[std::min(a, b) * processes_.size() + std::max(a, b)];
  }
  Way& WayOf(Channel channel, int32_t from, int32_t to) {
    return ways_[channel][from * processes_.size() + to];
  }
  bool Strikes(NetFault fault);

  Simulation& simulation_;
  const std::vector<SimulatedProcess*> processes_;
  const SimulatedNetOptions options_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<Simulation::Clock::time_point> cut_;  // until when, by two ranks
  std::vector<Way> ways_[kChannels];                // by two ranks
  int64_t overtaken_ = 0;
  int fault_in_ = 0;  // the planted mistake strikes at the so many-th place
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SIMULATED_NET_H_
