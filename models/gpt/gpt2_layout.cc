#include "models/gpt/gpt2_layout.h"

#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/json.h"
#include "framework/train/run_lock.h"
#include "models/gpt/gpt.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kPrefix[] = "transformer.";
constexpr char kImported[] = "step-000000";
constexpr char kModelFile[] = "model.safetensors", kConfigFile[] = "config.json";
constexpr int64_t kConfigLimit = 1'000'000;
constexpr int64_t kGpt2Vocabulary = 50257, kGpt2EndOfText = 50256;

// A tensor there and the parameters here whose last dimensions, laid side by side, make it.
struct Pair {
  TensorEntry theirs;
  std::vector<TensorEntry> ours;
};

std::vector<Pair> Pairs(const GptConfig& c) {
  const int64_t h = c.hidden;
  std::vector<Pair> pairs;
  const auto add = [&pairs](const std::string& theirs, const std::vector<std::string>& ours,
                            const Shape& shape) {
    Pair pair;
    Shape fused = shape;
    fused[shape.rank() - 1] *= static_cast<int64_t>(ours.size());
    pair.theirs = {theirs, DType::kF32, fused};
    for (const std::string& name : ours) pair.ours.push_back({name, DType::kF32, shape});
    pairs.push_back(std::move(pair));
  };
  const auto norm = [&](const std::string& theirs, const std::string& ours) {
    add(theirs + ".weight", {ours + "/gamma"}, {h});
    add(theirs + ".bias", {ours + "/beta"}, {h});
  };
  const auto linear = [&](const std::string& theirs, const std::vector<std::string>& ours,
                          int64_t in, int64_t out) {
    std::vector<std::string> weights, biases;
    for (const std::string& name : ours) weights.push_back(name + "/weight");
    for (const std::string& name : ours) biases.push_back(name + "/bias");
    add(theirs + ".weight", weights, {in, out});
    add(theirs + ".bias", biases, {out});
  };
  add("wte.weight", {"embedding/table"}, {c.vocabulary, h});
  add("wpe.weight", {"positions/table"}, {c.sequence_length, h});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string there = absl::StrCat("h.", i, "."), here = absl::StrCat("h", i, "/");
    norm(there + "ln_1", here + "norm1");
    linear(there + "attn.c_attn", {here + "attn/q", here + "attn/k", here + "attn/v"}, h, h);
    linear(there + "attn.c_proj", {here + "attn/out"}, h, h);
    norm(there + "ln_2", here + "norm2");
    linear(there + "mlp.c_fc", {here + "mlp/up"}, h, 4 * h);
    linear(there + "mlp.c_proj", {here + "mlp/down"}, 4 * h, h);
  }
  norm("ln_f", "norm");
  return pairs;
}

std::string TypeOf(const TensorEntry& e) {
  return absl::StrCat(DTypeName(e.dtype), e.shape.ToString());
}

absl::Status CheckType(absl::string_view where, const TensorEntry& expected,
                       const TensorEntry& got) {
  if (expected.dtype == got.dtype && expected.shape == got.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", got.name, ": expected ", TypeOf(expected), ", got ", TypeOf(got)));
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

 private:
  std::map<std::string, const Entry*> by_name_;
};

bool IsSixteenBits(const StoredTensor& tensor) {
  return tensor.dtype == "F16" || tensor.dtype == "BF16";
}

// A tensor of theirs may be of F16 or BF16 as well.
absl::Status CheckStored(absl::string_view where, const TensorEntry& expected,
                         const StoredTensor& got) {
  if ((got.dtype == "F32" || IsSixteenBits(got)) && got.shape == expected.shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", got.name, ": expected F32, F16 or BF16 ", expected.shape.ToString(),
                   ", got ", got.dtype, " ", got.shape.ToString()));
}

bool IsState(absl::string_view name) {
  return absl::EndsWith(name, ".m") || absl::EndsWith(name, ".v") ||
         absl::EndsWith(name, ".momentum");
}

