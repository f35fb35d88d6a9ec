#include "bench/step_run.h"

#include "framework/base/status.h"
#include "framework/runtime/trace.h"
#include "framework/train/evaluation.h"

namespace sluice {
namespace {

constexpr int64_t kFewestSteps = 3;

double SecondsBetween(int64_t begin, int64_t end) {
  return 1e-9 * static_cast<double>(end - begin);
}

}  // namespace

absl::StatusOr<StepRun> RunSteps(Session* session, const StepFeeds& feeds,
                                 const StepRunOptions& options) {
  StepRun run;
  Fetches fetches;
  int64_t end = options.warmup + options.steps, begun = 0;
  int64_t last = NowNanoseconds(), clock_began = last;
  for (int64_t done = 0; done < end; ++done) {
    for (; begun < end && begun < done + Session::kStepsAhead; ++begun) {
      RETURN_IF_ERROR(session->Step("train", feeds(begun + 1)));
    }
    RETURN_IF_ERROR(session->Next(&fetches));
    const int64_t now = NowNanoseconds();
    if (done >= options.warmup) run.seconds.push_back(SecondsBetween(last, now));
    last = now;
    if (done < options.warmup) clock_began = now;
    if (static_cast<int64_t>(run.seconds.size()) >= kFewestSteps &&
        SecondsBetween(clock_began, now) > options.seconds) {
      end = begun;  // those that are under way are taken
    }
    if (!options.has_loss) continue;
    ASSIGN_OR_RETURN(run.last_loss, FetchedScalar(fetches, "loss"));
    if (done == 0) run.first_loss = run.last_loss;
  }
  return run;
}

}  // namespace sluice
