#include "framework/cluster/rendezvous.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

using Clock = EventLoop::Clock;

constexpr auto kBetweenStops = std::chrono::milliseconds(100);
// Rank 0 knows who is missing, so the others give it this much longer to say so.
constexpr auto kLongerForOthers = std::chrono::milliseconds(2000);
constexpr size_t kMostBuild = 16;

Deadline DeadlineOf(const RendezvousOptions& options) {
  const auto longer = options.rank == 0 ? std::chrono::milliseconds(0) : kLongerForOthers;
  return Clock::now() + options.limit + longer;
}

}  // namespace

Rendezvous::Rendezvous(const RendezvousOptions& options)
    : options_(options),
      deadline_(DeadlineOf(options)),
      connections_(options.ranks),
      here_(options.ranks, std::vector<bool>(options.channels)),
      names_(options.ranks),
      endpoints_(options.ranks),
      waiting_(options.ranks) {
  for (auto& connections : connections_) connections.resize(options.channels);
}

Rendezvous::~Rendezvous() {
  acceptor_.reset();  // before what it calls
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Meet(const RendezvousOptions& options) {
  // Whoever has the descriptor, it is closed in the end.
  Descriptor listener(options.listener);
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a rank of ", options.ranks, ", got ", options.rank));
  }
  if (options.seal && options.secret.empty()) {
    return absl::InvalidArgumentError(
        "--seal: expected a secret to draw keys from, by --secret_file or //tools:launch, got "
        "none");
  }
  SLUICE_CHECK(options.build.size() <= kMostBuild);
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(options));
  ASSIGN_OR_RETURN(rendezvous->loop_, EventLoop::Start());
  if (options.ranks == 1) return rendezvous;
  if (options.rank == 0) {
    if (listener.open()) {
      fcntl(listener.number(), F_SETFL, fcntl(listener.number(), F_GETFL) | O_NONBLOCK);
      fcntl(listener.number(), F_SETFD, FD_CLOEXEC);
    } else {
      ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(options.address));
      ASSIGN_OR_RETURN(listener, sluice::Listen(endpoint));
    }
    RETURN_IF_ERROR(rendezvous->Receive(std::move(listener)));
  } else {
    RETURN_IF_ERROR(rendezvous->Visit());
  }
  return rendezvous;
}

// Takes who comes to the socket, from now until this is destroyed.
absl::Status Rendezvous::Accept(Descriptor listener) {
  if (options_.secret.empty() && !IsLoopback(listener.number())) {
    return absl::InvalidArgumentError(
        "without a secret a job listens on this host alone: expected an address such as "
        "127.0.0.1:29500, or --secret_file");
  }
  AcceptorOptions options;
  options.secret = options_.secret;
  // Those of a large job may all come at once.
  options.most_unknown += static_cast<size_t>(options_.ranks) * options_.channels;
  ASSIGN_OR_RETURN(acceptor_,
                   Acceptor::Start(loop_.get(), std::move(listener), options,
                                   [this](Newcomer newcomer) { Take(std::move(newcomer)); }));
  return absl::OkStatus();
}

// Rank 0: waits for all, then tells all where the others are.
absl::Status Rendezvous::Receive(Descriptor listener) {
  RETURN_IF_ERROR(Accept(std::move(listener)));
  std::unique_lock<std::mutex> lock(mutex_);
  absl::Status status = WaitUntil(
      &lock, [this] { return std::count(waiting_.begin(), waiting_.end(), nullptr) == 1; });
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::DeadlineExceededError(
        absl::StrCat("rendezvous at ", options_.address, ": expected ", options_.ranks,
                     " ranks within ", options_.limit.count() / 1000, " s, missing: ", Missing(),
                     options_.counted_by.empty()
                         ? ""
                         : absl::StrCat("; ", options_.counted_by, " says how many there are")));
  }
  told_ = true;
  for (auto& newcomer : waiting_) {
    if (newcomer == nullptr) continue;
    const int32_t rank = newcomer->caller.rank;
    const absl::Status told = Tell(newcomer.get(), status, absl::StrJoin(endpoints_, "\n"));
    if (status.ok() && !told.ok()) {
      // The others will miss it when they connect.
      status = absl::UnavailableError(absl::StrCat("rank ", rank, ", at ", names_[rank],
                                                   ", has gone before all ranks were there"));
    }
    connections_[rank][0] = std::move(newcomer->connection);
    newcomer = nullptr;
  }
  RETURN_IF_ERROR(status);
  return WaitForHigher(&lock);
}

