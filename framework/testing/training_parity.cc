#include "framework/testing/training_parity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/session/plan_session.h"

namespace sluice {
namespace {

constexpr char kGradient[] = "gradient/";
const int64_t kLockstepSteps[] = {0, 10, 50};

bool HasNoGradient(const ParityCase& of, absl::string_view name) {
  return of.has_no_gradient && of.has_no_gradient(name);
}
bool IsState(absl::string_view name) {
  return absl::EndsWith(name, ".m") || absl::EndsWith(name, ".v") ||
         absl::EndsWith(name, ".momentum");
}

double Norm(const HostTensor& tensor) {
  double sum = 0;
  const float* values = tensor.data<float>();
  for (int64_t i = 0; i < tensor.shape.NumElements(); ++i) {
    sum += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(sum);
}

double NormOfDifference(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  const float *x = a.data<float>(), *y = b.data<float>();
  for (int64_t i = 0; i < a.shape.NumElements(); ++i) {
    const double difference = static_cast<double>(x[i]) - y[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

double Relative(double expected, double got) {
  const double difference = std::fabs(expected - got) / std::max(std::fabs(expected), 1e-30);
  return std::isnan(difference) ? HUGE_VAL : difference;
}

absl::Status Differ(absl::string_view what, int64_t step, double bound, double difference,
                    double expected, double got) {
  return absl::DataLossError(
      absl::StrFormat("step %d, %s: expected %.9g within %.1e, got %.9g: off by %.2e", step, what,
                      expected, bound, got, difference));
}

// Notes the largest difference; an error if it is above the bound.
absl::Status Compare(absl::string_view what, int64_t step, double bound, double expected,
                     double got, double* largest) {
  const double difference = Relative(expected, got);
  *largest = std::max(*largest, difference);
  if (difference <= bound) return absl::OkStatus();
  return Differ(what, step, bound, difference, expected, got);
}

double Scalar(const Fetches& fetches, absl::string_view name) {
  return fetches.find(name)->second.data<float>()[0];
}

HostTensor ScalarF32(double value) {
  HostTensor tensor(DType::kF32, Shape{});
  tensor.data<float>()[0] = static_cast<float>(value);
  return tensor;
}

HostTensor ScalarI32(int64_t value) {
  HostTensor tensor(DType::kI32, Shape{});
  tensor.data<int32_t>()[0] = static_cast<int32_t>(value);
  return tensor;
}

// Keeps an error for later, so that one check measures all before it fails.
void KeepFirst(const absl::Status& status, absl::Status* first) {
  if (first->ok()) *first = status;
}

TrainingSetting Setting(const std::string& name, OptimizerOptions::Kind kind, double rate,
                        double clip) {
  TrainingSetting setting;
  setting.name = name;
  setting.optimizer.kind = kind;
  setting.optimizer.clip = clip;
  setting.optimizer.weight_decay = kind == OptimizerOptions::kAdamW ? 0.1 : 0;
  setting.schedule.peak = rate;
  setting.schedule.warmup = 20;
  setting.schedule.floor_fraction = 1;  // constant after the warm-up
  return setting;
}

}  // namespace

TrainingSetting AdamWWithClip() {
  return Setting("AdamW with clip", OptimizerOptions::kAdamW, 1e-3, 1);
}
TrainingSetting AdamWWithoutClip() {
  return Setting("AdamW without clip", OptimizerOptions::kAdamW, 1e-3, 0);
}
TrainingSetting PlainSgd() { return Setting("SGD without clip", OptimizerOptions::kSgd, 0.05, 0); }
TrainingSetting SgdWithMomentum() {
  TrainingSetting setting = Setting("SGD with momentum", OptimizerOptions::kSgd, 0.01, 0);
  setting.optimizer.momentum = 0.9;
  setting.optimizer.nesterov = true;
  setting.optimizer.weight_decay = 5e-4;
  return setting;
}

TrainingSetting LarsWithClip() {
  TrainingSetting setting = Setting("LARS with clip", OptimizerOptions::kLars, 1, 1);
  setting.optimizer.momentum = 0.9;
  setting.optimizer.weight_decay = 5e-4;
  return setting;
}

TrainingSetting LambWithClip() {
  TrainingSetting setting = Setting("LAMB with clip", OptimizerOptions::kLamb, 2e-3, 1);
  setting.optimizer.weight_decay = 0.01;
  return setting;
}

TrainingSetting AdagradWithClip() {
  return Setting("AdaGrad with clip", OptimizerOptions::kAdagrad, 0.02, 1);
}

ParityBounds Bf16Bounds() {
  ParityBounds bounds;
  bounds.free_steps = kParityEarly;
  bounds.early_loss = 1e-3, bounds.early_grad_norm = 2e-2, bounds.early_parameter_norm = 1e-4;
  bounds.lockstep_loss = 1e-3, bounds.lockstep_grad_norm = 3e-3;
  bounds.gradient = 5e-2, bounds.first_moment = 5e-2, bounds.second_moment = 1e-1;
  bounds.weight_step = 5e-2;
  bounds.no_gradient = 1e-3;
  return bounds;
}

std::string ParityFigures::ToString() const {
  return absl::StrFormat(
      "loss %.1e to step 10, %.1e to 50; gradient norm %.1e, %.1e; parameter norm %.1e; worst "
      "gradient %.1e (%s), worst update %.2f of its bound (%s)",
      early_loss, loss, early_grad_norm, grad_norm, parameter_norm, gradient, worst_gradient,
      update, worst_update);
}

absl::StatusOr<plan::Plan> CompileParityPlan(const ParityCase& of, const TrainingSetting& setting,
                                             int32_t rank, int32_t ranks) {
  Graph graph;
  RETURN_IF_ERROR(of.build(setting.optimizer, &graph));
  for (const auto& entry : graph.TensorsOf(Role::kGradient)) {
    if (!of.fetches_gradients) break;
    const Node& variable = graph.node(graph.tensor(entry.second).producer);
    graph.Output(absl::StrCat(kGradient, variable.name), Tensor(&graph, entry.first));
  }
  RETURN_IF_ERROR(graph.status());
  CompileOptions options;
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(of.mesh));
  options.mesh = mesh.OverRanks(ranks);
  options.rank = rank;
  options.ranks = ranks;
  options.micro_batches = of.micro_batches;
  options.script_length = of.script_length;
  options.fuse = of.fuse;
  options.least_taken = 0;  // tensors are small here
  options.largest_logits = of.largest_logits;
  options.chunks = of.chunks;
  options.machine = Machine::Cpu();
  options.collectives.nccl = of.collectives != nullptr;
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  return CompilePlan(programs, options);
}

ParityRun::ParityRun(const ParityCase& of, const TrainingSetting& setting,
                     std::shared_ptr<const Dataset> data)
    : case_(of), setting_(setting), data_(std::move(data)) {}

absl::StatusOr<std::unique_ptr<ParityRun>> ParityRun::Start(const ParityCase& of,
                                                            const TrainingSetting& setting,
                                                            const PlanMutation& mutate) {
  ASSIGN_OR_RETURN(plan::Plan plan, CompileParityPlan(of, setting));
  if (mutate) RETURN_IF_ERROR(mutate(&plan));
  return Start(of, setting, std::move(plan), RuntimeOptions());
}

absl::StatusOr<std::unique_ptr<ParityRun>> ParityRun::Start(const ParityCase& of,
                                                            const TrainingSetting& setting,
                                                            plan::Plan plan,
                                                            RuntimeOptions options) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> data, of.open_data());
  std::unique_ptr<ParityRun> run(new ParityRun(of, setting, std::move(data)));
  options.prepare = PrepareCpuKernel;
  options.cuda = of.cuda;
  options.cuda_graphs = of.cuda_graphs;
  options.collectives = of.collectives;
  options.init_thread = InitKernelThread;
  run->one_rank_ = options.net == nullptr;
  ASSIGN_OR_RETURN(run->session_, StartPlan(std::move(plan), options));
  return absl::StatusOr<std::unique_ptr<ParityRun>>(std::move(run));
}

absl::StatusOr<StepRecord> ParityRun::Step(int64_t step, int64_t batch) {
  const SampleOrder order = {SampleOrder::kRandom, case_.data_seed};
  const int64_t first = batch * case_.batch;
  const HostTensor rate = ScalarF32(LearningRate(setting_.schedule, step));
  const HostTensor count = ScalarI32(step + 1);
  session_->set_step(step);
  Feeds feeds = {{"learning_rate", &rate}, {"step", &count}};
  for (size_t i = 0; i < data_->fields().size(); ++i) {
    feeds.emplace_back(data_->fields()[i].name,
                       SampleRows{data_.get(), static_cast<int>(i), order, first});
  }
  RETURN_IF_ERROR(session_->Step("train", feeds));
  RETURN_IF_ERROR(session_->Next(&fetches_));
  StepRecord record;
  if (fetches_.empty()) return record;  // another rank has them
  record.loss = Scalar(fetches_, "loss");
  record.grad_norm = Scalar(fetches_, "grad_norm");
  // Of several ranks none has all parameters.
  if (step <= kParityEarly && one_rank_) {
    double squares = 0;
    for (const auto& fetch : fetches_) {
      if (!absl::StartsWith(fetch.first, kGradient)) continue;
      ASSIGN_OR_RETURN(const HostTensor value,
                       session_->Read(fetch.first.substr(sizeof(kGradient) - 1)));
      const double norm = Norm(value);
      squares += norm * norm;
    }
    record.parameter_norm = std::sqrt(squares);
  }
  return record;
}

absl::StatusOr<Fetches> ParityRun::ReadVariables() {
  Fetches values;
  for (const VariableInfo& variable : session_->variables()) {
    ASSIGN_OR_RETURN(values[variable.name], session_->Read(variable.name));
  }
  return values;
}

absl::Status ParityRun::WriteVariables(const Fetches& values) {
  for (const auto& value : values) {
    RETURN_IF_ERROR(session_->Write(value.first, value.second));
  }
  return absl::OkStatus();
}

namespace {

// Steps away: batches that the run does not see. A network of many PReLUs differed on two of them
// (MobileFaceNet with the sums of AVX2).
constexpr int64_t kAway[] = {1000, 2000, 3000};

absl::StatusOr<LockstepPoint> RunPoint(ParityRun* run, int64_t step, int64_t batch) {
  LockstepPoint point;
  point.step = step;
  point.batch = batch;
  ASSIGN_OR_RETURN(point.before, run->ReadVariables());
  ASSIGN_OR_RETURN(point.record, run->Step(step, batch));
  ASSIGN_OR_RETURN(point.after, run->ReadVariables());
  for (const auto& fetch : run->fetches()) {
    if (!absl::StartsWith(fetch.first, kGradient)) continue;
    point.gradients[fetch.first.substr(sizeof(kGradient) - 1)] = fetch.second;
  }
  return point;
}

}  // namespace

absl::StatusOr<Reference> RunReference(const ParityCase& of, const TrainingSetting& setting) {
  Reference reference;
  reference.of = of;
  reference.setting = setting;
  ASSIGN_OR_RETURN(const std::unique_ptr<ParityRun> run, ParityRun::Start(of, setting));
  for (int64_t step = 0; step <= kParitySteps; ++step) {
    if (std::find(std::begin(kLockstepSteps), std::end(kLockstepSteps), step) ==
        std::end(kLockstepSteps)) {
      ASSIGN_OR_RETURN(const StepRecord record, run->Step(step));
      reference.records.push_back(record);
      continue;
    }
    ASSIGN_OR_RETURN(LockstepPoint point, RunPoint(run.get(), step, step));
    reference.records.push_back(point.record);
    reference.points.push_back(std::move(point));
  }
  return reference;
}

namespace {

// One lockstep step: all that it computed against all that the reference did.
class StepComparison {
 public:
  StepComparison(const ParityCase& of, const Reference& reference, const LockstepPoint& point,
                 const Fetches* fetches, ParityFigures* figures)
      : case_(of),
        setting_(reference.setting),
        point_(point),
        fetches_(fetches),
        figures_(figures) {}

