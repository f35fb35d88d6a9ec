// This process as one of a job: who the others are, what the first one says to all, and the net
// that joins their sessions. A process that nobody launched beside others is a job by itself.
#ifndef SLUICE_FRAMEWORK_TRAIN_JOB_H_
#define SLUICE_FRAMEWORK_TRAIN_JOB_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/stop.h"
#include "framework/cluster/launch_place.h"
#include "framework/machine/machine.h"
#include "framework/wire/connection.h"

namespace sluice {

class CommNet;
class Rendezvous;
class TcpNet;

struct JobOptions {
  LaunchPlace place;
  std::string secret_file;  // where the place has no secret; empty: none, and this host alone
  bool seal = false;        // what goes over TCP, which takes a secret (wire/seal.h)
  std::chrono::milliseconds rendezvous_limit{60000};  // until all must have come
  std::chrono::milliseconds stall_limit{60000};       // a rank that says nothing is then given up
  int64_t check_replicas_every = 0;                   // steps; 0: never
  // Bytes of a process of this host are read from its memory, where that is allowed.
  bool read_memory = true;
  // Those of all others by RDMA, where they say so too, by this device ("mlx5_0", "mlx5_0:2");
  // empty: the first that is active.
  bool rdma = false;
  std::string rdma_device;
  // Bytes that ride along with the token that announces them; more are fetched.
  int64_t most_along = int64_t{16} << 10;
  std::string links = "default";  // what boxing is priced by: this, "measure" or a file (links.h)
  Stop stop;                      // ends the waiting; may be empty
};

class Job {
 public:
  // Blocks until all ranks are there. Errors as Rendezvous::Meet; of the secret's file:
  // PermissionDenied where others may read it.
  static absl::StatusOr<std::unique_ptr<Job>> Join(const JobOptions& options);
  ~Job();

  int32_t rank() const { return options_.place.rank; }
  int32_t ranks() const { return options_.place.ranks; }
  bool is_first() const { return rank() == 0; }
  // Of each rank, for people: "rank 1 at 127.0.0.1:41523".
  std::string WhereRanksAre() const;

  // All ranks call it, before net() is asked for: gives what the first one says, or why it cannot
  // go on. Of others `mine` counts for nothing. At most 1 MiB. `what`, for people: "said where the
  // run is written". Whoever waits for long says for whom and for what, and gives that one up after
  // the limit of silence.
  absl::StatusOr<std::string> Share(const absl::StatusOr<std::string>& mine,
                                    absl::string_view what);

  // Of the first rank: which hosts it sees the ranks on, numbered as they come first.
  absl::StatusOr<std::vector<int32_t>> SeeHosts() const;
  // All ranks call it, with the same hosts, before net() is asked for: two of them measure each
  // kind of link that the job has, the others return at once. What the first rank returns counts,
  // rounded coarsely; what the job has not stays as in `links`.
  absl::StatusOr<std::array<Link, kLinkKinds>> MeasureLinks(
      const std::vector<int32_t>& host_of_rank, std::array<Link, kLinkKinds> links);

  // Null where there is one rank. Lives as long as this. Errors: of the RDMA device.
  absl::StatusOr<CommNet*> net();

 private:
  explicit Job(const JobOptions& options);
  Deadline Limit() const;
  absl::StatusOr<Link> MeasurePair(int32_t other, LinkKind kind, bool asks, Deadline deadline);
  // Says who waits for long, while it waits for what that rank has to do; then as was asked for.
  Stop NameWhoIsLate(int32_t rank, absl::string_view what) const;
  // Of an exchange with another rank that has failed.
  absl::Status NameWhoIsLost(const absl::Status& status, int32_t rank,
                             absl::string_view what) const;

  const JobOptions options_;
  std::unique_ptr<Rendezvous> rendezvous_;
  // By rank and channel; until net() is asked for.
  std::vector<std::vector<Connection>> connections_;
  std::unique_ptr<TcpNet> net_;  // ends before the loop does
};

// 16 hexadecimal digits that name this program's file.
absl::StatusOr<std::string> BuildOfThisProgram();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_JOB_H_
