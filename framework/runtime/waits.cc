#include "framework/runtime/waits.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/trace.h"
#include "framework/wire/bytes.h"

namespace sluice {
namespace {

constexpr uint32_t kMostStreams = 1 << 16;  // of a rank, on the wire
constexpr uint8_t kRuns = 1, kReadsInput = 2;
constexpr double kMostSeconds = 1e10;  // 300 years
constexpr size_t kMostText = 1024;     // of another rank, in a line of log
constexpr double kMoves = 1;           // seconds: who has just run something is only slow

std::string OpText(const plan::Instruction& x) {
  const std::string name = InstructionName(x);
  return x.scope().empty() ? name : absl::StrCat(x.scope(), " (", name, ")");
}

// Follows the waits of one program's actors through this rank.
class Follower {
 public:
  Follower(const plan::Plan& plan, const ProgramIndex& index, absl::Span<const ActorState> states)
      : plan_(plan), index_(index) {
    for (const ActorState& state : states) {
      states_[state.actor] = &state;
      if (state.has_turn) turns_[index.actor(state.actor).stream] = &state;
    }
  }

  // Sets where the waits of a state lead to.
  void Follow(const ActorState& first, StreamWait* out) const {
    const ActorState* state = &first;
    out->what = BlockedOnText(index_.program(), BlockedOnOf(first.wait));
    for (size_t hop = 0; hop <= states_.size(); ++hop) {
      const ProgramIndex::Wait wait = StillMissing(*state);
      if (wait.actor < 0) return Say(", which a step gives that has not begun", -1, out);
      if (const int32_t peer = PeerOf(wait); peer >= 0) {
        return Say(absl::StrCat(hop == 0 ? ", owed by rank " : ", which waits for rank ", peer),
                   peer, out);
      }
      state = StateOf(wait.actor);
      if (state == nullptr || state->kind == ActorState::Kind::kRuns) {
        return Say(hop == 0 ? "" : ", which waits for what runs", -1, out);
      }
      if (state->kind == ActorState::Kind::kOver) {
        return Say(", which waits for a step that has not begun", -1, out);
      }
      if (state->kind != ActorState::Kind::kMissing) return Say("", -1, out);
    }
  }

 private:
  static void Say(absl::string_view end, int32_t peer, StreamWait* out) {
    absl::StrAppend(&out->what, end);
    out->peer = peer;
  }

  // Null: its worker runs something. An order may have given the turn to another actor.
  const ActorState* StateOf(int32_t actor) const {
    const auto found = states_.find(actor);
    if (found == states_.end() || found->second->has_turn) {
      return found == states_.end() ? nullptr : found->second;
    }
    const auto turn = turns_.find(index_.actor(actor).stream);
    return turn == turns_.end() ? nullptr : turn->second;
  }

  bool HasPassed(const ProgramIndex::Wait& wait) const {
    const auto found = states_.find(wait.actor);
    if (found == states_.end() || IsWriter(wait.actor)) return false;
    const ActorState& state = *found->second;
    return std::pair(state.firing, state.instruction) > std::pair(wait.firing, wait.instruction);
  }

  // A slot may have several readers of which the first has given it back.
  ProgramIndex::Wait StillMissing(const ActorState& state) const {
    ProgramIndex::Wait missing = state.wait;
    if (missing.actor < 0 || !HasPassed(missing)) return missing;
    bool found = false;
    index_.ForEachWait(state.actor, state.firing, state.instruction,
                       [&](const ProgramIndex::Wait& wait) {
                         if (found || wait.kind != missing.kind || wait.what != missing.what)
                           return;
                         found = !HasPassed(wait);
                         if (found) missing = wait;
                       });
    return missing;
  }

  const plan::Instruction& FirstOf(int32_t actor) const { return index_.instruction(actor, 0); }
  bool IsWriter(int32_t actor) const {
    const plan::Instruction& x = FirstOf(actor);
    return x.kind() == plan::INSTRUCTION_REMOTE && x.inputs_size() == 0;
  }
  int32_t RankOf(int32_t device) const { return plan_.devices(device).rank(); }