absl::StatusOr<GptConfig> SizesOf(const Checkpoint& checkpoint, const std::string& path,
                                  int64_t heads) {
  GptConfig c;
  const NameIndex<TensorEntry> tensors(checkpoint.tensors());
  const TensorEntry* table = tensors.Find("embedding/table");
  const TensorEntry* positions = tensors.Find("positions/table");
  if (table == nullptr || positions == nullptr || table->shape.rank() != 2 ||
      positions->shape.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a GPT's embedding/table and positions/table"));
  }
  c.vocabulary = table->shape[0];
  c.hidden = table->shape[1];
  c.sequence_length = positions->shape[0];
  c.layers = 0;
  while (tensors.Find(absl::StrCat("h", c.layers, "/norm1/gamma")) != nullptr) ++c.layers;
  c.heads = heads;
  const auto said = checkpoint.meta().options.find("heads");
  if (heads == 0 &&
      (said == checkpoint.meta().options.end() || !absl::SimpleAtoi(said->second, &c.heads))) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the number of heads among its options, or as --heads"));
  }
  RETURN_IF_ERROR(AddContext(CheckGpt(c, 1), path));
  return c;
}

Json ConfigJson(const GptConfig& c) {
  Json json = {{"model_type", "gpt2"},
               {"architectures", {"GPT2LMHeadModel"}},
               {"vocab_size", c.vocabulary},
               {"n_positions", c.sequence_length},
               {"n_embd", c.hidden},
               {"n_layer", c.layers},
               {"n_head", c.heads},
               {"n_inner", nullptr},
               {"activation_function", "gelu_new"},
               {"resid_pdrop", c.dropout},
               {"embd_pdrop", c.dropout},
               {"attn_pdrop", 0.0},
               {"layer_norm_epsilon", 1e-5},
               {"initializer_range", 0.02},
               {"scale_attn_weights", true},
               {"tie_word_embeddings", true},
               {"use_cache", true},
               {"torch_dtype", "float32"}};
  const bool words = c.vocabulary >= kGpt2Vocabulary;  // bytes have no mark for the end of a text
  json["bos_token_id"] = words ? Json(kGpt2EndOfText) : Json(nullptr);
  json["eos_token_id"] = json["bos_token_id"];
  return json;
}

absl::StatusOr<GptConfig> ReadConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kConfigLimit));
  RETURN_IF_ERROR(CheckJsonObject(text, path));
  const Json json = Json::parse(text);
  GptConfig c;
  for (const auto& [key, to] :
       std::initializer_list<std::pair<const char*, int64_t*>>{{"vocab_size", &c.vocabulary},
                                                               {"n_positions", &c.sequence_length},
                                                               {"n_embd", &c.hidden},
                                                               {"n_layer", &c.layers},
                                                               {"n_head", &c.heads}}) {
    if (!json.contains(key) || !json[key].is_number_integer()) {
      return absl::DataLossError(absl::StrCat(path, ": ", key, ": expected an integer"));
    }
    *to = json[key].get<int64_t>();
  }
  RETURN_IF_ERROR(AddContext(CheckGpt(c, 1), path));
  // What is not said has the value that Hugging Face gives it.
  const auto expect = [&](const char* key, const std::vector<Json>& expected) {
    const Json got = json.contains(key) ? json[key] : expected[0];
    for (const Json& one : expected) {
      if (got == one) return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", key, ": expected ", expected[0].dump(), ", got ", got.dump().substr(0, 60)));
  };
  RETURN_IF_ERROR(expect("model_type", {"gpt2"}));
  RETURN_IF_ERROR(expect("activation_function", {"gelu_new", "gelu_pytorch_tanh"}));
  RETURN_IF_ERROR(expect("layer_norm_epsilon", {1e-5}));
  RETURN_IF_ERROR(expect("n_inner", {nullptr, 4 * c.hidden}));
  RETURN_IF_ERROR(expect("scale_attn_weights", {true}));
  RETURN_IF_ERROR(expect("scale_attn_by_inverse_layer_idx", {false}));
  RETURN_IF_ERROR(expect("tie_word_embeddings", {true}));
  return c;
}

// Tensors of their file that say nothing of their own: masks, and the head, if it is the table.
absl::StatusOr<bool> MayLeaveOut(const SafetensorsReader& file, const std::string& path,
                                 const std::string& name, const std::string& table) {
  if (absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias")) return true;
  if (name != "lm_head.weight") return false;
  ASSIGN_OR_RETURN(const HostTensor head, file.ReadAsF32(name));
  ASSIGN_OR_RETURN(const HostTensor embedding, file.ReadAsF32(table));
  if (head.bytes == embedding.bytes) return true;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": lm_head.weight: expected ", table, " again, got another tensor"));
}

