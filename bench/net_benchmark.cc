// TcpNet beside a raw socket between the same two processes, taking turns: a stream of pulls, and
// the round trip of a token with what is pulled for it. Only the net is measured: what it tells is
// answered on its own thread, so that no actor and no queue is in it.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "bench/local_ranks.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/comm/comm_net.h"
#include "framework/runtime/trace.h"
#include "framework/train/command.h"

ABSL_FLAG(int64_t, rounds, 9, "turns of each of the two");
ABSL_FLAG(int64_t, stream_mib, 256, "MiB of a turn of a stream");
ABSL_FLAG(int64_t, round_trips, 1000, "of a turn");

namespace sluice {
namespace {

// Pulls that are under way at once, each of an edge and a buffer of its own; the raw socket goes
// through as many buffers.
constexpr int kEdges = 4;
constexpr int64_t kMostBytes = int64_t{16} << 20;
constexpr int64_t kWordBytes = 32;  // of a frame that brings nothing else, about

using Buffers = std::array<std::vector<std::byte>, kEdges>;

// What both do: the net's edges and pulls have numbers of their own in each case, as in a plan.
struct Case {
  enum Kind : int32_t { kStream, kRoundTrip };
  Kind kind = kStream;
  int64_t bytes = 0;
  int32_t pull = 0;   // the first, which is also the edge's reader
  int64_t token = 0;  // the next
};

// One end of the net. Rank 0 measures; rank 1 answers, all on its net's thread.
class NetEnd final : public CommNet::Receiver {
 public:
  NetEnd(CommNet* net, Buffers* buffers) : net_(*net), buffers_(*buffers) {}

  // Nanoseconds of so many pulls, or round trips, of the other rank. One at a time.
  absl::StatusOr<double> Measure(Case* which, int64_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    case_ = which;
    begun_ = ended_ = 0;
    count_ = count;
    const int64_t begin = NowNanoseconds();
    lock.unlock();
    for (int i = 0; i < (which->kind == Case::kStream ? kEdges : 1); ++i) Begin();
    lock.lock();
    changed_.wait(lock, [this] { return ended_ >= count_ || !status_.ok(); });
    RETURN_IF_ERROR(status_);
    return static_cast<double>(NowNanoseconds() - begin);
  }

  // A token: of rank 0, or the answer. What it announces is pulled.
  void Receive(int32_t from, const WireMessage& message) override {
    if (message.kind == WireMessage::Kind::kLeft) return Fail(StatusOf(message));
    if (message.kind != WireMessage::Kind::kToken) return;
    net_.Pull(from, Request(message.edge, message.sequence), message.edge.reader,
              buffers_[0].data());
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t, const PullRequest& request) override {
    return absl::MakeConstSpan(buffers_[request.edge.reader % kEdges]);
  }
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) override {
    if (!status.ok()) return Fail(status);
    if (net_.rank() == 1) return Tell(EdgeTo(0, Case::kRoundTrip, pull), sequence);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (++ended_ == count_) changed_.notify_one();
    }
    Begin();
  }

  void set_cases(const std::vector<Case>& cases) { cases_ = cases; }

