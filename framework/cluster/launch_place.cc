#include "framework/cluster/launch_place.h"

#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/cluster/slurm_list.h"

namespace sluice {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr absl::string_view kLoopback = "127.0.0.1";
// Ports that are made up of a job's number lie below those that Linux gives to outgoing connections
// (32768 to 60999), so that none of them has taken the port by chance.
constexpr int64_t kFirstDerivedPort = 20000, kDerivedPorts = 10000;
// Steps of Slurm that are no launch: the body of a batch script, the shell of salloc, the container
// of a job. From slurm.h: SLURM_MAX_NORMAL_STEP_ID.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

constexpr char kOurs[] = "//tools:launch";
constexpr const char* kOurVariables[] = {"SLUICE_RANK", "SLUICE_RANKS", "SLUICE_LOCAL_RANK",
                                         "SLUICE_LOCAL_RANKS", "SLUICE_RENDEZVOUS"};

absl::Status Unexpected(absl::string_view name, absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": expected ", expected, ", got ",
                   got.empty() ? "nothing (it is not set)" : Quoted(got)));
}

// Digits alone: absl's parser would also take blanks and a plus.
std::optional<int64_t> ReadNumber(absl::string_view text) {
  int64_t number = 0;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return std::nullopt;
  }
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  absl::string_view Get(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? "" : value;
  }
  bool Has(const char* name) const { return !Get(name).empty(); }

  absl::StatusOr<int64_t> Number(const char* name, int64_t least, int64_t most,
                                 absl::string_view expected) const {
    const std::optional<int64_t> number = ReadNumber(Get(name));
    if (!number || *number < least || *number > most) return Unexpected(name, expected, Get(name));
    return *number;
  }
  absl::StatusOr<int32_t> Count(const char* name) const {
    ASSIGN_OR_RETURN(const int64_t count, Number(name, 1, kMostRanks, "how many ranks there are"));
    return static_cast<int32_t>(count);
  }
  // One of `count`, which the variable `of` says.
  absl::StatusOr<int32_t> Index(const char* name, int32_t count, absl::string_view of) const {
    ASSIGN_OR_RETURN(const int64_t index, Number(name, 0, count - 1,
                                                 absl::StrCat("a number from 0 to ", count - 1,
                                                              " (", of, " is ", count, ")")));
    return static_cast<int32_t>(index);
  }
  absl::StatusOr<int32_t> Restarts(const char* name) const {
    if (!Has(name)) return 0;
    ASSIGN_OR_RETURN(const int64_t restarts, Number(name, 0, std::numeric_limits<int32_t>::max(),
                                                    "how often the job was begun again"));
    return static_cast<int32_t>(restarts);
  }
  // -1 where it is not set.
  absl::StatusOr<int> Descriptor(const char* name) const {
    if (!Has(name)) return -1;
    ASSIGN_OR_RETURN(const int64_t descriptor, Number(name, 3, std::numeric_limits<int>::max(),
                                                      "an inherited descriptor from 3 on"));
    return static_cast<int>(descriptor);
  }
  absl::StatusOr<int64_t> Port(const char* name) const {
    return Number(name, 1, 65535, "the port of rank 0, from 1 to 65535");
  }
  absl::StatusOr<std::string> Host(const char* name) const {
    const absl::string_view host = Get(name);
    if (!IsHost(host)) return Unexpected(name, "the host of rank 0", host);
    // An IPv6 address: the last of its colons would be taken for that of the port.
    if (absl::StrContains(host, ':') && host.front() != '[') return absl::StrCat("[", host, "]");
    return std::string(host);
  }

  static bool IsHost(absl::string_view text) {
    for (const char c : text) {
      if (!absl::ascii_isalnum(c) && !absl::StrContains("-._:%[]", c)) return false;
    }
    return !text.empty();
  }

 private:
  const Environment& environment_;
};

absl::StatusOr<std::string> CheckAddress(absl::string_view name, absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon != absl::string_view::npos) {
    const absl::string_view host = address.substr(0, colon);
    const std::optional<int64_t> port = ReadNumber(address.substr(colon + 1));
    const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
    if (Variables::IsHost(host) && (bracketed || !absl::StrContains(host, ':')) && port &&
        *port >= 1 && *port <= 65535) {
      return std::string(address);
    }
  }
  return Unexpected(name, "host:port", address);
}

