#include "framework/train/app.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/cores.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/memory.h"
#include "framework/base/printable.h"
#include "framework/base/process.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/checkpoint/file.h"
#include "framework/comm/comm_net.h"
#include "framework/data/dataset.h"
#include "framework/passes/pass.h"
#include "framework/passes/recompute.h"
#include "framework/train/app_report.h"
#include "framework/train/app_surroundings.h"
#include "framework/train/command.h"
#include "framework/train/evaluation.h"
#include "framework/train/interrupt.h"
#include "framework/train/job.h"
#include "framework/train/job_flags.h"
#include "framework/train/links.h"
#include "framework/train/peak.h"
#include "framework/train/run_agreement.h"
#include "framework/train/trainer.h"
#include "framework/train/variables.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

int Fail(const App& app, const absl::Status& status, int code) {
  absl::FPrintF(stderr, "%s: %s\n", app.name, PrintableLine(status.message()));
  return code;
}

// As a run that is stopped while it trains, one that is stopped while it begins is no error. `who`:
// "", or which rank was asked to, and how.
absl::Status TellStopped(absl::string_view who) {
  absl::PrintF("stopped before it began%s%s; nothing has been run\n", who.empty() ? "" : ": ", who);
  return FlushOutput();
}

// Before anything is written or shown, while a stop leaves everything as it was. So the process can
// end right there: the way back would free what has been planned so far, for seconds. One of
// several ranks goes that way all the same, as it tells the others at the end of it, who would take
// it for lost otherwise.
class Beginning {
 public:
  Beginning(const App& app, int ranks) : app_(app), ends_process_(app.ends_process && ranks == 1) {}

  // Asked by any thread; does not return where it ends the process.
  bool Stopped() {
    if (!interrupt_.requested()) return false;
    if (ends_process_ && !over_) {
      // Never given back: other threads that ask wait for the end of the process.
      leaving_.lock();
      if (own) own->GiveUp();
      const absl::Status told = TellStopped("");
      _exit(told.ok() ? 0 : Fail(app_, told, 1));
    }
    return true;
  }
  // A rank that is asked to stop says so to those that have met it; before that it just goes, which
  // others that were asked may see before they stop.
  absl::Status Explain(const absl::Status& x) const {
    if (interrupt_.requested() && (absl::IsCancelled(x) || (absl::IsUnavailable(x) && !over_))) {
      return TellStopped("");
    }
    return absl::IsCancelled(x) && !over_ ? TellStopped(x.message()) : x;
  }
  // From here on a stop saves, or ends what is shown.
  void Over() { over_ = true; }
  std::optional<OwnRun> own;  // until all is written

 private:
  const App& app_;
  const bool ends_process_;
  const Interrupt interrupt_;
  std::atomic<bool> over_{false};
  std::mutex leaving_;
};

using Programs = std::vector<std::unique_ptr<AppProgram>>;

// The first program trains; the others have nothing to compute again.
absl::Status BuildPrograms(const App& app, const AppOptions& options, Programs* programs) {
  RETURN_IF_ERROR(app.build(options, programs));
  if (!options.recompute_blocks) return absl::OkStatus();
  return ApplyPasses({Recompute(RecomputedRegions::kBlocks)}, &programs->front()->graph);
}

std::vector<ProgramGraph> GraphsOf(const Programs& programs) {
  std::vector<ProgramGraph> graphs;
  for (const auto& program : programs) {
    graphs.push_back({program->name, &program->graph, program->micro_batches});
  }
  return graphs;
}

std::map<std::string, DataRecord> RecordsOf(const AppData& data) {
  std::map<std::string, DataRecord> records;
  auto add = [&records](const char* name, const Dataset* dataset) {
    if (dataset == nullptr) return;
    const DataIdentity identity = dataset->identity();
    records[name] = {identity.bytes, HashText(identity.digest)};
  };
  add("training", data.training.get());
  add("held-out", data.held_out.get());
  return records;
}

