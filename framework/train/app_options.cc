#include "framework/train/app_options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/sbp/mesh.h"
#include "framework/train/app_resume.h"
#include "framework/train/job_flags.h"
#include "framework/train/links.h"
#include "framework/train/machine_file.h"
#include "framework/train/optimizer_flags.h"

ABSL_FLAG(std::string, data, "", "what to learn from: a file or a folder");
ABSL_FLAG(bool, change_data, false,
          "go on with --resume though the data is not what the run has seen");
ABSL_FLAG(std::string, preset, "", "values that go together");
ABSL_FLAG(int64_t, steps, 0, "length of the run; the learning rate falls to its end");
ABSL_FLAG(int64_t, batch, 0, "samples a step, over all devices together");
ABSL_FLAG(double, lr, 0, "learning rate at its highest");
ABSL_FLAG(int64_t, warmup, 0, "steps in which the learning rate rises");
ABSL_FLAG(double, lr_floor, 0.1, "share of --lr that is left at the end; 1 keeps it constant");
ABSL_FLAG(std::string, reduce_dtype, "f32",
          "f32 or bf16, in which gradients are half the bytes between devices");
ABSL_FLAG(uint64_t, seed, 1, "of initial values, dropout and the order of samples");
ABSL_FLAG(std::string, mesh, "data=2",
          "devices, as axes: \"data=2 model=2 pipe=2\" is eight; data splits the batch, model the "
          "weights, pipe the layers; data=1 is one device");
ABSL_FLAG(std::string, devices, "cpu", "kind of the mesh's devices: cpu or cuda");
ABSL_FLAG(bool, reproducible, false,
          "sums over the devices of --devices=cuda have the CPU's order and bits, by copies; else "
          "NCCL's order, which may be another on other cards");
ABSL_FLAG(int64_t, micro_batches, 1,
          "parts of the batch that a device takes one after the other; must divide --batch");
ABSL_FLAG(
    int64_t, zero, 0,
    "what is split over the mesh's axis data: 0 the batch alone; 1 the optimizer's state too; 2 "
    "sums of gradients too, which differs from 1 with micro-batches; 3 the weights too, which as "
    "yet needs more memory than 2 where micro-batches are of f32");
ABSL_FLAG(std::string, recompute, "none",
          "what backward computes again instead of keeping what forward made of it: none, or "
          "blocks, of which the inputs alone are kept; the same bits for less memory and up to a "
          "third more time");
ABSL_FLAG(std::string, precision, "f32",
          "what products and attention compute in: f32 or bf16; parameters, their gradients, the "
          "optimizer and all sums stay f32");
ABSL_FLAG(std::string, residual_precision, "f32",
          "of the residual stream where --precision=bf16: f32 or bf16");
ABSL_FLAG(int64_t, threads, 0, "threads of a device; 0: the cores shared among the devices");
ABSL_FLAG(double, memory, 0,
          "GiB that all devices together may take; a plan that needs more is refused; 0: what this "
          "machine has");
ABSL_FLAG(
    double, device_memory, 0,
    "GiB that each device may take, as if it had a memory of its own; 0: no limit but --memory");
ABSL_FLAG(int64_t, script_length, 0, "longest run of instructions of one actor; 0 is no limit");
ABSL_FLAG(bool, cuda_graphs, true,
          "on CUDA devices, launch runs of instructions at once, as graphs; not while --trace");
ABSL_FLAG(
    std::string, machine, "",
    "what //bench:calibrate wrote: its costs decide the plan, and predict a step in --explain");
ABSL_FLAG(std::string, out, "", "folder for options, log and checkpoints");
ABSL_FLAG(int64_t, eval_every, 200,
          "steps between evaluations on a subset of the held-out data; 0: only before the first "
          "step and after the last");
ABSL_FLAG(int64_t, eval_batches, 8,
          "batches of held-out data in each of these evaluations, spread evenly over it; the log "
          "has them as val_subset_<metric>");
