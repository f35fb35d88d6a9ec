#include "models/bert/bert_layout.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/hub_config.h"
#include "models/bert/bert.h"
#include "models/bert/vocabulary_file.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kPrefix[] = "bert.";

// What of a model is there besides its encoder.
struct Heads {
  bool pooler = false, masked = false, next_sentence = false, classes = false;
};

// How a file names its tensors.
struct Names {
  std::string prefix;      // of the encoder's
  bool old_norms = false;  // gamma and beta, as files of Google's weights have them
};

// The pairs of a model, in the order of Hugging Face's state_dict.
class PairList {
 public:
  explicit PairList(const Names& names) : names_(names) {}

  void Add(const std::string& theirs, const std::string& ours, const Shape& shape,
           const std::vector<int>& axes = {}) {
    pairs_.push_back(PairWeights(theirs, {ours}, shape, axes));
  }
  void AddLinear(const std::string& theirs, const std::string& ours, int64_t in, int64_t out) {
    Add(theirs + ".weight", ours + "/weight", {in, out}, {1, 0});
    Add(theirs + ".bias", ours + "/bias", {out});
  }
  void AddNorm(const std::string& theirs, const std::string& ours, int64_t width) {
    Add(theirs + (names_.old_norms ? ".gamma" : ".weight"), ours + "/gamma", {width});
    Add(theirs + (names_.old_norms ? ".beta" : ".bias"), ours + "/beta", {width});
  }
  std::vector<WeightPair> Take() { return std::move(pairs_); }

 private:
  const Names& names_;
  std::vector<WeightPair> pairs_;
};

void AddLayer(const std::string& theirs, const std::string& ours, int64_t hidden, PairList* pairs) {
  for (const auto& [their_name, our_name] :
       {std::pair{"query", "q"}, std::pair{"key", "k"}, std::pair{"value", "v"}}) {
    pairs->AddLinear(absl::StrCat(theirs, "attention.self.", their_name),
                     absl::StrCat(ours, "attn/", our_name), hidden, hidden);
  }
  pairs->AddLinear(theirs + "attention.output.dense", ours + "attn/out", hidden, hidden);
  pairs->AddNorm(theirs + "attention.output.LayerNorm", ours + "norm1", hidden);
  pairs->AddLinear(theirs + "intermediate.dense", ours + "mlp/up", hidden, 4 * hidden);
  pairs->AddLinear(theirs + "output.dense", ours + "mlp/down", 4 * hidden, hidden);
  pairs->AddNorm(theirs + "output.LayerNorm", ours + "norm2", hidden);
}

WeightLayout LayoutOf(const BertConfig& c, const Heads& heads, const Names& names) {
  PairList pairs(names);
  const std::string &encoder = names.prefix, embeddings = encoder + "embeddings.";
  const int64_t h = c.hidden;
  pairs.Add(embeddings + "word_embeddings.weight", "embedding/table", {c.vocabulary, h});
  pairs.Add(embeddings + "position_embeddings.weight", "embedding/positions/table",
            {c.positions, h});
  pairs.Add(embeddings + "token_type_embeddings.weight", "embedding/segments/table", {2, h});
  pairs.AddNorm(embeddings + "LayerNorm", "embedding/norm", h);
  for (int64_t i = 0; i < c.layers; ++i) {
    AddLayer(absl::StrCat(encoder, "encoder.layer.", i, "."), absl::StrCat("h", i, "/"), h, &pairs);
  }
  if (heads.pooler) pairs.AddLinear(encoder + "pooler.dense", "pooler", h, h);
  if (heads.masked) {
    pairs.Add("cls.predictions.bias", "masked/bias", {c.vocabulary});
    pairs.AddLinear("cls.predictions.transform.dense", "masked/transform", h, h);
    pairs.AddNorm("cls.predictions.transform.LayerNorm", "masked/norm", h);
  }
  if (heads.next_sentence) pairs.AddLinear("cls.seq_relationship", "next_sentence", h, 2);
  if (heads.classes) pairs.AddLinear("classifier", "classifier", h, c.classes);
  return {"BERT", pairs.Take(), {".m", ".v"}};
}

// ---- out ----

absl::StatusOr<Shape> MatrixOf(const NameIndex<TensorEntry>& tensors, const std::string& path,
                               const std::string& name) {
  const TensorEntry* found = tensors.Find(name);
  if (found != nullptr && found->shape.rank() == 2) return found->shape;
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected a BERT's ", name));
}