absl::StatusOr<AppData> OpenData(const App& app, const AppOptions& options) {
  absl::StatusOr<AppData> data = app.open_data(options);
  if (!absl::IsNotFound(data.status())) return data;
  // A model that needs one data set says which command fetches that.
  if (absl::StrContains(data.status().message(), "//tools:dataset")) return data;
  return absl::NotFoundError(
      absl::StrCat(data.status().message(),
                   "; bazel run //tools:dataset -- list names data that can be fetched"));
}

TrainerOptions OptionsOfTrainer(const AppOptions& options, const AppModel& model) {
  TrainerOptions trainer;
  trainer.rank = options.job.place.rank;
  trainer.ranks = options.job.place.ranks;
  // Where the launcher does not say, all may be here.
  trainer.local_ranks =
      options.job.place.local_ranks > 0 ? options.job.place.local_ranks : trainer.ranks;
  trainer.schedule = options.schedule;
  trainer.samples_per_step = options.batch;
  trainer.throughput = model.throughput;
  trainer.flops_per_sample = model.flops_per_sample;
  trainer.eval_every = options.eval_every;
  trainer.evaluate_at_end = options.final_eval_batches > 0;
  trainer.check_replicas_every = options.job.check_replicas_every;
  trainer.save_every = options.save_every;
  trainer.keep = options.keep;
  trainer.keep_best = options.keep_best;
  trainer.seed = options.session.seed;
  trainer.out = options.out;
  trainer.recorded = {options.recorded.begin(), options.recorded.end()};
  return trainer;
}

// A run under way: what Train needs besides.
struct Run {
  const App& app;
  const AppOptions& options;
  const AppModel& model;
  const Job& job;
  Session* session = nullptr;
  const Graph& graph;  // of the program that trains
  const std::optional<Checkpoint>&checkpoint, &init;
  Stop stop;
  Beginning* beginning = nullptr;
};

absl::StatusOr<Evaluation> Evaluate(const Run& run, const AppData& data,
                                    const EvaluationOptions& how) {
  const std::vector<Metric>& metrics = run.model.metrics;
  if (!run.app.evaluate) return EvaluateMetrics(run.session, *data.held_out, metrics, how);
  ASSIGN_OR_RETURN(Evaluation evaluation, run.app.evaluate(run.session, data, how));
  if (!run.job.is_first() || evaluation.values.size() == metrics.size()) return evaluation;
  return absl::InternalError(absl::StrCat("evaluation: expected a value for each of ",
                                          metrics.size(), " metrics, got ",
                                          evaluation.values.size()));
}

// How many samples of held-out data an evaluation counts, and how its progress is shown.
EvaluationOptions EvaluationOptionsOf(const AppOptions& options, EvaluationKind kind,
                                      const Stop& stop, ProgressPrinter* printer) {
  EvaluationOptions how;
  how.batch = options.batch;
  how.stop = stop;
  const bool at_end = kind == EvaluationKind::kAtEnd;
  const int64_t batches = at_end ? options.final_eval_batches : options.eval_batches;
  if (batches < how.most_samples / options.batch) how.most_samples = batches * options.batch;
  if (!at_end) return how;
  const auto seconds = [begin = std::chrono::steady_clock::now()] {
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    return std::chrono::duration<double>(elapsed).count();
  };
  how.progress = [printer, seconds](int64_t done, int64_t samples) {
    printer->UpdateEvaluation(done, samples, seconds());
  };
  return how;
}

// What a run changes in its folder before the first step. All that can fail of it is tried first:
// an older run that cannot be gone on with stays as it is.
absl::Status BeginWriting(const AppOptions& options, const AppData& data) {
  RETURN_IF_ERROR(CheckWritable(options.out + "/log.jsonl"));
  const bool goes_on = !options.resume.run.empty();
  if (!goes_on) RETURN_IF_ERROR(SetLogAside(options.out));
  for (const DamagedCheckpoint& damaged : options.resume.damaged) {
    RETURN_IF_ERROR(SetCheckpointAside(damaged.path));
  }
  for (const auto& [name, text] : data.files) {
    RETURN_IF_ERROR(WriteRunFile(absl::StrCat(options.out, "/", name), text));
  }
  const Machine& machine = options.session.machine;
  if (machine.links != Machine::Cpu().links) {
    RETURN_IF_ERROR(
        WriteRunFile(absl::StrCat(options.out, "/", kLinksFile), LinksFileText(machine)));
  }
  return WriteOptions(options.out, options.recorded);
}

