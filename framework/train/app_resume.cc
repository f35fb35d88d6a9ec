#include "framework/train/app_resume.h"

#include <map>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"

namespace sluice {
namespace {

using Values = std::map<std::string, std::string>;

absl::CommandLineFlag* Find(const std::string& name) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  SLUICE_CHECK(flag != nullptr) << "no flag " << name << " is linked in";
  return flag;
}

// A recorded value as the flag prints it: 04 is 4.
std::string AsPrinted(const std::string& name, const std::string& recorded) {
  absl::CommandLineFlag* flag = Find(name);
  const std::string now = flag->CurrentValue();
  std::string error;
  const std::string printed = flag->ParseFrom(recorded, &error) ? flag->CurrentValue() : recorded;
  SLUICE_CHECK(flag->ParseFrom(now, &error)) << name << ": " << error;
  return printed;
}

// A flag whose value is not the one that a run recorded.
struct Change {
  std::string name, before, now;
};

// In the order of the groups, of flags that `considered` has.
std::vector<Change> ChangesOf(const RunFlags& flags, const Values& recorded,
                              const std::set<std::string>& considered) {
  std::vector<Change> changes;
  for (const auto& [name, now] : FlagValues(flags.groups, flags.recorded)) {
    const auto found = recorded.find(name);
    if (found == recorded.end() || considered.count(name) == 0) continue;
    const std::string before = AsPrinted(name, found->second);
    if (before != now) changes.push_back({name, before, now});
  }
  return changes;
}

// Whether a change leaves the checkpoint without a tensor that the model wants, or with one too
// many, or with tensors of another shape or meaning.
bool ChangesTensors(const AppFlags& app, const Change& change) {
  if (change.name == "momentum") {
    double before = 0, now = 0;  // at 0 the optimizer keeps no state
    return absl::SimpleAtod(change.before, &before) && absl::SimpleAtod(change.now, &now) &&
           (before == 0) != (now == 0);
  }
  return app.shape.count(change.name) > 0 || change.name == "optimizer" || change.name == "batch";
}

// "" where nothing is recorded.
std::string ValueOf(const Values& recorded, const char* name) {
  const auto found = recorded.find(name);
  return found == recorded.end() ? "" : found->second;
}

// Whether a run with these options began with the checkpoint `init`, or anew where that is "". The
// run needs it no longer, so it may be gone: then its path tells.
bool BeganWith(const Values& recorded, const std::string& init) {
  if (ValueOf(recorded, kInitFlag) == init) return true;
  const std::string digest = ValueOf(recorded, kInitDigest);
  if (init.empty() || digest.empty()) return false;
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Load(init);
  return checkpoint.ok() && checkpoint->digest() == digest;
}

}  // namespace

absl::Status TakeUpRun(const RunFlags& flags, const std::string& path, bool again,
                       ParsedFlags* parsed, AppOptions* options) {
  if (again) {
    parsed->given.erase("preset");
  } else if (parsed->given.count("preset") > 0) {
    return absl::InvalidArgumentError("--preset: a run that is resumed keeps its sizes");
  }
  ASSIGN_OR_RETURN(options->resume, FindResumePoint(path));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(options->resume.checkpoint));
  options->resume.digest = checkpoint.digest();
  Values recorded = checkpoint.meta().options;
  if (const auto init = recorded.extract(kInitFlag)) options->began_with = init.mapped();
  if (const auto digest = recorded.extract(kInitDigest)) {
    options->began_with_digest = digest.mapped();
  }
  for (const Change& change : ChangesOf(flags, recorded, parsed->given)) {
    if (ChangesTensors(flags.app, change)) {
      const bool shape = flags.app.shape.count(change.name) > 0;
      return absl::InvalidArgumentError(
          absl::StrCat("--", change.name, ": expected ", change.before, ", as the checkpoint's ",
                       shape ? "model" : "run", " has it, got ", change.now));
    }
    options->changed.push_back(
        absl::StrCat("--", change.name, "=", change.now, ", was ", change.before));
  }
  return RestoreFlags(flags.groups, flags.recorded, recorded, parsed);
}

absl::StatusOr<bool> GoesOnWithRun(const RunFlags& flags, const LaunchPlace& place,
                                   const std::string& out, const std::string& init) {
  if (out.empty()) {
    if (place.restarts == 0) return false;
    return absl::InvalidArgumentError(
        absl::StrCat("--out: expected the folder of the run, so that start ", place.restarts,
                     " of the job goes on with it, got none"));
  }
  const absl::StatusOr<std::string> latest = LatestCheckpoint(out + "/checkpoints");
  if (!latest.ok()) return false;
  if (place.restarts > 0) return true;
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Load(*latest);
  if (!checkpoint.ok()) return true;  // taking it up looks for an earlier one, or says why not
  const Values& recorded = checkpoint->meta().options;
  std::vector<std::string> others;
  if (!BeganWith(recorded, init)) {
    others.push_back(absl::StrCat("--", kInitFlag, "=", ValueOf(recorded, kInitFlag)));
  }
  const std::set<std::string> compared = WithoutPaths(flags.groups, flags.recorded);
  for (const Change& change : ChangesOf(flags, recorded, compared)) {
    others.push_back(absl::StrCat("--", change.name, "=", change.before));
  }
  if (others.empty()) return true;
  return absl::AlreadyExistsError(
      absl::StrCat("--out: ", out, " already holds a run, of other options (",
                   absl::StrJoin(others, " "), "); --resume=", out, " goes on with it"));
}

absl::Status ReadInit(const RunFlags& flags, const std::string& path, AppOptions* options) {
  options->init = path;
  if (path.empty()) return absl::OkStatus();
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Load(path);
  if (!checkpoint.ok()) return AddContext(checkpoint.status(), "--init");
  options->init_digest = checkpoint->digest();
  for (const Change& change : ChangesOf(flags, checkpoint->meta().options, flags.app.meaning)) {
    return absl::InvalidArgumentError(absl::StrCat("--", change.name, ": expected ", change.before,
                                                   ", as the checkpoint of "
                                                   "--init has it, got ",
                                                   change.now));
  }
  return absl::OkStatus();
}

}  // namespace sluice