  absl::Status Gradients() {
    absl::Status first;
    for (const auto& gradient : point_.gradients) {
      const auto found = fetches_->find(absl::StrCat(kGradient, gradient.first));
      if (found == fetches_->end()) return absl::NotFoundError(gradient.first);
      const double norm = Norm(gradient.second);
      const double off = NormOfDifference(gradient.second, found->second);
      const std::string what = absl::StrCat("gradient of ", gradient.first);
      if (HasNoGradient(case_, gradient.first)) {
        const double bound = bounds().no_gradient * point_.record.grad_norm;
        if (!(off <= bound)) KeepFirst(Off(what, bound, off), &first);
        continue;
      }
      const double relative = std::isnan(off) ? HUGE_VAL : off / std::max(norm, 1e-30);
      if (relative > figures_->gradient) {
        figures_->gradient = relative;
        figures_->worst_gradient = absl::StrCat(gradient.first, " at step ", point_.step);
      }
      if (relative > bounds().gradient) KeepFirst(Off(what, bounds().gradient, relative), &first);
    }
    return first;
  }

  absl::Status Variables(const Fetches& after) {
    absl::Status first;
    for (const auto& expected : point_.after) {
      const std::string& name = expected.first;
      const HostTensor& before = point_.before.find(name)->second;
      const auto found = after.find(name);
      if (found == after.end()) return absl::NotFoundError(name);
      const double off = NormOfDifference(expected.second, found->second);
      const double bound = BoundOf(name, before, expected.second);
      const double shard = std::isnan(off) ? HUGE_VAL : off / std::max(bound, 1e-30);
      if (shard > figures_->update) {
        figures_->update = shard;
        figures_->worst_update = absl::StrCat(name, " at step ", point_.step);
      }
      if (shard > 1) KeepFirst(Off(absl::StrCat("updated ", name), bound, off), &first);
    }
    return first;
  }