// --init: what is learned, and what running averages have seen, but no optimizer's state.
absl::Status BeginFrom(const Run& run) {
  std::vector<std::string> names;
  for (const NodeId id : run.graph.variables()) {
    const Role role = run.graph.tensor(run.graph.node(id).outputs[0]).role;
    if (role == Role::kParameter || role == Role::kStatistic) {
      names.push_back(run.graph.node(id).name);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> left,
                   LoadWhatFits(*run.init, names, run.session, run.stop));
  if (left.size() == names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--init: expected parameters of this model, got none in ", run.options.init));
  }
  absl::PrintF("begins     with %d of %d parameters of %s%s%s\n", names.size() - left.size(),
               names.size(), run.options.init,
               left.empty() ? "" : "; anew: ", absl::StrJoin(left, ", "));
  return absl::OkStatus();
}

// That all ranks learn from the same, with the same vocabulary: where they read it may differ.
absl::Status AgreeOnData(const AppData& data, const std::string& path, Session* session) {
  RunFacts facts;
  for (const auto& [name, record] : RecordsOf(data)) {
    const std::string value = absl::StrCat(record.bytes, " bytes of digest ", record.digest);
    facts.Add({absl::StrCat("--data, ", name), value, absl::StrCat(path, " with ", value),
               "all ranks need the same data, wherever it is stored"});
  }
  for (const auto& [name, text] : data.files) {
    facts.Add(
        {name, absl::StrCat("a file of digest ", HashText(StableHash(text))), "", "copy rank 0's"});
  }
  return session->Agree(facts.ToText(), [](absl::Span<const std::string> ranks) -> absl::Status {
    ASSIGN_OR_RETURN(const RunFacts first, RunFacts::FromText(ranks[0]));
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      ASSIGN_OR_RETURN(const RunFacts other, RunFacts::FromText(ranks[rank]));
      RETURN_IF_ERROR(first.CheckSame(other, static_cast<int>(rank)));
    }
    return absl::OkStatus();
  });
}

absl::Status Train(const Run& run, const AppData& data) {
  const AppOptions& options = run.options;
  const std::map<std::string, DataRecord> records = RecordsOf(data);
  if (run.checkpoint && !options.change_data) {
    RETURN_IF_ERROR(CheckSameData(run.checkpoint->meta().data, records));
  }
  const bool together = run.job.ranks() > 1;
  if (together) RETURN_IF_ERROR(AgreeOnData(data, options.data, run.session));
  TrainerOptions trainer_options = OptionsOfTrainer(options, run.model);
  trainer_options.data = records;
  ASSIGN_OR_RETURN(trainer_options.peak_flops, PrintBeginning(options, data, run.job));
  if (trainer_options.peak_flops > 0) {
    trainer_options.measure_peak = [dtype = options.precision.compute] {
      return MeasureMatmulPeak(UsableCores(), dtype);
    };
  }
  if (run.beginning->own) {
    trainer_options.check_folder = [&own = *run.beginning->own] {
      return own.IsInPlace() ? absl::OkStatus()
                             : absl::UnavailableError(absl::StrCat(
                                   own.out(),
                                   ": expected the folder in which the run began, which was moved "
                                   "or replaced; move it back"));
    };
  }
  if (data.held_out == nullptr && !options.keep_best.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep_best=", options.keep_best, ": expected held-out data, got none"));
  }

  std::optional<ProgressPrinter> printer(ProgressPrinter::For(stdout));
  const SampleOrder order = {data.order, options.session.seed};
  TrainerTask task;
  task.stop = together ? AgreedStop(run.session, run.stop) : run.stop;
  task.feed = [&](int64_t samples_seen, Feeds* feeds) {
    *feeds = FeedsOf(*data.training, order, samples_seen);
    return absl::OkStatus();
  };
  if (data.held_out != nullptr) {
    task.evaluate = [&](EvaluationKind kind) {
      return Evaluate(run, data, EvaluationOptionsOf(options, kind, task.stop, &*printer));
    };
  }
  task.metrics = run.model.metrics;
  task.facts = data.facts;

  TrainingRecord record;
  {
    Trainer trainer(run.session, trainer_options, task, &*printer);
    if (run.checkpoint) RETURN_IF_ERROR(trainer.Restore(*run.checkpoint, run.stop));
    if (run.init) RETURN_IF_ERROR(BeginFrom(run));
    RETURN_IF_ERROR(CheckStop(task.stop));
    run.beginning->Over();
    if (run.beginning->own) {
      run.beginning->own->Begin();
      RETURN_IF_ERROR(BeginWriting(options, data));
    }
    ASSIGN_OR_RETURN(record, trainer.Run());
  }
  printer.reset();
  if (!record.stopped && run.app.use) {
    RETURN_IF_ERROR(run.app.use(run.session, options, task.stop));
  }
  PrintEnd(record, run.model, data, options);
  return AddContext(record.last_save, "the last checkpoint was not written");
}

