#include "framework/testing/cuda_emulation/nccl_communicator.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "framework/testing/cuda_emulation/emulation.h"

namespace sluice::cuda_emulation {
namespace {

uint64_t ThisThreadId() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

std::string PlaceOf(const ncclComm& communicator, int64_t position) {
  return absl::StrCat("communicator ", communicator.clique->number, ", call ", position);
}

// A pair says the same apart from who sends.
std::string Amount(const NcclCall& call) {
  const std::string text = call.Text();
  return call.IsPair() ? text.substr(text.find(" of ")) : text;
}

void Join(const PendingNcclCall& pending, const Seat& seat, bool grouped) {
  Clique& clique = *pending.communicator->clique;
  Meeting& meeting = *seat.meeting;
  for (int i = 0; i < (pending.call.IsPair() ? 2 : clique.ranks()); ++i) {
    if (!meeting.HasJoined(i) || Amount(meeting.call(i)) == Amount(pending.call)) continue;
    Fail(&clique, absl::StrCat(meeting.name(), ": rank ", pending.communicator->rank, " calls ",
                               pending.call.Text(), ", another rank ", meeting.call(i).Text()));
    break;
  }
  meeting.Join(seat.participant, pending.call);
  if (grouped || pending.call.IsPair()) return;
  for (const auto& [thread, participant] : meeting.threads) {
    if (thread != ThisThreadId()) continue;
    ReportError(absl::StrCat(meeting.name(), ": one thread calls for ranks ", participant, " and ",
                             seat.participant, " without a group, and may wait for itself"));
  }
  meeting.threads.push_back({ThisThreadId(), seat.participant});
}

Seat SeatOfPair(const PendingNcclCall& pending) {
  ncclComm& communicator = *pending.communicator;
  Clique& clique = *communicator.clique;
  const bool sends = pending.call.kind == NcclKind::kSend;
  const std::pair<int, int> lane = sends ? std::pair(communicator.rank, pending.call.root)
                                         : std::pair(pending.call.root, communicator.rank);
  const int64_t number = sends ? clique.sent[lane]++ : clique.received[lane]++;
  std::shared_ptr<Meeting>& meeting = clique.pairs[{lane.first, lane.second, number}];
  if (meeting == nullptr) {
    meeting =
        std::make_shared<Meeting>(absl::StrCat("communicator ", clique.number, ", ", number,
                                               " from rank ", lane.first, " to ", lane.second),
                                  2);
  }
  return {meeting, sends ? 0 : 1};
}

// The way from a meeting to another along what devices were given, the last first; empty: none.
std::vector<const Meeting*> Way(const Meeting* from, const Meeting* to,
                                std::set<const Meeting*>* seen) {
  if (from == to) return {to};
  if (!seen->insert(from).second) return {};
  for (const auto& next : from->later) {
    std::vector<const Meeting*> way = Way(next.get(), to, seen);
    if (way.empty()) continue;
    way.push_back(from);
    return way;
  }
  return {};
}

}  // namespace

NcclState& GlobalNccl() {
  static NcclState& state = *new NcclState();
  return state;
}

void Fail(Clique* clique, const std::string& report) {
  if (!clique->failed) ReportError(absl::StrCat("NCCL: ", report));
  clique->failed = true;
  for (const ncclComm_t member : clique->members) {
    if (member != nullptr && member->error == ncclSuccess) member->error = ncclInvalidUsage;
  }
}

Seat TakeSeat(const PendingNcclCall& pending, bool grouped) {
  ncclComm& communicator = *pending.communicator;
  Clique& clique = *communicator.clique;
  if (pending.call.IsPair()) {
    const Seat seat = SeatOfPair(pending);
    Join(pending, seat, grouped);
    if (seat.meeting->AllJoined()) {
      std::erase_if(clique.pairs, [&](const auto& x) { return x.second == seat.meeting; });
    }
    return seat;
  }
  const int64_t position = communicator.position++;
  std::shared_ptr<Meeting>& meeting = clique.collectives[position];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>(PlaceOf(communicator, position), clique.ranks());
  }
  const Seat seat = {meeting, communicator.rank};
  Join(pending, seat, grouped);
  if (seat.meeting->AllJoined()) clique.collectives.erase(position);
  return seat;
}

void CheckOrder(int device, const std::vector<Seat>& seats) {
  std::vector<std::shared_ptr<Meeting>>& last = GlobalNccl().last[device];
  for (const std::shared_ptr<Meeting>& before : last) {
    for (const Seat& seat : seats) {
      std::set<const Meeting*> seen;
      const std::vector<const Meeting*> way = Way(seat.meeting.get(), before.get(), &seen);
      if (way.empty()) {
        before->later.push_back(seat.meeting);
        continue;
      }
      std::string order;
      for (auto each = way.rbegin(); each != way.rend(); ++each) {
        absl::StrAppend(&order, order.empty() ? "" : " then ", "(", (*each)->name(), ")");
      }
      ReportError(absl::StrCat("NCCL: device ", device, " is given (", before->name(), ") then (",
                               seat.meeting->name(), "), other devices ", order,
                               ": they may wait for each other"));
    }
  }
  last.clear();
  for (const Seat& seat : seats) last.push_back(seat.meeting);
}

void CheckNothingIsLeft(const Clique& clique) {
  if (clique.failed) return;
  const auto report = [&](const Meeting& meeting, int participants, bool pair) {
    for (int i = 0; i < participants; ++i) {
      if (meeting.HasJoined(i)) continue;
      ReportError(absl::StrCat("NCCL: ", meeting.name(), ": ",
                               pair ? (i == 0 ? "nothing was sent" : "nobody received")
                                    : absl::StrCat("rank ", i, " never came")));
    }
  };
  for (const auto& [position, meeting] : clique.collectives) {
    report(*meeting, clique.ranks(), false);
  }
  for (const auto& [lane, meeting] : clique.pairs) report(*meeting, 2, true);
}

}  // namespace sluice::cuda_emulation
