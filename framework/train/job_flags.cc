#include "framework/train/job_flags.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/sbp/mesh.h"
#include "framework/train/links.h"
#include "framework/wire/socket.h"

ABSL_FLAG(int32_t, ranks, 0,
          "processes that are one job, over which the mesh's devices are dealt out in order; 0: as "
          "the launcher says (//tools:launch, torchrun, srun, mpirun, ...), or one");
ABSL_FLAG(int32_t, rank, 0, "which of --ranks this process is");
ABSL_FLAG(std::string, rendezvous, "",
          "HOST:PORT at which rank 0 waits for the others; as the launcher says, if it does");
ABSL_FLAG(double, rendezvous_limit, 60, "seconds until all ranks must have come");
ABSL_FLAG(double, stall_limit, 60, "seconds until a rank that says nothing any more is given up");
ABSL_FLAG(int64_t, check_replicas, 0,
          "steps between looks at whether devices that hold the same values still do, to the bit, "
          "as memory and links may fail unseen; each waits for the step before; 0: never");
ABSL_FLAG(std::string, net, "auto",
          "how bytes come from other ranks: auto reads the memory of processes of this host, where "
          "that is allowed, and takes TCP between hosts; verbs does so too, but reads memory of "
          "other hosts by RDMA; tcp is TCP everywhere");
ABSL_FLAG(int32_t, ride_along, 16 << 10,
          "bytes of another rank that come with the word that they are there; more are fetched, as "
          "--net says");
ABSL_FLAG(std::string, rdma_device, "",
          "with --net=verbs: the RDMA device of this host, NAME or NAME:PORT, as ibv_devices lists "
          "them; the first that has an active port");
ABSL_FLAG(std::string, links, "default",
          "what moving bytes between processes costs, which decides how they are moved: default, "
          "measure (a second at the start) or a FILE; a run that goes on keeps what it measured");
ABSL_FLAG(std::string, secret_file, "",
          "what the processes of the job alone know, 16 bytes or more that only you may read "
          "(chmod 600); without one, and without //tools:launch, this host alone takes part");

ABSL_FLAG(
    bool, seal, false,
    "encrypts and authenticates what goes over TCP, by AES-256-GCM, which takes a secret; all "
    "ranks or none; what ranks of a host read in each other's memory stays as it is");

namespace sluice {
namespace {

constexpr int32_t kMostRanks = 1 << 16;
constexpr double kMostSeconds = 86400;
constexpr int32_t kMostAlong = 1 << 20;

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

absl::Status CheckSeconds(const char* flag, double seconds) {
  if (seconds > 0 && seconds <= kMostSeconds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": expected seconds above 0, at most ",
                                                 kMostSeconds, ", got ", seconds));
}

absl::StatusOr<LaunchPlace> PlaceByHand(int32_t ranks) {
  LaunchPlace place;
  place.launcher = "by hand";
  place.ranks = ranks;
  place.counted_by = absl::StrCat("--ranks=", ranks);
  place.rank = absl::GetFlag(FLAGS_rank);
  place.address = absl::GetFlag(FLAGS_rendezvous);
  place.local_ranks = 0;
  if (ranks < 1 || ranks > kMostRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks: expected 1 to ", kMostRanks, ", got ", ranks));
  }
  if (place.rank < 0 || place.rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank: expected 0 to ", ranks - 1, ", got ", place.rank));
  }
  if (ranks > 1 && place.address.empty()) {
    return absl::InvalidArgumentError(
        "--rendezvous: expected HOST:PORT with --ranks above 1, such as 127.0.0.1:29500, got none");
  }
  place.text = absl::StrCat("by hand: rank ", place.rank, " of ", ranks,
                            place.address.empty() ? "" : ", rendezvous at ", place.address);
  return place;
}

}  // namespace

FlagGroup JobFlags() {
  return {"Several processes",
          {{"ranks", "N", "as launched"},
           {"rank", "N", ""},
           {"rendezvous", "ADDRESS", "as launched"},
           {"rendezvous_limit", "SECONDS", ""},
           {"stall_limit", "SECONDS", ""},
           {"check_replicas", "STEPS", ""},
           {"secret_file", "FILE", "as launched"},
           {"seal", "", ""},
           {"net", "NAME", ""},
           {"ride_along", "BYTES", ""},
           {"links", "FILE", ""},
           {"rdma_device", "NAME", ""}}};
}

