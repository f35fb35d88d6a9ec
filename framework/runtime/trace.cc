#include "framework/runtime/trace.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/rank_clock.h"
#include "framework/runtime/transfer_trace.h"
#include "framework/wire/bytes.h"
#include "nlohmann/json.hpp"

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
// Processes of the file: a rank's workers, and what it tells and pulls.
constexpr int kProcessesOfRank = 10000, kTransfers = kProcessesOfRank - 1;
constexpr int kFirstPull = 1000;          // tracks of pulls; those of tokens come before
constexpr int64_t kTokenDuration = 1000;  // nanoseconds: an arrow begins at something that is seen

class TraceWriter {
 public:
  TraceWriter(const plan::Plan& plan, const TraceSource& source) : plan_(plan), source_(source) {}

  void Worker(int worker, const WorkerTrace& trace) {
    const int process = Process(worker);
    Label(process, 0, "process_name",
          absl::StrCat(source_.name, source_.name.empty() ? "" : ": ", "worker ", worker,
                       trace.computes() ? "" : " (I/O)"));
    Label(process, kWaits, "thread_name", "waits");
    for (const TraceSpan& span : trace.spans()) {
      span.instruction < 0 ? Wait(process, span) : Run(process, span);
    }
  }

  // Tokens that were told to other ranks and pulls from them, as many tracks of each as are under
  // way at once, with an arrow from each token to its pull.
  void Transfers() {
    if (source_.transfers.empty()) return;
    const int process = Process(kTransfers);
    Label(process, 0, "process_name", absl::StrCat(source_.name, ": between ranks"));
    std::vector<TransferSpan> spans(source_.transfers.begin(), source_.transfers.end());
    std::sort(spans.begin(), spans.end(), [](const TransferSpan& a, const TransferSpan& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    std::vector<int64_t> ends[2];  // of each track, of pulls and of tokens
    for (TransferSpan& span : spans) {
      if (span.told) span.end = span.begin + kTokenDuration;
      std::vector<int64_t>& tracks = ends[span.told ? 1 : 0];
      const auto track = std::find_if(tracks.begin(), tracks.end(),
                                      [&](int64_t end) { return end <= span.begin; });
      const int lane = static_cast<int>(track - tracks.begin());
      const int number = span.told ? lane : kFirstPull + lane;
      if (track == tracks.end()) {
        tracks.push_back(span.end);
        Label(process, number, "thread_name", span.told ? "tokens told" : "pulls");
      } else {
        *track = span.end;
      }
      Transfer(process, number, span);
    }
  }

  std::string Other(const std::vector<TraceTotals>& totals) {
    std::vector<std::string> members;
    for (size_t p = 0; p < totals.size(); ++p) {
      const TraceTotals& x = totals[p];
      if (x.instructions == 0) continue;
      members.push_back(absl::StrCat(
          Quoted(plan_.programs(static_cast<int>(p)).name()),
          absl::StrFormat(":{\"steps\":%d,\"instructions\":%d,\"kernels_us\":%.3f,"
                          "\"waits_us\":%.3f,\"runtime_us\":%.3f,\"runtime_share\":%.6f}",
                          x.steps, x.instructions, x.kernels / 1e3, x.waits / 1e3, x.runtime / 1e3,
                          x.RuntimeShare())));
    }
    if (source_.name.empty()) return absl::StrJoin(members, ",\n");
    if (source_.rank > 0) {
      const std::optional<int64_t> error = source_.clock->error();
      members.push_back(absl::StrCat("\"clock_error_us\":",
                                     error ? absl::StrFormat("%.3f", *error / 1e3) : "null"));
    }
    return absl::StrCat(Quoted(absl::StrCat("rank ", source_.rank)), ":{",
                        absl::StrJoin(members, ","), "}");
  }

  std::string TakeEvents() { return std::move(out_); }

 private:
  void Label(int process, int track, absl::string_view kind, absl::string_view name) {
    Separate();
    absl::StrAppend(&out_, "{\"ph\":\"M\",\"pid\":", process, ",\"tid\":", track,
                    ",\"name\":", Quoted(kind), ",\"args\":{\"name\":", Quoted(name), "}}");
  }

  // Ends within "args". A duration is of rank 0's time too: clocks that differ by 10 in a million
  // let spans of 60 ms that touch overlap by 600 ns otherwise.
  void Begin(int process, int track, int64_t begin, int64_t end, absl::string_view name,
             absl::string_view category) {
    Separate();
    absl::StrAppend(&out_, "{\"ph\":\"X\",\"pid\":", process, ",\"tid\":", track,
                    absl::StrFormat(",\"ts\":%.3f,\"dur\":%.3f", Microseconds(begin),
                                    Microseconds(end) - Microseconds(begin)),
                    ",\"cat\":", Quoted(category), ",\"name\":", Quoted(name), ",\"args\":{");
  }

  void Run(int process, const TraceSpan& span) {
    const plan::Program& program = plan_.programs(span.program);
    const plan::Actor& actor = program.actors(span.actor);
    const plan::Instruction& instruction = actor.script(span.instruction);
    const plan::Stream& stream = program.streams(actor.stream());
    const std::string name =
        instruction.scope().empty() ? InstructionName(instruction) : instruction.scope();
    const std::string what =
        absl::StrCat("\"op\":", Quoted(InstructionName(instruction)),
                     ",\"actor\":", Quoted(actor.name()), ",\"program\":", Quoted(program.name()),
                     ",\"step\":", span.step, ",\"micro\":", span.micro);
    Begin(process, Track(process, stream, /*on_device=*/false), span.begin, span.end, name, "run");
    absl::StrAppend(&out_, what, RuntimeBefore(span), "}}");
    if (span.on_device.end == 0) return;
    Begin(process, Track(process, stream, /*on_device=*/true), span.on_device.begin,
          span.on_device.end, name, "on device");
    absl::StrAppend(&out_, what, "}}");
  }

  void Wait(int process, const TraceSpan& span) {
    const plan::Program& program = plan_.programs(span.program);
    Begin(process, kWaits, span.begin, span.end, BlockedOnText(program, span.blocked_on), "wait");
    absl::StrAppend(
        &out_, "\"actor\":", Quoted(span.actor < 0 ? "" : program.actors(span.actor).name()),
        ",\"owed_by\":", Quoted(Name(program, span.blocked_on.actor)), RuntimeBefore(span), "}}");
  }

  void Transfer(int process, int track, const TransferSpan& span) {
    const plan::Program& program = plan_.programs(span.edge.program);
    const std::string what = RegisterOf(span.edge);
    Begin(process, track, span.begin, span.end,
          absl::StrCat(what, span.told ? " to rank " : " from rank ", span.peer),
          span.told ? "token" : "pull");
    absl::StrAppend(&out_, "\"program\":", Quoted(program.name()), ",\"token\":", span.sequence,
                    ",\"bytes\":", span.bytes, "}}");
    Separate();
    const Edge& edge = span.edge;
    absl::StrAppend(&out_, span.told ? "{\"ph\":\"s\"" : "{\"ph\":\"f\",\"bp\":\"e\"",
                    ",\"pid\":", process, ",\"tid\":", track,
                    absl::StrFormat(",\"ts\":%.3f", Microseconds(span.begin)),
                    ",\"cat\":\"transfer\",\"name\":\"token\",\"id\":\"");
    absl::StrAppend(&out_, edge.program, ".", edge.source_device, ".", edge.source, ".",
                    edge.reader_device, ".");
    absl::StrAppend(&out_, edge.reader, ".", span.sequence, "\"}");
  }

  // The name of the register that crosses an edge.
  std::string RegisterOf(const Edge& edge) {
    if (registers_.empty()) {
      for (int p = 0; p < plan_.programs_size(); ++p) {
        for (const plan::Register& reg : plan_.programs(p).registers()) {
          registers_[{p, reg.device(), reg.number()}] = &reg;
        }
      }
    }
    const auto found = registers_.find({edge.program, edge.source_device, edge.source});
    return found == registers_.end() ? "a register" : found->second->name();
  }

  int Process(int process) const { return source_.rank * kProcessesOfRank + process; }
  double Microseconds(int64_t time) const {
    return static_cast<double>(source_.clock->ToFirst(time)) / 1e3;
  }

  static std::string RuntimeBefore(const TraceSpan& span) {
    return absl::StrFormat(",\"runtime_before_us\":%.3f", (span.begin - span.before) / 1e3);
  }

  // Of what a worker gives a stream, or of when the stream's device ran it.
  int Track(int process, const plan::Stream& stream, bool on_device) {
    const auto key = std::make_tuple(process, stream.device(), stream.kind(), on_device);
    const auto found = tracks_.find(key);
    if (found != tracks_.end()) return found->second;
    const int track = static_cast<int>(tracks_.size()) + 1;
    tracks_[key] = track;
    // The label goes before the instance that Begin has not yet begun.
    Label(process, track, "thread_name",
          absl::StrCat("device ", stream.device(), " ", StreamKindName(stream.kind()),
                       on_device ? ", on the device" : ""));
    return track;
  }

  void Separate() {
    if (!out_.empty()) out_ += ",\n";
  }

  const plan::Plan& plan_;
  const TraceSource& source_;
  std::string out_;
  // By program, device and number.
  std::map<std::tuple<int32_t, int32_t, int32_t>, const plan::Register*> registers_;
  std::map<std::tuple<int, int32_t, plan::StreamKind, bool>, int> tracks_;
};

}  // namespace

BlockedOn BlockedOnOf(const ProgramIndex::Wait& wait) {
  switch (wait.kind) {
    case ProgramIndex::WaitKind::kToken:
      return {BlockedOn::kToken, wait.actor, wait.what};
    case ProgramIndex::WaitKind::kSlot:
      return {BlockedOn::kSlot, wait.actor, wait.what};
    case ProgramIndex::WaitKind::kReuse:
      return {BlockedOn::kReuse, wait.actor, wait.what};
    default:
      return {BlockedOn::kNothing, -1, -1};
  }
}

void WorkerTrace::Watch(Stream* stream) {
  auto* const times = dynamic_cast<StreamTimes*>(stream);
  if (times == nullptr) return;
  times->StartTimes();
  watched_.push_back({stream, times, {}});
}

// Not every instruction is one for the device: of one that is, its stream has timed one more.
void WorkerTrace::NoteTimed(const Stream* stream) {
  for (Watched& watched : watched_) {
    if (watched.stream != stream) continue;
    if (watched.times->timed() > static_cast<int64_t>(watched.spans.size())) {
      watched.spans.push_back(spans_.size());
    }
  }
}

void WorkerTrace::TakeTimesOnDevices() {
  for (const Watched& watched : watched_) {
    const std::vector<StreamTime> times = watched.times->TakeTimes();
    for (size_t i = 0; i < std::min(times.size(), watched.spans.size()); ++i) {
      spans_[watched.spans[i]].on_device = times[i];
    }
  }
}

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

TracePart MakeTracePart(const plan::Plan& plan, const TraceSource& source) {
  TraceWriter writer(plan, source);
  for (size_t i = 0; i < source.workers.size(); ++i) {
    writer.Worker(static_cast<int>(i), *source.workers[i]);
  }
  writer.Transfers();
  std::string other = writer.Other(SumTraces(plan.programs_size(), source.workers));
  return {writer.TakeEvents(), std::move(other)};
}

std::string PartToBytes(const TracePart& part) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Text(part.events);
  writer.Text(part.other);
  return bytes;
}

absl::StatusOr<TracePart> PartFromBytes(absl::string_view bytes) {
  ByteReader reader({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  TracePart part;
  part.events = reader.Text();
  part.other = reader.Text();
  // What is none would make the whole file none.
  const bool json = nlohmann::json::accept("[" + part.events + "]") &&
                    nlohmann::json::accept("{" + part.other + "}");
  if (reader.ok() && reader.left() == 0 && json) return part;
  return absl::InvalidArgumentError(
      absl::StrCat("trace: expected a rank's part, got ", bytes.size(), " bytes that are none"));
}

absl::Status WriteTrace(const std::string& path, absl::Span<const TracePart> parts) {
  errno = 0;
  std::ofstream out(path);
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const auto write = [&](std::string TracePart::*what) {
    const char* separator = "";
    for (const TracePart& part : parts) {
      if ((part.*what).empty()) continue;
      out << separator << part.*what;
      separator = ",\n";
    }
  };
  write(&TracePart::events);
  out << "\n],\"otherData\":{\n";
  write(&TracePart::other);
  out << "}}\n";
  out.close();
  if (out) return absl::OkStatus();
  // A stream that has failed asks the system for nothing more, so this is why.
  return absl::UnavailableError(
      absl::StrCat("trace: cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace sluice
