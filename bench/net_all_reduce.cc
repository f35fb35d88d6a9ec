// All-reduce among processes as training does it: a session whose boxing adds up the terms of a
// tensor, P to B over axis data, and gives every rank the sum. Steps are taken one at a time. An
// outer product makes the terms, which costs each rank one pass over its memory; the same step
// without boxing is timed in turns, and told apart.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/local_ranks.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/graph/graph.h"
#include "framework/ops/ops.h"
#include "framework/runtime/trace.h"
#include "framework/session/session.h"
#include "framework/train/command.h"
#include "framework/train/evaluation.h"

ABSL_FLAG(std::string, mib, "1,16,256", "sizes of the tensor, with commas");
ABSL_FLAG(std::string, trace, "", "file for a timeline; each rank's has its number behind");

namespace sluice {
namespace {

constexpr int64_t kRows = 256;
constexpr int64_t kMostMib = 1024, kMibOfAll = 2048, kLeastSteps = 6, kMostSteps = 200;

struct Operands {
  Operands(int64_t ranks, int64_t columns)
      : left(DType::kF32, {kRows, ranks}), right(DType::kF32, {ranks, columns}) {
    std::fill_n(left.data<float>(), left.shape.NumElements(), 1.0f);
    std::fill_n(right.data<float>(), right.shape.NumElements(), 1.0f);
  }
  HostTensor left, right;
};

// Terms come of products whose inner dimension is split; a sample of the sum is the output.
absl::Status Build(int64_t ranks, int64_t columns, bool reduce, Graph* graph) {
  const std::string left = reduce ? "data:S1" : "data:B", right = reduce ? "data:S0" : "data:B";
  const int64_t inner = reduce ? ranks : 1;
  Tensor product = MatMul(graph->Input("left", DType::kF32, {kRows, inner}, left),
                          graph->Input("right", DType::kF32, {inner, columns}, right))
                       .With("data:B");
  graph->Output("sample", ReduceSum(SliceDim(SliceDim(product, 0, 0, 1), 1, 0, 1), {0, 1}));
  return graph->Finish();
}

// Seconds. `sample`: what comes out, 0 for a rank that is not told.
absl::StatusOr<double> TimeStep(Session* session, const std::string& program,
                                const Operands& operands, double sample) {
  const Feeds feeds = {{"left", &operands.left}, {"right", &operands.right}};
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(session->Step(program, feeds));
  Fetches fetches;
  RETURN_IF_ERROR(session->Next(&fetches));
  const double seconds = 1e-9 * static_cast<double>(NowNanoseconds() - begin);
  if (sample == 0) return seconds;
  ASSIGN_OR_RETURN(const double got, FetchedScalar(fetches, "sample"));
  if (got == sample) return seconds;
  return absl::InternalError(absl::StrCat("expected a sum of ", sample, ", got ", got));
}

struct Size {
  int64_t mib = 0;
  Graph reduce, alone;
  std::string name() const { return absl::StrCat("mib:", mib); }
  std::string name_alone() const { return absl::StrCat("mib:", mib, "/product"); }
};

absl::StatusOr<std::vector<Size>> ReadSizes(int64_t ranks) {
  std::vector<Size> sizes;
  for (const absl::string_view text : absl::StrSplit(absl::GetFlag(FLAGS_mib), ',')) {
    Size& size = sizes.emplace_back();
    if (!absl::SimpleAtoi(text, &size.mib) || size.mib < 1 || size.mib > kMostMib) {
      return absl::InvalidArgumentError(absl::StrCat("--mib: expected numbers from 1 to ", kMostMib,
                                                     ", with commas, got \"", text, "\""));
    }
    const int64_t columns = (size.mib << 18) / kRows;
    RETURN_IF_ERROR(Build(ranks, columns, /*reduce=*/true, &size.reduce));
    RETURN_IF_ERROR(Build(ranks, columns, /*reduce=*/false, &size.alone));
  }
  return sizes;
}

// All ranks take the same steps; the first one tells their times.
absl::Status MeasureSize(const Size& size, const Job& job, Session* session) {
  const int64_t columns = (size.mib << 18) / kRows;
  const Operands split(job.ranks(), columns), whole(1, columns);
  const int64_t steps = std::clamp(kMibOfAll / size.mib, kLeastSteps, kMostSteps);
  const double sum = job.is_first() ? static_cast<double>(job.ranks()) : 0;
  std::vector<double> with, without;
  for (int64_t step = 0; step <= steps; ++step) {
    ASSIGN_OR_RETURN(const double reduced, TimeStep(session, size.name(), split, sum));
    ASSIGN_OR_RETURN(const double product,
                     TimeStep(session, size.name_alone(), whole, job.is_first() ? 1 : 0));
    if (step == 0) continue;
    with.push_back(reduced);
    without.push_back(product);
  }
  if (!job.is_first()) return absl::OkStatus();
  // As peers tell it: a quarter of the times is below.
  const double step = LowerQuartile(with), product = LowerQuartile(without);
  const double bytes = static_cast<double>(size.mib << 20);
  const std::string name = absl::StrCat("net/all_reduce/processes:", job.ranks(), "/", size.name());
  PrintFigure({name, bytes / std::max(step - product, 1e-9), "B/s", 0, "", ""});
  PrintFigure({name + "/whole_step", bytes / step, "B/s", 0, "", ""});
  return absl::OkStatus();
}

absl::Status Measure() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, JoinLaunchedJob());
  if (job->ranks() < 2) {
    return absl::InvalidArgumentError("expected several ranks (//tools:launch -n 2), got one");
  }
  SessionOptions options;
  ASSIGN_OR_RETURN(options.net, job->net());
  options.mesh = absl::StrCat("data=", job->ranks());
  options.trace = absl::GetFlag(FLAGS_trace);
  if (!options.trace.empty()) absl::StrAppend(&options.trace, ".", job->rank());
  ASSIGN_OR_RETURN(const std::vector<Size> sizes, ReadSizes(job->ranks()));
  std::vector<ProgramGraph> programs;
  for (const Size& size : sizes) {
    programs.push_back({size.name(), &size.reduce});
    programs.push_back({size.name_alone(), &size.alone});
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Start(programs, options));
  for (const Size& size : sizes) RETURN_IF_ERROR(MeasureSize(size, *job, session.get()));
  return session->Close();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"net_all_reduce",
       "Times an all-reduce among ranks of //tools:launch; see bench/README.md.\n",
       {{"How it is measured", {{"mib", "SIZES", ""}, {"trace", "FILE", "none"}}},
        sluice::RanksFlags()},
       {},
       sluice::Measure},
      argc, argv);
}
