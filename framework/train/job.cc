#include "framework/train/job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/cluster/rendezvous.h"
#include "framework/comm/tcp_net.h"
#include "framework/comm/verbs_probe.h"
#include "framework/train/link_probe.h"
#include "framework/wire/handshake.h"

namespace sluice {
namespace {

constexpr size_t kMostSecretBytes = 4096, kLeastSecretBytes = 16;
// Whoever has not said for so long what all wait for is named, as one that stands still later is.
constexpr std::chrono::milliseconds kNamed = TcpNetOptions().silence;

absl::StatusOr<std::string> ReadFrom(int file, const std::string& name) {
  std::string secret(kMostSecretBytes + 1, '\0');
  size_t size = 0;
  while (size < secret.size()) {
    const ssize_t got =
        pread(file, secret.data() + size, secret.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(absl::StrCat(name, ": ", std::strerror(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size < kLeastSecretBytes || size > kMostSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected a secret of ", kLeastSecretBytes, " to ", kMostSecretBytes,
                     " bytes, got ", size > kMostSecretBytes ? "more" : absl::StrCat(size)));
  }
  secret.resize(size);
  return secret;
}

std::string Seconds(std::chrono::milliseconds time) {
  return absl::StrCat(static_cast<double>(time.count()) / 1000, " s");
}

// What others can read is no secret.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const std::string name = absl::StrCat("--secret_file=", path);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!file.open() || fstat(file.number(), &facts) != 0) {
    return absl::NotFoundError(absl::StrCat(name, ": ", std::strerror(errno)));
  }
  if ((facts.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        name, ": expected a file that its owner alone may read (chmod 600), others may"));
  }
  return ReadFrom(file.number(), name);
}

// The address of the other end, or none where that is on this host: as a net tells hosts apart, by
// the two addresses of a connection.
absl::StatusOr<std::string> HostAcross(int socket) {
  const absl::StatusOr<Endpoint> here = LocalEndpoint(socket), there = RemoteEndpoint(socket);
  RETURN_IF_ERROR(here.status());
  RETURN_IF_ERROR(there.status());
  return here->host == there->host ? std::string() : there->host;
}

absl::StatusOr<std::string> SecretOf(const JobOptions& options) {
  if (!options.secret_file.empty()) return ReadSecretFile(options.secret_file);
  if (options.place.secret < 0) return std::string();
  // It stays open: the program may begin anew in this process (MeetAgain).
  return ReadFrom(options.place.secret, "the launcher's secret");
}

}  // namespace

Job::Job(const JobOptions& options) : options_(options) {}

Job::~Job() = default;

absl::StatusOr<std::string> BuildOfThisProgram() {
  const Descriptor file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  std::vector<char> buffer(size_t{1} << 20);
  StableByteHasher hasher;
  while (true) {
    const ssize_t got = read(file.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat("this program's file cannot be read: ", std::strerror(errno)));
    }
    if (got == 0) return HashText(hasher.digest());
    hasher.Add(buffer.data(), static_cast<size_t>(got));
  }
}

absl::StatusOr<std::unique_ptr<Job>> Job::Join(const JobOptions& options) {
  std::unique_ptr<Job> job(new Job(options));
  if (options.place.ranks == 1) return job;
  RendezvousOptions meeting;
  meeting.rank = options.place.rank;
  meeting.ranks = options.place.ranks;
  meeting.restarts = options.place.restarts;
  meeting.counted_by = options.place.counted_by;
  meeting.address = options.place.address;
  meeting.listener = options.place.listener;
  ASSIGN_OR_RETURN(meeting.secret, SecretOf(options));
  ASSIGN_OR_RETURN(meeting.build, BuildOfThisProgram());
  meeting.seal = options.seal;
  meeting.channels = kTcpChannels;
  meeting.limit = options.rendezvous_limit;
  meeting.stop = options.stop;
  ASSIGN_OR_RETURN(job->rendezvous_, Rendezvous::Meet(meeting));
  job->connections_ = job->rendezvous_->TakeConnections();
  SetLogRank(options.place.rank);
  return job;
}

