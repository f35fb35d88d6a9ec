// A timeline of a session in the JSON that Perfetto and chrome://tracing open: for each worker,
// every instruction that it ran and every wait, with what was missing and who owed it. What lies
// between two spans of a worker is the runtime's own work: finishing an instruction, messages, the
// choice of the next. Of several ranks one file has all, in the time of rank 0, with an arrow from
// each token to the pull that brings its bytes. A WorkerTrace belongs to its worker's thread; it is
// read when none runs.
#ifndef SLUICE_FRAMEWORK_RUNTIME_TRACE_H_
#define SLUICE_FRAMEWORK_RUNTIME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/device/stream.h"
#include "framework/device/stream_times.h"
#include "framework/plan/plan.pb.h"
#include "framework/plan/program_index.h"

namespace sluice {

class RankClock;
struct TransferSpan;

// Why the head of a stream cannot run.
struct BlockedOn {
  enum Kind : int8_t {
    kNothing,  // it can run, or all is done
    kStep,     // the session has not asked for another step
    kToken,    // a token of register `index`, owed by its producer
    kSlot,     // a free slot of register `index`, owed by `actor`, a reader
    kReuse,    // reuse edge `index`
  };
  Kind kind = kNothing;
  int32_t actor = -1;  // who owes it
  int32_t index = -1;
};
// Nothing, where the wait is for no other actor.
BlockedOn BlockedOnOf(const ProgramIndex::Wait& wait);

struct TraceSpan {
  int64_t before = 0;          // where the worker's last span ended
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  // When its device ran what the worker gave it in that time; both 0: the same, or nobody knows.
  StreamTime on_device;
  int32_t program = 0;
  int32_t actor = -1;        // who ran, or waited
  int32_t instruction = -1;  // -1: a wait
  int32_t micro = 0;
  int64_t step = 0;
  BlockedOn blocked_on;
};

class WorkerTrace {
 public:
  void Start(bool computes, int64_t now) {
    spans_.reserve(1 << 16);
    computes_ = computes;
    last_ = now;
  }
  // False: of a worker for I/O, whose waits say nothing of what a step takes.
  bool computes() const { return computes_; }
  // A stream that spans will name; it is asked when its device runs them, if it can tell.
  void Watch(Stream* stream);
  // A span that ends now, of what the stream was given in it, if one was.
  void Add(TraceSpan span, int64_t now, const Stream* stream = nullptr) {
    span.before = last_;
    span.end = last_ = now;
    if (stream != nullptr) NoteTimed(stream);
    spans_.push_back(span);
  }
  // When nothing runs any more: waits for the devices, and gives spans their times.
  void TakeTimesOnDevices();
  absl::Span<const TraceSpan> spans() const { return spans_; }

 private:
  struct Watched {
    const Stream* stream;
    StreamTimes* times;
    std::vector<size_t> spans;  // of each instruction that it has timed
  };
  void NoteTimed(const Stream* stream);

  std::vector<Watched> watched_;
  bool computes_ = true;
  std::vector<TraceSpan> spans_;
  int64_t last_ = 0;
};

// Where the time of the workers that compute went, over the steps of one program. Time without a
// step, when the session had asked for none, is not in it.
struct TraceTotals {
  int64_t steps = 0, instructions = 0;          // of all workers
  int64_t kernels = 0, waits = 0, runtime = 0;  // nanoseconds
  // Of the time of the steps: what was neither a kernel nor a wait.
  double RuntimeShare() const;
};
// By program.
std::vector<TraceTotals> SumTraces(int programs, absl::Span<const WorkerTrace* const> workers);
// "runtime 0.31 % (kernels 98.02 %, waits 1.67 %) of 30 steps of 240 instructions"
std::string TotalsText(const TraceTotals& totals);

// "waits for attn/qkv of h0/attn" in the plan's words.
std::string BlockedOnText(const plan::Program& program, const BlockedOn& blocked_on);
// Nanoseconds of the steady clock.
int64_t NowNanoseconds();

// What one rank has to write.
struct TraceSource {
  int32_t rank = 0;
  std::string name;                  // "rank 1 at host a, process 42"; empty: it is the only one
  const RankClock* clock = nullptr;  // whose times the file has
  absl::Span<const WorkerTrace* const> workers;
  absl::Span<const TransferSpan> transfers;
};
// It as JSON: the events, and what "otherData" has of it: totals by program and, of several ranks,
// how far off its times may be.
struct TracePart {
  std::string events, other;
};
TracePart MakeTracePart(const plan::Plan& plan, const TraceSource& source);
// For the wire. InvalidArgument: bytes that are none, or no JSON.
std::string PartToBytes(const TracePart& part);
absl::StatusOr<TracePart> PartFromBytes(absl::string_view bytes);
// Unavailable: the file cannot be written.
absl::Status WriteTrace(const std::string& path, absl::Span<const TracePart> parts);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_TRACE_H_