 private:
  const ParityBounds& bounds() const { return case_.bounds; }

  double BoundOf(const std::string& name, const HostTensor& before, const HostTensor& after) const {
    if (HasNoGradient(case_, name)) {
      const double elements = std::sqrt(static_cast<double>(after.shape.NumElements()));
      const double norm = point_.record.grad_norm;
      if (IsState(name)) return bounds().no_gradient * std::max(norm, norm * norm);
      return bounds().no_gradient_rates * elements * LearningRate(setting_.schedule, point_.step);
    }
    if (absl::EndsWith(name, ".v")) return bounds().second_moment * Norm(after);
    if (IsState(name)) return bounds().first_moment * Norm(after);
    const double bound =
        bounds().weight_ulps * Norm(after) + bounds().weight_step * NormOfDifference(after, before);
    return point_.step == 0 ? bounds().first_step_factor * bound + FirstStep(name) : bound;
  }

  // The first step of Adam and of AdaGrad is rate * g / (|g| + epsilon), which makes steps out of
  // the rounding of those elements that are near epsilon. What the difference of the gradients,
  // which has a bound of its own, explains is allowed.
  double FirstStep(const std::string& name) const {
    const OptimizerOptions::Kind kind = setting_.optimizer.kind;
    if (kind != OptimizerOptions::kAdamW && kind != OptimizerOptions::kAdagrad) return 0;
    const auto gradient = point_.gradients.find(name);
    if (gradient == point_.gradients.end()) return 0;  // a running statistic
    const HostTensor& expected = gradient->second;
    const HostTensor& got = fetches_->find(absl::StrCat(kGradient, name))->second;
    const double clip = setting_.optimizer.clip, norm = point_.record.grad_norm;
    const double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
    const auto step = [&](const HostTensor& gradient, int64_t i) {
      const double g = factor * gradient.data<float>()[i];
      return g / (std::fabs(g) + setting_.optimizer.epsilon);
    };
    double squares = 0;
    for (int64_t i = 0; i < expected.shape.NumElements(); ++i) {
      const double difference = step(expected, i) - step(got, i);
      squares += difference * difference;
    }
    return LearningRate(setting_.schedule, 0) * std::sqrt(squares);
  }

