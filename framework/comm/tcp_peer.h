// One other rank of a TcpNet: its connections, what each of the two has asked the other for, and by
// which way its bytes come: along with the token, in place, by RDMA or over the connection. Frames
// come on the loop's thread; workers send and pull.
#ifndef SLUICE_FRAMEWORK_COMM_TCP_PEER_H_
#define SLUICE_FRAMEWORK_COMM_TCP_PEER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/comm/frames.h"
#include "framework/comm/host_mail.h"
#include "framework/comm/silence.h"
#include "framework/comm/tcp_net.h"
#include "framework/comm/verbs_queue.h"

namespace sluice {

class TcpNet::Peer final : public TcpConnection::Owner, public VerbsQueue::Owner {
 public:
  Peer(TcpNet* net, int32_t rank, TcpPeer peer);

  // Before Start.
  absl::Status OpenQueue(VerbsDevice* device);
  void OpenRoute(HostMail* mail, int32_t part);
  void ReadBy(HostInbox* inbox);
  absl::Status Start();
  bool is_of_host() const { return is_of_host_; }
  // Tells the other one which memories it may read, and by which device.
  void Introduce();
  void CloseQueue() {
    if (queue_ != nullptr) queue_->Close();
  }
  void Finish() {
    for (auto& connection : connections_) connection->Finish();
  }
  // Then: for as long as the other one still says something, the ends of its connections are
  // waited for.
  void AwaitEndsWhileHeard();
  void Stop() {
    *stopped_ = true;
    for (auto& connection : connections_) connection->Stop();
  }

  // `holds`: it goes with what is sent next, by SendHeld if by nothing else.
  void Send(const WireMessage& message, bool holds);
  void SendHeld() {
    connections_[kMessages]->SendHeld();
    if (route_ != nullptr) route_->Wake();
  }
  void Pull(const PullRequest& request, int32_t pull, std::byte* to);
  const std::byte* FindInPlace(const PullRequest& request, int32_t pull);
  void Beat();

  absl::Status OnFrame(TcpConnection* connection, const Frame& frame) override;
  absl::Status OnRead(TcpConnection* connection) override;
  void OnDiscarded() override;
  void OnOver(TcpConnection* connection, const absl::Status& why) override;
  void OnReadEnded(int32_t pull, const absl::Status& status) override;

 private:
  enum Channel { kMessages, kBytes };
  struct Along {  // bytes, or the slot that they are in: mapped here, or to be read by RDMA
    int64_t sequence;
    std::vector<std::byte> bytes;
    absl::Span<const std::byte> slot;
    MemoryPlace place;
  };
  // A pull of this rank. Its tokens are pulled one after another.
  struct Asked {
    int64_t bytes = 0;
    bool waits = false;  // for the one that stands here
    int64_t sequence = 0;
    std::byte* to = nullptr;
    std::vector<Along> along;  // what has come before it was asked for: a few
  };
  // A pull of the other rank, as it was asked for first.
  struct Served {
    int32_t pull = -1;
    PullRequest request;
    bool rides = false;  // along with its tokens
    int64_t ahead = -1;  // the token, still to be told, whose bytes are wanted behind it; -1: none
  };

  absl::Status OnMark(const MemoryMark& mark);
  absl::Status OnMail(const Frame& frame);
  void OnLetter(const Letter& letter);
  bool SendLetter(const Frame& frame, int32_t worker, bool holds);
  // mutex_ is held, of these two.
  bool IsMapped(const MemoryPlace& place) const;
  absl::StatusOr<absl::Span<const std::byte>> SlotAt(const MemoryPlace& place) const;
  void OnVerbs(const Frame& frame);
  absl::Status OnMessage(const Frame& frame);
  absl::Status OnPull(const Frame& frame);
  absl::Status OnBytes(const Frame& frame);
  void Serve(Served* served, int64_t sequence);
  absl::StatusOr<absl::Span<const std::byte>> LocateOrKeep(Served* served,
                                                           const PullRequest& request);
  bool IsReadHere() const { return read_here_ > 0 && read_here_ >= net_.offered_.size(); }
  bool RidesAlong(const PullRequest& request) const;
  // mutex_ is held, of these two.
  void AddBytes(const PullRequest& request, int32_t pull, Frame* frame);
  void AddPlace(absl::Span<const std::byte> slot, int32_t pull, Frame* frame) const;
  static void ForgetBefore(int64_t sequence, std::vector<Along>* came);
  bool Take(const PullRequest& request, const Along& along, std::byte* to) const;
  void Ask(int32_t pull, const PullRequest* first);
  void Lose(const absl::Status& why);
  void AwaitNoEnd(int connections);
  Receiver* receiver() const { return net_.receiver_.load(); }

  TcpNet& net_;
  const int32_t rank_;
  const std::string name_;
  const bool is_of_host_;
  const bool reads_memory_;  // if it can; and so does the other
  std::array<std::unique_ptr<TcpConnection>, kTcpChannels> connections_;
  std::unique_ptr<VerbsQueue> queue_;   // null: no RDMA
  std::unique_ptr<MailRoute> route_;    // null: of another host, or there is no mail
  std::atomic<bool> connected_{false};  // by which the other one reads memory of this rank

  std::mutex mutex_;
  std::map<int32_t, Asked> asked_;  // by pull; all guarded by mutex_
  std::map<int32_t, Served> served_;
  std::map<Edge, Served*> served_of_;  // of edges of the plan alone
  std::vector<std::byte> scratch_;
  std::vector<std::optional<PeerMemory>> memories_;  // of the other rank; those that are mapped

  std::atomic<size_t> read_here_{0};  // memories of this process that it can map

  // The loop's thread's.
  int32_t reading_ = -1;  // the pull whose bytes are being read
  bool left_ = false, lost_ = false;
  int over_ = 0;     // connections whose end is not waited for any more
  Silence silence_;  // since this rank began to read
  // Calls that come later may come after the peer has gone.
  std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_TCP_PEER_H_