 private:
  // A pull of the stream, or a round trip; none where enough have begun.
  void Begin() {
    Edge edge;
    int64_t sequence = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (begun_ == count_) return;
      const int64_t of = case_->kind == Case::kStream ? begun_ % kEdges : 0;
      ++begun_;
      sequence = case_->token++;
      edge = EdgeTo(case_->kind == Case::kStream ? 0 : 1, case_->kind,
                    case_->pull + static_cast<int32_t>(of));
    }
    if (edge.program == Case::kRoundTrip) return Tell(edge, sequence);
    net_.Pull(1, Request(edge, sequence), edge.reader, buffers_[edge.reader % kEdges].data());
  }
  static Edge EdgeTo(int32_t reader_rank, Case::Kind kind, int32_t pull) {
    return {kind, 1 - reader_rank, 0, reader_rank, pull};
  }
  PullRequest Request(const Edge& edge, int64_t sequence) const {
    const int64_t bytes = cases_[edge.reader / kEdges].bytes;
    PullRequest request;
    request.edge = edge;
    request.sequence = sequence;
    request.element_bytes = 1;
    request.bytes = bytes;
    request.pieces = {{0, {bytes}, {1}}};
    return request;
  }
  void Tell(const Edge& edge, int64_t sequence) {
    WireMessage message;
    message.kind = WireMessage::Kind::kToken;
    message.edge = edge;
    message.sequence = sequence;
    net_.Send(1 - net_.rank(), std::move(message));
  }
  void Fail(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(status.ok() ? absl::UnavailableError("the other rank left") : status);
    changed_.notify_one();
  }

  CommNet& net_;
  Buffers& buffers_;
  std::vector<Case> cases_;  // by pull / kEdges

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Case* case_ = nullptr;
  int64_t count_ = 0, begun_ = 0, ended_ = 0;
  absl::Status status_;
};

// What rank 0 asks for over the raw socket.
struct RawOrder {
  enum Kind : int64_t { kEnd, kStream, kRoundTrip, kRoundTripAsPulled };
  int64_t kind = kEnd, bytes = 0, count = 0;
};

// One end's part in a round trip of the raw socket, for the end that begins and for the other. As
// pulled: a word, a word back, then the bytes, as a token and its pull go, there and back.
absl::Status RawTell(int socket, bool as_pulled, std::byte* bytes, int64_t size) {
  std::array<std::byte, kWordBytes> word{};
  if (as_pulled) {
    RETURN_IF_ERROR(RawSend(socket, word.data(), kWordBytes));
    RETURN_IF_ERROR(RawReceive(socket, word.data(), kWordBytes));
  }
  return RawSend(socket, bytes, size);
}

absl::Status RawTake(int socket, bool as_pulled, std::byte* bytes, int64_t size) {
  std::array<std::byte, kWordBytes> word{};
  if (as_pulled) {
    RETURN_IF_ERROR(RawReceive(socket, word.data(), kWordBytes));
    RETURN_IF_ERROR(RawSend(socket, word.data(), kWordBytes));
  }
  return RawReceive(socket, bytes, size);
}

absl::Status Answer(int socket, Buffers* buffers) {
  while (true) {
    RawOrder order;
    RETURN_IF_ERROR(RawReceive(socket, &order, sizeof(order)));
    if (order.kind == RawOrder::kEnd) return absl::OkStatus();
    for (int64_t i = 0; i < order.count; ++i) {
      std::byte* const bytes = (*buffers)[i % kEdges].data();
      if (order.kind == RawOrder::kStream) {
        RETURN_IF_ERROR(RawSend(socket, bytes, order.bytes));
        continue;
      }
      const bool as_pulled = order.kind == RawOrder::kRoundTripAsPulled;
      RETURN_IF_ERROR(RawTake(socket, as_pulled, (*buffers)[0].data(), order.bytes));
      RETURN_IF_ERROR(RawTell(socket, as_pulled, (*buffers)[1].data(), order.bytes));
    }
  }
}

// Nanoseconds.
absl::StatusOr<double> MeasureRaw(int socket, const RawOrder& order, Buffers* buffers) {
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(RawSend(socket, &order, sizeof(order)));
  for (int64_t i = 0; i < order.count; ++i) {
    if (order.kind == RawOrder::kStream) {
      RETURN_IF_ERROR(RawReceive(socket, (*buffers)[i % kEdges].data(), order.bytes));
      continue;
    }
    const bool as_pulled = order.kind == RawOrder::kRoundTripAsPulled;
    RETURN_IF_ERROR(RawTell(socket, as_pulled, (*buffers)[1].data(), order.bytes));
    RETURN_IF_ERROR(RawTake(socket, as_pulled, (*buffers)[0].data(), order.bytes));
  }
  return static_cast<double>(NowNanoseconds() - begin);
}

struct Contest {
  std::string name;
  Case* net;
  RawOrder::Kind raw;
  std::string goal, note;
};