std::string Job::WhereRanksAre() const {
  std::string text;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    absl::StrAppend(&text, rank == 0 ? "" : ", ", "rank ", rank,
                    rank == this->rank() ? " here" : " at ",
                    rank == this->rank() ? "" : rendezvous_->names()[rank]);
  }
  if (options_.seal) absl::StrAppend(&text, "; what goes over TCP is sealed");
  return text;
}

Deadline Job::Limit() const { return EventLoop::Clock::now() + options_.stall_limit; }

Stop Job::NameWhoIsLate(int32_t rank, absl::string_view what) const {
  const auto begin = EventLoop::Clock::now();
  const auto named = std::min(kNamed, options_.stall_limit / 2);
  return [this, rank, what = std::string(what), begin, named, told = false]() mutable {
    if (!told && EventLoop::Clock::now() - begin >= named) {
      told = true;
      SLUICE_LOG(WARNING) << "rank " << rank << ", at " << rendezvous_->names()[rank]
                          << ", has not " << what << " for " << Seconds(named)
                          << "; it is given up after " << Seconds(options_.stall_limit);
    }
    return options_.stop && options_.stop();
  };
}

absl::Status Job::NameWhoIsLost(const absl::Status& status, int32_t rank,
                                absl::string_view what) const {
  const std::string who = absl::StrCat("rank ", rank, ", at ", rendezvous_->names()[rank]);
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(absl::StrCat(who, ", has not ", what, " within ",
                                                    Seconds(options_.stall_limit),
                                                    " and is given up: ", status.message()));
  }
  return AddContext(status, absl::StrCat(who, ", is lost before it has ", what));
}

// Over the connections that the net will have, before it has them.
absl::StatusOr<std::string> Job::Share(const absl::StatusOr<std::string>& mine,
                                       absl::string_view what) {
  const Deadline deadline = Limit();
  if (is_first()) {
    const std::string said = MakeVerdict(mine.status(), mine.ok() ? *mine : "");
    for (int32_t rank = 1; rank < ranks(); ++rank) {
      const absl::Status told = connections_[rank][0].Write(
          {reinterpret_cast<const std::byte*>(said.data()), said.size()}, deadline);
      if (!told.ok()) return NameWhoIsLost(told, rank, "taken what rank 0 says");
    }
    return mine;
  }
  Connection& first = connections_[0][0];
  const Stop stop = NameWhoIsLate(0, what);
  VerdictHead head;
  absl::Status heard = first.Read(absl::MakeSpan(head), deadline, stop);
  if (!heard.ok()) return NameWhoIsLost(heard, 0, what);
  ASSIGN_OR_RETURN(const ReadVerdictHead verdict, ReadVerdict(head));
  std::string text(verdict.bytes, '\0');
  heard = first.Read({reinterpret_cast<std::byte*>(text.data()), text.size()}, deadline, stop);
  if (!heard.ok()) return NameWhoIsLost(heard, 0, what);
  if (verdict.code == absl::StatusCode::kOk) return text;
  return absl::Status(verdict.code, absl::StrCat("rank 0: ", text));
}

absl::StatusOr<std::vector<int32_t>> Job::SeeHosts() const {
  std::vector<std::string> hosts;
  std::vector<int32_t> host_of_rank;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    std::string host;
    if (rank != this->rank()) {
      ASSIGN_OR_RETURN(host, HostAcross(connections_[rank][0].number()));
    }
    const auto found = std::find(hosts.begin(), hosts.end(), host);
    host_of_rank.push_back(static_cast<int32_t>(found - hosts.begin()));
    if (found == hosts.end()) hosts.push_back(host);
  }
  return host_of_rank;
}