  // The rank that owes it; -1: an actor of this one.
  int32_t PeerOf(const ProgramIndex::Wait& wait) const {
    const plan::Instruction& x = FirstOf(wait.actor);
    if (x.kind() == plan::INSTRUCTION_PULL) {
      // It was launched, and its bytes have not come.
      if (!HasPassed(wait)) return -1;
      return RankOf(index_.program().registers(x.inputs(0).register_()).device());
    }
    if (x.kind() != plan::INSTRUCTION_REMOTE) return -1;
    if (IsWriter(wait.actor)) {
      return RankOf(index_.program().registers(x.outputs(0).register_()).device());
    }
    // It is told what there is; the other rank has not got it yet.
    const auto found = states_.find(wait.actor);
    const bool told = found != states_.end() && found->second->kind == ActorState::Kind::kReady;
    return told ? RankOf(index_.device_of(wait.actor)) : -1;
  }

  const plan::Plan& plan_;
  const ProgramIndex& index_;
  std::map<int32_t, const ActorState*> states_;  // by actor
  std::map<int32_t, const ActorState*> turns_;   // by stream
};

std::string FiringText(const StreamWait& stream) {
  return absl::StrCat(stream.op, ", step ", stream.step, ", micro-batch ", stream.micro);
}

std::string StreamName(const StreamWait& stream) {
  return absl::StrCat("device ", stream.device, " ", stream.stream);
}

// Of the streams that run: that of the oldest step, and of those the one that has run longest.
const StreamWait* Running(const RankWaits& waits) {
  const StreamWait* found = nullptr;
  for (const StreamWait& stream : waits.streams) {
    if (!stream.runs) continue;
    if (found == nullptr ||
        std::pair(stream.step, -stream.seconds) < std::pair(found->step, -found->seconds)) {
      found = &stream;
    }
  }
  return found;
}

// Whom a rank waits for itself.
std::set<int32_t> PeersOf(int32_t rank, absl::Span<const RankAnswer> answers) {
  const RankWaits& mine = *answers[rank].waits;
  const auto ranks = static_cast<int32_t>(answers.size());
  std::set<int32_t> peers;
  for (const StreamWait& stream : mine.streams) {
    if (stream.peer >= 0 && stream.peer < ranks) peers.insert(stream.peer);
  }
  for (int32_t other = 0; other < ranks; ++other) {
    const std::optional<RankWaits>& theirs = answers[other].waits;
    const bool ends = mine.through > mine.over;  // it waits for the others to be through, too
    const bool asks = mine.asked > mine.answered;
    const bool late = theirs.has_value() && mine.begun > mine.over && theirs->begun <= mine.over;
    const bool owes_end = ends && (!theirs.has_value() || theirs->through < mine.through);
    const bool owes_answer = asks && (!theirs.has_value() || theirs->asked < mine.asked);
    if (late || owes_end || owes_answer) peers.insert(other);
  }
  peers.erase(rank);
  // What its steps lack may be a message alone, that a tensor was read or a step has begun, and no
  // stream knows of it. Who gives no answer has not sent it.
  const bool lacks_message = mine.begun > mine.through && Running(mine) == nullptr;
  for (int32_t other = 0; peers.empty() && lacks_message && other < ranks; ++other) {
    if (!answers[other].waits.has_value()) peers.insert(other);
  }
  return peers;
}

std::string RunningText(const RankAnswer& answer, const StreamWait& stream, size_t ranks) {
  const std::string where =
      absl::StrCat(ranks > 1 ? absl::StrCat(answer.name, ", ") : "", StreamName(stream));
  if (stream.reads_input) {
    return absl::StrFormat("input %sis late: %s has read %s for %.1f s",
                           ranks > 1 ? absl::StrCat("of rank ", answer.waits->rank, " ") : "",
                           where, FiringText(stream), stream.seconds);
  }
  return absl::StrFormat("all wait for %s, which runs %s, for %.1f s%s", where, FiringText(stream),
                         stream.seconds,
                         answer.waits->quiet < kMoves ? "; others of its streams move" : "");
}

}  // namespace

std::vector<StreamWait> StreamWaitsOf(const plan::Plan& plan, int program,
                                      const ProgramIndex& index,
                                      absl::Span<const ActorState> states) {
  const plan::Program& planned = plan.programs(program);
  const Follower follower(plan, index, states);
  std::vector<StreamWait> waits;
  std::set<std::pair<int32_t, int32_t>> seen;  // streams, and where they lead
  for (const ActorState& state : states) {
    const plan::Instruction& x = index.instruction(state.actor, state.instruction);
    const bool runs = state.kind == ActorState::Kind::kRuns;
    const bool waits_here = state.kind == ActorState::Kind::kMissing && state.has_turn;
    if ((!runs && !waits_here) || x.kind() == plan::INSTRUCTION_REMOTE) continue;
    const plan::Stream& stream = planned.streams(index.actor(state.actor).stream);
    StreamWait wait;
    wait.device = stream.device();
    wait.stream = std::string(StreamKindName(stream.kind()));
    wait.op = OpText(x);
    wait.step = state.step;
    wait.micro = state.micro;
    wait.runs = runs;
    wait.reads_input = runs && x.kind() == plan::INSTRUCTION_FEED;
    wait.seconds = state.seconds;
    if (!runs) follower.Follow(state, &wait);
    // A stream without an order has many that wait; those that wait for the same say nothing more.
    if (seen.emplace(index.actor(state.actor).stream, wait.peer).second) {
      waits.push_back(std::move(wait));
    }
  }
  return waits;
}

std::string WaitsToBytes(const RankWaits& waits) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Fixed(waits.rank);
  writer.Text(waits.host);
  writer.Fixed(waits.process);
  writer.Fixed(waits.quiet);
  for (const int64_t count :
       {waits.begun, waits.through, waits.over, waits.asked, waits.answered}) {
    writer.Fixed(count);
  }
  writer.Fixed(static_cast<uint32_t>(waits.streams.size()));
  for (const StreamWait& stream : waits.streams) {
    writer.Fixed(stream.device);
    writer.Text(stream.stream);
    writer.Text(stream.op);
    writer.Fixed(stream.step);
    writer.Fixed(stream.micro);
    writer.Fixed(
        static_cast<uint8_t>((stream.runs ? kRuns : 0) | (stream.reads_input ? kReadsInput : 0)));
    writer.Fixed(stream.seconds);
    writer.Text(stream.what);
    writer.Fixed(stream.peer);
  }
  writer.Fixed(static_cast<uint32_t>(waits.loads.size()));
  for (const StreamLoad& load : waits.loads) {
    writer.Fixed(load.device);
    writer.Fixed(load.busy);
  }
  writer.Fixed(waits.away);
  return bytes;
}