// All others: tells rank 0 where this one listens, learns where the others do, connects to those of
// lower rank and waits for those of higher.
absl::Status Rendezvous::Visit() {
  ASSIGN_OR_RETURN(const Endpoint first, ParseEndpoint(options_.address));
  Caller caller;
  caller.rank = options_.rank;
  caller.ranks = options_.ranks;
  caller.restarts = options_.restarts;
  caller.sealed = options_.seal;
  absl::Status listens;
  // It listens at the address by which it reaches rank 0: there the others can reach it.
  const auto listen = [&](int socket) -> std::string {
    absl::StatusOr<Endpoint> own = LocalEndpoint(socket);
    if (own.ok()) own->port = 0;
    absl::StatusOr<Descriptor> listener = own.ok() ? Listen(*own) : own.status();
    absl::StatusOr<Endpoint> bound =
        listener.ok() ? LocalEndpoint(listener->number()) : listener.status();
    listens = listener.ok() ? Accept(*std::move(listener)) : listener.status();
    return bound.ok() ? absl::StrCat(EndpointText(*bound), " ", options_.build) : "";
  };
  absl::StatusOr<Admission> admission =
      Enter(first, caller, options_.secret, deadline_, listen, options_.stop);
  RETURN_IF_ERROR(listens);
  RETURN_IF_ERROR(AddContext(admission.status(), "rendezvous with rank 0"));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    connections_[0][0] = std::move(admission->connection);
    endpoints_ = absl::StrSplit(admission->text, '\n');
    endpoints_.resize(options_.ranks);
    endpoints_[0] = options_.address;
    names_[0] = options_.address;
  }
  for (caller.channel = 0; caller.channel < options_.channels; ++caller.channel) {
    for (int32_t rank = 0; rank < options_.rank; ++rank) {
      if (rank == 0 && caller.channel == 0) continue;
      ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(endpoints_[rank]));
      absl::StatusOr<Admission> entered = Enter(
          endpoint, caller, options_.secret, deadline_, [](int) { return std::string(); },
          options_.stop);
      if (!entered.ok()) return AddContext(entered.status(), absl::StrCat("rank ", rank));
      std::lock_guard<std::mutex> lock(mutex_);
      connections_[rank][caller.channel] = std::move(entered->connection);
      names_[rank] = EndpointText(endpoint);
    }
  }
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitForHigher(&lock);
}

absl::Status Rendezvous::WaitForHigher(std::unique_lock<std::mutex>* lock) {
  const absl::Status status = WaitUntil(lock, [this] { return Missing().empty(); });
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", options_.rank, " waits for connections of ranks ", Missing()));
}

template <typename There>
absl::Status Rendezvous::WaitUntil(std::unique_lock<std::mutex>* lock, const There& there) {
  while (!there()) {
    RETURN_IF_ERROR(CheckStop(options_.stop));
    if (Clock::now() >= deadline_) return absl::DeadlineExceededError("");
    changed_.wait_until(*lock, std::min<Deadline>(deadline_, Clock::now() + kBetweenStops));
  }
  return absl::OkStatus();
}

// Ranks above this one of which a connection has not come: "2, 5".
std::string Rendezvous::Missing() const {
  std::vector<int32_t> missing;
  for (int32_t rank = options_.rank + 1; rank < options_.ranks; ++rank) {
    const auto& here = here_[rank];
    const bool waits = !told_ && options_.rank == 0;
    if (waits ? waiting_[rank] == nullptr : std::count(here.begin(), here.end(), false) > 0) {
      missing.push_back(rank);
    }
  }
  return absl::StrJoin(missing, ", ");
}

// Why a newcomer is not wanted, said so that who reads it where it was started knows what to do.
absl::Status Rendezvous::Judge(const Newcomer& newcomer) const {
  const Caller& caller = newcomer.caller;
  const std::string who = absl::StrCat("rank ", caller.rank, " of ", caller.ranks);
  const auto refuse = [&](auto&&... why) {
    return absl::FailedPreconditionError(absl::StrCat(who, " is refused: ", why...));
  };
  if (caller.ranks != options_.ranks) return refuse("this job has ", options_.ranks, " ranks");
  if (caller.restarts != options_.restarts) {
    return refuse("expected start ", options_.restarts, " of the job, got ", caller.restarts);
  }
  if (caller.sealed != options_.seal) {
    return refuse("expected it ", options_.seal ? "with" : "without", " --seal, as rank ",
                  options_.rank, " is");
  }
  if (caller.rank <= options_.rank || caller.rank >= options_.ranks || caller.channel < 0 ||
      caller.channel >= options_.channels) {
    return refuse("rank ", options_.rank, " expects ranks ", options_.rank + 1, " to ",
                  options_.ranks - 1, " on channels 0 to ", options_.channels - 1, ", got channel ",
                  caller.channel);
  }
  if (here_[caller.rank][caller.channel]) {
    return refuse("another process, at ", names_[caller.rank], ", is that rank");
  }
  if (options_.rank != 0 || caller.channel != 0) return absl::OkStatus();
  if (told_) return refuse("the time to come is over");
  const std::pair<std::string, std::string> added = absl::StrSplit(newcomer.added, ' ');
  if (added.second != options_.build) {
    return refuse("it is another program: expected build ", options_.build, " as on rank 0, got ",
                  added.second);
  }
  return ParseEndpoint(added.first).status();
}

void Rendezvous::Take(Newcomer newcomer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const absl::Status verdict = Judge(newcomer);
  const Caller caller = newcomer.caller;
  const bool waits = verdict.ok() && options_.rank == 0 && caller.channel == 0;
  if (waits) {
    endpoints_[caller.rank] = std::string(newcomer.added.substr(0, newcomer.added.find(' ')));
  } else if (!Tell(&newcomer, verdict, "").ok() || !verdict.ok()) {
    if (!verdict.ok()) SLUICE_LOG(WARNING) << newcomer.from << ": " << verdict.message();
    return;
  }
  here_[caller.rank][caller.channel] = true;
  if (caller.channel == 0) names_[caller.rank] = newcomer.from;
  if (waits) {
    waiting_[caller.rank] = std::make_unique<Newcomer>(std::move(newcomer));
  } else {
    connections_[caller.rank][caller.channel] = std::move(newcomer.connection);
  }
  changed_.notify_all();
}

std::vector<std::vector<Connection>> Rendezvous::TakeConnections() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::move(connections_);
}

}  // namespace sluice
