// Frames over one connection of TCP, sealed or plain. What is sent goes to the kernel on the
// sender's own thread where that takes it, else when the loop says that it does; what comes is read
// on the loop's thread, bytes of registers straight to where they belong.
#ifndef SLUICE_FRAMEWORK_COMM_TCP_CONNECTION_H_
#define SLUICE_FRAMEWORK_COMM_TCP_CONNECTION_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/comm/frames.h"
#include "framework/wire/connection.h"
#include "framework/wire/event_loop.h"

namespace sluice {

class TcpConnection {
 public:
  using Run = Connection::Run;

  // What the connection tells, on the loop's thread.
  class Owner {
   public:
    virtual ~Owner() = default;
    // An error is the peer's: the connection is then over. For a frame of kBytes it may call
    // ReadInto.
    virtual absl::Status OnFrame(TcpConnection* connection, const Frame& frame) = 0;
    // What ReadInto asked for has come.
    virtual absl::Status OnRead(TcpConnection* connection) = 0;
    // Something came that is no longer looked at.
    virtual void OnDiscarded() = 0;
    // Once: it was closed or broken, or the owner found an error.
    virtual void OnOver(TcpConnection* connection, const absl::Status& why) = 0;
  };

  // `bulk`: its frames are followed by bytes that belong elsewhere, so it reads not a byte further
  // than it must. `owner` and `loop` must outlive it.
  TcpConnection(EventLoop* loop, Connection connection, bool bulk, Owner* owner);
  // Stopped before, or never started.
  ~TcpConnection() = default;

  // The loop's thread: begins and ends to read.
  absl::Status Start();
  void Stop();
  // The loop's thread, once: says what is still to be said, then that nothing more will come; what
  // comes is no longer looked at.
  void Finish();
  bool over() const { return over_; }

  // Any thread. `runs` follow the frame; they stay as they are until the peer has them. After the
  // end of a connection nothing is sent.
  void Send(const Frame& frame, absl::Span<const Run> runs = {});
  // The frame goes with the next one that is sent, in order; SendHeld sends what is held by itself.
  void Hold(const Frame& frame);
  void SendHeld();
  // Send, of bytes that are the connection's from now on.
  void SendOwned(const Frame& frame, std::vector<std::byte> bytes);

  // The loop's thread, within OnFrame: the next bytes go there.
  void ReadInto(std::byte* to, size_t bytes);
  // The loop's thread: the peer has ended what else it had, so this ends, too, and is read until it
  // does.
  void LookForEnd() {
    looks_for_end_ = true;
    Read();
  }

 private:
  // A frame, or the rest of one, that the kernel has not yet taken.
  struct Outgoing {
    std::string head;
    std::vector<Run> runs;
    std::vector<std::byte> owned;
    size_t done = 0;  // bytes of all
  };

  void SendWritten(absl::Span<const Run> runs);  // mutex_ is held
  void Queue(Outgoing outgoing);
  void Flush();  // mutex_ is held
  void OnReady(bool readable, bool writable);
  void Read();
  // One read from the connection, and what it brings; false: there is no more for now.
  bool ReadOnce();
  absl::Status ReadFrames();
  void WakeForRest();
  void WakeFor(size_t bytes);
  void End(const absl::Status& why);

  EventLoop& loop_;
  Connection connection_;  // it sends under mutex_ and receives on the loop's thread
  const bool bulk_;
  Owner& owner_;

  std::mutex mutex_;
  std::deque<Outgoing> queue_;  // guarded by mutex_
  std::string frame_;    // guarded by mutex_; frames that are held, behind all that is queued
  bool closed_ = false;  // guarded by mutex_; nothing more is sent
  bool last_ = false;    // guarded by mutex_; what is queued is the last

  // The loop's thread's.
  EventLoop::Watch watch_ = 0;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what stands in it
  std::byte* to_ = nullptr;
  size_t left_ = 0;  // bytes that go there
  size_t wakes_for_ = 1;
  bool discards_ = false, looks_for_end_ = false, over_ = false;
  // Reading that goes on later: it may come after the connection has gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_TCP_CONNECTION_H_
