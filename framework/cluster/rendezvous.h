// How the processes of a job find each other: all come to rank 0, say where they listen, and are
// told where the others do; then each connects to those of lower rank. Everyone proves first that
// it knows the job's secret. The loop and the listening socket live on: who comes later, or twice,
// or by mistake, is told why it is not wanted, and the job does not notice.
#ifndef SLUICE_FRAMEWORK_CLUSTER_RENDEZVOUS_H_
#define SLUICE_FRAMEWORK_CLUSTER_RENDEZVOUS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/wire/acceptor.h"
#include "framework/wire/connection.h"
#include "framework/wire/event_loop.h"
#include "framework/wire/socket.h"

namespace sluice {

struct RendezvousOptions {
  int32_t rank = 0, ranks = 1;
  int32_t restarts = 0;    // ranks of another start of the job are refused
  std::string counted_by;  // what says how many ranks there are, for errors; may be empty
  std::string address;     // of rank 0, "host:port"
  // Rank 0: a socket that listens there already, and is the rendezvous's from now on; -1: none.
  int listener = -1;
  // Without one only processes of this host are reached: another address is refused.
  std::string secret;
  // All connections are sealed, or none (wire/seal.h): who says otherwise is refused. It takes a
  // secret.
  bool seal = false;
  std::string build;     // of the program; at most 16 characters; others must have the same
  int32_t channels = 1;  // connections between two ranks
  std::chrono::milliseconds limit{60000};  // until all must have come
  Stop stop;                               // asked while it waits; Cancelled; may be empty
};

class Rendezvous {
 public:
  // Blocks until all are connected. Errors: DeadlineExceeded names the ranks that have not come;
  // FailedPrecondition says why this one is not wanted; PermissionDenied; InvalidArgument of the
  // options.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Meet(const RendezvousOptions& options);
  ~Rendezvous();

  EventLoop* loop() const { return loop_.get(); }
  // By rank and channel; of the own rank none. Once.
  std::vector<std::vector<Connection>> TakeConnections();
  // Of each rank, for people: where it is. "10.0.0.2:41523".
  const std::vector<std::string>& names() const { return names_; }

 private:
  explicit Rendezvous(const RendezvousOptions& options);
  absl::Status Accept(Descriptor listener);
  absl::Status Receive(Descriptor listener);
  absl::Status Visit();
  absl::Status WaitForHigher(std::unique_lock<std::mutex>* lock);
  // The loop's thread.
  void Take(Newcomer newcomer);
  absl::Status Judge(const Newcomer& newcomer) const;  // mutex_ is held
  std::string Missing() const;                         // mutex_ is held
  // Until `there` or the deadline, asking options_.stop.
  template <typename There>
  absl::Status WaitUntil(std::unique_lock<std::mutex>* lock, const There& there);

  const RendezvousOptions options_;
  const Deadline deadline_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Acceptor> acceptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_ until Meet has returned.
  std::vector<std::vector<Connection>> connections_;
  std::vector<std::vector<bool>> here_;  // whether a connection was taken, those handed on too
  std::vector<std::string> names_, endpoints_;
  // On rank 0: those that wait to be told who else is there.
  std::vector<std::unique_ptr<Newcomer>> waiting_;
  bool told_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CLUSTER_RENDEZVOUS_H_
