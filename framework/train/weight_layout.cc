#include "framework/train/weight_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/finite.h"
#include "framework/train/weight_folders.h"

namespace sluice {
namespace {

std::string TypeOf(const TensorEntry& e) {
  return absl::StrCat(DTypeName(e.dtype), e.shape.ToString());
}

absl::Status CheckType(absl::string_view where, const TensorEntry& expected,
                       const TensorEntry& got) {
  if (expected.dtype == got.dtype && expected.shape == got.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", got.name, ": expected ", TypeOf(expected), ", got ", TypeOf(got)));
}

bool IsSixteenBits(const StoredTensor& tensor) {
  return tensor.dtype == "F16" || tensor.dtype == "BF16";
}

// A tensor of theirs may be of F16 or BF16 as well.
absl::Status CheckStored(absl::string_view where, const TensorEntry& expected,
                         const StoredTensor& got) {
  if ((got.dtype == "F32" || IsSixteenBits(got)) && got.shape == expected.shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected F32, F16 or BF16 ",
                                                 expected.shape.ToString(), ", got ", got.dtype,
                                                 " ", got.shape.ToString()));
}

// An optimizer's state is <parameter>.<state>.
bool IsStateOf(const std::set<std::string>& parameters, const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot != std::string::npos && parameters.count(name.substr(0, dot)) > 0;
}

// The rows of `shard` begin at column `begin` of the rows of `whole`; `fuse` says who is copied.
void CopyColumns(bool fuse, int64_t begin, HostTensor* whole, HostTensor* shard) {
  const int last = whole->shape.rank() - 1;
  const size_t element = SizeOf(whole->dtype);
  const size_t width = shard->shape[last] * element, stride = whole->shape[last] * element;
  const size_t rows = whole->bytes.size() / stride;
  for (size_t row = 0; row < rows; ++row) {
    std::byte* in_whole = whole->bytes.data() + row * stride + begin * element;
    std::byte* in_shard = shard->bytes.data() + row * width;
    std::memcpy(fuse ? in_whole : in_shard, fuse ? in_shard : in_whole, width);
  }
}

Shape Permuted(const Shape& shape, const std::vector<int>& axes) {
  Shape permuted;
  for (const int axis : axes) permuted.Append(shape[axis]);
  return permuted;
}

std::vector<int> InverseOf(const std::vector<int>& axes) {
  std::vector<int> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) inverse[axes[i]] = static_cast<int>(i);
  return inverse;
}

// Axis i of the result is axis axes[i] of `from`; no axes leave it as it is.
HostTensor Permute(HostTensor from, const std::vector<int>& axes) {
  if (axes.empty()) return from;
  HostTensor to(from.dtype, Permuted(from.shape, axes));
  const size_t element = SizeOf(from.dtype);
  const Shape strides = Permuted(from.shape.Strides(), axes);
  // Goes through the result in its order, with the indices of where it stands.
  std::vector<int64_t> index(axes.size(), 0);
  int64_t source = 0;
  for (size_t at = 0; at < to.bytes.size(); at += element) {
    std::memcpy(to.bytes.data() + at, from.bytes.data() + source * element, element);
    for (int d = to.shape.rank() - 1; d >= 0; --d) {
      source += strides[d];
      if (++index[d] < to.shape[d]) break;
      source -= strides[d] * to.shape[d];
      index[d] = 0;
    }
  }
  return to;
}

// The shape of ours side by side.
Shape FusedShape(const WeightPair& pair) {
  Shape fused = pair.ours[0].shape;
  fused[fused.rank() - 1] *= static_cast<int64_t>(pair.ours.size());
  return fused;
}

absl::StatusOr<HostTensor> ReadTheirs(const Checkpoint& checkpoint, const WeightPair& pair) {
  HostTensor whole(DType::kF32, FusedShape(pair));
  int64_t begin = 0;
  for (const TensorEntry& ours : pair.ours) {
    ASSIGN_OR_RETURN(HostTensor shard, checkpoint.Read(ours.name));
    CopyColumns(true, begin, &whole, &shard);
    begin += ours.shape[ours.shape.rank() - 1];
  }
  return Permute(std::move(whole), pair.axes);
}

absl::Status CheckFinite(const std::string& where, const HostTensor& value) {
  const int64_t count = value.shape.NumElements();
  const std::optional<int64_t> first = FirstNotFinite(value.dtype, value.bytes.data(), count);
  if (!first) return absl::OkStatus();
  const float* values = value.data<float>();
  const int64_t bad =
      std::count_if(values + *first, values + count, [](float x) { return !std::isfinite(x); });
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected finite numbers, got ", values[*first], " at ",
                   value.shape.IndexOf(*first).ToString(), ", the first of ", bad, " of ", count,
                   " that are none; take a checkpoint from before the training went wrong"));
}