ABSL_FLAG(
    std::string, final_eval, "all",
    "held-out data that is evaluated after the last step, once the last checkpoint is "
    "written: all, which the log has as val_<metric>, a number of batches, as val_final_<metric>, "
    "or 0 for none");
ABSL_FLAG(int64_t, save_every, 500, "steps between checkpoints; 0: only at the end");
ABSL_FLAG(int64_t, keep, 3,
          "newest checkpoints that stay; while one is written the disk holds one more");
ABSL_FLAG(std::string, keep_best, "",
          "a metric of the held-out data, such as loss or accuracy: the checkpoint with its best "
          "value stays too; every checkpoint is evaluated on --eval_batches before it is written");
ABSL_FLAG(std::string, resume, "",
          "go on with a run: its folder, or one of its checkpoints; its options hold unless given");
ABSL_FLAG(
    std::string, init, "",
    "begin with the parameters of a checkpoint, <run>/checkpoints/step-<n>, that have the name "
    "and shape of this model's; others begin anew");
ABSL_FLAG(bool, explain, false, "print plan, choices and bytes, and stop");
ABSL_FLAG(
    std::string, explain_html, "",
    "file for a page about the plan, for any browser; with --trace it shows what was measured "
    "beside what was predicted");
ABSL_FLAG(std::string, trace, "",
          "file for a timeline of every instruction; ui.perfetto.dev shows it");
ABSL_FLAG(double, wait_limit, 10,
          "seconds without any progress of a step after which those who wait say whom they wait "
          "for; nothing is ended; 0: never");
ABSL_FLAG(bool, check_nan, false,
          "stop at the first op whose output has a NaN or an infinity, and name it");
ABSL_FLAG(bool, measure_peak, true,
          "measure how fast matmuls are here before training, and say which share of that it has");

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kByPreset[] = "by preset";
constexpr double kMany = 1e9;

// The flags of every model around those of one.
std::vector<FlagGroup> Groups(const AppFlags& flags) {
  FlagGroup model = {"Model", {{"preset", "NAME", flags.presets[0].name}}};
  model.flags.insert(model.flags.end(), flags.model.begin(), flags.model.end());
  std::vector<FlagGroup> groups = {{"Data", {flags.data, {"change_data", "", ""}}},
                                   std::move(model),
                                   {"Training",
                                    {{"steps", "N", kByPreset},
                                     {"batch", "N", kByPreset},
                                     {"lr", "X", kByPreset},
                                     {"warmup", "N", kByPreset},
                                     {"lr_floor", "X", ""},
                                     {"clip", "X", ""},
                                     {"optimizer", "NAME", ""},
                                     {"beta1", "X", ""},
                                     {"beta2", "X", ""},
                                     {"epsilon", "X", ""},
                                     {"bias_correction", "", ""},
                                     {"momentum", "X", ""},
                                     {"nesterov", "", ""},
                                     {"dampening", "X", ""},
                                     {"trust_coefficient", "X", ""},
                                     {"weight_decay", "X", ""},
                                     {"seed", "N", ""}}},
                                   {"Machine",
                                    {{"mesh", "AXES", ""},
                                     {"devices", "KIND", ""},
                                     {"reproducible", "", ""},
                                     {"micro_batches", "N", ""},
                                     {"zero", "LEVEL", ""},
                                     {"recompute", "WHAT", ""},
                                     {"precision", "TYPE", ""},
                                     {"residual_precision", "TYPE", ""},
                                     {"reduce_dtype", "TYPE", ""},
                                     {"threads", "N", ""},
                                     {"memory", "GIB", ""},
                                     {"device_memory", "GIB", ""},
                                     {"script_length", "N", ""},
                                     {"cuda_graphs", "", ""},
                                     {"machine", "FILE", "rough costs"}}},
                                   {"The run",
                                    {{"out", "DIR", "runs/<time>"},
                                     {"eval_every", "N", ""},
                                     {"eval_batches", "N", ""},
                                     {"final_eval", "N", ""},
                                     {"save_every", "N", ""},
                                     {"keep", "N", ""},
                                     {"keep_best", "METRIC", ""},
                                     {"resume", "DIR", ""},
                                     {"init", "PATH", ""}}}};
  groups.insert(groups.end(), flags.more.begin(), flags.more.end());
  groups.push_back(JobFlags());
  groups.push_back({"Looking inside",
                    {{"explain", "", ""},
                     {"explain_html", "FILE", ""},
                     {"trace", "FILE", ""},
                     {"wait_limit", "SECONDS", ""},
                     {"check_nan", "", ""},
                     {"measure_peak", "", ""}}});
  return groups;
}

