// The main job: trains a GPT on text, on the devices of one machine.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/data/text_batches.h"
#include "framework/data/text_corpus.h"
#include "framework/train/command.h"
#include "framework/train/evaluation.h"
#include "framework/train/interrupt.h"
#include "framework/train/peak.h"
#include "framework/train/sampler.h"
#include "framework/train/trainer.h"
#include "models/gpt/gpt.h"
#include "models/gpt/options.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kQuickEvaluation = 8;  // batches, while training goes on
constexpr char kCorpus[] = "models/gpt/corpus.pack";

// The folder in which Bazel lays out what the program reads: where `bazel run` and tests start it,
// or beside the program.
std::string Runfiles() {
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error).string();
  for (const std::string& folder :
       {fs::current_path(error).string(), program + ".runfiles/sluice"}) {
    if (fs::exists(folder + "/" + kCorpus, error)) return folder;
  }
  return "";
}

absl::StatusOr<TextCorpus> ReadCorpus(const std::string& data, const std::string& runfiles) {
  if (!data.empty()) return ReadTextCorpus(data);
  if (runfiles.empty()) {
    return absl::NotFoundError(absl::StrCat("data: expected ", kCorpus,
                                            " beside the program, found none; start it with bazel "
                                            "run, or name text with --data"));
  }
  return ReadPackedCorpus(runfiles + "/" + kCorpus);
}

struct GptPrograms {
  Graph train, eval, sample;
  std::vector<ProgramGraph> All() const {
    return {{"train", &train}, {"eval", &eval}, {"sample", &sample}};
  }
};

absl::Status Build(const TrainOptions& options, GptPrograms* programs) {
  RETURN_IF_ERROR(
      BuildGptTrain(options.config, options.stages, options.optimizer, &programs->train));
  RETURN_IF_ERROR(BuildGptEval(options.config, options.stages, &programs->eval));
  return BuildGptSample(options.config, options.stages, &programs->sample);
}

absl::Status PrintSample(Session* session, const TrainOptions& options,
                         const Interrupt& interrupt) {
  SampleOptions sample;
  sample.prompt = options.prompt;
  sample.length = options.sample_length;
  sample.temperature = options.temperature;
  sample.seed = options.session.seed;
  sample.sequence_length = options.config.sequence_length;
  sample.stop = [&interrupt] { return interrupt.requested(); };
  if (sample.length == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, SampleText(session, sample));
  absl::PrintF("---\n%s\n---\n", Printable(options.prompt + text));
  return absl::OkStatus();
}

absl::Status WriteOptions(const TrainOptions& options) {
  RETURN_IF_ERROR(CreateDirectories(options.out));
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(options.out + "/options.txt"));
  for (const auto& flag : options.resolved) {
    RETURN_IF_ERROR(writer.Append(absl::StrCat("--", flag.first, "=", flag.second, "\n")));
  }
  return writer.Close();
}

void PrintPage(const SessionOptions& session) {
  if (session.explain_html.empty()) return;
  absl::PrintF("page       %s\n", session.explain_html);
}

void PrintEnd(const TrainingRecord& record, double bigram, const TrainOptions& options) {
  absl::PrintF("\n%s", DrawPlot(record.losses, record.evaluations, PlotOptions()));
  absl::PrintF("          loss in nats a byte; o: on held-out text\n\n");
  if (!record.evaluations.empty() && !record.stopped) {
    const double loss = record.evaluations.back().y;
    absl::PrintF("held-out loss %.4f nats a byte, %.4f %s a bigram model's %.4f\n", loss,
                 std::abs(bigram - loss), loss < bigram ? "below" : "above", bigram);
  }
  absl::PrintF("checkpoint %s\nlog        %s\n",
               record.checkpoint.empty() ? "none" : record.checkpoint, record.log);
  if (record.failed_saves > 0) {
    absl::PrintF("checkpoints that were not written: %d; see the warnings\n", record.failed_saves);
  }
  if (record.stopped && !record.checkpoint.empty()) {
    absl::PrintF("stopped; --resume=%s goes on\n", options.out);
  }
}