class Benchmark {
 public:
  Benchmark(NetEnd* end, int socket, Buffers* buffers)
      : end_(*end), socket_(socket), buffers_(*buffers) {}

  // By turns; the first of each is not counted.
  absl::Status Run(const Contest& contest) {
    const bool stream = contest.net->kind == Case::kStream;
    const int64_t bytes = contest.net->bytes;
    const int64_t count =
        stream ? std::max<int64_t>(kEdges, (absl::GetFlag(FLAGS_stream_mib) << 20) / bytes)
               : absl::GetFlag(FLAGS_round_trips);
    std::vector<double> net, raw;
    for (int64_t round = 0; round <= absl::GetFlag(FLAGS_rounds); ++round) {
      ASSIGN_OR_RETURN(const double of_raw,
                       MeasureRaw(socket_, {contest.raw, bytes, count}, &buffers_));
      ASSIGN_OR_RETURN(const double of_net, end_.Measure(contest.net, count));
      if (round == 0) continue;
      raw.push_back(of_raw / static_cast<double>(count));
      net.push_back(of_net / static_cast<double>(count));
    }
    const auto told = [&](double nanoseconds) {
      return stream ? static_cast<double>(bytes) / nanoseconds * 1e9 : nanoseconds;
    };
    PrintFigure({contest.name, told(Median(net)), stream ? "B/s" : "ns", told(Median(raw)),
                 contest.goal, contest.note});
    return absl::OkStatus();
  }

 private:
  NetEnd& end_;
  const int socket_;
  Buffers& buffers_;
};

absl::Status Measure() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, JoinLaunchedJob());
  if (job->ranks() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected 2 ranks (//tools:launch -n 2), got ", job->ranks()));
  }
  ASSIGN_OR_RETURN(const Descriptor socket, ConnectRaw(job.get()));
  ASSIGN_OR_RETURN(CommNet * net, job->net());
  Buffers buffers;
  for (auto& buffer : buffers) buffer.assign(kMostBytes, std::byte{1});
  NetEnd end(net, &buffers);
  std::vector<Case> cases = {{Case::kStream, int64_t{1} << 20},
                             {Case::kStream, int64_t{16} << 20},
                             {Case::kRoundTrip, 64},
                             {Case::kRoundTrip, int64_t{64} << 10}};
  for (size_t i = 0; i < cases.size(); ++i) cases[i].pull = static_cast<int32_t>(i) * kEdges;
  end.set_cases(cases);
  net->Open(&end);
  absl::Status status;
  if (job->is_first()) {
    Benchmark benchmark(&end, socket.number(), &buffers);
    const std::string stream = "0.85 of limit", trip = "0.67 of limit";
    for (const Contest& contest : std::vector<Contest>{
             {"net/stream/mib:1", &cases[0], RawOrder::kStream, stream, "a raw socket"},
             {"net/stream/mib:16", &cases[1], RawOrder::kStream, stream, "a raw socket"},
             {"net/round_trip/along/bytes:64", &cases[2], RawOrder::kRoundTrip, trip,
              "a raw ping-pong"},
             {"net/round_trip/pulled/kib:64", &cases[3], RawOrder::kRoundTripAsPulled, trip,
              "a raw word, word and 64 KiB"},
             {"net/round_trip/pulled/kib:64/beside_bytes_alone", &cases[3], RawOrder::kRoundTrip,
              trip, "a raw ping-pong"}}) {
      status.Update(benchmark.Run(contest));
    }
    const RawOrder end_order;
    status.Update(RawSend(socket.number(), &end_order, sizeof(end_order)));
  } else {
    status = Answer(socket.number(), &buffers);
  }
  net->Close();
  return status;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"net_benchmark",
       "Times TcpNet beside a raw socket, two ranks of //tools:launch; see bench/README.md.\n",
       {sluice::RanksFlags(),
        {"How it is measured",
         {{"rounds", "N", ""}, {"stream_mib", "N", ""}, {"round_trips", "N", ""}}}},
       {},
       sluice::Measure},
      argc, argv);
}