// What a run is, rather than what is done with it or where, is recorded and taken up by --resume:
// no flag else, so that a checkpoint from anywhere names no file that this process writes.
std::set<std::string> Recorded(const AppFlags& flags) {
  std::set<std::string> names = {"data",
                                 "preset",
                                 "steps",
                                 "batch",
                                 "lr",
                                 "warmup",
                                 "lr_floor",
                                 "clip",
                                 "optimizer",
                                 "beta1",
                                 "beta2",
                                 "epsilon",
                                 "bias_correction",
                                 "momentum",
                                 "nesterov",
                                 "dampening",
                                 "trust_coefficient",
                                 "reduce_dtype",
                                 "weight_decay",
                                 "seed",
                                 "mesh",
                                 "devices",
                                 "reproducible",
                                 "micro_batches",
                                 "precision",
                                 "residual_precision",
                                 "zero",
                                 "recompute",
                                 "keep",
                                 "script_length",
                                 "eval_every",
                                 "eval_batches",
                                 "final_eval",
                                 "save_every",
                                 "keep_best",
                                 "check_nan"};
  for (const FlagEntry& entry : flags.model) {
    if (flags.not_recorded.count(entry.name) == 0) names.insert(entry.name);
  }
  return names;
}

// What all ranks of a job must be told alike: what is recorded, and what decides which things they
// do together. Files and folders are compared by what is in them, as hosts may have them elsewhere.
// What else follows training (AppFlags::more) the first rank says for all.
std::set<std::string> ToldAlike(const AppFlags& flags) {
  std::set<std::string> names = Recorded(flags);
  names.insert({"check_replicas", "explain", "change_data", "device_memory"});
  if (!flags.use.empty()) names.insert(flags.use);
  return WithoutPaths(Groups(flags), std::move(names));
}

absl::CommandLineFlag* Find(const std::string& name) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  SLUICE_CHECK(flag != nullptr) << "no flag " << name << " is linked in";
  return flag;
}

absl::Status ApplyPreset(const AppFlags& flags, const std::set<std::string>& given) {
  if (given.count("preset") == 0) absl::SetFlag(&FLAGS_preset, flags.presets[0].name);
  const std::string name = absl::GetFlag(FLAGS_preset);
  std::vector<std::string> names;
  const Preset* preset = nullptr;
  for (const Preset& known : flags.presets) {
    names.push_back(known.name);
    if (known.name == name) preset = &known;
  }
  if (preset == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--preset: expected one of ", absl::StrJoin(names, ", "), ", got \"", name, "\""));
  }
  for (const auto& flag : preset->flags) {
    if (given.count(flag.first) > 0) continue;
    std::string error;
    SLUICE_CHECK(Find(flag.first)->ParseFrom(flag.second, &error)) << flag.first << ": " << error;
  }
  DropUnusedNesterov(given);
  return absl::OkStatus();
}