// The shard of a tensor of theirs that is parameter `index` of its pair.
absl::StatusOr<HostTensor> ReadShard(const SafetensorsReader& file, const std::string& name,
                                     const Pair& pair, size_t index) {
  ASSIGN_OR_RETURN(HostTensor whole, file.ReadAsF32(name));
  HostTensor shard(DType::kF32, pair.ours[index].shape);
  const int64_t width = shard.shape[shard.shape.rank() - 1];
  CopyColumns(false, static_cast<int64_t>(index) * width, &whole, &shard);
  return shard;
}

// Into a folder that is there already, the new one goes as a whole: what else lay there would be
// lost, so there must be nothing else.
absl::Status CheckOlderExport(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    if (name == kModelFile || name == kConfigFile) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("export: expected a new folder or one with an older export alone, ", folder,
                     " also has ", name));
  }
  return absl::OkStatus();
}

absl::Status WriteFiles(const std::string& folder, const GptConfig& config,
                        const std::vector<TensorEntry>& entries, const TensorSource& source,
                        FileFaults* faults) {
  RETURN_IF_ERROR(RemoveTree(folder, faults));
  RETURN_IF_ERROR(CreateDirectories(folder, faults));
  RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(folder, "/", kModelFile), entries,
                                   {{"format", "pt"}}, source, faults));
  ASSIGN_OR_RETURN(FileWriter file,
                   FileWriter::Create(absl::StrCat(folder, "/", kConfigFile), faults));
  RETURN_IF_ERROR(file.Append(ConfigJson(config).dump(2) + "\n"));
  RETURN_IF_ERROR(file.Close());
  return SyncDirectory(folder, faults);
}

// Beside its place first, so that at every moment there is an older export or this one, whole.
absl::Status WriteUnfinished(const std::string& folder, const std::string& unfinished,
                             const GptConfig& config, const std::vector<TensorEntry>& entries,
                             const TensorSource& source, FileFaults* faults) {
  absl::Status status = WriteFiles(unfinished, config, entries, source, faults);
  if (status.ok()) status = ReplaceDirectory(unfinished, folder, faults);
  if (!status.ok()) {
    RemoveTree(unfinished, faults).IgnoreError();  // the first error is the one to tell
    return status;
  }
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  RETURN_IF_ERROR(SyncDirectory(parent, faults));
  return RemoveTree(unfinished, faults);  // the older one
}

// One path for one folder, whether it exists or not and however it is named.
absl::StatusOr<std::filesystem::path> PlaceOf(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path place =
      std::filesystem::weakly_canonical(std::filesystem::absolute(folder, error), error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(folder, ": cannot follow"));
  return place.has_filename() ? place : place.parent_path();  // "hf/" is "hf"
}

absl::Status WriteFolder(const std::string& to, const GptConfig& config,
                         const std::vector<TensorEntry>& entries, const TensorSource& source,
                         FileFaults* faults) {
  ASSIGN_OR_RETURN(const std::filesystem::path place, PlaceOf(to));
  const std::string folder = place.string(), unfinished = folder + ".export.tmp";
  RETURN_IF_ERROR(CheckOlderExport(folder));
  RETURN_IF_ERROR(CreateDirectories(place.parent_path().string(), faults));
  // While it is held, what is there unfinished is of a process that is no more.
  ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(folder + ".export.lock", folder));
  const absl::Status status = WriteUnfinished(folder, unfinished, config, entries, source, faults);
  lock.RemoveFile();
  return status;
}

// Where a folder is the checkpoints of a run, by the name it is given or by the one it has, that
// run's is locked, as by who trains there.
absl::StatusOr<std::string> FolderToLock(const std::string& out) {
  std::error_code error;
  const std::filesystem::path named =
      (std::filesystem::absolute(out, error) / "").lexically_normal().parent_path();
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(out, ": cannot follow"));
  if (named.filename() == "checkpoints") return named.parent_path().string();
  ASSIGN_OR_RETURN(const std::filesystem::path place, PlaceOf(out));
  return (place.filename() == "checkpoints" ? place.parent_path() : place).string();
}

// A run that has come further is not to find another model at its beginning.
absl::Status CheckOlderImport(const std::string& out) {
  const absl::StatusOr<std::string> newest = LatestCheckpoint(out);
  if (absl::IsNotFound(newest.status())) return absl::OkStatus();
  RETURN_IF_ERROR(newest.status());
  const std::string name = std::filesystem::path(*newest).filename().string();
  if (name == kImported) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("import: expected a new folder or one with an older import alone, ", out,
                   " also has ", name));
}

}  // namespace

