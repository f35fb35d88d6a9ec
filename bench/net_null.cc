// The protocol between processes alone: ranks with null devices take the steps of a GPT's plan,
// with tokens and pulls as if there were bytes. Messages a second of all ranks together, and what
// one costs their CPUs, actors and sessions included, beside what a message of a raw socket costs.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/gpt_batch.h"
#include "bench/gpt_sizes.h"
#include "bench/local_ranks.h"
#include "framework/base/status.h"
#include "framework/comm/comm_net.h"
#include "framework/comm/tcp_net.h"
#include "framework/runtime/trace.h"
#include "framework/train/command.h"

ABSL_FLAG(std::string, mesh, "data=16", "axes of the mesh; its devices are null");
ABSL_FLAG(int64_t, steps, 1000, "timed steps");
ABSL_FLAG(int64_t, warmup, 20, "steps before the clock starts");

namespace sluice {
namespace {

constexpr int kRawRoundTrips = 5000;
constexpr int64_t kMessageBytes = 64;  // of a token on the wire, about

// What a rank has sent and computed.
struct Counts {
  int64_t messages = 0, pulls = 0, along = 0, cpu = 0;
};

absl::StatusOr<Counts> CountsOf(CommNet* net) {
  const auto* const tcp = dynamic_cast<TcpNet*>(net);
  if (tcp == nullptr) return absl::InternalError("expected ranks that are joined by TCP");
  const TcpNet::Counts counts = tcp->counts();
  return Counts{counts.messages, counts.pulls, counts.along, CpuNanoseconds()};
}

// Of all ranks; only the first is told.
absl::StatusOr<Counts> Sum(Session* session, const Counts& begin, const Counts& end) {
  Counts sum;
  const std::string mine = absl::StrCat(end.messages - begin.messages, " ", end.pulls - begin.pulls,
                                        " ", end.along - begin.along, " ", end.cpu - begin.cpu);
  RETURN_IF_ERROR(session->Agree(mine, [&sum](absl::Span<const std::string> ranks) {
    for (const std::string& rank : ranks) {
      const std::vector<std::string> words = absl::StrSplit(rank, ' ');
      size_t i = 0;
      for (int64_t* const count : {&sum.messages, &sum.pulls, &sum.along, &sum.cpu}) {
        int64_t value = 0;
        if (i >= words.size() || !absl::SimpleAtoi(words[i++], &value)) {
          return absl::InternalError(absl::StrCat("expected four numbers, got \"", rank, "\""));
        }
        *count += value;
      }
    }
    return absl::OkStatus();
  }));
  return sum;
}

absl::Status RunSteps(Session* session, GptBatch* batch, int64_t* step, int64_t count) {
  Fetches fetches;
  const int64_t last = *step + count;
  for (int64_t done = *step; done < last; ++done) {
    for (; *step < last && *step < done + Session::kStepsAhead; ++*step) {
      RETURN_IF_ERROR(session->Step("train", batch->StepFeeds(*step + 1)));
    }
    RETURN_IF_ERROR(session->Next(&fetches));
  }
  return absl::OkStatus();
}

// What a message costs at the least, in CPU of both ends: a ping-pong of ranks 0 and 1, before
// anything else runs. The other end's part is taken to be as large.
absl::StatusOr<double> RawMessageCpu(Job* job) {
  ASSIGN_OR_RETURN(const Descriptor socket, ConnectRaw(job));
  std::array<std::byte, kMessageBytes> bytes{};
  const int64_t begin = CpuNanoseconds();
  for (int i = 0; i < kRawRoundTrips; ++i) {
    if (job->is_first()) RETURN_IF_ERROR(RawSend(socket.number(), bytes.data(), kMessageBytes));
    RETURN_IF_ERROR(RawReceive(socket.number(), bytes.data(), kMessageBytes));
    if (!job->is_first()) RETURN_IF_ERROR(RawSend(socket.number(), bytes.data(), kMessageBytes));
  }
  return static_cast<double>(CpuNanoseconds() - begin) / kRawRoundTrips;
}

void Print(const Job& job, const Counts& counts, int64_t steps, double seconds, double raw_cpu) {
  const std::string name = absl::StrCat("net/null/processes:", job.ranks());
  const auto messages = static_cast<double>(counts.messages);
  const std::string of_a_step =
      absl::StrCat(counts.messages / steps, " messages a step, ", counts.pulls / steps, " pulls, ",
                   counts.along / steps, " of them ride along");
  PrintFigure({name + "/messages", messages / seconds, "/s", 0, "", of_a_step});
  PrintFigure({name + "/steps", static_cast<double>(steps) / seconds, "/s", 0, "", ""});
  PrintFigure({name + "/cpu_a_message", static_cast<double>(counts.cpu) / messages, "ns", raw_cpu,
               "", "a message of a raw socket"});
}

absl::Status Measure() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, JoinLaunchedJob());
  if (job->ranks() < 2) {
    return absl::InvalidArgumentError("expected several ranks (//tools:launch -n 16), got one");
  }
  double raw_cpu = 0;
  if (job->rank() < 2) {
    ASSIGN_OR_RETURN(raw_cpu, RawMessageCpu(job.get()));
  } else {
    RETURN_IF_ERROR(job->Share(std::string(), "said where it is to be connected to").status());
  }
  SessionOptions options;
  options.mesh = absl::StrCat(absl::GetFlag(FLAGS_mesh), " @null");
  ASSIGN_OR_RETURN(options.net, job->net());
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(options.mesh));
  ASSIGN_OR_RETURN(GptConfig config, GptOfSize("tiny"));
  config.batch *= mesh.AxisSize("data");
  Graph graph;
  RETURN_IF_ERROR(BuildGptTrain(config, OptimizerOptions(), &graph));
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                   Session::Start({{"train", &graph}}, options));
  GptBatch batch(config);
  int64_t step = 0;
  RETURN_IF_ERROR(RunSteps(session.get(), &batch, &step, absl::GetFlag(FLAGS_warmup)));
  ASSIGN_OR_RETURN(const Counts before, CountsOf(options.net));
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(RunSteps(session.get(), &batch, &step, absl::GetFlag(FLAGS_steps)));
  const double seconds = 1e-9 * static_cast<double>(NowNanoseconds() - begin);
  ASSIGN_OR_RETURN(const Counts after, CountsOf(options.net));
  ASSIGN_OR_RETURN(const Counts sum, Sum(session.get(), before, after));
  if (job->is_first()) Print(*job, sum, absl::GetFlag(FLAGS_steps), seconds, raw_cpu);
  return session->Close();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"net_null",
       "Runs the protocol of a GPT's step among ranks of //tools:launch; see bench/README.md.\n",
       {{"What runs", {{"mesh", "AXES", ""}, {"steps", "N", ""}, {"warmup", "N", ""}}}},
       {},
       sluice::Measure},
      argc, argv);
}