absl::Status CheckNumbers() {
  RETURN_IF_ERROR(CheckFlag("steps", absl::GetFlag(FLAGS_steps), 1, kMany));
  RETURN_IF_ERROR(CheckFlag("batch", absl::GetFlag(FLAGS_batch), 1, kMany));
  RETURN_IF_ERROR(CheckFlag("lr", absl::GetFlag(FLAGS_lr), 0, 100));
  RETURN_IF_ERROR(CheckFlag("warmup", absl::GetFlag(FLAGS_warmup), 0, kMany));
  RETURN_IF_ERROR(CheckFlag("lr_floor", absl::GetFlag(FLAGS_lr_floor), 0, 1));
  RETURN_IF_ERROR(CheckFlag("micro_batches", absl::GetFlag(FLAGS_micro_batches), 1, kMany));
  RETURN_IF_ERROR(CheckFlag("zero", absl::GetFlag(FLAGS_zero), 0, 3));
  RETURN_IF_ERROR(CheckFlag("wait_limit", absl::GetFlag(FLAGS_wait_limit), 0, 86400));
  RETURN_IF_ERROR(CheckFlag("threads", absl::GetFlag(FLAGS_threads), 0, 4096));
  RETURN_IF_ERROR(CheckFlag("memory", absl::GetFlag(FLAGS_memory), 0, kMany));
  RETURN_IF_ERROR(CheckFlag("device_memory", absl::GetFlag(FLAGS_device_memory), 0, kMany));
  RETURN_IF_ERROR(CheckFlag("script_length", absl::GetFlag(FLAGS_script_length), 0, kMany));
  RETURN_IF_ERROR(CheckFlag("eval_every", absl::GetFlag(FLAGS_eval_every), 0, kMany));
  RETURN_IF_ERROR(CheckFlag("eval_batches", absl::GetFlag(FLAGS_eval_batches), 1, kMany));
  RETURN_IF_ERROR(CheckFlag("save_every", absl::GetFlag(FLAGS_save_every), 0, kMany));
  return CheckFlag("keep", absl::GetFlag(FLAGS_keep), 1, kMany);
}

// What is recorded stands in JSON, which has no other bytes: a path of others would be read back as
// another path.
absl::Status CheckRecorded(const AppOptions& options) {
  for (const auto& [name, value] : options.recorded) {
    if (IsUtf8(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": expected UTF-8, as checkpoints record it, got \"",
                     absl::CHexEscape(value), "\""));
  }
  return absl::OkStatus();
}

// Whether AppFlags::use stands on the command line.
bool Uses(const AppFlags& flags) {
  return !flags.use.empty() && Find(flags.use)->CurrentValue() == "true";
}

// A path is recorded from the root, as a run may be resumed from another folder. What is no path
// here may be the name of a data set that was fetched.
void ResolveData(const std::string& datasets) {
  const std::string data = absl::GetFlag(FLAGS_data);
  if (data.empty()) return;
  std::error_code error;
  const std::string fetched = absl::StrCat(datasets, "/", data);
  const bool named = !datasets.empty() && !absl::StrContains(data, '/') &&
                     !fs::exists(data, error) && fs::exists(fetched, error);
  absl::SetFlag(&FLAGS_data, fs::absolute(named ? fetched : data, error).string());
}

absl::Status CheckData(const AppOptions& options) {
  std::error_code error;
  if (!fs::exists(options.data, error)) return absl::OkStatus();
  const auto is_run = RunFolders(options.out);
  if (fs::is_directory(options.data, error) && is_run(options.data)) {
    return absl::InvalidArgumentError(absl::StrCat("--data: expected something to learn from, ",
                                                   options.data, " is the folder of a run"));
  }
  const std::string run = RunAround(options.data);
  if (run.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--data: expected something to learn from, ",
                                                 options.data, " is what the run ", run,
                                                 " has written"));
}

// What is written about a run, once it is over, is not to replace what it reads or has written.
absl::Status CheckOwnFiles(const AppOptions& options) {
  std::error_code error;
  std::map<std::string, std::string> read = {{"data", options.data},
                                             {"machine", absl::GetFlag(FLAGS_machine)}};
  for (const auto& [flag, path] : {std::pair("trace", options.session.trace),
                                   std::pair("explain_html", options.session.explain_html)}) {
    if (path.empty()) continue;
    for (const auto& [other, taken] : read) {
      const bool same = fs::absolute(path, error).lexically_normal() ==
                        fs::absolute(taken, error).lexically_normal();
      if (taken.empty() || (!same && !fs::equivalent(path, taken, error))) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--", flag, ": expected a file of its own, got ", path, ", which is --", other));
    }
    read[flag] = path;
    const std::string run = RunAround(path);
    if (run.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": expected a file of its own, ",
                                                   path, " is what the run ", run, " has written"));
  }
  return absl::OkStatus();
}