std::string DerivedPort(uint64_t number) {
  return absl::StrCat(kFirstDerivedPort + number % kDerivedPorts);
}

// An answer of a launcher; nothing where the process was not started by it.
using MaybePlace = absl::StatusOr<std::optional<LaunchPlace>>;

class PlaceReader {
 public:
  PlaceReader(const Environment& environment, absl::string_view rendezvous)
      : variables_(environment), rendezvous_(rendezvous) {}

  absl::StatusOr<LaunchPlace> Read() {
    if (!rendezvous_.empty()) {
      RETURN_IF_ERROR(CheckAddress("--rendezvous", rendezvous_).status());
    }
    using Reader = MaybePlace (PlaceReader::*)();
    constexpr std::array<Reader, 8> kReaders = {
        &PlaceReader::OurLauncher, &PlaceReader::Torchrun,   &PlaceReader::OpenMpi,
        &PlaceReader::Pmi,         &PlaceReader::Srun,       &PlaceReader::PyTorchJob,
        &PlaceReader::Pod,         &PlaceReader::IndexedJob,
    };
    for (const Reader reader : kReaders) {
      ASSIGN_OR_RETURN(std::optional<LaunchPlace> place, (this->*reader)());
      if (!place) continue;
      place->text = Text(*place);
      return *std::move(place);
    }
    return Alone();
  }

 private:
  MaybePlace OurLauncher();
  MaybePlace Torchrun();
  MaybePlace OpenMpi();
  MaybePlace Pmi();
  MaybePlace Srun();
  MaybePlace PyTorchJob();
  MaybePlace Pod();
  MaybePlace IndexedJob();
  absl::StatusOr<LaunchPlace> Alone();

  // Rank and count, by the variables of these names.
  absl::StatusOr<LaunchPlace> Place(absl::string_view launcher, const char* rank,
                                    const char* ranks);
  absl::Status Locals(const char* rank, const char* ranks, LaunchPlace* place);
  // The local rank and how many there are of a step of Slurm.
  absl::Status SlurmLocals(LaunchPlace* place);
  // The address of rank 0, which these two variables say.
  absl::Status SetAddress(const char* host, const char* port, LaunchPlace* place);
  // The same where the launcher does not say it: `host` and `port` unless MASTER_ADDR or
  // MASTER_PORT do; empty: unknown.
  absl::Status SetDerivedAddress(std::string host, std::string port, LaunchPlace* place);
  static bool AllLocal(const LaunchPlace& place) { return place.local_ranks == place.ranks; }
  static std::string Text(const LaunchPlace& place);

  Variables variables_;
  const absl::string_view rendezvous_;
};

absl::StatusOr<LaunchPlace> PlaceReader::Place(absl::string_view launcher, const char* rank,
                                               const char* ranks) {
  LaunchPlace place;
  place.launcher = std::string(launcher);
  ASSIGN_OR_RETURN(place.ranks, variables_.Count(ranks));
  ASSIGN_OR_RETURN(place.rank, variables_.Index(rank, place.ranks, ranks));
  place.counted_by = absl::StrCat(ranks, "=", variables_.Get(ranks));
  return place;
}

absl::Status PlaceReader::Locals(const char* rank, const char* ranks, LaunchPlace* place) {
  ASSIGN_OR_RETURN(place->local_ranks, variables_.Count(ranks));
  if (place->local_ranks > place->ranks) {
    return Unexpected(ranks, absl::StrCat("at most ", place->ranks, ", the ranks of the job"),
                      variables_.Get(ranks));
  }
  ASSIGN_OR_RETURN(place->local_rank, variables_.Index(rank, place->local_ranks, ranks));
  return absl::OkStatus();
}