// Shows what a checkpoint has learned.
absl::Status Use(const App& app, const AppOptions& options, const AppData& data,
                 const Checkpoint& checkpoint, Session* session, Beginning* beginning) {
  const Stop& stop = options.session.stop;
  const bool together = options.job.place.ranks > 1;
  if (together && app.use_reads_data) {
    RETURN_IF_ERROR(AgreeOnData(data, options.data, session));
  }
  RETURN_IF_ERROR(LoadVariables(checkpoint, session, stop));
  beginning->Over();
  RETURN_IF_ERROR(app.use(session, options, together ? AgreedStop(session, stop) : stop));
  return FlushOutput();  // which is all that was asked for
}

// What ranks must have been told alike, and of the checkpoints that they read the bytes.
RunFacts FactsOf(const AppOptions& options) {
  RunFacts facts;
  for (const auto& [name, value] : options.told) facts.Add({absl::StrCat("--", name), value});
  const auto add_file = [&facts](const char* flag, const std::string& path,
                                 const std::string& digest, const char* cure) {
    const std::string shown = path.empty() ? "" : absl::StrCat(path, " of digest ", digest);
    facts.Add({flag, digest, shown, cure});
  };
  const char* const copy = "copy rank 0's";
  add_file(options.again ? "--out" : "--resume", options.resume.checkpoint, options.resume.digest,
           options.again ? "all ranks must see the one folder of the run" : copy);
  add_file("--init", options.init, options.init_digest, copy);
  add_file("--machine", options.machine_file, options.machine_digest, copy);
  return facts;
}

// Each rank says where it was told otherwise than the first.
absl::Status AgreeOnCommand(Job* job, const AppOptions& options) {
  if (job->ranks() == 1) return absl::OkStatus();
  const RunFacts mine = FactsOf(options);
  ASSIGN_OR_RETURN(const std::string first, job->Share(mine.ToText(), "said what it was told"));
  ASSIGN_OR_RETURN(const RunFacts expected, RunFacts::FromText(first));
  return expected.CheckSame(mine, job->rank());
}

// The first rank takes the folder that it will write into, before others wait for data to be read,
// and says which it is, and what is recorded of the run: paths of the data may differ.
absl::Status ShareRun(Job* job, AppOptions* options, Beginning* beginning) {
  SharedRun shared = {options->out, "", options->recorded};
  absl::Status taken;
  if (job->is_first() && !options->use) {
    absl::StatusOr<OwnRun> own = TakeRun(options->out, options->out_by_time, options->resume);
    taken = own.status();
    if (own.ok()) {
      shared.out = own->out();
      shared.holder = own->holder();
      beginning->own.emplace(*std::move(own));
    }
  }
  const absl::StatusOr<std::string> mine =
      taken.ok() ? absl::StatusOr<std::string>(shared.ToText()) : taken;
  ASSIGN_OR_RETURN(const std::string first, job->Share(mine, "said where the run is written"));
  ASSIGN_OR_RETURN(shared, SharedRun::FromText(first));
  options->out = shared.out;
  if (job->is_first()) return absl::OkStatus();
  options->recorded = shared.recorded;
  // One rank tells, each has a timeline of its own.
  if (freopen("/dev/null", "w", stdout) == nullptr) {
    return absl::UnavailableError("/dev/null cannot be written");
  }
  if (!options->session.trace.empty()) {
    absl::StrAppend(&options->session.trace, ".rank", job->rank());
  }
  options->session.explain_html.clear();
  if (options->use) return absl::OkStatus();
  return CheckFolderIsShared(shared, job->rank(), options->job.rendezvous_limit, options->job.stop);
}