absl::Status Train(const TrainOptions& options, const TextCorpus& corpus, Session* session,
                   const std::optional<Checkpoint>& checkpoint, const Interrupt& interrupt) {
  const GptConfig& c = options.config;
  const int64_t length = c.sequence_length;
  ASSIGN_OR_RETURN(
      const TextBatches training,
      TextBatches::Create("training text", corpus.training, c.batch, length, options.session.seed));
  ASSIGN_OR_RETURN(const TextBatches held_out,
                   TextBatches::Create("held-out text", corpus.held_out, c.batch, length, 0));
  const double bigram = BigramLoss(corpus.training, corpus.held_out);
  const std::string digest = HashText(corpus.digest);
  absl::PrintF("text       %d bytes to learn from, %d held out, digest %s\n",
               corpus.training.size(), corpus.held_out.size(), digest);
  absl::PrintF("baseline   a bigram model of the same text: %.4f nats a byte on what is held out\n",
               bigram);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  ASSIGN_OR_RETURN(const double peak, MeasureMatmulPeak(cores));
  absl::PrintF("machine    %s on %d cores; %.0f GFLOP/s in matmuls\n", options.session.mesh, cores,
               peak / 1e9);
  PrintPage(options.session);
  absl::PrintF("run        %s\n\n", options.out);

  TokenBatch batch(c.batch, length);
  TrainerTask task;
  task.feed = [&](int64_t samples_seen, Feeds* feeds) {
    training.Random(samples_seen, &batch);
    *feeds = {{"tokens", &batch.tokens}, {"labels", &batch.labels}};
    return absl::OkStatus();
  };
  task.evaluate = [&](bool whole) {
    const int64_t all = held_out.CoveringBatches();
    return MeanLoss(session, held_out, whole ? all : std::min(all, kQuickEvaluation), &batch);
  };
  task.facts = {{"corpus", digest}, {"bigram_loss", absl::StrFormat("%.9g", bigram)}};
  task.stop = [&interrupt] { return interrupt.requested(); };

  TrainerOptions trainer_options;
  trainer_options.schedule = options.schedule;
  trainer_options.samples_per_step = c.batch;
  trainer_options.tokens_per_step = c.batch * length;
  trainer_options.flops_per_step = GptFlopsPerToken(c) * static_cast<double>(c.batch * length);
  trainer_options.peak_flops = peak;
  trainer_options.eval_every = options.eval_every;
  trainer_options.save_every = options.save_every;
  trainer_options.keep = options.keep;
  trainer_options.seed = options.session.seed;
  trainer_options.out = options.out;
  trainer_options.recorded = {options.resolved.begin(), options.resolved.end()};
  for (const DamagedCheckpoint& damaged : options.damaged) {
    RETURN_IF_ERROR(SetCheckpointAside(damaged.path));
  }
  RETURN_IF_ERROR(WriteOptions(options));
  TrainingRecord record;
  {
    ProgressPrinter printer = ProgressPrinter::For(stdout);
    Trainer trainer(session, trainer_options, task, &printer);
    if (checkpoint) RETURN_IF_ERROR(trainer.Restore(*checkpoint));
    ASSIGN_OR_RETURN(record, trainer.Run());
  }
  if (!record.stopped) RETURN_IF_ERROR(PrintSample(session, options, interrupt));
  PrintEnd(record, bigram, options);
  return AddContext(record.last_save, "the last checkpoint was not written");
}

absl::Status Run(const TrainOptions& options, const std::string& runfiles) {
  const Interrupt interrupt;
  TextCorpus corpus;
  if (!options.sample && !options.explain) {
    ASSIGN_OR_RETURN(corpus, ReadCorpus(options.data, runfiles));
  }
  std::optional<Checkpoint> checkpoint;
  if (!options.resume.empty()) {
    ASSIGN_OR_RETURN(Checkpoint loaded, Checkpoint::Load(options.resume));
    checkpoint.emplace(std::move(loaded));
  }
  const GptConfig& c = options.config;
  absl::PrintF("model      %.2fM parameters: %d layers, hidden %d, %d heads, sequences of %d\n",
               static_cast<double>(GptParameters(c)) / 1e6, c.layers, c.hidden, c.heads,
               c.sequence_length);
  GptPrograms programs;
  RETURN_IF_ERROR(Build(options, &programs));
  if (options.explain) {
    ASSIGN_OR_RETURN(const std::string text, Session::ExplainPlan(programs.All(), options.session));
    absl::PrintF("%s", text);
    PrintPage(options.session);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                   Session::Start(programs.All(), options.session));
  if (options.sample) {
    RETURN_IF_ERROR(LoadVariables(*checkpoint, session.get()));
    return PrintSample(session.get(), options, interrupt);
  }
  return Train(options, corpus, session.get(), checkpoint, interrupt);
}

int Fail(const absl::Status& status, int code) {
  absl::FPrintF(stderr, "train: %s\n", absl::StrReplaceAll(status.message(), {{"\n", " "}}));
  return code;
}

// Not RunCommand: what flags come to together, a run to go on with included, is read in the folder
// of the caller, and is an error of the flags.
int Main(int argc, char** argv) {
  const std::string runfiles = Runfiles();
  const absl::Status entered = EnterFolderOfCaller();
  if (!entered.ok()) return Fail(entered, 1);
  const std::string now = absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone());
  bool help = false;
  const absl::StatusOr<TrainOptions> options =
      ParseTrainOptions(std::vector<std::string>(argv + 1, argv + argc), now, &help);
  if (!options.ok()) return Fail(options.status(), 2);
  if (help) {
    absl::PrintF("%s", TrainHelp());
    return 0;
  }
  const absl::Status status = Run(*options, runfiles);
  return status.ok() ? 0 : Fail(status, 1);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
