// A connection whose ends know each other: a socket, and what seals it, if it is sealed. Whoever
// sends and receives here does not see which.
#ifndef SLUICE_FRAMEWORK_WIRE_CONNECTION_H_
#define SLUICE_FRAMEWORK_WIRE_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/wire/records.h"
#include "framework/wire/seal.h"
#include "framework/wire/socket.h"

namespace sluice {

class Connection {
 public:
  using Run = absl::Span<const std::byte>;
  static constexpr size_t kRunsACall = 64;

  Connection() = default;
  // Plain.
  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}
  // What is sent and received from here on is sealed.
  void Seal(const SealKeys& keys) { sealed_ = std::make_unique<Sealed>(keys); }

  int number() const { return socket_.number(); }
  bool open() const { return socket_.open(); }
  bool sealed() const { return sealed_ != nullptr; }

  // None of the four blocks. One thread may send while another receives.

  // How many bytes of the runs, at most kRunsACall, were taken; fewer than all: the kernel takes no
  // more for now. What was taken may still have to be flushed.
  absl::StatusOr<size_t> Send(absl::Span<const Run> runs) {
    return sealed_ == nullptr ? SendPlain(runs) : SendSealed(runs);
  }
  // Whether nothing is left that was taken and the kernel has not.
  bool Flush() {
    return sealed_ == nullptr || (FlushSealed().ok() && sealed_->writer.left().empty());
  }
  struct Received {
    size_t bytes = 0;   // 0: there is nothing for now
    bool more = false;  // false: there was nothing behind it
  };
  // Unavailable: it was closed, or broke. A sealed one also fails when what came is not what was
  // sent; no such byte is ever counted as received.
  absl::StatusOr<Received> Receive(std::byte* to, size_t room);

  // Block until all has gone or come: as WriteAll and ReadAll.
  absl::Status Write(absl::Span<const std::byte> bytes, Deadline deadline);
  absl::Status Read(absl::Span<std::byte> bytes, Deadline deadline, const Stop& stop = {});

 private:
  struct Sealed {
    explicit Sealed(const SealKeys& keys) : writer(keys.sends), reader(keys.receives) {}
    RecordWriter writer;
    RecordReader reader;
  };

  absl::StatusOr<size_t> SendPlain(absl::Span<const Run> runs);
  absl::StatusOr<size_t> SendSealed(absl::Span<const Run> runs);
  absl::Status FlushSealed();
  absl::StatusOr<Received> ReceiveSealed(std::byte* to, size_t room);

  Descriptor socket_;
  std::unique_ptr<Sealed> sealed_;  // null: plain
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_CONNECTION_H_