// The data is opened before a plan is compiled, so that a wrong path costs no time. Cancelled where
// options.session.stop says so before anything has been written. `started`: the session was.
absl::Status WorkInFolder(const App& app, const AppOptions& options, const AppModel& model,
                          const Job& job, Beginning* beginning, bool* started) {
  const Stop& stop = options.session.stop;
  AppData data;
  if (!options.use || app.use_reads_data) {
    ASSIGN_OR_RETURN(data, OpenData(app, options));
  }
  std::optional<Checkpoint> checkpoint;
  if (!options.resume.checkpoint.empty()) {
    ASSIGN_OR_RETURN(Checkpoint loaded, Checkpoint::Load(options.resume.checkpoint));
    checkpoint.emplace(std::move(loaded));
  }
  std::optional<Checkpoint> init;
  if (!options.init.empty()) {
    ASSIGN_OR_RETURN(Checkpoint loaded, Checkpoint::Load(options.init));
    init.emplace(std::move(loaded));
  }
  absl::PrintF("model      %s\n", model.summary);
  Programs programs;
  RETURN_IF_ERROR(BuildPrograms(app, options, &programs));
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                   Session::Start(GraphsOf(programs), options.session));
  *started = true;
  if (job.ranks() == 1) RETURN_IF_ERROR(CheckStop(stop));  // several agree on it
  absl::Status status;
  if (options.use) {
    status = Use(app, options, data, *checkpoint, session.get(), beginning);
  } else {
    status = Train({app, options, model, job, session.get(), programs[0]->graph, checkpoint, init,
                    stop, beginning},
                   data);
  }
  if (!status.ok()) session->Fail(status);  // others would learn only that this rank has gone
  // What was learned is saved by now, whether or not the trace can be written.
  const absl::Status closed = session->Close();
  if (!closed.ok() && !status.ok()) SLUICE_LOG(ERROR) << closed.message();
  status.Update(closed);
  if (app.ends_process) {
    // Where leak checkers find it; what is volatile is written though nobody reads it.
    static const Session* volatile const unfreed = session.release();
    (void)unfreed;
  }
  return status;
}

// Of several ranks the first one has the whole plan to show, once they have met, as before a run:
// what it is made for are the hosts and links of this job.
absl::Status ExplainRun(const App& app, const AppOptions& options, const AppModel& model,
                        const Job& job) {
  if (!job.is_first()) return absl::OkStatus();
  absl::PrintF("model      %s\n", model.summary);
  ASSIGN_OR_RETURN(const std::string about, DescribeJob(job, options.job.place, options.session));
  absl::PrintF("%s", about);
  Programs programs;
  RETURN_IF_ERROR(BuildPrograms(app, options, &programs));
  ASSIGN_OR_RETURN(const std::string text,
                   Session::ExplainPlan(GraphsOf(programs), options.session));
  absl::PrintF("%s", text);
  PrintPage(options.session);
  return FlushOutput();
}

absl::Status Work(const App& app, AppOptions options, const AppModel& model, Beginning* beginning) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, Job::Join(options.job));
  absl::Status status =
      AgreeOnLinks(job.get(), options.job.links, options.resume.run, &options.session.machine);
  if (status.ok()) status = AgreeOnCommand(job.get(), options);
  const bool alone = options.use && job->ranks() == 1;  // nothing is written, and nobody told
  if (status.ok() && !alone && !options.explain) {
    status = ShareRun(job.get(), &options, beginning);
  }
  ASSIGN_OR_RETURN(options.session.net, job->net());
  bool started = false;
  if (status.ok() && options.explain) return ExplainRun(app, options, model, *job);
  if (status.ok()) status = WorkInFolder(app, options, model, *job, beginning, &started);
  // Others wait for this rank to join.
  if (!status.ok() && !started && job->ranks() > 1) RefuseToJoin(options.session.net, status);
  return status;
}