absl::Status ExportGpt2(const std::string& path, int64_t heads, const std::string& folder,
                        FileFaults* faults) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  ASSIGN_OR_RETURN(GptConfig config, SizesOf(checkpoint, path, heads));
  config.dropout = 0;
  const std::vector<Pair> pairs = Pairs(config);
  std::set<std::string> known;
  const NameIndex<TensorEntry> tensors(checkpoint.tensors());
  std::vector<TensorEntry> entries;
  std::map<std::string, const Pair*> pair_of;
  for (const Pair& pair : pairs) {
    for (const TensorEntry& ours : pair.ours) {
      const TensorEntry* got = tensors.Find(ours.name);
      if (got == nullptr) {
        return absl::NotFoundError(absl::StrCat(path, ": expected a tensor ", ours.name));
      }
      RETURN_IF_ERROR(CheckType(path, ours, *got));
      known.insert(ours.name);
    }
    entries.push_back(pair.theirs);
    pair_of[pair.theirs.name] = &pair;
  }
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (IsState(entry.name) || known.count(entry.name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", entry.name, " has no place in GPT-2"));
  }
  const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    HostTensor whole(entry.dtype, entry.shape);
    int64_t begin = 0;
    for (const TensorEntry& ours : pair_of[entry.name]->ours) {
      ASSIGN_OR_RETURN(HostTensor shard, checkpoint.Read(ours.name));
      CopyColumns(true, begin, &whole, &shard);
      begin += ours.shape[ours.shape.rank() - 1];
    }
    return whole;
  };
  return WriteFolder(folder, config, entries, source, faults);
}

absl::StatusOr<ImportedGpt2> ImportGpt2(const std::string& folder, const std::string& out) {
  ASSIGN_OR_RETURN(const GptConfig config, ReadConfig(absl::StrCat(folder, "/", kConfigFile)));
  const std::string path = absl::StrCat(folder, "/", kModelFile);
  ASSIGN_OR_RETURN(const SafetensorsReader file, SafetensorsReader::Open(path));
  const NameIndex<StoredTensor> stored(file.stored());
  const bool prefixed = stored.Find(absl::StrCat(kPrefix, "wte.weight")) != nullptr;
  const std::string prefix = prefixed ? kPrefix : "";
  const std::vector<Pair> pairs = Pairs(config);
  ImportedGpt2 imported;
  std::set<std::string> known;
  std::vector<TensorEntry> entries;
  std::map<std::string, std::pair<const Pair*, size_t>> place;  // of our parameters
  for (const Pair& pair : pairs) {
    const std::string name = prefix + pair.theirs.name;
    const StoredTensor* got = stored.Find(name);
    if (got == nullptr)
      return absl::NotFoundError(absl::StrCat(path, ": expected a tensor ", name));
    RETURN_IF_ERROR(CheckStored(path, pair.theirs, *got));
    if (IsSixteenBits(*got)) ++imported.widened;
    known.insert(name);
    for (size_t i = 0; i < pair.ours.size(); ++i) {
      const TensorEntry& ours = pair.ours[i];
      entries.push_back(ours);
      place[ours.name] = {&pair, i};
      for (const char* state : {".m", ".v"}) {
        entries.push_back({ours.name + state, ours.dtype, ours.shape});
      }
    }
  }
  for (const StoredTensor& entry : file.stored()) {
    if (known.count(entry.name) > 0) continue;
    ASSIGN_OR_RETURN(const bool fine, MayLeaveOut(file, path, entry.name, prefix + "wte.weight"));
    if (!fine) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", entry.name, " is not GPT-2's"));
    }
  }
  CheckpointMeta meta;
  meta.seed = 1;
  meta.options = {{"layers", absl::StrCat(config.layers)},
                  {"hidden", absl::StrCat(config.hidden)},
                  {"heads", absl::StrCat(config.heads)},
                  {"sequence_length", absl::StrCat(config.sequence_length)}};
  RETURN_IF_ERROR(CreateDirectories(out));
  ASSIGN_OR_RETURN(const std::string locked, FolderToLock(out));
  ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(locked));
  RETURN_IF_ERROR(CheckOlderImport(out));
  const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    const auto found = place.find(entry.name);
    if (found == place.end()) return HostTensor(entry.dtype, entry.shape);
    const Pair& pair = *found->second.first;
    return ReadShard(file, prefix + pair.theirs.name, pair, found->second.second);
  };
  absl::StatusOr<std::string> saved = SaveCheckpoint(out, meta, entries, source);
  if (lock.fresh()) lock.RemoveFile();
  ASSIGN_OR_RETURN(imported.checkpoint, std::move(saved));
  return imported;
}

}  // namespace sluice
