// A program for tests of launchers: says its place, and meets the other ranks at the address that
// it was told, so that the address is one that works and every rank is there once. One line a rank:
//   srun: rank 1 of 3, local 1 of 3, rendezvous at 127.0.0.1:21503; met rank 0
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/process.h"
#include "framework/base/status.h"
#include "framework/cluster/launch_place.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{10};

// What a rank says first: that it knows the secret, where there is one, and who it is.
struct Greeting {
  char secret[32] = {};
  int32_t rank = 0;
};

absl::Status SystemError(absl::string_view what) { return absl::ErrnoToStatus(errno, what); }

absl::StatusOr<Greeting> MakeGreeting(const LaunchPlace& place) {
  Greeting greeting;
  greeting.rank = place.rank;
  if (place.secret >= 0 && pread(place.secret, greeting.secret, 32, 0) != 32) {
    return SystemError("read the secret");
  }
  return greeting;
}

// An IPv4 address or a name of one; enough for a test.
absl::StatusOr<sockaddr_in> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_INET;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return absl::NotFoundError(absl::StrCat("no such host: ", address));
  }
  const sockaddr_in result = *reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  return result;
}

absl::StatusOr<std::string> MeetOthers(const LaunchPlace& place, const Greeting& own) {
  int listener = place.listener;
  if (listener < 0) {
    ASSIGN_OR_RETURN(const sockaddr_in address, Resolve(place.address));
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener, 128) != 0) {
      return SystemError(absl::StrCat("listen at ", place.address));
    }
  }
  const timeval patience = {.tv_sec = kPatience.count(), .tv_usec = 0};
  setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::set<int32_t> met;
  while (static_cast<int32_t>(met.size()) < place.ranks - 1) {
    const int peer = accept(listener, nullptr, nullptr);
    if (peer < 0)
      return SystemError(absl::StrCat("wait for others; met ", absl::StrJoin(met, " ")));
    Greeting greeting;
    if (recv(peer, &greeting, sizeof(greeting), MSG_WAITALL) != sizeof(greeting)) continue;
    if (memcmp(greeting.secret, own.secret, sizeof(own.secret)) != 0 ||
        !met.insert(greeting.rank).second || greeting.rank < 1 || greeting.rank >= place.ranks) {
      return absl::InternalError(absl::StrCat("a wrong greeting of rank ", greeting.rank));
    }
    if (send(peer, &own.rank, sizeof(own.rank), MSG_NOSIGNAL) != sizeof(own.rank)) {
      return SystemError("answer");
    }
    close(peer);
  }
  return absl::StrJoin(met, " ");
}

absl::StatusOr<std::string> MeetRank0(const LaunchPlace& place, const Greeting& own) {
  const Clock::time_point end = Clock::now() + kPatience;
  while (Clock::now() < end) {
    ASSIGN_OR_RETURN(const sockaddr_in address, Resolve(place.address));
    const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int32_t answer = -1;
    const bool met =
        connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
        send(peer, &own, sizeof(own), MSG_NOSIGNAL) == sizeof(own) &&
        recv(peer, &answer, sizeof(answer), MSG_WAITALL) == sizeof(answer);
    close(peer);
    if (met) return absl::StrCat("rank ", answer);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::DeadlineExceededError(absl::StrCat("no rank 0 at ", place.address));
}

absl::StatusOr<std::string> Meet() {
  ASSIGN_OR_RETURN(const LaunchPlace place, ReadLaunchPlace(getenv));
  if (place.ranks == 1) return place.text;
  ASSIGN_OR_RETURN(const Greeting own, MakeGreeting(place));
  ASSIGN_OR_RETURN(const std::string met,
                   place.rank == 0 ? MeetOthers(place, own) : MeetRank0(place, own));
  return absl::StrCat(place.text, "; met ", met);
}

int Main() {
  const absl::StatusOr<std::string> met = Meet();
  if (!met.ok()) {
    fprintf(stderr, "launch_place_main: %s\n", met.status().ToString().c_str());
    return 1;
  }
  // In one piece, as the launcher may have all ranks write to one terminal.
  const std::string line = *met + "\n";
  return write(1, line.data(), line.size()) == static_cast<ssize_t>(line.size()) ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main() { return sluice::RunProcess("launch_place_main", sluice::Main); }
