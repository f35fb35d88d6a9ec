// Sockets of TCP between the processes of a job: addresses as people write them, listening,
// connecting, and reading and writing whole things before a deadline. Any thread; what blocks says
// so.
#ifndef SLUICE_FRAMEWORK_WIRE_SOCKET_H_
#define SLUICE_FRAMEWORK_WIRE_SOCKET_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"

namespace sluice {

// A file descriptor that is closed when this is destroyed.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }
  // Hands it on: who has the number then closes it.
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

struct Endpoint {
  std::string host;  // a name or a number
  int port = 0;
};

// "node3:29500", "10.0.0.2:29500", "[::1]:29500". InvalidArgument otherwise.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text);
std::string EndpointText(const Endpoint& endpoint);

using Deadline = std::chrono::steady_clock::time_point;

// Listens at that address alone; port 0: any that is free. Sockets neither block nor are inherited.
absl::StatusOr<Descriptor> Listen(const Endpoint& endpoint);
// Takes what waits at a listening socket; none: a closed descriptor.
absl::StatusOr<Descriptor> Accept(int listener);
// Blocks. As long as nobody listens there it tries again: who is waited for may come later.
// DeadlineExceeded, with the last reason, once the deadline has passed.
absl::StatusOr<Descriptor> Connect(const Endpoint& endpoint, Deadline deadline,
                                   const Stop& stop = {});

// Of a connected or listening socket, in numbers.
absl::StatusOr<Endpoint> LocalEndpoint(int socket);
absl::StatusOr<Endpoint> RemoteEndpoint(int socket);
// Whether only processes of this host reach the address that the socket is bound to.
bool IsLoopback(int socket);

// Block until all has come or gone. Unavailable says that the other end closed the connection;
// DeadlineExceeded how much was missing.
absl::Status ReadAll(int socket, absl::Span<std::byte> bytes, Deadline deadline,
                     const Stop& stop = {});
absl::Status WriteAll(int socket, absl::Span<const std::byte> bytes, Deadline deadline);
// Blocks until there is something to read, for who expects so many bytes and has got fewer.
absl::Status WaitToRead(int socket, size_t expected, size_t got, Deadline deadline,
                        const Stop& stop);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_SOCKET_H_