// The axes, and behind them the kind of the devices, unless the mesh names kinds itself.
absl::StatusOr<std::string> MeshOfFlags() {
  const std::string mesh = absl::GetFlag(FLAGS_mesh), kind = absl::GetFlag(FLAGS_devices);
  if (kind != "cpu" && kind != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--devices: expected cpu or cuda, got \"", kind, "\""));
  }
  if (kind == "cpu") return mesh;
  if (!absl::StrContains(mesh, '@')) return absl::StrCat(mesh, " @", kind);
  return absl::InvalidArgumentError(
      absl::StrCat("--devices: expected none with a mesh that names kinds of devices, got \"", kind,
                   "\" and --mesh=\"", mesh, "\""));
}

absl::Status ReadMesh(AppOptions* options) {
  ASSIGN_OR_RETURN(options->session.mesh, MeshOfFlags());
  absl::StatusOr<Mesh> mesh = Mesh::Parse(options->session.mesh);
  if (!mesh.ok()) return AddContext(mesh.status(), "--mesh");
  options->stages = mesh->num_stages();
  options->devices = mesh->num_devices();
  const int64_t batch = options->batch, micro = absl::GetFlag(FLAGS_micro_batches);
  if (batch % micro != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--micro_batches: expected a divisor of the batch, ", batch, ", got ", micro));
  }
  const int64_t zero = absl::GetFlag(FLAGS_zero);
  const bool has_data = std::any_of(mesh->axes().begin(), mesh->axes().end(),
                                    [](const MeshAxis& axis) { return axis.name == "data"; });
  if (zero > 0 && !has_data) {
    return absl::InvalidArgumentError(
        absl::StrCat("--zero: expected a mesh with an axis data, over which it splits, or 0; got ",
                     zero, " and --mesh=\"", options->session.mesh, "\""));
  }
  const std::string recompute = absl::GetFlag(FLAGS_recompute);
  if (recompute != "none" && recompute != "blocks") {
    return absl::InvalidArgumentError(
        absl::StrCat("--recompute: expected none or blocks, got \"", recompute, "\""));
  }
  options->recompute_blocks = recompute == "blocks";
  options->session.micro_batches = micro;
  options->optimizer.zero.level = static_cast<int>(zero);
  options->optimizer.zero.mesh = *std::move(mesh);
  return absl::OkStatus();
}

absl::StatusOr<DType> ReadPrecision(absl::string_view flag, const std::string& value) {
  if (value == DTypeName(DType::kF32)) return DType::kF32;
  if (value == DTypeName(DType::kBF16)) return DType::kBF16;
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": expected f32 or bf16, got ", value));
}

absl::Status ReadPrecisionFlags(AppOptions* options) {
  ASSIGN_OR_RETURN(options->precision.compute,
                   ReadPrecision("precision", absl::GetFlag(FLAGS_precision)));
  ASSIGN_OR_RETURN(options->precision.residual,
                   ReadPrecision("residual_precision", absl::GetFlag(FLAGS_residual_precision)));
  ASSIGN_OR_RETURN(options->optimizer.reduce,
                   ReadPrecision("reduce_dtype", absl::GetFlag(FLAGS_reduce_dtype)));
  options->session.bf16_sums = options->optimizer.reduce == DType::kBF16;
  // Each would be reduced for itself, which saves no byte from two on.
  if (options->optimizer.reduce != DType::kF32 && options->session.micro_batches > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--reduce_dtype: expected f32 with --micro_batches above 1, got bf16 and ",
                     options->session.micro_batches));
  }
  if (options->precision.residual == DType::kBF16 && options->precision.compute == DType::kF32) {
    return absl::InvalidArgumentError(
        "--residual_precision: expected f32 where --precision is f32, got bf16");
  }
  return absl::OkStatus();
}

