// Who may come in: takes connections at a listening socket, and hands on those that know the job's
// secret. Until they have shown that, they may say a hundred and sixty bytes, take five seconds,
// and be few. On the thread of its loop.
#ifndef SLUICE_FRAMEWORK_WIRE_ACCEPTOR_H_
#define SLUICE_FRAMEWORK_WIRE_ACCEPTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/wire/connection.h"
#include "framework/wire/event_loop.h"
#include "framework/wire/handshake.h"
#include "framework/wire/socket.h"

namespace sluice {

// A connection that has come in; it still waits for the verdict.
struct Newcomer {
  Connection connection;  // sealed if the caller says so
  Caller caller;
  std::string added;  // by the client: MakeAnswer
  std::string from;   // "10.0.0.2:41523"
};

// Tells it the verdict. Unavailable: it is gone. Refused, it is closed when it is destroyed.
absl::Status Tell(Newcomer* newcomer, const absl::Status& verdict, absl::string_view text);

struct AcceptorOptions {
  std::string secret;
  size_t most_unknown = 64;  // connections at once; of more, the oldest goes
  std::chrono::milliseconds limit{5000};
};

class Acceptor {
 public:
  using Take = std::function<void(Newcomer newcomer)>;

  // `loop` must outlive it. `take` is called on the loop's thread.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(EventLoop* loop, Descriptor listener,
                                                         const AcceptorOptions& options, Take take);
  ~Acceptor();

  int64_t refused() const { return refused_.load(); }  // that did not know the secret, or spoke not

 private:
  struct Unknown;

  Acceptor(EventLoop* loop, Descriptor listener, const AcceptorOptions& options, Take take);
  absl::Status Watch();
  void AcceptAll();
  void AcceptAfter(EventLoop::Clock::duration time);
  void AddUnknown(Descriptor socket);
  void DropLate();
  void Warn(absl::string_view what);
  void OnReadable(int64_t number);
  // Whether the next message has come as a whole.
  static bool ReadMore(Unknown* unknown, absl::Span<std::byte> message);
  void Drop(int64_t number);

  EventLoop& loop_;
  Descriptor listener_;
  const AcceptorOptions options_;
  const Take take_;
  EventLoop::Watch watch_ = 0;
  std::atomic<int64_t> refused_{0};
  int64_t count_ = 0;
  std::map<int64_t, std::unique_ptr<Unknown>> unknown_;  // by the order in which they came
  // One timer of each kind at most, however many come: whether it runs.
  bool accepts_later_ = false, drops_later_ = false;
  EventLoop::Clock::time_point next_warning_;
  int64_t unsaid_ = 0;  // warnings
  // What timers look at: they may come after the acceptor has gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// The other side: connects, proves who it is, and waits for the verdict. Blocks. A connection that
// is closed without a verdict, as where too many come at once, is tried again for some seconds.
// Errors: DeadlineExceeded, PermissionDenied (one of them does not know the secret), Unavailable
// (closed each time), Cancelled, or the refusal. `add` is called once.
struct Admission {
  Connection connection;  // sealed if the caller is
  std::string text;       // of the verdict
};
absl::StatusOr<Admission> Enter(const Endpoint& endpoint, const Caller& caller,
                                absl::string_view secret, Deadline deadline,
                                const std::function<std::string(int socket)>& add,
                                const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_ACCEPTOR_H_
