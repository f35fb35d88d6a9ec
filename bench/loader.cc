// What batches of text cost: steps of the tiny GPT whose devices read their tokens from the data
// set in every step, as under the trainer, against steps on one constant batch. The two take turns
// in one session; prints a line of JSON for bench/report.py.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/gpt_sizes.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/data/batch.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/runtime/trace.h"
#include "framework/session/session.h"
#include "framework/train/command.h"
#include "models/gpt/gpt.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, text, "models/gpt/testdata/fixed.txt", "what batches are drawn from");
ABSL_FLAG(int32_t, threads, 0, "threads of the device; 0: all cores");
ABSL_FLAG(int64_t, blocks, 12, "times that each of the two takes its turn");
ABSL_FLAG(int64_t, steps, 10, "timed steps of a turn");

namespace sluice {
namespace {

constexpr int64_t kInFlight = Session::kStepsAhead;

class Turns {
 public:
  Turns(Session* session, const Dataset& data, int64_t batch)
      : session_(session), data_(data), batch_(data, batch) {
    *rate_.data<float>() = 3e-4f;
  }

  // Adds the times of the timed steps; those that fill and drain the two in flight are not timed.
  absl::Status Take(int64_t steps, bool draw, std::vector<double>* seconds) {
    int64_t begun = 0;
    int64_t last = 0;
    for (int64_t done = 0; done < steps + kInFlight; ++done) {
      for (; begun < steps + kInFlight && begun < done + kInFlight; ++begun) {
        RETURN_IF_ERROR(Begin(draw));
      }
      RETURN_IF_ERROR(session_->Next(&fetches_));
      const int64_t now = NowNanoseconds();
      if (done >= 1 && done <= steps) seconds->push_back(1e-9 * static_cast<double>(now - last));
      last = now;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Begin(bool draw) {
    samples_ += batch_.rows;
    Feed tokens(&batch_.tensors[0]), labels(&batch_.tensors[1]);
    if (draw) {
      tokens = SampleRows{&data_, 0, order_, samples_};
      labels = SampleRows{&data_, 1, order_, samples_};
    }
    *count_.data<int32_t>() = static_cast<int32_t>(++steps_);
    return session_->Step(
        "train",
        {{"tokens", tokens}, {"labels", labels}, {"learning_rate", &rate_}, {"step", &count_}});
  }

  Session* const session_;
  const Dataset& data_;
  const SampleOrder order_;
  Batch batch_;
  HostTensor rate_{DType::kF32, {}}, count_{DType::kI32, {}};
  Fetches fetches_;
  int64_t samples_ = 0, steps_ = 0;
};

absl::Status Measure() {
  const int64_t blocks = absl::GetFlag(FLAGS_blocks), steps = absl::GetFlag(FLAGS_steps);
  if (blocks < 1 || steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--blocks and --steps: expected at least 1, got ", blocks, " and ", steps));
  }
  ASSIGN_OR_RETURN(const GptConfig config, GptOfSize("tiny"));
  const std::string path = absl::GetFlag(FLAGS_text);
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  ASSIGN_OR_RETURN(const TextDataset text,
                   TextDataset::Create(path, std::move(bytes), config.sequence_length));
  Graph graph;
  RETURN_IF_ERROR(BuildGptTrain(config, OptimizerOptions(), &graph));
  SessionOptions options;
  options.threads_per_device = absl::GetFlag(FLAGS_threads);
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                   Session::Start({{"train", &graph}}, options));
  Turns turns(session.get(), text, config.batch);
  std::vector<double> drawn, constant, unused;
  RETURN_IF_ERROR(turns.Take(5, true, &unused));
  for (int64_t block = 0; block < blocks; ++block) {
    const bool first = block % 2 == 0;  // of the two, so that neither always follows the other
    RETURN_IF_ERROR(turns.Take(steps, first, first ? &drawn : &constant));
    RETURN_IF_ERROR(turns.Take(steps, !first, first ? &constant : &drawn));
  }
  const auto tokens = static_cast<double>(config.batch * config.sequence_length);
  const nlohmann::json line = {
      {"name", "loader/gpt/tiny"},       {"unit", "tokens/s"},
      {"value", tokens / Median(drawn)}, {"limit", tokens / Median(constant)},
      {"goal", "0.99 of limit"},         {"note", "constant tokens"}};
  absl::PrintF("%s\n", line.dump());
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  // The text that comes with the program lies where it is started, what the caller names where the
  // caller is.
  std::error_code error;
  absl::SetFlag(&FLAGS_text, std::filesystem::absolute(absl::GetFlag(FLAGS_text), error).string());
  return sluice::RunCommand(
      {"loader",
       "Times steps on batches of text; see bench/README.md.\n",
       {{"Flags",
         {{"text", "FILE", ""}, {"threads", "N", ""}, {"blocks", "N", ""}, {"steps", "N", ""}}}},
       {},
       sluice::Measure},
      argc, argv);
}
