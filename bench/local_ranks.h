// What the programs that measure several processes share: the job that //tools:launch started them
// as, a raw socket between its first two ranks, and the lines that the report reads.
#ifndef SLUICE_BENCH_LOCAL_RANKS_H_
#define SLUICE_BENCH_LOCAL_RANKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/train/flags.h"
#include "framework/train/job.h"
#include "framework/wire/socket.h"

namespace sluice {

// --net and --seal, which each of them takes.
FlagGroup RanksFlags();

// As the launcher's variables say; blocks until all ranks are there.
absl::StatusOr<std::unique_ptr<Job>> JoinLaunchedJob();

// A blocking connection of TCP over loopback between ranks 0 and 1, with the options of the job's
// own but no more. Both call it, before net().
absl::StatusOr<Descriptor> ConnectRaw(Job* job);

// Whole things over a blocking socket, by plain calls: Unavailable if the other end goes.
absl::Status RawSend(int socket, const void* bytes, int64_t size);
absl::Status RawReceive(int socket, void* bytes, int64_t size);

// Nanoseconds that this process has computed so far, all its threads, in itself and in the kernel.
int64_t CpuNanoseconds();

// One line of JSON as README.md says.
struct FigureLine {
  std::string name;
  double value = 0;
  std::string unit;  // "ns", or a rate such as "B/s"
  double limit = 0;  // 0: none
  std::string goal, note;
};
void PrintFigure(const FigureLine& line);

}  // namespace sluice

#endif  // SLUICE_BENCH_LOCAL_RANKS_H_