absl::StatusOr<HostTensor> ReadOurs(const WeightFiles& files, const WeightPair& pair,
                                    size_t index) {
  ASSIGN_OR_RETURN(HostTensor theirs, files.ReadAsF32(pair.theirs.name));
  RETURN_IF_ERROR(CheckFinite(files.Where(pair.theirs.name), theirs));
  HostTensor whole = Permute(std::move(theirs), InverseOf(pair.axes));
  HostTensor shard(DType::kF32, pair.ours[index].shape);
  const int64_t width = shard.shape[shard.shape.rank() - 1];
  CopyColumns(false, static_cast<int64_t>(index) * width, &whole, &shard);
  return shard;
}

// Every parameter of the layout is in the checkpoint, and nothing else but state.
absl::Status CheckOurs(const Checkpoint& checkpoint, const WeightLayout& layout) {
  const std::string& path = checkpoint.path();
  const NameIndex<TensorEntry> tensors(checkpoint.tensors());
  std::set<std::string> known;
  for (const WeightPair& pair : layout.pairs) {
    for (const TensorEntry& ours : pair.ours) {
      const TensorEntry* got = tensors.Find(ours.name);
      if (got == nullptr) {
        return absl::NotFoundError(absl::StrCat(path, ": expected a tensor ", ours.name));
      }
      RETURN_IF_ERROR(CheckType(path, ours, *got));
      known.insert(ours.name);
    }
  }
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (IsStateOf(known, entry.name) || known.count(entry.name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", entry.name, " has no place in ", layout.model));
  }
  return absl::OkStatus();
}

// Every tensor of the layout is in the files, and nothing else but what may be left out. Returns
// how many are of 16 bits.
absl::StatusOr<int64_t> CheckTheirs(
    const WeightFiles& files, const WeightLayout& layout,
    const std::function<absl::StatusOr<bool>(const std::string&)>& left_out) {
  const NameIndex<StoredTensor> stored(files.tensors());
  std::set<std::string> known;
  int64_t sixteen_bits = 0;
  for (const WeightPair& pair : layout.pairs) {
    const StoredTensor* got = stored.Find(pair.theirs.name);
    if (got == nullptr) {
      return absl::NotFoundError(absl::StrCat(files.path(), ": expected a tensor ",
                                              files.FullName(pair.theirs.name), ", ",
                                              files.Inventory()));
    }
    RETURN_IF_ERROR(CheckStored(files.Where(got->name), pair.theirs, *got));
    if (IsSixteenBits(*got)) ++sixteen_bits;
    known.insert(pair.theirs.name);
  }
  for (const StoredTensor& entry : files.tensors()) {
    if (known.count(entry.name) > 0) continue;
    ASSIGN_OR_RETURN(const bool fine, left_out(entry.name));
    if (fine) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(files.Where(entry.name), " is not ", layout.model, "'s"));
  }
  return sixteen_bits;
}

// The files of an export: those of tensors, by name, and texts.
struct ExportPlan {
  std::vector<TensorEntry> entries;
  std::map<std::string, Range> shards;  // of entries
  std::map<std::string, std::string> texts;
};

