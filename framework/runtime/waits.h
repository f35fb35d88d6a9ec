// Who waits for whom while steps run: of each rank the streams that are not through, what they run
// or lack and to whom that leads; and of all ranks the one that everybody waits for, or that makes
// the others slow. Pure.
#ifndef SLUICE_FRAMEWORK_RUNTIME_WAITS_H_
#define SLUICE_FRAMEWORK_RUNTIME_WAITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"

namespace sluice {

// Where an actor stands, as its worker sees it between two instructions.
struct ActorState {
  enum class Kind : uint8_t {
    kOver,     // no further step has begun
    kRuns,     // its instruction is being run
    kReady,    // nothing lacks
    kMissing,  // `wait` lacks
  };
  Kind kind = Kind::kOver;
  bool has_turn = true;  // on its stream, or that has no order
  int32_t actor = -1, micro = 0, instruction = 0;
  int64_t firing = 0, step = 0;
  double seconds = 0;  // since its worker has run anything; of what runs, since it was begun
  ProgramIndex::Wait wait = {};
};

// A stream that is not through with what has begun.
struct StreamWait {
  int32_t device = -1;
  std::string stream;  // "compute"
  std::string op;      // that runs, or would: "h0/mlp/up (matmul)"
  int64_t step = 0;
  int32_t micro = 0;
  bool runs = false, reads_input = false;  // a feed
  double seconds = 0;
  std::string
      what;  // of a stream that waits: "waits for h0/x of d0.pull(h0/x)", whom that waits for
  int32_t peer = -1;  // the rank that the waits lead to; -1: none but this
};

// Which share of the time of a window of steps a stream that computes ran instructions.
struct StreamLoad {
  int32_t device = -1;
  double busy = 0;  // 0 to 1
};

// What a rank says of itself.
struct RankWaits {
  int32_t rank = 0;
  std::string host;
  int32_t process = 0;
  double quiet = 0;  // seconds since anything moved here
  // Steps of all programs, which all ranks begin in the same order: begun, through here, over
  // everywhere; and questions to all ranks that this one has asked, and got answered.
  int64_t begun = 0, through = 0, over = 0, asked = 0, answered = 0;
  std::vector<StreamWait> streams;
  std::vector<StreamLoad> loads;
  double away = 0;  // the share of that window in which the process did not run at all
};

// For the wire. InvalidArgument: bytes that are none, or of another rank than `rank`.
std::string WaitsToBytes(const RankWaits& waits);
absl::StatusOr<RankWaits> WaitsFromBytes(absl::string_view bytes, int32_t rank);
// InvalidArgument: devices of other ranks, ranks that are not there, times and shares that are no
// numbers.
absl::Status CheckRankWaits(const plan::Plan& plan, int32_t ranks, const RankWaits& waits);
// What another rank wrote, fit to be printed: without control characters, and not too long.
void MakePrintable(RankWaits* waits);

// So many ranks, the first ones, ask the others for their waits, in rounds from 1 on.
inline constexpr int32_t kWaitLeaders = 4;
// Numbers of answers that nobody asked for: who a rank is, and what its devices were busy with. And
// of a question to which no answer is wanted: this time a rank stood still.
inline constexpr int64_t kIntroduction = -1, kLoads = -2, kStoodStill = -3;

// The streams of one program, of actors of this rank. Actors whose worker could not be asked, since
// it runs an instruction, have no state but that one.
std::vector<StreamWait> StreamWaitsOf(const plan::Plan& plan, int program,
                                      const ProgramIndex& index,
                                      absl::Span<const ActorState> states);

// The host that this process is on, for people.
std::string HostName();
// "rank 1 at host a, process 4242"; of a job of one rank "".
std::string RankName(const RankWaits& waits, int32_t ranks);
// A line for each stream and one for the rank.
std::string WaitsText(const RankWaits& waits, int32_t ranks);

// By rank; nothing: it gave no answer. Where that is known it has a name all the same.
struct RankAnswer {
  std::string name;
  std::optional<RankWaits> waits;
};
// Whom `asker` waits for in the end: one that gives no answer, that runs an instruction, or that
// does something besides its steps. In words, with device, stream, op and firing.
std::string CulpritText(int32_t asker, absl::Span<const RankAnswer> answers);

// What waits here for a rank that will say nothing more, for one line: "device 0 compute: h0/mlp/up
// (matmul), step 210, micro-batch 0, waits for ..., owed by rank 2". A stream that computes and
// that leads to that rank comes first, then one that does not compute, then one that leads to
// another rank, which may wait for it; "": none leads to any.
std::string WaitForRankText(absl::Span<const StreamWait> streams, int32_t rank);

// A stream that is busy, or whose process does not run, twice as much of the time as the stream in
// the middle of all, so that others wait for it.
struct Straggler {
  int32_t rank = -1, device = -1;
  double busy = 0, away = 0;  // its own shares
  double middle = 0;          // the sum of both, of the stream in the middle
};
std::optional<Straggler> FindStraggler(absl::Span<const RankWaits> ranks);
// "the others wait for rank 1 at host a, process 4242: ...", as `name` says who that is.
std::string StragglerText(const Straggler& slow, const std::string& name, double step_seconds);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_WAITS_H_