  absl::Status Off(absl::string_view what, double bound, double off) const {
    return absl::DataLossError(
        absl::StrFormat("lockstep at step %d, %s: expected a difference of at most %.2e, got %.2e",
                        point_.step, what, bound, off));
  }

  const ParityCase& case_;
  const TrainingSetting& setting_;
  const LockstepPoint& point_;
  const Fetches* fetches_;  // of the step that is compared
  ParityFigures* figures_;
};

absl::Status CheckPoint(const Reference& reference, const LockstepPoint& point, ParityRun* run,
                        ParityFigures* figures) {
  const ParityBounds& bounds = run->parity_case().bounds;
  RETURN_IF_ERROR(run->WriteVariables(point.before));
  ASSIGN_OR_RETURN(const StepRecord record, run->Step(point.step, point.batch));
  ASSIGN_OR_RETURN(const Fetches after, run->ReadVariables());
  double ignored = 0;
  absl::Status first;
  KeepFirst(Compare("lockstep loss", point.step, bounds.lockstep_loss, point.record.loss,
                    record.loss, &ignored),
            &first);
  KeepFirst(Compare("lockstep gradient norm", point.step, bounds.lockstep_grad_norm,
                    point.record.grad_norm, record.grad_norm, &ignored),
            &first);
  StepComparison comparison(run->parity_case(), reference, point, &run->fetches(), figures);
  KeepFirst(comparison.Gradients(), &first);
  KeepFirst(comparison.Variables(after), &first);
  KeepFirst(run->session()->CheckReplicas(), &first);
  return first;
}

// What the reference computes from where a point begins, of a batch that is so many steps away.
absl::StatusOr<LockstepPoint> PointAway(const Reference& reference, const LockstepPoint& point,
                                        int64_t away) {
  ASSIGN_OR_RETURN(const auto run, ParityRun::Start(reference.of, reference.setting));
  RETURN_IF_ERROR(run->WriteVariables(point.before));
  return RunPoint(run.get(), point.step, point.step + away);
}

absl::StatusOr<std::vector<StepRecord>> RecordsAway(const Reference& reference, int64_t steps,
                                                    int64_t away) {
  ASSIGN_OR_RETURN(const auto run, ParityRun::Start(reference.of, reference.setting));
  RETURN_IF_ERROR(run->WriteVariables(reference.points[0].before));
  std::vector<StepRecord> records;
  for (int64_t step = 0; step <= steps; ++step) {
    ASSIGN_OR_RETURN(records.emplace_back(), run->Step(step, step + away));
  }
  return records;
}

}  // namespace

absl::Status CheckLockstep(const Reference& reference, ParityRun* run, ParityFigures* figures) {
  absl::Status first;
  for (const LockstepPoint& point : reference.points) {
    ParityFigures of_point = *figures;
    absl::Status status = CheckPoint(reference, point, run, &of_point);
    for (const int64_t away : kAway) {
      if (status.ok() || !run->parity_case().bounds.may_try_other_batches) break;
      ASSIGN_OR_RETURN(const LockstepPoint other, PointAway(reference, point, away));
      ParityFigures of_other = *figures;
      if (!CheckPoint(reference, other, run, &of_other).ok()) continue;
      status = absl::OkStatus();
      of_point = of_other;
    }
    *figures = of_point;
    KeepFirst(status, &first);
  }
  return AddContext(first, run->parity_case().name);
}

namespace {

// `away`: by so many steps the batches are those of others.
absl::Status CompareRun(absl::Span<const StepRecord> records, int64_t begin, int64_t end,
                        int64_t away, ParityRun* run, ParityFigures* figures) {
  const ParityBounds& bounds = run->parity_case().bounds;
  absl::Status first;
  for (int64_t step = begin; step <= std::min(end, bounds.free_steps); ++step) {
    ASSIGN_OR_RETURN(const StepRecord record, run->Step(step, step + away));
    const StepRecord& expected = records[step];
    const bool early = step <= kParityEarly;
    KeepFirst(Compare("loss", step, early ? bounds.early_loss : bounds.late_loss, expected.loss,
                      record.loss, early ? &figures->early_loss : &figures->loss),
              &first);
    KeepFirst(Compare("gradient norm", step, early ? bounds.early_grad_norm : bounds.late_grad_norm,
                      expected.grad_norm, record.grad_norm,
                      early ? &figures->early_grad_norm : &figures->grad_norm),
              &first);
    if (early) {
      KeepFirst(Compare("norm of the parameters", step, bounds.early_parameter_norm,
                        expected.parameter_norm, record.parameter_norm, &figures->parameter_norm),
                &first);
    }
    KeepFirst(AddContext(run->session()->CheckReplicas(), absl::StrCat("step ", step)), &first);
  }
  return AddContext(first, run->parity_case().name);
}

}  // namespace

absl::Status CheckFreeRun(const Reference& reference, int64_t begin, int64_t end, ParityRun* run,
                          ParityFigures* figures) {
  return CompareRun(reference.records, begin, end, /*away=*/0, run, figures);
}

absl::Status CheckCase(const Reference& reference, const ParityCase& of, ParityFigures* figures) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ParityRun> run, ParityRun::Start(of, reference.setting));
  const ParityFigures none = *figures;
  absl::Status status = CheckFreeRun(reference, 0, kParitySteps, run.get(), figures);
  for (const int64_t away : kAway) {
    if (status.ok() || !of.bounds.may_try_other_batches) break;
    const int64_t steps = std::min(kParitySteps, of.bounds.free_steps);
    ASSIGN_OR_RETURN(const std::vector<StepRecord> records, RecordsAway(reference, steps, away));
    RETURN_IF_ERROR(run->WriteVariables(reference.points[0].before));
    ParityFigures of_other = none;
    if (!CompareRun(records, 0, steps, away, run.get(), &of_other).ok()) continue;
    status = absl::OkStatus();
    *figures = of_other;
  }
  KeepFirst(CheckLockstep(reference, run.get(), figures), &status);
  return status;
}

}  // namespace sluice
