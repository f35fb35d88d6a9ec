#include "framework/runtime/trace.h"
#include "framework/plan/kinds.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// A JSON string of any bytes.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string Name(const plan::Program& program, int32_t actor) {
  return actor < 0 ? "the session" : program.actors(actor).name();
}

constexpr int kWaits = 0;  // the track of a worker's waits; streams follow in order of appearance

class TraceWriter {
 public:
  TraceWriter(const plan::Plan& plan, int64_t start, std::ostream* out)
      : plan_(plan), start_(start), out_(*out) {
    out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  }

  void Worker(int worker, const WorkerTrace& trace) {
    Label(worker, 0, "process_name",
          absl::StrCat("worker ", worker, trace.computes() ? "" : " (I/O)"));
    Label(worker, kWaits, "thread_name", "waits");
    for (const TraceSpan& span : trace.spans()) {
      span.instruction < 0 ? Wait(worker, span) : Run(worker, span);
    }
  }

  void Finish(const std::vector<TraceTotals>& totals) {
    out_ << "\n],\"otherData\":{";
    const char* separator = "\n";
    for (size_t p = 0; p < totals.size(); ++p) {
      const TraceTotals& x = totals[p];
      if (x.instructions == 0) continue;
      out_ << separator << Quoted(plan_.programs(static_cast<int>(p)).name())
           << absl::StrFormat(
                  ":{\"steps\":%d,\"instructions\":%d,\"kernels_us\":%.3f,\"waits_us\":%.3f,"
                  "\"runtime_us\":%.3f,\"runtime_share\":%.6f}",
                  x.steps, x.instructions, x.kernels / 1e3, x.waits / 1e3, x.runtime / 1e3,
                  x.RuntimeShare());
      separator = ",\n";
    }
    out_ << "}}\n";
  }

 private:
  void Label(int worker, int track, absl::string_view kind, absl::string_view name) {
    Separate();
    out_ << "{\"ph\":\"M\",\"pid\":" << worker << ",\"tid\":" << track
         << ",\"name\":" << Quoted(kind) << ",\"args\":{\"name\":" << Quoted(name) << "}}";
  }

  void Begin(int worker, int track, const TraceSpan& span, absl::string_view name,
             absl::string_view category) {
    Separate();
    out_ << "{\"ph\":\"X\",\"pid\":" << worker << ",\"tid\":" << track
         << absl::StrFormat(",\"ts\":%.3f,\"dur\":%.3f", (span.begin - start_) / 1e3,
                            (span.end - span.begin) / 1e3)
         << ",\"cat\":" << Quoted(category) << ",\"name\":" << Quoted(name) << ",\"args\":{";
  }

  void Run(int worker, const TraceSpan& span) {
    const plan::Program& program = plan_.programs(span.program);
    const plan::Actor& actor = program.actors(span.actor);
    const plan::Instruction& instruction = actor.script(span.instruction);
    const plan::Stream& stream = program.streams(actor.stream());
    Begin(worker, Track(worker, stream), span,
          instruction.scope().empty() ? InstructionName(instruction) : instruction.scope(), "run");
    out_ << "\"op\":" << Quoted(InstructionName(instruction))
         << ",\"actor\":" << Quoted(actor.name()) << ",\"program\":" << Quoted(program.name())
         << ",\"step\":" << span.step << ",\"micro\":" << span.micro << RuntimeBefore(span) << "}}";
  }

  void Wait(int worker, const TraceSpan& span) {
    const plan::Program& program = plan_.programs(span.program);
    Begin(worker, kWaits, span, BlockedOnText(program, span.blocked_on), "wait");
    out_ << "\"actor\":" << Quoted(span.actor < 0 ? "" : program.actors(span.actor).name())
         << ",\"owed_by\":" << Quoted(Name(program, span.blocked_on.actor)) << RuntimeBefore(span)
         << "}}";
  }