absl::Status PlaceReader::SetAddress(const char* host, const char* port, LaunchPlace* place) {
  if (place->ranks == 1) return absl::OkStatus();
  if (!rendezvous_.empty()) {
    place->address = std::string(rendezvous_);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string host_text, variables_.Host(host));
  ASSIGN_OR_RETURN(const int64_t number, variables_.Port(port));
  std::string port_text = absl::StrCat(number);
  // torchrun's own store listens at MASTER_PORT then, in torchrun's process. The port after it will
  // not do: torchrun takes a free one, and its neighbours are those of its connections.
  if (variables_.Get("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    port_text = DerivedPort(static_cast<uint64_t>(number + 1));
  }
  place->address = absl::StrCat(AllLocal(*place) ? kLoopback : host_text, ":", port_text);
  return absl::OkStatus();
}

absl::Status PlaceReader::SetDerivedAddress(std::string host, std::string port,
                                            LaunchPlace* place) {
  if (place->ranks == 1) return absl::OkStatus();
  if (!rendezvous_.empty()) {
    place->address = std::string(rendezvous_);
    return absl::OkStatus();
  }
  if (variables_.Has("MASTER_ADDR")) {
    ASSIGN_OR_RETURN(host, variables_.Host("MASTER_ADDR"));
  }
  if (variables_.Has("MASTER_PORT")) {
    ASSIGN_OR_RETURN(const int64_t number, variables_.Port("MASTER_PORT"));
    port = absl::StrCat(number);
  }
  if (AllLocal(*place)) host = std::string(kLoopback);
  if (host.empty() || port.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rendezvous: expected host:port of rank 0, as ", place->launcher, " does not say ",
        host.empty() ? "its host" : "a port of the job", " for rank ", place->rank, " of ",
        place->ranks, ", got nothing; MASTER_ADDR and MASTER_PORT would also do"));
  }
  place->address = absl::StrCat(host, ":", port);
  return absl::OkStatus();
}

MaybePlace PlaceReader::OurLauncher() {
  bool any = false;
  for (const char* name : kOurVariables) any |= variables_.Has(name);
  if (!any) return std::nullopt;
  ASSIGN_OR_RETURN(LaunchPlace place, Place(kOurs, "SLUICE_RANK", "SLUICE_RANKS"));
  RETURN_IF_ERROR(Locals("SLUICE_LOCAL_RANK", "SLUICE_LOCAL_RANKS", &place));
  ASSIGN_OR_RETURN(place.restarts, variables_.Restarts("SLUICE_RESTARTS"));
  ASSIGN_OR_RETURN(place.listener, variables_.Descriptor("SLUICE_LISTENER_FD"));
  ASSIGN_OR_RETURN(place.secret, variables_.Descriptor("SLUICE_SECRET_FD"));
  if (place.listener >= 0 && place.rank != 0) {
    return Unexpected("SLUICE_LISTENER_FD", "nothing, as rank 0 alone listens",
                      variables_.Get("SLUICE_LISTENER_FD"));
  }
  const absl::string_view address = variables_.Get("SLUICE_RENDEZVOUS");
  ASSIGN_OR_RETURN(place.address, CheckAddress("SLUICE_RENDEZVOUS", address));
  if (!rendezvous_.empty()) {
    return Unexpected("--rendezvous",
                      absl::StrCat("none, as ", kOurs, " has rank 0 listen at ", address),
                      rendezvous_);
  }
  if (place.ranks == 1) place.address.clear();
  return place;
}

MaybePlace PlaceReader::Torchrun() {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    if (!variables_.Has(name)) return std::nullopt;
  }
  const bool elastic = variables_.Has("TORCHELASTIC_RUN_ID");
  ASSIGN_OR_RETURN(LaunchPlace place,
                   Place(elastic ? "torchrun" : "a launcher like torchrun", "RANK", "WORLD_SIZE"));
  if (variables_.Has("LOCAL_WORLD_SIZE")) {
    RETURN_IF_ERROR(Locals("LOCAL_RANK", "LOCAL_WORLD_SIZE", &place));
  } else {
    place.local_ranks = place.ranks == 1 ? 1 : 0;
    ASSIGN_OR_RETURN(place.local_rank, variables_.Index("LOCAL_RANK", place.ranks, "WORLD_SIZE"));
  }
  ASSIGN_OR_RETURN(place.restarts, variables_.Restarts("TORCHELASTIC_RESTART_COUNT"));
  RETURN_IF_ERROR(SetAddress("MASTER_ADDR", "MASTER_PORT", &place));
  return place;
}

