// Joins runtimes of one process as if they were ranks on different hosts: what one sends is data,
// arrives late, and overtakes what was sent before where that is allowed. For tests.
#ifndef SLUICE_FRAMEWORK_COMM_IN_PROCESS_NET_H_
#define SLUICE_FRAMEWORK_COMM_IN_PROCESS_NET_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/comm/comm_net.h"

namespace sluice {

struct InProcessNetOptions {
  uint64_t seed = 1;  // of delays
  // Nothing takes longer than this. Bytes have delays of their own, apart from messages: on one
  // ordered channel a message that comes before its bytes would never be seen.
  std::chrono::microseconds most_delay{100};
  bool ordered = false;   // messages of one rank to another stay in order
  bool in_place = false;  // what can be read where it lies is, as among processes of a host
  bool ahead = true;      // what is not may be asked for before its token is told
  // A mistake that a net could make, planted to see that it is found: now and then a pull is said
  // to have ended whose bytes are still on their way.
  bool early_end = false;
};

class InProcessNet {
 public:
  InProcessNet(int32_t ranks, const InProcessNetOptions& options);
  ~InProcessNet();

  CommNet* endpoint(int32_t rank);
  // So far, of all ranks: pulls, what was read in place instead, and pulls that were there before
  // their token was told.
  int64_t pulls() const { return pulls_; }
  int64_t in_place() const { return in_place_; }
  int64_t ahead() const { return ahead_; }

 private:
  using Clock = std::chrono::steady_clock;
  class Endpoint;
  // A message; or a request for bytes that is on its way to their owner; or the bytes.
  struct Parcel {
    enum class Kind { kMessage, kRequest, kBytes };
    Kind kind = Kind::kMessage;
    int32_t from = 0, to = 0;
    WireMessage message;
    PullRequest request;
    int32_t pull = 0;
    std::byte* destination = nullptr;
    std::vector<std::byte> bytes;
    absl::Status status;
  };
  struct Due {
    Clock::time_point when;
    int64_t number;  // of those due at once
    std::shared_ptr<Parcel> parcel;
    bool operator<(const Due& other) const {
      return std::tie(when, number) > std::tie(other.when, other.number);
    }
  };

  void Post(std::shared_ptr<Parcel> parcel);
  void Main();

  const InProcessNetOptions options_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;  // all guarded by mutex_
  std::priority_queue<Due> queue_;
  // By ranks: when the last message comes, and the last pull, which no kPulled overtakes.
  std::map<std::pair<int32_t, int32_t>, Clock::time_point> last_, asked_;
  int64_t posted_ = 0;
  std::atomic<int64_t> pulls_{0}, in_place_{0}, ahead_{0};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_IN_PROCESS_NET_H_