ExportPlan PlanExport(const WeightLayout& layout, const std::map<std::string, std::string>& texts,
                      int64_t most_shard_bytes) {
  ExportPlan plan = {{}, {}, texts};
  for (const WeightPair& pair : layout.pairs) plan.entries.push_back(pair.theirs);
  const std::vector<Range> shards = CutIntoShards(plan.entries, most_shard_bytes);
  if (shards.size() == 1) {
    plan.shards[kWeightsFile] = shards[0];
    return plan;
  }
  std::map<std::string, std::string> file_of_tensor;
  int64_t parameters = 0, bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        ShardFile(static_cast<int64_t>(i), static_cast<int64_t>(shards.size()));
    plan.shards[file] = shards[i];
    for (int64_t j = shards[i].begin; j < shards[i].end; ++j) {
      file_of_tensor[plan.entries[j].name] = file;
      parameters += plan.entries[j].shape.NumElements();
      bytes += BytesOf(plan.entries[j]);
    }
  }
  plan.texts[kWeightsIndexFile] = PrintShardIndex(file_of_tensor, parameters, bytes);
  return plan;
}

absl::Status WriteText(const std::string& path, const std::string& text, FileFaults* faults) {
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path, faults));
  RETURN_IF_ERROR(file.Append(text));
  return file.Close();
}

}  // namespace

WeightPair PairWeights(const std::string& theirs, const std::vector<std::string>& ours,
                       const Shape& shape, const std::vector<int>& axes) {
  WeightPair pair;
  for (const std::string& name : ours) pair.ours.push_back({name, DType::kF32, shape});
  pair.axes = axes;
  const Shape fused = FusedShape(pair);
  pair.theirs = {theirs, DType::kF32, axes.empty() ? fused : Permuted(fused, axes)};
  return pair;
}

absl::StatusOr<std::vector<std::string>> ExportWeights(
    const Checkpoint& checkpoint, const WeightLayout& layout,
    const std::map<std::string, std::string>& texts, const std::string& folder,
    const ExportOptions& options) {
  RETURN_IF_ERROR(CheckOurs(checkpoint, layout));
  std::map<std::string, const WeightPair*> pair_of;
  for (const WeightPair& pair : layout.pairs) pair_of[pair.theirs.name] = &pair;
  const auto source = [&](const TensorEntry& entry) {
    return ReadTheirs(checkpoint, *pair_of.at(entry.name));
  };
  const ExportPlan plan = PlanExport(layout, texts, options.most_shard_bytes);
  std::vector<std::string> names;
  for (const auto& [name, range] : plan.shards) names.push_back(name);
  for (const auto& [name, text] : plan.texts) names.push_back(name);
  const auto write = [&](const std::string& unfinished) {
    for (const auto& [name, range] : plan.shards) {
      RETURN_IF_ERROR(
          WriteSafetensors(absl::StrCat(unfinished, "/", name),
                           absl::MakeConstSpan(plan.entries).subspan(range.begin, range.size()),
                           {{"format", "pt"}}, source, options.faults));
    }
    for (const auto& [name, text] : plan.texts) {
      RETURN_IF_ERROR(WriteText(absl::StrCat(unfinished, "/", name), text, options.faults));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(WriteExport(folder, names, write, options.faults));
  return names;
}

absl::StatusOr<ImportedWeights> ImportWeights(
    const WeightFiles& files, const WeightLayout& layout,
    const std::function<absl::StatusOr<bool>(const std::string& name)>& left_out,
    const ImportTarget& target) {
  ImportedWeights imported;
  ASSIGN_OR_RETURN(imported.widened, CheckTheirs(files, layout, left_out));
  std::vector<TensorEntry> entries;
  std::map<std::string, std::pair<const WeightPair*, size_t>> place;  // of our parameters
  for (const WeightPair& pair : layout.pairs) {
    for (size_t i = 0; i < pair.ours.size(); ++i) {
      const TensorEntry& ours = pair.ours[i];
      entries.push_back(ours);
      place[ours.name] = {&pair, i};
      if (!pair.trained) continue;
      for (const std::string& state : layout.states) {
        entries.push_back({ours.name + state, ours.dtype, ours.shape});
      }
    }
  }
  CheckpointMeta meta;
  meta.seed = 1;
  meta.options = target.options;
  const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    const auto found = place.find(entry.name);
    if (found == place.end()) return HostTensor(entry.dtype, entry.shape);
    return ReadOurs(files, *found->second.first, found->second.second);
  };
  ASSIGN_OR_RETURN(imported.checkpoint,
                   WriteImport(target.out, meta, entries, source, target.files));
  return imported;
}

}  // namespace sluice