absl::Status WorkUntilStopped(const App& app, const AppOptions& given, const AppModel& model) {
  Beginning beginning(app, given.job.place.ranks);
  AppOptions options = given;
  options.session.stop = options.job.stop = [&beginning] { return beginning.Stopped(); };
  return beginning.Explain(Work(app, options, model, &beginning));
}

// Where the address space is limited allocations fail, and libraries do not survive every one that
// does. So the little that any run takes has to be there before they are called.
absl::Status CheckAddressSpace() {
  constexpr int64_t kLeast = int64_t{256} << 20;
  rlimit space = {};
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) {
    return absl::OkStatus();
  }
  const MemoryLimits limits = ReadMemoryLimits();
  if (limits.available == 0 || limits.available >= kLeast) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("out of memory: expected at least ", kLeast,
                                                   " bytes, ", limits.source, " leaves ",
                                                   limits.available));
}

// What is asked for and could not be written is told now, not when the run is over. A file that
// stands is left as it is.
absl::Status CheckOutputs(const SessionOptions& session) {
  for (const auto& [flag, path] :
       {std::pair("trace", session.trace), std::pair("explain_html", session.explain_html)}) {
    if (!path.empty()) RETURN_IF_ERROR(AddContext(CheckWritable(path), absl::StrCat("--", flag)));
  }
  return absl::OkStatus();
}

absl::Status CheckKeepBest(const std::string& metric, const std::vector<Metric>& metrics) {
  std::vector<std::string> names;
  for (const Metric& known : metrics) names.push_back(known.name);
  if (metric.empty() || std::count(names.begin(), names.end(), metric) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--keep_best: expected one of ", absl::StrJoin(names, ", "), ", got \"", metric, "\""));
}

// Not RunCommand: what flags come to together, a run to go on with included, is read in the folder
// of the caller, and is an error of the flags.
int Main(const App& app, int argc, char** argv) {
  const AppSurroundings surroundings = SurroundingsOf(app.bundled);
  const absl::Status entered = EnterFolderOfCaller();
  if (!entered.ok()) return Fail(app, entered, 1);
  bool help = false;
  const absl::StatusOr<AppOptions> options = ParseAppOptions(
      app.flags, std::vector<std::string>(argv + 1, argv + argc), surroundings, &help);
  if (!options.ok()) return Fail(app, options.status(), 2);
  if (help) {
    absl::PrintF("%s", AppHelp(app.flags));
    const absl::Status written = FlushOutput();
    return written.ok() ? 0 : Fail(app, written, 1);
  }
  const absl::StatusOr<AppModel> model = app.read(*options);
  if (!model.ok()) return Fail(app, model.status(), 2);
  const absl::Status best = CheckKeepBest(options->keep_best, model->metrics);
  if (!best.ok()) return Fail(app, best, 2);
  absl::Status status = CheckAddressSpace();
  if (status.ok() && options->job.place.rank == 0) status = CheckOutputs(options->session);
  if (status.ok()) status = WorkUntilStopped(app, *options, *model);
  return status.ok() ? 0 : Fail(app, status, 1);
}

}  // namespace

absl::Status CheckSameData(const std::map<std::string, DataRecord>& seen,
                           const std::map<std::string, DataRecord>& now) {
  auto text = [](const DataRecord& record) {
    return absl::StrCat(record.bytes, " bytes of digest ", record.digest);
  };
  for (const auto& [name, record] : seen) {
    const auto found = now.find(name);
    if (found != now.end() && found->second == record) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "--resume: expected the ", name, " data that the run has seen, ", text(record), ", got ",
        found == now.end() ? "none" : text(found->second), "; --change_data goes on all the same"));
  }
  return absl::OkStatus();
}

int RunApp(const App& app, int argc, char** argv) {
  return RunProcess(app.name, [&] { return Main(app, argc, argv); });
}

}  // namespace sluice