  static std::string RuntimeBefore(const TraceSpan& span) {
    return absl::StrFormat(",\"runtime_before_us\":%.3f", (span.begin - span.before) / 1e3);
  }

  int Track(int worker, const plan::Stream& stream) {
    const auto key = std::make_tuple(worker, stream.device(), stream.kind());
    const auto found = tracks_.find(key);
    if (found != tracks_.end()) return found->second;
    const int track = static_cast<int>(tracks_.size()) + 1;
    tracks_[key] = track;
    // The label goes before the instance that Begin has not yet begun.
    Label(worker, track, "thread_name",
          absl::StrCat("device ", stream.device(), " ", StreamKindName(stream.kind())));
    return track;
  }

  void Separate() {
    if (!first_) out_ << ",\n";
    first_ = false;
  }

  const plan::Plan& plan_;
  const int64_t start_;
  std::ostream& out_;
  bool first_ = true;
  std::map<std::tuple<int, int32_t, plan::StreamKind>, int> tracks_;
};

}  // namespace

double TraceTotals::RuntimeShare() const {
  const int64_t all = kernels + waits + runtime;
  return all == 0 ? 0 : static_cast<double>(runtime) / static_cast<double>(all);
}

std::vector<TraceTotals> SumTraces(int programs, absl::Span<const WorkerTrace* const> workers) {
  std::vector<TraceTotals> totals(programs);
  for (const WorkerTrace* worker : workers) {
    for (const TraceSpan& span : worker->spans()) {
      TraceTotals& x = totals[span.program];
      if (span.instruction >= 0) {
        ++x.instructions;
        x.steps = std::max(x.steps, span.step + 1);
      }
      if (!worker->computes()) continue;
      x.runtime += span.begin - span.before;
      if (span.instruction >= 0) {
        x.kernels += span.end - span.begin;
      } else if (span.blocked_on.kind != BlockedOn::kStep) {
        x.waits += span.end - span.begin;
      }
    }
  }
  return totals;
}

std::string TotalsText(const TraceTotals& totals) {
  const double all = static_cast<double>(totals.kernels + totals.waits + totals.runtime);
  return absl::StrFormat(
      "runtime %.3g %% (kernels %.4g %%, waits %.3g %%) of %d steps of %d instructions",
      100 * totals.RuntimeShare(), 100 * static_cast<double>(totals.kernels) / std::max(all, 1.0),
      100 * static_cast<double>(totals.waits) / std::max(all, 1.0), totals.steps,
      totals.instructions / std::max<int64_t>(totals.steps, 1));
}

std::string BlockedOnText(const plan::Program& program, const BlockedOn& blocked_on) {
  switch (blocked_on.kind) {
    case BlockedOn::kNothing:
      return "waits";
    case BlockedOn::kStep:
      return "waits for the session's next step";
    case BlockedOn::kToken:
      return absl::StrCat("waits for ", program.registers(blocked_on.index).name(), " of ",
                          Name(program, blocked_on.actor));
    case BlockedOn::kSlot:
      return absl::StrCat("waits for a free slot of ", program.registers(blocked_on.index).name(),
                          " from ", Name(program, blocked_on.actor));
    case BlockedOn::kReuse:
      return absl::StrCat("waits for bytes from ", Name(program, blocked_on.actor));
  }
  return "waits";
}

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status WriteTrace(const std::string& path, const plan::Plan& plan, int64_t start,
                        absl::Span<const WorkerTrace* const> workers) {
  errno = 0;
  std::ofstream out(path);
  TraceWriter writer(plan, start, &out);
  for (size_t i = 0; i < workers.size(); ++i) writer.Worker(static_cast<int>(i), *workers[i]);
  writer.Finish(SumTraces(plan.programs_size(), workers));
  out.close();
  if (out) return absl::OkStatus();
  // A stream that has failed asks the system for nothing more, so this is why.
  return absl::UnavailableError(
      absl::StrCat("trace: cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace sluice