absl::StatusOr<RankWaits> WaitsFromBytes(absl::string_view bytes, int32_t rank) {
  ByteReader reader({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  RankWaits waits;
  bool known = true;  // all flags
  waits.rank = reader.Fixed<int32_t>();
  waits.host = reader.Text();
  waits.process = reader.Fixed<int32_t>();
  waits.quiet = reader.Fixed<double>();
  for (int64_t* count :
       {&waits.begun, &waits.through, &waits.over, &waits.asked, &waits.answered}) {
    *count = reader.Fixed<int64_t>();
  }
  const auto streams = reader.Fixed<uint32_t>();
  for (uint32_t n = 0; n < std::min(streams, kMostStreams) && reader.ok(); ++n) {
    StreamWait& stream = waits.streams.emplace_back();
    stream.device = reader.Fixed<int32_t>();
    stream.stream = reader.Text();
    stream.op = reader.Text();
    stream.step = reader.Fixed<int64_t>();
    stream.micro = reader.Fixed<int32_t>();
    const auto flags = reader.Fixed<uint8_t>();
    stream.runs = (flags & kRuns) != 0;
    stream.reads_input = (flags & kReadsInput) != 0;
    known = known && flags <= (kRuns | kReadsInput);
    stream.seconds = reader.Fixed<double>();
    stream.what = reader.Text();
    stream.peer = reader.Fixed<int32_t>();
  }
  const auto loads = reader.Fixed<uint32_t>();
  for (uint32_t n = 0; n < std::min(loads, kMostStreams) && reader.ok(); ++n) {
    StreamLoad& load = waits.loads.emplace_back();
    load.device = reader.Fixed<int32_t>();
    load.busy = reader.Fixed<double>();
  }
  waits.away = reader.Fixed<double>();
  if (reader.ok() && reader.left() == 0 && known && waits.rank == rank) return waits;
  return absl::InvalidArgumentError(absl::StrCat("what rank ", rank, " waits for: expected ",
                                                 "a table of its own, got ", bytes.size(),
                                                 " bytes that are none"));
}

absl::Status CheckRankWaits(const plan::Plan& plan, int32_t ranks, const RankWaits& waits) {
  const auto is_time = [](double x) { return x >= 0 && x <= kMostSeconds; };  // not NaN either
  const auto is_own = [&](int32_t device) {
    return device >= 0 && device < plan.devices_size() && plan.devices(device).rank() == waits.rank;
  };
  const auto wrong = [](absl::string_view what, const auto& got) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", got));
  };
  if (!is_time(waits.quiet)) return wrong("seconds", waits.quiet);
  for (const int64_t count :
       {waits.begun, waits.through, waits.over, waits.asked, waits.answered}) {
    if (count < 0) return wrong("a count of", count);
  }
  for (const StreamWait& stream : waits.streams) {
    if (!is_own(stream.device)) return wrong("device", stream.device);
    if (stream.peer < -1 || stream.peer >= ranks) return wrong("rank", stream.peer);
    if (!is_time(stream.seconds)) return wrong("seconds", stream.seconds);
  }
  // Loads of all ranks are sorted, for which each must be a number.
  std::set<int32_t> loaded;
  for (const StreamLoad& load : waits.loads) {
    if (!is_own(load.device) || !loaded.insert(load.device).second) {
      return wrong("the load of device", load.device);
    }
    if (!(load.busy >= 0 && load.busy <= 1)) return wrong("a load of", load.busy);
  }
  if (!(waits.away >= 0 && waits.away <= 1)) return wrong("a share of", waits.away);
  return absl::OkStatus();
}

void MakePrintable(RankWaits* waits) {
  const auto tidy = [](std::string* text) {
    text->resize(std::min(text->size(), kMostText));
    for (char& c : *text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
  };
  tidy(&waits->host);
  for (StreamWait& stream : waits->streams) {
    tidy(&stream.stream);
    tidy(&stream.op);
    tidy(&stream.what);
  }
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "an unknown host";
}

std::string RankName(const RankWaits& waits, int32_t ranks) {
  if (ranks == 1) return "";
  return absl::StrCat("rank ", waits.rank, " at ", waits.host, ", process ", waits.process);
}

std::string WaitsText(const RankWaits& waits, int32_t ranks) {
  std::string text = absl::StrFormat(
      "nothing has moved%s for %.1f s; of the steps begun, %d, %d are through here and %d over",
      ranks > 1 ? absl::StrCat(" on ", RankName(waits, ranks)) : "", waits.quiet, waits.begun,
      waits.through, waits.over);
  if (waits.asked > waits.answered) absl::StrAppend(&text, "; it waits for all ranks to agree");
  for (const StreamWait& stream : waits.streams) {
    absl::StrAppend(&text, "\n    ", StreamName(stream), stream.runs ? " runs " : ": ",
                    FiringText(stream), stream.runs ? "" : ", ", stream.what);
  }
  return text;
}

std::string CulpritText(int32_t asker, absl::Span<const RankAnswer> answers) {
  std::vector<int32_t> reached = {asker};
  std::map<int32_t, int32_t> from;  // the rank that waits for it
  std::set<int32_t> seen = {asker};
  const RankAnswer* runs = nullptr;
  const RankAnswer* besides = nullptr;
  for (size_t n = 0; n < reached.size(); ++n) {
    const RankAnswer& answer = answers[reached[n]];
    if (!answer.waits.has_value()) {
      std::string text = absl::StrCat("all wait for ", answer.name,
                                      ", which gives no answer: it stands still, or it is gone");
      const auto waiting = from.find(reached[n]);
      if (waiting == from.end()) return text;
      for (const StreamWait& stream : answers[waiting->second].waits->streams) {
        if (stream.peer != reached[n]) continue;
        return absl::StrCat(text, "; rank ", waiting->second, ", ", StreamName(stream), ": ",
                            FiringText(stream), ", ", stream.what);
      }
      return text;
    }
    const StreamWait* const running = Running(*answer.waits);
    if (running != nullptr && (runs == nullptr || running->step < Running(*runs->waits)->step)) {
      runs = &answer;
    }
    const std::set<int32_t> peers = PeersOf(reached[n], answers);
    // It holds the others up and waits for nobody.
    if (running == nullptr && peers.empty() && besides == nullptr) besides = &answer;
    for (const int32_t peer : peers) {
      if (!seen.insert(peer).second) continue;
      from[peer] = reached[n];
      reached.push_back(peer);
    }
  }
  const StreamWait* const running = runs == nullptr ? nullptr : Running(*runs->waits);
  // What is read for a later step holds nobody up.
  if (running != nullptr && (!running->reads_input || besides == nullptr)) {
    return RunningText(*runs, *running, answers.size());
  }
  if (besides != nullptr) {
    return absl::StrFormat(
        "all wait for %s, whose steps are through: it has begun %d and does something else, such "
        "as reading data, saving or evaluating, for %.1f s",
        answers.size() > 1 ? besides->name : "the session", besides->waits->begun,
        besides->waits->quiet);
  }
  return "all wait for each other, and nobody runs anything: a message is late or lost";
}

std::string WaitForRankText(absl::Span<const StreamWait> streams, int32_t rank) {
  const auto place = [rank](const StreamWait& stream) {
    return std::tuple(stream.peer != rank, stream.stream != "compute", stream.step, stream.micro);
  };
  const StreamWait* first = nullptr;
  for (const StreamWait& stream : streams) {
    if (stream.runs || stream.peer < 0) continue;
    if (first == nullptr || place(stream) < place(*first)) first = &stream;
  }
  if (first == nullptr) return "";
  return absl::StrCat(StreamName(*first), ": ", FiringText(*first), ", ", first->what);
}

std::optional<Straggler> FindStraggler(absl::Span<const RankWaits> ranks) {
  constexpr double kFactor = 2, kLeast = 0.5, kLeastMiddle = 0.01;
  Straggler most;
  std::vector<double> all;
  for (const RankWaits& rank : ranks) {
    for (const StreamLoad& load : rank.loads) {
      all.push_back(load.busy + rank.away);
      if (all.back() <= most.busy + most.away) continue;
      most.rank = rank.rank;
      most.device = load.device;
      most.busy = load.busy;
      most.away = rank.away;
    }
  }
  if (all.size() < 2) return std::nullopt;
  std::sort(all.begin(), all.end());
  const double held = all.back();
  most.middle = std::max(all[(all.size() - 2) / 2], kLeastMiddle);  // without the most
  if (held < kLeast || held < kFactor * most.middle) return std::nullopt;
  return most;
}

std::string StragglerText(const Straggler& slow, const std::string& name, double step_seconds) {
  const std::string steps =
      absl::StrFormat("the one in the middle of all is busy for %.0f %%, in steps of %.3f s",
                      100 * slow.middle, step_seconds);
  if (slow.away >= slow.busy) {
    return absl::StrFormat(
        "the others wait for %s, which did not run for %.0f %% of the time: it was stopped, or "
        "had no core; %s",
        name.empty() ? "this process" : name, 100 * slow.away, steps);
  }
  return absl::StrFormat(
      "the others wait for %s%sdevice %d compute: it computes for %.0f %% of the time; %s", name,
      name.empty() ? "" : ", ", slow.device, 100 * slow.busy, steps);
}

}  // namespace sluice