absl::Status ReadMachineFlag(AppOptions* options) {
  options->machine_file = absl::GetFlag(FLAGS_machine);
  if (options->machine_file.empty()) return absl::OkStatus();
  absl::StatusOr<MachineFile> file = ReadMachine(options->machine_file);
  if (!file.ok()) return AddContext(file.status(), "--machine");
  options->session.machine = std::move(file->machine);
  options->machine_digest = std::move(file->digest);
  return absl::OkStatus();
}

absl::Status ReadFinalEval(AppOptions* options) {
  const std::string value = absl::GetFlag(FLAGS_final_eval);
  options->final_eval_batches = kAllBatches;
  if (value == "all") return absl::OkStatus();
  if (absl::SimpleAtoi(value, &options->final_eval_batches) && options->final_eval_batches >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--final_eval: expected all, or a number of batches from 0 on, got \"", value, "\""));
}

void ReadFlags(AppOptions* o) {
  constexpr double kGiB = 1 << 30;
  o->preset = absl::GetFlag(FLAGS_preset);
  o->data = absl::GetFlag(FLAGS_data);
  o->change_data = absl::GetFlag(FLAGS_change_data);
  o->batch = absl::GetFlag(FLAGS_batch);
  o->schedule = {absl::GetFlag(FLAGS_lr), absl::GetFlag(FLAGS_warmup), absl::GetFlag(FLAGS_steps),
                 absl::GetFlag(FLAGS_lr_floor)};
  o->session.seed = absl::GetFlag(FLAGS_seed);
  o->session.threads_per_device = static_cast<int>(absl::GetFlag(FLAGS_threads));
  o->session.memory_limit = std::llround(absl::GetFlag(FLAGS_memory) * kGiB);
  o->session.device_memory_limit = std::llround(absl::GetFlag(FLAGS_device_memory) * kGiB);
  o->session.script_length = absl::GetFlag(FLAGS_script_length);
  o->session.cuda_graphs = absl::GetFlag(FLAGS_cuda_graphs);
  o->session.reproducible = absl::GetFlag(FLAGS_reproducible);
  o->session.trace = absl::GetFlag(FLAGS_trace);
  o->session.explain_html = absl::GetFlag(FLAGS_explain_html);
  o->session.wait_limit =
      std::chrono::milliseconds(std::llround(1000 * absl::GetFlag(FLAGS_wait_limit)));
  o->session.check_nan = absl::GetFlag(FLAGS_check_nan);
  // It is what the CPUs reach.
  o->measure_peak = absl::GetFlag(FLAGS_measure_peak) && absl::GetFlag(FLAGS_devices) == "cpu";
  o->eval_every = absl::GetFlag(FLAGS_eval_every);
  o->eval_batches = absl::GetFlag(FLAGS_eval_batches);
  o->save_every = absl::GetFlag(FLAGS_save_every);
  o->keep = absl::GetFlag(FLAGS_keep);
  o->keep_best = absl::GetFlag(FLAGS_keep_best);
  o->explain = absl::GetFlag(FLAGS_explain);
}

