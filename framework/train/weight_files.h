// The tensors of a model in files that another framework wrote: one safetensors file, or several
// with an index. Tensors are known by the names that the model itself gives them, without those of
// the modules that were wrapped around it. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_WEIGHT_FILES_H_
#define SLUICE_FRAMEWORK_TRAIN_WEIGHT_FILES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/checkpoint/safetensors_shards.h"

namespace sluice {

// Entries, TensorEntry or StoredTensor, by name: a file from anywhere may have any number of them.
template <typename Entry>
class NameIndex {
 public:
  explicit NameIndex(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) by_name_[entry.name] = &entry;
  }
  // Null where there is none.
  const Entry* Find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // Returns whether any name begins with the prefix.
  bool HasPrefix(const std::string& prefix) const {
    const auto found = by_name_.lower_bound(prefix);
    return found != by_name_.end() && found->first.compare(0, prefix.size(), prefix) == 0;
  }

 private:
  std::map<std::string, const Entry*> by_name_;
};

class WeightFiles {
 public:
  // `model` is a safetensors file, an index of such, or a folder with either under the hub's names;
  // a folder that has both is read as transformers does, without the index. Errors name the file,
  // what it is instead and which command converts it, or the shard that is missing.
  static absl::StatusOr<WeightFiles> Open(const std::string& model);

  // Removes a prefix from all names that have it, such as "module." or "module.model.": the one
  // before the name of a tensor that every such model has. `known` are the names that this tensor
  // may have in a model that nothing is wrapped around; the first that fits counts. NotFound: there
  // is no such tensor. InvalidArgument: there are several models, or two tensors would have one
  // name.
  absl::Status Unwrap(absl::Span<const std::string> known);

  // The file or the index, for errors.
  const std::string& path() const { return path_; }
  // In order of their files and bytes.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // "<file>: <name that the file has>", for errors. REQUIRES: it is one of tensors().
  std::string Where(const std::string& name) const;
  // The name that the files would have for a tensor of the model.
  std::string FullName(const std::string& name) const { return prefix_ + name; }
  // As SafetensorsReader's.
  absl::StatusOr<HostTensor> ReadAsF32(const std::string& name) const;
  // For errors about a tensor that is missing: how many there are, and names of some.
  std::string Inventory() const;

 private:
  struct Place {
    size_t file = 0;
    std::string name;  // in that file
  };
  WeightFiles() = default;
  static absl::StatusOr<WeightFiles> OpenFile(const std::string& path);
  static absl::StatusOr<WeightFiles> OpenShards(const std::string& index);
  absl::Status AddFile(SafetensorsReader file);
  absl::Status Add(StoredTensor tensor, Place place);

  std::string path_, prefix_;
  std::vector<SafetensorsReader> files_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, Place> places_;  // by name
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_WEIGHT_FILES_H_