MaybePlace PlaceReader::OpenMpi() {
  constexpr char kRank[] = "OMPI_COMM_WORLD_RANK", kRanks[] = "OMPI_COMM_WORLD_SIZE";
  if (!variables_.Has(kRank) && !variables_.Has(kRanks)) return std::nullopt;
  ASSIGN_OR_RETURN(LaunchPlace place, Place("mpirun", kRank, kRanks));
  RETURN_IF_ERROR(Locals("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", &place));
  // The one name of the job that every rank has: Open MPI 4 says it twice, 5 by PMIx alone.
  absl::string_view job = variables_.Get("PMIX_NAMESPACE");
  if (job.empty()) job = variables_.Get("OMPI_MCA_ess_base_jobid");
  RETURN_IF_ERROR(SetDerivedAddress("", job.empty() ? "" : DerivedPort(StableHash(job)), &place));
  return place;
}

MaybePlace PlaceReader::Pmi() {
  if (!variables_.Has("PMI_RANK") && !variables_.Has("PMI_SIZE")) return std::nullopt;
  ASSIGN_OR_RETURN(LaunchPlace place, Place("PMI", "PMI_RANK", "PMI_SIZE"));
  // srun --mpi=pmi2 sets these too, and knows more.
  if (variables_.Get("SLURM_PROCID") == variables_.Get("PMI_RANK") &&
      variables_.Get("SLURM_STEP_NUM_TASKS") == variables_.Get("PMI_SIZE")) {
    ASSIGN_OR_RETURN(std::optional<LaunchPlace> step, Srun());
    if (step) return step;
  }
  if (variables_.Has("MPI_LOCALRANKID") || variables_.Has("MPI_LOCALNRANKS")) {
    RETURN_IF_ERROR(Locals("MPI_LOCALRANKID", "MPI_LOCALNRANKS", &place));
  } else {
    place.local_ranks = place.ranks == 1 ? 1 : 0;
  }
  RETURN_IF_ERROR(SetDerivedAddress("", "", &place));
  return place;
}

absl::Status PlaceReader::SlurmLocals(LaunchPlace* place) {
  constexpr char kPerNode[] = "SLURM_STEP_TASKS_PER_NODE";
  const absl::string_view per_node = variables_.Get(kPerNode);
  absl::StatusOr<std::vector<TaskRun>> runs = ReadTaskRuns(per_node);
  if (!runs.ok()) return Unexpected(kPerNode, "counts of tasks such as 4(x2),1", per_node);
  int64_t tasks = 0, nodes = 0;
  for (const TaskRun& run : *runs) tasks += run.tasks * run.nodes, nodes += run.nodes;
  if (tasks != place->ranks) {
    return Unexpected(kPerNode, absl::StrCat(place->ranks, " tasks in all (SLURM_STEP_NUM_TASKS)"),
                      per_node);
  }
  ASSIGN_OR_RETURN(int64_t node,
                   variables_.Number("SLURM_NODEID", 0, nodes - 1,
                                     absl::StrCat("one of the step's ", nodes, " nodes")));
  for (const TaskRun& run : *runs) {
    if (node < run.nodes) {
      place->local_ranks = static_cast<int32_t>(run.tasks);
      break;
    }
    node -= run.nodes;
  }
  ASSIGN_OR_RETURN(place->local_rank,
                   variables_.Index("SLURM_LOCALID", place->local_ranks, "tasks of this node"));
  return absl::OkStatus();
}

MaybePlace PlaceReader::Srun() {
  // Without a step this is a shell inside an allocation: its SLURM_NTASKS says what may be started.
  if (!variables_.Has("SLURM_STEP_ID") || !variables_.Has("SLURM_STEP_NUM_TASKS")) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const int64_t step,
                   variables_.Number("SLURM_STEP_ID", 0, UINT32_MAX, "a step's number"));
  if (step >= kFirstSpecialStep) return std::nullopt;
  ASSIGN_OR_RETURN(LaunchPlace place, Place("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"));
  RETURN_IF_ERROR(SlurmLocals(&place));
  ASSIGN_OR_RETURN(place.restarts, variables_.Restarts("SLURM_RESTART_COUNT"));
  ASSIGN_OR_RETURN(const int64_t job,
                   variables_.Number("SLURM_JOB_ID", 1, UINT32_MAX, "a job's number"));
  const absl::string_view nodes = variables_.Get("SLURM_STEP_NODELIST");
  absl::StatusOr<std::string> first = FirstNode(nodes);
  if (!first.ok()) return Unexpected("SLURM_STEP_NODELIST", "nodes such as n[01-04],m7", nodes);
  // docs/launching.md tells the formula to those who open ports.
  RETURN_IF_ERROR(
      SetDerivedAddress(*first, DerivedPort(static_cast<uint64_t>(31 * job + step)), &place));
  return place;
}