// Which run this is: one that begins, with --init or without, or one that goes on.
absl::Status FindRun(const AppFlags& app, const std::vector<FlagGroup>& groups,
                     const std::string& datasets, ParsedFlags* parsed, AppOptions* options) {
  const std::set<std::string> recorded = Recorded(app);
  const RunFlags flags = {app, groups, recorded};
  const std::string init = absl::GetFlag(FLAGS_init);
  std::string resume = absl::GetFlag(FLAGS_resume);
  if (!resume.empty() && !init.empty()) {
    return absl::InvalidArgumentError(
        "--init: expected a run that begins, and --resume goes on with one");
  }
  bool again = false;
  if (resume.empty()) {
    RETURN_IF_ERROR(ApplyPreset(app, parsed->given));
    ResolveData(datasets);
    const bool trains = !absl::GetFlag(FLAGS_explain) && !Uses(app);
    if (trains) {
      ASSIGN_OR_RETURN(again,
                       GoesOnWithRun(flags, options->job.place, absl::GetFlag(FLAGS_out), init));
    }
    if (again) resume = absl::GetFlag(FLAGS_out);
  }
  if (resume.empty()) return ReadInit(flags, init, options);
  options->again = again;
  RETURN_IF_ERROR(TakeUpRun(flags, resume, again, parsed, options));
  RETURN_IF_ERROR(ApplyPreset(app, parsed->given));
  ResolveData(datasets);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFlag(absl::string_view flag, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": expected ", low, " to ", high, ", got ", value));
}

std::string AppHelp(const AppFlags& flags) {
  std::string text =
      absl::StrCat(flags.help,
                   "\nCtrl-C saves and stops; --resume goes on. In [brackets]: what holds if a "
                   "flag is not given.\n\nPresets");
  for (const Preset& preset : flags.presets) {
    absl::StrAppend(&text, "\n  ", preset.name, std::string(24 - preset.name.size(), ' '),
                    preset.what);
  }
  return FlagsHelp(text, Groups(flags));
}

absl::StatusOr<AppOptions> ParseAppOptions(const AppFlags& flags,
                                           const std::vector<std::string>& arguments,
                                           const AppSurroundings& surroundings, bool* help) {
  const std::vector<FlagGroup> groups = Groups(flags);
  AppOptions options;
  ParsedFlags parsed;
  RETURN_IF_ERROR(ParseFlags(groups, arguments, &parsed));
  *help = parsed.help;
  if (parsed.help) return options;
  ASSIGN_OR_RETURN(options.job, ReadJobFlags(surroundings.environment));
  RETURN_IF_ERROR(FindRun(flags, groups, surroundings.datasets, &parsed, &options));
  RETURN_IF_ERROR(CheckNumbers());
  ReadFlags(&options);
  RETURN_IF_ERROR(ReadFinalEval(&options));
  RETURN_IF_ERROR(ReadOptimizerFlags(&options.optimizer));
  RETURN_IF_ERROR(ReadMesh(&options));
  RETURN_IF_ERROR(ReadPrecisionFlags(&options));
  RETURN_IF_ERROR(ReadMachineFlag(&options));
  RETURN_IF_ERROR(ReadLinksWish(options.job.links, &options.session.machine));
  options.bundled = surroundings.bundled;
  options.use = Uses(flags);
  if (options.use && options.resume.checkpoint.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flags.use, ": expected --resume=RUN, the run to do it with"));
  }
  const std::string out = absl::GetFlag(FLAGS_out), run = options.resume.run;
  options.out = !out.empty() ? out : !run.empty() ? run : "runs/" + surroundings.now;
  options.out_by_time = out.empty() && run.empty();
  if (!options.use && !options.explain) {
    std::error_code error;
    const bool own = !run.empty() && fs::equivalent(options.out, run, error);
    // Of several ranks the first one has the folder.
    if (!own && !options.out_by_time && options.job.place.rank == 0) {
      RETURN_IF_ERROR(CheckNoRun(options.out));
    }
    RETURN_IF_ERROR(CheckData(options));
  }
  RETURN_IF_ERROR(CheckOwnFiles(options));
  options.recorded = FlagValues(groups, Recorded(flags));
  if (!options.init.empty()) {
    options.began_with = options.init;
    options.began_with_digest = options.init_digest;
  }
  if (!options.began_with.empty()) {
    options.recorded.emplace_back(kInitFlag, options.began_with);
    options.recorded.emplace_back(kInitDigest, options.began_with_digest);
  }
  options.told = FlagValues(groups, ToldAlike(flags));
  RETURN_IF_ERROR(CheckRecorded(options));
  return options;
}

}  // namespace sluice
