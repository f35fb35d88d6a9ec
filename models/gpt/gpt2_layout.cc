#include "models/gpt/gpt2_layout.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/hub_byte_pairs.h"
#include "framework/train/hub_config.h"
#include "framework/train/run_files.h"
#include "framework/train/weight_files.h"
#include "framework/train/weight_layout.h"
#include "models/gpt/gpt.h"
#include "models/gpt/tokenizer.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kPrefix[] = "transformer.", kTable[] = "wte.weight";
constexpr int64_t kGpt2Vocabulary = 50257, kGpt2EndOfText = 50256;

// As they are named under `prefix`.
WeightLayout LayoutOf(const GptConfig& c, const std::string& prefix) {
  const int64_t h = c.hidden;
  WeightLayout layout = {"GPT-2", {}, {".m", ".v"}};
  const auto add = [&](const std::string& theirs, const std::vector<std::string>& ours,
                       const Shape& shape) {
    layout.pairs.push_back(PairWeights(prefix + theirs, ours, shape));
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
  add(kTable, {"embedding/table"}, {c.vocabulary, h});
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
  return layout;
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
               {"attn_pdrop", c.attention_dropout},
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

absl::StatusOr<GptConfig> ReadConfig(const HubConfig& hub) {
  // A model with another head is another task; GPT2Model has none, and its table serves as one.
  RETURN_IF_ERROR(hub.ExpectModel("gpt2", {"GPT2LMHeadModel", "GPT2Model"}));
  GptConfig c;
  RETURN_IF_ERROR(hub.ReadIntegers({{"vocab_size", &c.vocabulary},
                                    {"n_positions", &c.sequence_length},
                                    {"n_embd", &c.hidden},
                                    {"n_layer", &c.layers},
                                    {"n_head", &c.heads}}));
  RETURN_IF_ERROR(AddContext(CheckGpt(c, 1), hub.path()));
  RETURN_IF_ERROR(hub.Expect("activation_function", {"\"gelu_new\"", "\"gelu_pytorch_tanh\""}));
  RETURN_IF_ERROR(hub.Expect("layer_norm_epsilon", {"1e-05"}));
  RETURN_IF_ERROR(hub.Expect("n_inner", {"null", absl::StrCat(4 * c.hidden)}));
  RETURN_IF_ERROR(hub.Expect("scale_attn_weights", {"true"}));
  RETURN_IF_ERROR(hub.Expect("scale_attn_by_inverse_layer_idx", {"false"}));
  RETURN_IF_ERROR(hub.Expect("tie_word_embeddings", {"true"}));
  return c;
}

// Tensors of their file that say nothing of their own: masks, and the head, if it is the table.
absl::StatusOr<bool> MayLeaveOut(const WeightFiles& files, const std::string& name,
                                 const std::string& table) {
  if (absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias")) return true;
  if (name != "lm_head.weight") return false;
  ASSIGN_OR_RETURN(const HostTensor head, files.ReadAsF32(name));
  ASSIGN_OR_RETURN(const HostTensor embedding, files.ReadAsF32(table));
  if (head.bytes == embedding.bytes) return true;
  return absl::InvalidArgumentError(absl::StrCat(
      files.Where(name), ": expected ", files.FullName(table), " again, got another tensor"));
}

// The byte pairs of the run, if it has any, under the hub's names.
absl::StatusOr<std::map<std::string, std::string>> TextsOf(const Checkpoint& checkpoint,
                                                           const GptConfig& config) {
  std::map<std::string, std::string> texts;
  const std::string run = RunFolderOf(checkpoint.path());
  if (HasBytePairs(run)) {
    ASSIGN_OR_RETURN(const HubBytePairs pairs, ReadBytePairs(run));
    texts = BytePairHubFiles(pairs);
  }
  texts[kConfigFile] = ConfigJson(config).dump(2) + "\n";
  return texts;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportGpt2(const std::string& path, int64_t heads,
                                                    const std::string& folder,
                                                    const ExportOptions& options) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  ASSIGN_OR_RETURN(GptConfig config, SizesOf(checkpoint, path, heads));
  const std::map<std::string, std::string>& recorded = checkpoint.meta().options;
  config.dropout = NumberAmong(recorded, "dropout", 0);
  config.attention_dropout = NumberAmong(recorded, "attention_dropout", 0);
  using Texts = std::map<std::string, std::string>;
  ASSIGN_OR_RETURN(const Texts texts, TextsOf(checkpoint, config));
  return ExportWeights(checkpoint, LayoutOf(config, ""), texts, folder, options);
}

absl::StatusOr<ImportedWeights> ImportGpt2(const std::string& folder, const std::string& out) {
  ASSIGN_OR_RETURN(const HubConfig hub, HubConfig::Read(folder));
  ASSIGN_OR_RETURN(const GptConfig config, ReadConfig(hub));
  ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::Open(folder));
  const std::string prefixed = absl::StrCat(kPrefix, kTable);
  RETURN_IF_ERROR(files.Unwrap({prefixed, kTable}));
  const bool has_prefix = NameIndex<StoredTensor>(files.tensors()).Find(prefixed) != nullptr;
  const std::string prefix = has_prefix ? kPrefix : "";
  const auto left_out = [&](const std::string& name) {
    return MayLeaveOut(files, name, prefix + kTable);
  };
  ImportTarget target = {out,
                         {{"layers", absl::StrCat(config.layers)},
                          {"hidden", absl::StrCat(config.hidden)},
                          {"heads", absl::StrCat(config.heads)},
                          {"sequence_length", absl::StrCat(config.sequence_length)},
                          {"vocabulary", absl::StrCat(config.vocabulary)}}};
  ASSIGN_OR_RETURN(target.files, TokenizerFiles(folder, config.vocabulary));
  ASSIGN_OR_RETURN(ImportedWeights imported,
                   ImportWeights(files, LayoutOf(config, prefix), left_out, target));
  if (!target.files.at(kEncoderFile)) {
    imported.remarks.push_back(
        absl::StrCat(folder, " has no byte pairs (vocab.json and merges.txt, or tokenizer.json): ",
                     config.vocabulary == Tokenizer().size()
                         ? "tokens are taken for bytes"
                         : "the run learns from files of tokens, or from text with --tokenizer"));
  }
  return imported;
}

}  // namespace sluice