absl::StatusOr<BertConfig> SizesOf(const Checkpoint& checkpoint, Heads* heads) {
  const std::string& path = checkpoint.path();
  const NameIndex<TensorEntry> tensors(checkpoint.tensors());
  BertConfig c;
  ASSIGN_OR_RETURN(const Shape table, MatrixOf(tensors, path, "embedding/table"));
  ASSIGN_OR_RETURN(const Shape positions, MatrixOf(tensors, path, "embedding/positions/table"));
  c.vocabulary = table[0];
  c.hidden = table[1];
  c.positions = c.sequence_length = positions[0];
  c.predictions = 1;
  c.layers = 0;
  while (tensors.Find(absl::StrCat("h", c.layers, "/norm1/gamma")) != nullptr) ++c.layers;
  heads->pooler = tensors.HasPrefix("pooler/");
  heads->masked = tensors.HasPrefix("masked/");
  heads->next_sentence = tensors.HasPrefix("next_sentence/");
  heads->classes = tensors.HasPrefix("classifier/");
  if (heads->classes) {
    ASSIGN_OR_RETURN(const Shape classes, MatrixOf(tensors, path, "classifier/weight"));
    c.classes = classes[1];
  }
  const std::map<std::string, std::string>& options = checkpoint.meta().options;
  const auto said = options.find("heads");
  if (said == options.end() || !absl::SimpleAtoi(said->second, &c.heads)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the number of heads among its options"));
  }
  const auto tanh = options.find("tanh_gelu");
  c.tanh_gelu = tanh != options.end() && tanh->second == "true";
  c.dropout = NumberAmong(options, "dropout", c.dropout);
  c.attention_dropout = NumberAmong(options, "attention_dropout", c.attention_dropout);
  RETURN_IF_ERROR(AddContext(CheckBert(c, 1), path));
  return c;
}

Json ConfigJson(const BertConfig& c, const Heads& heads) {
  Json json = {{"model_type", "bert"},
               {"architectures",
                {heads.classes  ? "BertForSequenceClassification"
                 : heads.masked ? "BertForPreTraining"
                                : "BertModel"}},
               {"vocab_size", c.vocabulary},
               {"hidden_size", c.hidden},
               {"num_hidden_layers", c.layers},
               {"num_attention_heads", c.heads},
               {"intermediate_size", 4 * c.hidden},
               {"hidden_act", c.tanh_gelu ? "gelu_new" : "gelu"},
               {"hidden_dropout_prob", c.dropout},
               {"attention_probs_dropout_prob", c.attention_dropout},
               {"max_position_embeddings", c.positions},
               {"type_vocab_size", 2},
               {"initializer_range", 0.02},
               {"layer_norm_eps", 1e-12},
               {"pad_token_id", 0},
               {"position_embedding_type", "absolute"},
               {"torch_dtype", "float32"}};
  if (heads.classes) {
    Json id2label = Json::object(), label2id = Json::object();
    for (int64_t i = 0; i < c.classes; ++i) {
      const std::string label = absl::StrCat("LABEL_", i);
      id2label[absl::StrCat(i)] = label;
      label2id[label] = i;
    }
    json["id2label"] = std::move(id2label);
    json["label2id"] = std::move(label2id);
  }
  return json;
}

// ---- in ----

absl::StatusOr<BertConfig> ReadConfig(const HubConfig& hub) {
  BertConfig c;
  int64_t inner = 0, segments = 0;
  RETURN_IF_ERROR(hub.ReadIntegers({{"vocab_size", &c.vocabulary},
                                    {"hidden_size", &c.hidden},
                                    {"num_hidden_layers", &c.layers},
                                    {"num_attention_heads", &c.heads},
                                    {"intermediate_size", &inner},
                                    {"max_position_embeddings", &c.positions},
                                    {"type_vocab_size", &segments}}));
  c.sequence_length = c.positions;
  c.predictions = 1;
  RETURN_IF_ERROR(AddContext(CheckBert(c, 1), hub.path()));
  RETURN_IF_ERROR(hub.Expect("model_type", {"\"bert\""}));
  RETURN_IF_ERROR(hub.Expect("intermediate_size", {absl::StrCat(4 * c.hidden)}));
  RETURN_IF_ERROR(hub.Expect("type_vocab_size", {"2"}));
  RETURN_IF_ERROR(hub.Expect("layer_norm_eps", {"1e-12"}));
  RETURN_IF_ERROR(hub.Expect("position_embedding_type", {"\"absolute\""}));
  RETURN_IF_ERROR(hub.Expect("tie_word_embeddings", {"true"}));
  RETURN_IF_ERROR(hub.Expect("is_decoder", {"false"}));
  ASSIGN_OR_RETURN(const size_t activation,
                   hub.Which("hidden_act", {"\"gelu\"", "\"gelu_new\"", "\"gelu_pytorch_tanh\""}));
  c.tanh_gelu = activation > 0;
  return c;
}

