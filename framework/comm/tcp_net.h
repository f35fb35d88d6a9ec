// Ranks over TCP: two connections to every other rank, one for messages and one for bytes, so that
// a token never waits behind a gradient. Bytes go from the owner's register to the reader's without
// a copy but the kernel's, behind the token that announces them where they were asked for before
// that; few bytes ride along with their token, once the reader has asked for that edge a first
// time. Between processes of a host that may map each other's memory the token of many bytes then
// says where its slot lies, and the reader reads it there; there tokens themselves go by that
// memory, from worker to worker (host_mail.h), once an edge was asked for; between RDMA devices
// (TcpNetOptions::verbs) the reader's device reads. The wire carries numbers of the plan, each
// checked against the plan that this rank has compiled itself, and places in memories that their
// owner has offered, each checked against their size.
#ifndef SLUICE_FRAMEWORK_COMM_TCP_NET_H_
#define SLUICE_FRAMEWORK_COMM_TCP_NET_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/comm/comm_net.h"
#include "framework/comm/tcp_connection.h"
#include "framework/comm/verbs.h"
#include "framework/wire/connection.h"
#include "framework/wire/event_loop.h"

namespace sluice {

class HostInbox;
class HostMail;
class VerbsDevice;

// Connections between the same two ranks: messages, bytes.
inline constexpr int32_t kTcpChannels = 2;

struct TcpPeer {
  std::array<Connection, kTcpChannels> connections;
  std::string name;  // for people: "10.0.0.2:41523"
};

struct TcpNetOptions {
  int64_t most_along = int64_t{16} << 10;            // bytes that ride along with their token
  bool read_memory = true;                           // of processes of this host that share it
  std::optional<VerbsOptions> verbs = std::nullopt;  // of all others that have it as well
  // Who says nothing for so long is named, a beat later at most; who says nothing for the limit is
  // lost. Others live and are slow: a process says that it lives whatever it computes.
  std::chrono::milliseconds beat{1000}, silence{4000}, silence_limit{60000};
};

class TcpNet final : public CommNet {
 public:
  // `peers` by rank; the own one has no connections. `loop` must outlive it. Errors: a rank without
  // a connection; of options.verbs those of VerbsDevice::Open.
  static absl::StatusOr<std::unique_ptr<TcpNet>> Make(EventLoop* loop, int32_t rank,
                                                      std::vector<TcpPeer> peers,
                                                      const TcpNetOptions& options = {});
  // Waits a little for the others to end, too, so that what was said last arrives.
  ~TcpNet() override;

  int32_t rank() const override { return rank_; }
  int32_t ranks() const override { return static_cast<int32_t>(peers_.size()); }
  int32_t ranks_of_host() const override;
  int32_t place_on_host() const override;
  bool shares_memory() const override { return options_.read_memory; }
  bool reads_in_place(int32_t of) const override;
  bool pulls_ahead(int32_t from) const override;
  int64_t most_along() const override { return options_.most_along; }
  Inbox* OpenInbox(int32_t worker, std::function<void()> wake) override;
  bool seals() const override { return seals_; }
  absl::Status Offer(const OfferedMemory& memory) override;
  void Open(Receiver* receiver) override;
  void Close() override;
  void Send(int32_t to, WireMessage message) override;
  void SendAll(std::vector<AddressedMessage>* messages) override;
  void Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) override;
  const std::byte* FindInPlace(int32_t from, const PullRequest& request, int32_t pull) override;

  struct Counts {
    // Messages sent, and those of them that went by mail of the host; pulls; of those, what had
    // come with the token, was read from memory, in place or not, and was read by RDMA.
    int64_t messages = 0, letters = 0, pulls = 0, along = 0, read = 0, rdma = 0;
  };
  Counts counts() const;

 private:
  class Peer;

  TcpNet(EventLoop* loop, int32_t rank, const TcpNetOptions& options);
  absl::Status OpenQueues();
  void OpenMail();
  void Start();
  void Beat();

  EventLoop& loop_;
  const int32_t rank_;
  const TcpNetOptions options_;
  bool seals_ = false;
  std::unique_ptr<VerbsDevice> verbs_;                        // null: not wanted
  std::unique_ptr<HostMail> mail_;                            // null: there is none
  std::vector<std::unique_ptr<Peer>> peers_;                  // null: the own one
  std::array<std::unique_ptr<HostInbox>, kInboxes> inboxes_;  // null: nobody reads it
  std::vector<OfferedMemory> offered_;
  std::atomic<Receiver*> receiver_{nullptr};
  std::atomic<int64_t> messages_{0}, letters_{0}, pulls_{0}, along_{0}, read_{0}, rdma_{0};
  bool started_ = false, finished_ = false;                     // the loop's thread's
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // the same
  std::mutex mutex_;
  std::condition_variable changed_;
  int over_ = 0;  // connections, guarded by mutex_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_TCP_NET_H_