absl::StatusOr<JobOptions> ReadJobFlags(const Environment& environment) {
  JobOptions options;
  const int32_t ranks = absl::GetFlag(FLAGS_ranks);
  const std::string rendezvous = absl::GetFlag(FLAGS_rendezvous);
  if (ranks != 0) {
    ASSIGN_OR_RETURN(options.place, PlaceByHand(ranks));
  } else if (environment) {
    ASSIGN_OR_RETURN(options.place, ReadLaunchPlace(environment, rendezvous));
  }
  if (!options.place.address.empty()) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(options.place.address);
    if (!endpoint.ok()) return AddContext(endpoint.status(), "--rendezvous");
    if (endpoint->port == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rendezvous: expected the port at which all ranks find rank 0, from 1 to "
                       "65535, got \"",
                       options.place.address, "\""));
    }
  }
  const double meeting = absl::GetFlag(FLAGS_rendezvous_limit);
  const double stall = absl::GetFlag(FLAGS_stall_limit);
  RETURN_IF_ERROR(CheckSeconds("rendezvous_limit", meeting));
  RETURN_IF_ERROR(CheckSeconds("stall_limit", stall));
  options.rendezvous_limit = Milliseconds(meeting);
  options.stall_limit = Milliseconds(stall);
  options.secret_file = absl::GetFlag(FLAGS_secret_file);
  const std::string net = absl::GetFlag(FLAGS_net);
  if (net != "auto" && net != "tcp" && net != "verbs") {
    return absl::InvalidArgumentError(
        absl::StrCat("--net: expected auto, verbs or tcp, got \"", net, "\""));
  }
  options.check_replicas_every = absl::GetFlag(FLAGS_check_replicas);
  if (options.check_replicas_every < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--check_replicas: expected steps of 0 or more, got ", options.check_replicas_every));
  }
  options.seal = absl::GetFlag(FLAGS_seal);
  if (options.seal && net == "verbs") {
    return absl::InvalidArgumentError(
        "--seal: expected --net=auto or tcp with it, got --net=verbs, whose RDMA is not sealed");
  }
  options.read_memory = net != "tcp";
  options.rdma = net == "verbs";
  options.most_along = absl::GetFlag(FLAGS_ride_along);
  if (options.most_along < 0 || options.most_along > kMostAlong) {
    return absl::InvalidArgumentError(absl::StrCat("--ride_along: expected 0 to ", kMostAlong,
                                                   " bytes, got ", options.most_along));
  }
  options.links = absl::GetFlag(FLAGS_links);
  options.rdma_device = absl::GetFlag(FLAGS_rdma_device);
  if (!options.rdma && !options.rdma_device.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rdma_device: expected --net=verbs with it, got --net=", net));
  }
  return options;
}

absl::StatusOr<NextStart> MeetAgain(const JobOptions& options, Session* session) {
  NextStart next;
  const LaunchPlace& place = options.place;
  if (place.ranks == 1) return next;
  Descriptor listener;
  const auto listen = [&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(place.address));
    const std::string host = endpoint.host;
    endpoint.port = 0;
    ASSIGN_OR_RETURN(listener, Listen(endpoint));
    ASSIGN_OR_RETURN(endpoint, LocalEndpoint(listener.number()));
    return EndpointText({host, endpoint.port});
  };
  ASSIGN_OR_RETURN(const std::string address,
                   session->Share(place.rank == 0 ? listen() : std::string()));
  // As //tools:launch says it; that counts before what any other launcher has said.
  const bool knows_local = place.local_ranks > 0;
  next.environment = {
      {"SLUICE_RANK", absl::StrCat(place.rank)},
      {"SLUICE_RANKS", absl::StrCat(place.ranks)},
      {"SLUICE_LOCAL_RANK", absl::StrCat(knows_local ? place.local_rank : place.rank)},
      {"SLUICE_LOCAL_RANKS", absl::StrCat(knows_local ? place.local_ranks : place.ranks)},
      {"SLUICE_RESTARTS", absl::StrCat(place.restarts)},
      {"SLUICE_RENDEZVOUS", address},
      {"SLUICE_SECRET_FD", place.secret < 0 ? "" : absl::StrCat(place.secret)}};
  if (listener.open()) fcntl(listener.number(), F_SETFD, 0);  // it outlives the exec
  next.environment.emplace_back("SLUICE_LISTENER_FD",
                                place.rank == 0 ? absl::StrCat(listener.Release()) : "");
  for (const char* flag : {"rendezvous_limit", "stall_limit", "check_replicas", "secret_file",
                           "seal", "net", "links"}) {
    next.flags.push_back(
        absl::StrCat("--", flag, "=", absl::FindCommandLineFlag(flag)->CurrentValue()));
  }
  return next;
}

absl::StatusOr<std::string> DevicesOfRanks(const std::string& mesh, int32_t ranks,
                                           const Machine& machine) {
  const std::vector<int32_t>& hosts = machine.host_of_rank;
  const bool several =
      std::any_of(hosts.begin(), hosts.end(), [](int32_t host) { return host != 0; });
  ASSIGN_OR_RETURN(const Mesh parsed, Mesh::Parse(mesh));
  const Mesh dealt = parsed.OverRanks(ranks);
  std::string text;
  size_t first = 0;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    size_t end = first;
    while (end < dealt.devices().size() && dealt.devices()[end].rank == rank) ++end;
    absl::StrAppend(&text, rank == 0 ? "" : ", ", "rank ", rank,
                    several ? absl::StrCat(" on host ", hosts[rank]) : "", ": ",
                    first == end ? "none" : absl::StrCat(first),
                    end - first < 2 ? "" : absl::StrCat(" to ", end - 1));
    first = end;
  }
  return text;
}

absl::StatusOr<std::string> DescribeJob(const Job& job, const LaunchPlace& place,
                                        const SessionOptions& session) {
  if (job.ranks() == 1) return "";
  ASSIGN_OR_RETURN(const std::string devices,
                   DevicesOfRanks(session.mesh, job.ranks(), session.machine));
  return absl::StrCat("machine    ", session.mesh, " on ", job.ranks(), " processes; ", place.text,
                      "\nranks      ", job.WhereRanksAre(), "\ndevices    ", devices,
                      "\nlinks      ", DescribeLinks(session.machine), "\n");
}

}  // namespace sluice
