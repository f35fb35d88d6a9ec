#include "framework/train/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/train/foreign_weights.h"
#include "framework/train/paths.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIndexLimit = 100'000'000;

// PyTorch's wrappers of a single module, which may be anywhere in a model: torch.compile, DDP and
// DataParallel, FSDP, checkpoint_wrapper.
bool IsWrapper(absl::string_view component) {
  static constexpr absl::string_view kWrappers[] = {"_orig_mod", "module", "_fsdp_wrapped_module",
                                                    "_checkpoint_wrapped_module"};
  return std::find(std::begin(kWrappers), std::end(kWrappers), component) != std::end(kWrappers);
}

std::string WithoutWrappers(const std::string& name) {
  std::vector<absl::string_view> components = absl::StrSplit(name, '.');
  components.erase(std::remove_if(components.begin(), components.end(), IsWrapper),
                   components.end());
  return absl::StrJoin(components, ".");
}

// Returns the prefix before `known` in a name that ends with it; null if the name does not.
std::optional<std::string> PrefixOf(const std::string& name, const std::string& known) {
  absl::string_view prefix = name;
  if (!absl::ConsumeSuffix(&prefix, known)) return std::nullopt;
  if (!prefix.empty() && prefix.back() != '.') return std::nullopt;
  return std::string(prefix);
}

absl::StatusOr<SafetensorsReader> OpenSafetensors(const std::string& path) {
  absl::StatusOr<SafetensorsReader> file = SafetensorsReader::Open(path);
  if (!file.ok()) return ExplainForeign(path, file.status());
  return file;
}

}  // namespace

absl::StatusOr<WeightFiles> WeightFiles::Open(const std::string& model) {
  std::error_code ignored;
  if (!fs::is_directory(model, ignored)) {
    return absl::EndsWith(model, ".json") ? OpenShards(model) : OpenFile(model);
  }
  const std::string file = absl::StrCat(model, "/", kWeightsFile);
  if (PathExists(file)) return OpenFile(file);
  const std::string index = absl::StrCat(model, "/", kWeightsIndexFile);
  if (PathExists(index)) return OpenShards(index);
  return NoWeightsIn(model);
}

absl::StatusOr<WeightFiles> WeightFiles::OpenFile(const std::string& path) {
  ASSIGN_OR_RETURN(SafetensorsReader file, OpenSafetensors(path));
  WeightFiles files;
  files.path_ = path;
  RETURN_IF_ERROR(files.AddFile(std::move(file)));
  return files;
}

absl::StatusOr<WeightFiles> WeightFiles::OpenShards(const std::string& index) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(index, kIndexLimit));
  using Places = std::map<std::string, std::string>;
  const absl::StatusOr<Places> parsed = ParseShardIndex(text, index);
  if (!parsed.ok()) return ExplainForeign(index, parsed.status());
  const Places& file_of_tensor = *parsed;
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of_tensor) names.insert(file);
  WeightFiles files;
  files.path_ = index;
  for (const std::string& name : names) {
    const std::string path = (fs::path(index).parent_path() / name).string();
    if (!PathExists(path)) {
      return absl::NotFoundError(absl::StrCat(path, ": expected a shard, as ", kWeightsIndexFile,
                                              " names it beside ", names.size() - 1,
                                              " others, got none"));
    }
    ASSIGN_OR_RETURN(SafetensorsReader file, OpenSafetensors(path));
    const NameIndex<StoredTensor> stored(file.stored());
    for (const auto& [tensor, in] : file_of_tensor) {
      if (in != name || stored.Find(tensor) != nullptr) continue;
      return absl::DataLossError(absl::StrCat(path, ": expected a tensor ", tensor, ", as ",
                                              kWeightsIndexFile, " says, got ",
                                              file.stored().size(), " others"));
    }
    RETURN_IF_ERROR(files.AddFile(std::move(file)));
  }
  return files;
}

absl::Status WeightFiles::AddFile(SafetensorsReader file) {
  files_.push_back(std::move(file));
  for (StoredTensor tensor : files_.back().stored()) {
    Place place = {files_.size() - 1, tensor.name};
    tensor.name = WithoutWrappers(tensor.name);
    RETURN_IF_ERROR(Add(std::move(tensor), std::move(place)));
  }
  return absl::OkStatus();
}

absl::Status WeightFiles::Add(StoredTensor tensor, Place place) {
  const auto [found, fresh] = places_.emplace(tensor.name, place);
  if (!fresh) {
    return absl::InvalidArgumentError(absl::StrCat(files_[place.file].path(),
                                                   ": expected one tensor ", tensor.name, ", got ",
                                                   place.name, " and ", Where(tensor.name)));
  }
  tensors_.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status WeightFiles::Unwrap(absl::Span<const std::string> known) {
  std::set<std::string> prefixes;
  for (const StoredTensor& tensor : tensors_) {
    for (const std::string& name : known) {
      const std::optional<std::string> prefix = PrefixOf(tensor.name, name);
      if (!prefix) continue;
      prefixes.insert(*prefix);
      break;
    }
  }
  if (prefixes.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": expected a tensor ", known.back(), ", ", Inventory()));
  }
  if (prefixes.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": expected one model, got several: ", known.back(),
                     " is there under \"", absl::StrJoin(prefixes, "\" and \""), "\""));
  }
  prefix_ = *prefixes.begin();
  std::vector<StoredTensor> wrapped;
  std::map<std::string, Place> places;
  wrapped.swap(tensors_);
  places.swap(places_);
  for (StoredTensor& tensor : wrapped) {
    Place& place = places.at(tensor.name);
    if (absl::StartsWith(tensor.name, prefix_)) tensor.name.erase(0, prefix_.size());
    RETURN_IF_ERROR(Add(std::move(tensor), std::move(place)));
  }
  return absl::OkStatus();
}

std::string WeightFiles::Where(const std::string& name) const {
  const Place& place = places_.at(name);
  return absl::StrCat(files_[place.file].path(), ": ", place.name);
}

absl::StatusOr<HostTensor> WeightFiles::ReadAsF32(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", FullName(name)));
  }
  return files_[found->second.file].ReadAsF32(found->second.name);
}

std::string WeightFiles::Inventory() const {
  constexpr size_t kMost = 3;
  std::vector<std::string> some;
  for (const auto& [name, place] : places_) {
    if (some.size() < kMost) some.push_back(place.name);
  }
  return absl::StrCat("got ", tensors_.size(), " others", some.empty() ? "" : " such as ",
                      absl::StrJoin(some, ", "));
}

}  // namespace sluice