// Tokens go over the connection. Bytes come by RDMA, where the net has it and they are not read in
// place.
absl::StatusOr<Link> Job::MeasurePair(int32_t other, LinkKind kind, bool asks, Deadline deadline) {
  Connection* const connection = &connections_[other].back();
  ASSIGN_OR_RETURN(Link link, MeasureLink(connection, asks, deadline));
  if (!options_.rdma || (kind == LinkKind::kHost && options_.read_memory)) return link;
  VerbsOptions verbs;
  verbs.device = options_.rdma_device;
  ASSIGN_OR_RETURN(const std::optional<double> rate,
                   MeasureReads(connection, verbs, asks, deadline));
  if (!rate.has_value()) return link;
  if (asks) {
    SLUICE_LOG(INFO) << "RDMA reads of rank " << other << " come at " << *rate / 1e9
                     << " GB/s, TCP at " << link.bytes_per_second / 1e9;
  }
  link.bytes_per_second = *rate;
  return link;
}

absl::StatusOr<std::array<Link, kLinkKinds>> Job::MeasureLinks(
    const std::vector<int32_t>& host_of_rank, std::array<Link, kLinkKinds> links) {
  constexpr absl::string_view kMeasures = "measured a link";
  const Deadline deadline = Limit();
  for (const LinkKind kind : {LinkKind::kHost, LinkKind::kNetwork}) {
    const std::optional<std::pair<int32_t, int32_t>> pair = ProbePair(host_of_rank, kind);
    if (!pair) continue;
    Link measured;
    const auto [asks, answers] = *pair;
    if (rank() == asks || rank() == answers) {
      const int32_t other = rank() == asks ? answers : asks;
      absl::StatusOr<Link> link = MeasurePair(other, kind, rank() == asks, deadline);
      if (!link.ok()) return NameWhoIsLost(link.status(), other, kMeasures);
      measured = *link;
    }
    // The first rank asks, but where it is the only one of its host.
    if (asks != 0 && rank() == asks) {
      RETURN_IF_ERROR(SendLink(&connections_[0][0], measured, deadline));
    } else if (asks != 0 && is_first()) {
      const absl::StatusOr<Link> link = ReceiveLink(&connections_[asks][0], deadline);
      if (!link.ok()) return NameWhoIsLost(link.status(), asks, kMeasures);
      measured = *link;
    }
    if (!is_first()) continue;
    Link& link = links[static_cast<size_t>(kind)];
    const double in_place = links[static_cast<size_t>(LinkKind::kProcess)].bytes_per_second;
    link = RoundLink(measured);
    // There they are read where they lie, and not over the connection.
    if (kind == LinkKind::kHost && options_.read_memory) {
      link.bytes_per_second = std::max(link.bytes_per_second, in_place);
    }
  }
  return links;
}

absl::StatusOr<CommNet*> Job::net() {
  if (ranks() == 1) return nullptr;
  if (net_ == nullptr) {
    std::vector<TcpPeer> peers(ranks());
    for (int32_t rank = 0; rank < ranks(); ++rank) {
      for (int32_t channel = 0; channel < kTcpChannels; ++channel) {
        peers[rank].connections[channel] = std::move(connections_[rank][channel]);
      }
      peers[rank].name = rendezvous_->names()[rank];
    }
    TcpNetOptions options;
    options.silence_limit = options_.stall_limit;
    options.read_memory = options_.read_memory;
    options.most_along = options_.most_along;
    if (options_.rdma) options.verbs.emplace().device = options_.rdma_device;
    absl::StatusOr<std::unique_ptr<TcpNet>> net =
        TcpNet::Make(rendezvous_->loop(), rank(), std::move(peers), options);
    if (!net.ok() && options_.rdma) {
      return absl::Status(net.status().code(),
                          absl::StrCat(net.status().message(), "; run with --net=tcp"));
    }
    ASSIGN_OR_RETURN(net_, std::move(net));
  }
  return net_.get();
}

}  // namespace sluice
