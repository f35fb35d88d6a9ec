#include "framework/wire/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// A peer whose host has gone says nothing more. What was sent to it is given up after this long;
// where nothing was, probes find out in the same time. Without both it would never be noticed. All
// ranks are to have ended within 5 s: the kernel's timers take up to 0.4 s more, and with 4 s a
// machine under load had 5.0. Bytes are sent anew 0.2, 0.6, 1.4 and 3.0 s after they were first.
constexpr int kGiveUpMilliseconds = 3500;
constexpr int kIdleSeconds = 1, kProbeSeconds = 1, kProbes = 3;

constexpr auto kBetweenTries = std::chrono::milliseconds(50);
constexpr auto kBetweenStops = std::chrono::milliseconds(100);

std::string ErrorText(int error) { return std::strerror(error); }

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Resolve(const Endpoint& endpoint, bool to_listen) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(endpoint.port);
  const int error = getaddrinfo(endpoint.host.c_str(), port.c_str(), &wanted, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("no address of host \"", endpoint.host, "\": ", gai_strerror(error)));
  }
  return Addresses(found);
}

absl::StatusOr<Descriptor> NewSocket(const addrinfo& address) {
  Descriptor made(socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.open()) return made;
  return absl::ResourceExhaustedError(absl::StrCat("no socket: ", ErrorText(errno)));
}

// Of a connection: no waiting for more to send, and a peer that has gone is noticed.
void SetConnectionOptions(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof(kIdleSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof(kProbeSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kGiveUpMilliseconds,
             sizeof(kGiveUpMilliseconds));
}

int MillisecondsUntil(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left + 1, 0, 1000 * 3600));
}

// False once the deadline has passed, or it is to stop.
bool WaitFor(int socket, short events, Deadline deadline, const Stop& stop = {}) {
  pollfd waited = {socket, events, 0};
  while (Clock::now() < deadline && !(stop && stop())) {
    const Deadline next = stop ? std::min(deadline, Clock::now() + kBetweenStops) : deadline;
    const int ready = poll(&waited, 1, MillisecondsUntil(next));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

// Where nobody listens at a port of this host, the kernel may choose that very port for the caller,
// which then has called itself.
bool IsOwnEnd(int socket) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_size = sizeof(own), other_size = sizeof(other);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_size) == 0 &&
         own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

// One address, once. OK with a closed descriptor: nobody listens there yet.
absl::StatusOr<Descriptor> TryConnect(const addrinfo& address, Deadline deadline, const Stop& stop,
                                      std::string* reason) {
  ASSIGN_OR_RETURN(Descriptor socket, NewSocket(address));
  if (connect(socket.number(), address.ai_addr, address.ai_addrlen) != 0) {
    int error = errno;
    if (error == EINPROGRESS) {
      if (!WaitFor(socket.number(), POLLOUT, deadline, stop)) {
        *reason = "no answer";
        return Descriptor();
      }
      socklen_t size = sizeof(error);
      getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) {
      *reason = ErrorText(error);
      return Descriptor();
    }
  }
  if (IsOwnEnd(socket.number())) {
    // Reset, not closed: else the kernel keeps the port for a minute from who is waited for.
    const linger reset = {1, 0};
    setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    *reason = ErrorText(ECONNREFUSED);
    return Descriptor();
  }
  SetConnectionOptions(socket.number());
  return socket;
}

absl::StatusOr<Endpoint> EndpointOf(int socket, decltype(&getsockname) ask) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (ask(socket, generic, &size) != 0) {
    return absl::UnavailableError(absl::StrCat("a socket has no address: ", ErrorText(errno)));
  }
  const int error = getnameinfo(generic, size, host, sizeof(host), port, sizeof(port),
                                NI_NUMERICHOST | NI_NUMERICSERV);
  Endpoint endpoint;
  if (error != 0 || !absl::SimpleAtoi(port, &endpoint.port)) {
    return absl::UnavailableError("a socket has an address of no known kind");
  }
  endpoint.host = host;
  return endpoint;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text) {
  Endpoint endpoint;
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon == text.npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const absl::string_view port = colon == text.npos ? "" : text.substr(colon + 1);
  // Numbers may be written with signs and spaces, ports may not.
  const bool is_port = std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
                       absl::SimpleAtoi(port, &endpoint.port) && endpoint.port <= 65535;
  const bool is_host = !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isgraph(c) && c != '[' && c != ']';
  });
  if (!is_port || !is_host || (!bracketed && host.find(':') != host.npos)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected an address such as node3:29500, got \"", text, "\""));
  }
  endpoint.host = std::string(host);
  return endpoint;
}