// What is there by its names; the classes by the shape.
Names NamesIn(const SafetensorsReader& file, Heads* heads, BertConfig* c) {
  const NameIndex<StoredTensor> stored(file.stored());
  Names names;
  if (stored.HasPrefix(kPrefix)) names.prefix = kPrefix;
  names.old_norms = stored.Find(names.prefix + "embeddings.LayerNorm.gamma") != nullptr;
  heads->pooler = stored.HasPrefix(names.prefix + "pooler.");
  heads->masked = stored.HasPrefix("cls.predictions.");
  heads->next_sentence = stored.HasPrefix("cls.seq_relationship.");
  const StoredTensor* classes = stored.Find("classifier.bias");
  heads->classes = classes != nullptr;
  if (heads->classes && classes->shape.rank() == 1) c->classes = classes->shape[0];
  return names;
}

// Tensors of their file that say nothing of their own: positions counted up, and the head's matrix
// and bias, if they are the table and the other bias again.
absl::StatusOr<bool> MayLeaveOut(const SafetensorsReader& file, const Names& names,
                                 const std::string& name) {
  if (name == names.prefix + "embeddings.position_ids") return true;
  const std::map<std::string, std::string> again = {
      {"cls.predictions.decoder.weight", names.prefix + "embeddings.word_embeddings.weight"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  const auto found = again.find(name);
  if (found == again.end()) return false;
  ASSIGN_OR_RETURN(const HostTensor one, file.ReadAsF32(name));
  ASSIGN_OR_RETURN(const HostTensor other, file.ReadAsF32(found->second));
  if (one.bytes == other.bytes) return true;
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", name, ": expected ",
                                                 found->second, " again, got another tensor"));
}

}  // namespace

absl::StatusOr<std::string> ExportBert(const std::string& path, const std::string& folder,
                                       FileFaults* faults) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  Heads heads;
  ASSIGN_OR_RETURN(const BertConfig config, SizesOf(checkpoint, &heads));
  std::map<std::string, std::string> texts = {
      {kConfigFile, ConfigJson(config, heads).dump(2) + "\n"}};
  const std::string vocabulary = VocabularyOfRun(path);
  std::error_code error;
  if (fs::exists(vocabulary, error)) {
    ASSIGN_OR_RETURN(texts[kVocabularyFile], ReadText(vocabulary, kVocabularyLimit));
  }
  const Names names = {heads.classes || heads.masked ? kPrefix : ""};
  RETURN_IF_ERROR(ExportWeights(checkpoint, LayoutOf(config, heads, names), texts, folder, faults));
  std::vector<std::string> written = {kWeightsFile};
  for (const auto& [name, text] : texts) written.push_back(name);
  return absl::StrJoin(written, ", ");
}

absl::StatusOr<ImportedWeights> ImportBert(const std::string& folder, const std::string& out) {
  ASSIGN_OR_RETURN(const HubConfig hub, HubConfig::Read(folder));
  ASSIGN_OR_RETURN(BertConfig config, ReadConfig(hub));
  ASSIGN_OR_RETURN(const SafetensorsReader file,
                   SafetensorsReader::Open(absl::StrCat(folder, "/", kWeightsFile)));
  Heads heads;
  const Names names = NamesIn(file, &heads, &config);
  const auto left_out = [&](const std::string& name) { return MayLeaveOut(file, names, name); };
  ASSIGN_OR_RETURN(ImportedWeights imported,
                   ImportWeights(file, LayoutOf(config, heads, names), left_out,
                                 {{"layers", absl::StrCat(config.layers)},
                                  {"hidden", absl::StrCat(config.hidden)},
                                  {"heads", absl::StrCat(config.heads)},
                                  {"vocabulary", absl::StrCat(config.vocabulary)},
                                  {"positions", absl::StrCat(config.positions)},
                                  {"sequence_length", absl::StrCat(config.positions)},
                                  {"task", heads.classes ? "classify" : "pretrain"},
                                  {"classes", absl::StrCat(config.classes)},
                                  {"tanh_gelu", config.tanh_gelu ? "true" : "false"}},
                                 out));
  const std::string vocabulary = absl::StrCat(folder, "/", kVocabularyFile);
  std::error_code error;
  if (fs::exists(vocabulary, error)) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(vocabulary, kVocabularyLimit));
    ASSIGN_OR_RETURN(FileWriter to,
                     FileWriter::Create(VocabularyOfRun(imported.checkpoint), nullptr));
    RETURN_IF_ERROR(to.Append(text));
    RETURN_IF_ERROR(to.Close());
  }
  return imported;
}

}  // namespace sluice
