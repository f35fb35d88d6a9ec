#include "bench/local_ranks.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/cluster/launch_place.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(
    std::string, net, "auto",
    "how bytes come from other ranks: auto reads the memory of processes of this host, tcp is "
    "TCP everywhere");
ABSL_FLAG(bool, seal, false, "what goes over TCP, as the trainers' --seal");

namespace sluice {
namespace {

constexpr auto kConnectLimit = std::chrono::seconds(10);

absl::Status Broken(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("the raw socket: ", what, ": ", errno == 0 ? "closed" : std::strerror(errno)));
}

int64_t Nanoseconds(const timeval& time) {
  return (int64_t{time.tv_sec} * 1000000 + time.tv_usec) * 1000;
}

}  // namespace

FlagGroup RanksFlags() { return {"How ranks talk", {{"net", "KIND", ""}, {"seal", "", ""}}}; }

absl::StatusOr<std::unique_ptr<Job>> JoinLaunchedJob() {
  JobOptions options;
  const std::string net = absl::GetFlag(FLAGS_net);
  if (net != "auto" && net != "tcp") {
    return absl::InvalidArgumentError(
        absl::StrCat("--net: expected auto or tcp, got \"", net, "\""));
  }
  options.read_memory = net == "auto";
  options.seal = absl::GetFlag(FLAGS_seal);
  ASSIGN_OR_RETURN(options.place, ReadLaunchPlace([](const char* name) -> const char* {
                     return std::getenv(name);
                   }));
  return Job::Join(options);
}

absl::StatusOr<Descriptor> ConnectRaw(Job* job) {
  const Deadline deadline = std::chrono::steady_clock::now() + kConnectLimit;
  Descriptor listener, socket;
  std::string address;
  if (job->is_first()) {
    ASSIGN_OR_RETURN(listener, Listen({"127.0.0.1", 0}));
    ASSIGN_OR_RETURN(const Endpoint endpoint, LocalEndpoint(listener.number()));
    address = EndpointText(endpoint);
  }
  ASSIGN_OR_RETURN(const std::string said,
                   job->Share(address, "said where it is to be connected to"));
  if (job->is_first()) {
    while (!socket.open() && std::chrono::steady_clock::now() < deadline) {
      ASSIGN_OR_RETURN(socket, Accept(listener.number()));
    }
    if (!socket.open()) return absl::DeadlineExceededError("rank 1 did not connect in time");
  } else {
    ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(said));
    ASSIGN_OR_RETURN(socket, Connect(endpoint, deadline));
  }
  const int flags = fcntl(socket.number(), F_GETFL);
  if (flags < 0 || fcntl(socket.number(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return Broken("fcntl");
  }
  return socket;
}

absl::Status RawSend(int socket, const void* bytes, int64_t size) {
  for (int64_t done = 0; done < size;) {
    const ssize_t sent = send(socket, static_cast<const char*>(bytes) + done,
                              static_cast<size_t>(size - done), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Broken("send");
    done += sent;
  }
  return absl::OkStatus();
}

absl::Status RawReceive(int socket, void* bytes, int64_t size) {
  for (int64_t done = 0; done < size;) {
    errno = 0;
    const ssize_t got =
        recv(socket, static_cast<char*>(bytes) + done, static_cast<size_t>(size - done), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Broken("recv");
    done += got;
  }
  return absl::OkStatus();
}

int64_t CpuNanoseconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
}

void PrintFigure(const FigureLine& line) {
  nlohmann::json fields = {{"name", line.name},
                           {"value", line.value},
                           {"unit", line.unit},
                           {"goal", line.goal},
                           {"note", line.note}};
  if (line.limit > 0) fields["limit"] = line.limit;
  absl::PrintF("%s\n", fields.dump());
  std::fflush(stdout);
}

}  // namespace sluice