std::string EndpointText(const Endpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", endpoint.host, "]:", endpoint.port)
                 : absl::StrCat(endpoint.host, ":", endpoint.port);
}

absl::StatusOr<Descriptor> Listen(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const Addresses addresses, Resolve(endpoint, /*to_listen=*/true));
  std::string reason;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    ASSIGN_OR_RETURN(Descriptor socket, NewSocket(*address));
    // Connections of a job that has just ended do not keep the next one from its port.
    const int on = 1;
    setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(socket.number(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket.number(), SOMAXCONN) == 0) {
      return socket;
    }
    reason = ErrorText(errno);
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen at ", EndpointText(endpoint), ": ", reason));
}

absl::StatusOr<Descriptor> Accept(int listener) {
  while (true) {
    Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      SetConnectionOptions(socket.number());
      return socket;
    }
    if (errno == EAGAIN) return Descriptor();
    // A connection that has gone before it was taken is not the listener's error, and says nothing
    // of those behind it.
    if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) break;
  }
  return absl::ResourceExhaustedError(absl::StrCat("no connection taken: ", ErrorText(errno)));
}

absl::StatusOr<Descriptor> Connect(const Endpoint& endpoint, Deadline deadline, const Stop& stop) {
  std::string reason = "no time was left";
  while (Clock::now() < deadline) {
    // Names may be known later than the process that asks for them, too.
    const absl::StatusOr<Addresses> addresses = Resolve(endpoint, /*to_listen=*/false);
    if (!addresses.ok()) reason = std::string(addresses.status().message());
    for (const addrinfo* address = addresses.ok() ? addresses->get() : nullptr; address != nullptr;
         address = address->ai_next) {
      ASSIGN_OR_RETURN(Descriptor socket, TryConnect(*address, deadline, stop, &reason));
      if (socket.open()) return socket;
      RETURN_IF_ERROR(CheckStop(stop));
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(kBetweenTries, deadline - Clock::now()));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("cannot connect to ", EndpointText(endpoint), ": ", reason));
}

absl::StatusOr<Endpoint> LocalEndpoint(int socket) { return EndpointOf(socket, getsockname); }

absl::StatusOr<Endpoint> RemoteEndpoint(int socket) { return EndpointOf(socket, getpeername); }

bool IsLoopback(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(in.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.ss_family != AF_INET6) return false;
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
}

absl::Status WaitToRead(int socket, size_t expected, size_t got, Deadline deadline,
                        const Stop& stop) {
  if (WaitFor(socket, POLLIN, deadline, stop)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckStop(stop));
  return absl::DeadlineExceededError(
      absl::StrCat("expected ", expected, " bytes, got ", got, " in time"));
}

absl::Status ReadAll(int socket, absl::Span<std::byte> bytes, Deadline deadline, const Stop& stop) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = recv(socket, bytes.data() + done, bytes.size() - done, 0);
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0) {
      return absl::UnavailableError("the connection was closed");
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitToRead(socket, bytes.size(), done, deadline, stop));
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrorText(errno));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int socket, absl::Span<const std::byte> bytes, Deadline deadline) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t sent = send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      if (WaitFor(socket, POLLOUT, deadline)) continue;
      return absl::DeadlineExceededError(
          absl::StrCat("of ", bytes.size(), " bytes ", done, " were taken in time"));
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrorText(errno));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