MaybePlace PlaceReader::PyTorchJob() {
  if (!variables_.Has("RANK") || !variables_.Has("WORLD_SIZE")) return std::nullopt;
  // Without LOCAL_RANK they count pods, and each pod is one of our processes.
  ASSIGN_OR_RETURN(LaunchPlace place, Place("a PyTorchJob's pod", "RANK", "WORLD_SIZE"));
  place.local_ranks = 1;
  RETURN_IF_ERROR(SetAddress("MASTER_ADDR", "MASTER_PORT", &place));
  return place;
}

MaybePlace PlaceReader::Pod() {
  if (!variables_.Has("PET_NNODES") && !variables_.Has("PET_NODE_RANK")) return std::nullopt;
  if (absl::StrContains(variables_.Get("PET_NNODES"), ':')) {
    return Unexpected("PET_NNODES", "one number of nodes, as a run does not grow or shrink",
                      variables_.Get("PET_NNODES"));
  }
  // Kubeflow leaves the rank to the pod's index in some of its releases. A single pod needs none.
  const bool single = variables_.Get("PET_NNODES") == "1" && !variables_.Has("PET_NODE_RANK");
  if (single) return std::nullopt;
  const char* rank = variables_.Has("PET_NODE_RANK") ? "PET_NODE_RANK" : "JOB_COMPLETION_INDEX";
  if (!variables_.Has(rank)) rank = "PET_NODE_RANK";
  ASSIGN_OR_RETURN(LaunchPlace place, Place("a pod with PET_NNODES", rank, "PET_NNODES"));
  RETURN_IF_ERROR(SetAddress("PET_MASTER_ADDR", "PET_MASTER_PORT", &place));
  return place;
}

MaybePlace PlaceReader::IndexedJob() {
  // Without a count it is one of many jobs that have nothing to do with each other.
  if (!variables_.Has("JOB_COMPLETION_INDEX") || !variables_.Has("WORLD_SIZE")) return std::nullopt;
  ASSIGN_OR_RETURN(LaunchPlace place,
                   Place("an indexed Job's pod", "JOB_COMPLETION_INDEX", "WORLD_SIZE"));
  RETURN_IF_ERROR(SetAddress("MASTER_ADDR", "MASTER_PORT", &place));
  return place;
}

absl::StatusOr<LaunchPlace> PlaceReader::Alone() {
  // Whatever has set a part of the three meant a launch; to run alone would be a surprise.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    if (!variables_.Has(name)) continue;
    for (const char* missing : {"RANK", "WORLD_SIZE"}) {
      if (!variables_.Has(missing)) {
        return Unexpected(missing, absl::StrCat("a value beside ", name, "=", variables_.Get(name)),
                          "");
      }
    }
  }
  LaunchPlace place;
  place.text = "one process, started by no launcher";
  const absl::string_view tasks = variables_.Get("SLURM_NTASKS");
  if (!tasks.empty() && tasks != "1") {
    absl::StrAppend(&place.text, "; SLURM_NTASKS=", tasks,
                    " is of the allocation, and srun would start as many");
  }
  return place;
}

std::string PlaceReader::Text(const LaunchPlace& place) {
  std::string text = absl::StrCat(place.launcher, ": rank ", place.rank, " of ", place.ranks);
  if (place.local_ranks > 0) {
    absl::StrAppend(&text, ", local ", place.local_rank, " of ", place.local_ranks);
  }
  if (!place.address.empty()) absl::StrAppend(&text, ", rendezvous at ", place.address);
  if (place.restarts > 0) absl::StrAppend(&text, ", restart ", place.restarts);
  return text;
}

}  // namespace

absl::StatusOr<LaunchPlace> ReadLaunchPlace(const Environment& environment,
                                            absl::string_view rendezvous) {
  return PlaceReader(environment, rendezvous).Read();
}

}  // namespace sluice
