#include "models/bert/bert_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/hub_config.h"
#include "framework/train/hub_tokenizer.h"
#include "framework/train/hub_word_pieces.h"
#include "framework/train/run_files.h"
#include "framework/train/weight_files.h"
#include "models/bert/bert.h"
#include "models/bert/class_names.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kPrefix[] = "bert.", kTable[] = "embeddings.word_embeddings.weight";
constexpr char kClassifier[] = "BertForSequenceClassification";

// The first is what a model without classes is exported as.
const std::vector<std::string>& Architectures() {
  static const auto& names =
      *new std::vector<std::string>{"BertForPreTraining", "BertForMaskedLM",
                                    "BertForNextSentencePrediction", "BertModel", kClassifier};
  return names;
}

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
  pairs.Add(encoder + kTable, "embedding/table", {c.vocabulary, h});
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

// `classes` are names, or none.
Json ConfigJson(const BertConfig& c, const Heads& heads, const std::vector<std::string>& classes) {
  Json json = {{"model_type", "bert"},
               {"architectures",
                {heads.classes  ? kClassifier
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
      const bool named = static_cast<int64_t>(classes.size()) == c.classes;
      const std::string label = named ? classes[i] : absl::StrCat("LABEL_", i);
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
  RETURN_IF_ERROR(hub.ExpectModel("bert", Architectures()));
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

// Finds out what is there by its names, and how many classes by the shape.
absl::StatusOr<Names> FindNames(WeightFiles* files, Heads* heads, BertConfig* c) {
  const std::string prefixed = absl::StrCat(kPrefix, kTable);
  RETURN_IF_ERROR(files->Unwrap({prefixed, kTable}));
  const NameIndex<StoredTensor> stored(files->tensors());
  Names names;
  if (stored.Find(prefixed) != nullptr) names.prefix = kPrefix;
  names.old_norms = stored.Find(names.prefix + "embeddings.LayerNorm.gamma") != nullptr;
  heads->pooler = stored.HasPrefix(names.prefix + "pooler.");
  heads->masked = stored.HasPrefix("cls.predictions.");
  heads->next_sentence = stored.HasPrefix("cls.seq_relationship.");
  const StoredTensor* classes = stored.Find("classifier.bias");
  heads->classes = classes != nullptr;
  if (heads->classes && classes->shape.rank() == 1) c->classes = classes->shape[0];
  return names;
}

// Is a classifier one of whole texts, each of one class? Others have the same names: of words, of
// several choices, of classes that do not exclude each other, or of a number.
absl::Status CheckClassifier(const WeightFiles& files, const HubConfig& hub, const Heads& heads,
                             const BertConfig& c) {
  ASSIGN_OR_RETURN(const std::vector<std::string> saved_as, hub.Strings("architectures"));
  const bool said = std::find(saved_as.begin(), saved_as.end(), kClassifier) != saved_as.end();
  if (!heads.classes && said) {
    return absl::NotFoundError(absl::StrCat(files.path(),
                                            ": expected a tensor classifier.bias of a ",
                                            kClassifier, ", ", files.Inventory()));
  }
  if (!heads.classes) return absl::OkStatus();
  const std::string where = files.Where("classifier.bias");
  const auto error = [&where](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected ", words...));
  };
  if (!said && !saved_as.empty()) {
    return error("no classifier in a ", absl::StrJoin(saved_as, ", "),
                 ", as config.json calls the model, got one");
  }
  if (!heads.pooler) {
    return error(
        "a classifier of whole texts, with a pooler before it, got one without, as of a "
        "model that labels words");
  }
  if (c.classes < 2) {
    return error("at least two classes, got ", c.classes,
                 ", as of a model that gives a number or picks one of several texts");
  }
  RETURN_IF_ERROR(hub.Expect("problem_type", {"\"single_label_classification\"", "null"}));
  return absl::OkStatus();
}

// Returns the names of classes as a run keeps them; null if they have none.
absl::StatusOr<std::optional<std::string>> ClassNames(const HubConfig& hub, const Heads& heads,
                                                      const BertConfig& c) {
  if (!heads.classes) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, hub.Labels());
  if (names.empty()) return std::nullopt;
  if (static_cast<int64_t>(names.size()) != c.classes) {
    return absl::InvalidArgumentError(absl::StrCat(hub.path(), ": id2label: expected ", c.classes,
                                                   " classes, as the classifier has, got ",
                                                   names.size()));
  }
  for (const std::string& name : names) {
    if (!absl::StrContains(name, '\n')) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(hub.path(), ": id2label: expected names of one line, got ", name));
  }
  return ClassNamesText(names);
}

// Tensors of their file that say nothing of their own: positions counted up, and the head's matrix
// and bias, if they are the table and the other bias again.
absl::StatusOr<bool> MayLeaveOut(const WeightFiles& files, const Names& names,
                                 const std::string& name) {
  if (name == names.prefix + "embeddings.position_ids") return true;
  const std::map<std::string, std::string> again = {
      {"cls.predictions.decoder.weight", names.prefix + "embeddings.word_embeddings.weight"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  const auto found = again.find(name);
  if (found == again.end()) return false;
  ASSIGN_OR_RETURN(const HostTensor one, files.ReadAsF32(name));
  ASSIGN_OR_RETURN(const HostTensor other, files.ReadAsF32(found->second));
  if (one.bytes == other.bytes) return true;
  return absl::InvalidArgumentError(absl::StrCat(files.Where(name), ": expected ",
                                                 files.FullName(found->second),
                                                 " again, got another tensor"));
}

// The word pieces of the folder, as a run keeps them. A model without would be taken for one of
// pieces that are learned anew.
absl::StatusOr<RunFiles> VocabularyFiles(const std::string& folder, const BertConfig& c) {
  ASSIGN_OR_RETURN(const HubWordPieces read, ReadWordPieces(folder));
  if (read.pieces.size() > c.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(read.where, ": expected at most ", c.vocabulary,
                                                   " pieces, as vocab_size of ", kConfigFile,
                                                   " says, got ", read.pieces.size()));
  }
  RunFiles files;
  for (auto& [name, text] : WordPieceFiles(read.pieces)) files[name] = text;
  return files;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportBert(const std::string& path,
                                                    const std::string& folder,
                                                    const ExportOptions& options) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  Heads heads;
  ASSIGN_OR_RETURN(const BertConfig config, SizesOf(checkpoint, &heads));
  std::map<std::string, std::string> texts;
  const std::string run = RunFolderOf(path);
  if (HasWordPieces(run)) {
    ASSIGN_OR_RETURN(const HubWordPieces vocabulary, ReadWordPieces(run));
    texts = WordPieceFiles(vocabulary.pieces);
    texts[kTokenizerFile] = WordPieceTokenizerJson(vocabulary.pieces);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassNamesOf(path));
  texts[kConfigFile] = ConfigJson(config, heads, classes).dump(2) + "\n";
  const Names names = {heads.classes || heads.masked ? kPrefix : ""};
  return ExportWeights(checkpoint, LayoutOf(config, heads, names), texts, folder, options);
}

absl::StatusOr<ImportedWeights> ImportBert(const std::string& folder, const std::string& out) {
  ASSIGN_OR_RETURN(const HubConfig hub, HubConfig::Read(folder));
  ASSIGN_OR_RETURN(BertConfig config, ReadConfig(hub));
  ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::Open(folder));
  Heads heads;
  ASSIGN_OR_RETURN(const Names names, FindNames(&files, &heads, &config));
  RETURN_IF_ERROR(CheckClassifier(files, hub, heads, config));
  const auto left_out = [&](const std::string& name) { return MayLeaveOut(files, names, name); };
  ImportTarget target = {out,
                         {{"layers", absl::StrCat(config.layers)},
                          {"hidden", absl::StrCat(config.hidden)},
                          {"heads", absl::StrCat(config.heads)},
                          {"vocabulary", absl::StrCat(config.vocabulary)},
                          {"positions", absl::StrCat(config.positions)},
                          {"sequence_length", absl::StrCat(config.positions)},
                          {"task", heads.classes ? "classify" : "pretrain"},
                          {"classes", absl::StrCat(config.classes)},
                          {"tanh_gelu", config.tanh_gelu ? "true" : "false"}}};
  ASSIGN_OR_RETURN(target.files, VocabularyFiles(folder, config));
  ASSIGN_OR_RETURN(target.files[kClassNamesFile], ClassNames(hub, heads, config));
  return ImportWeights(files, LayoutOf(config, heads, names), left_out, target);
}

}  // namespace sluice
