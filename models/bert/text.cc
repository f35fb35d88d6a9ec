#include "models/bert/text.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/data/bag_of_words.h"
#include "framework/data/labelled_text.h"
#include "framework/data/masked_text.h"
#include "framework/data/text_documents.h"
#include "framework/data/word_piece.h"
#include "framework/train/hub_word_pieces.h"
#include "framework/train/run_files.h"
#include "framework/train/token_rows.h"
#include "models/bert/class_names.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kFetched[] = "text-classes";  // a data set of //tools:dataset
constexpr char kTrainTab[] = "-train.tab", kClassesFile[] = "reuters-r8-train.tab";

bool IsTab(const std::string& path) { return absl::EndsWith(path, kTrainTab); }

// Of texts with classes those that are trained on: what is held out there stays unseen here.
absl::Status AddTexts(const std::string& path, std::vector<std::string>* documents) {
  ASSIGN_OR_RETURN(TextClasses classes, ReadTextClasses(path));
  for (std::string& text : classes.training.texts) documents->push_back(std::move(text));
  return absl::OkStatus();
}

absl::StatusOr<TextDocuments> DocumentsOf(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!IsTab(path)) return ReadTextDocuments(path);
    std::vector<std::string> documents;
    RETURN_IF_ERROR(AddTexts(path, &documents));
    return HoldOutDocuments(std::move(documents));
  }
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (IsTab(entry.path().string())) files.push_back(entry.path().string());
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("data: expected files NAME", kTrainTab, " in ", path, ", got none"));
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> documents;
  for (const std::string& file : files) RETURN_IF_ERROR(AddTexts(file, &documents));
  return HoldOutDocuments(std::move(documents));
}

// The vocabulary that `file` names, which is not to give other pieces to rows that are taken over.
absl::StatusOr<HubWordPieces> NamedVocabulary(const AppOptions& options, const BertConfig& config,
                                              const std::string& file) {
  ASSIGN_OR_RETURN(HubWordPieces named, ReadWordPieces(file));
  if (options.init.empty()) return named;
  const std::string run = RunFolderOf(options.init);
  if (!HasWordPieces(run)) return named;  // nobody knows which they are
  ASSIGN_OR_RETURN(const HubWordPieces own, ReadWordPieces(run));
  RETURN_IF_ERROR(CheckSameTokens("--vocabulary_file", "word pieces",
                                  {named.pieces.digest(), named.where}, options.init,
                                  {own.pieces.digest(), own.where}, config.vocabulary));
  return named;
}

// The vocabulary that the run has already; null: one is to be learned from the text.
absl::StatusOr<std::optional<HubWordPieces>> KnownVocabulary(const AppOptions& options,
                                                             const BertConfig& config,
                                                             const std::string& file) {
  std::string run;
  if (!options.resume.checkpoint.empty()) {
    run = RunFolderOf(options.resume.checkpoint);
    if (HasWordPieces(run)) return ReadWordPieces(run);
  }
  if (!file.empty()) return NamedVocabulary(options, config, file);
  if (!options.init.empty()) {
    run = RunFolderOf(options.init);
    if (HasWordPieces(run)) return ReadWordPieces(run);
  }
  bool taken = !options.resume.checkpoint.empty();
  if (!taken && !options.init.empty()) {
    ASSIGN_OR_RETURN(taken, TakesTokenRows(options.init, config.vocabulary));
  }
  if (!taken) return std::nullopt;
  return absl::FailedPreconditionError(absl::StrCat(
      "vocabulary: expected ", kVocabularyFile, " in ", run,
      ", for whose pieces the rows of the embedding stand, got none; --vocabulary_file names it"));
}

absl::StatusOr<WordPiece> VocabularyFor(const AppOptions& options, const BertConfig& config,
                                        const std::string& file,
                                        const std::vector<std::string>& texts, AppData* data) {
  ASSIGN_OR_RETURN(std::optional<HubWordPieces> known, KnownVocabulary(options, config, file));
  if (!known) {
    const std::vector<absl::string_view> views(texts.begin(), texts.end());
    ASSIGN_OR_RETURN(const std::string text, LearnWordPieces(views, config.vocabulary));
    const std::string where = "learned from the text";
    ASSIGN_OR_RETURN(WordPiece learned, WordPiece::Parse(where, text));
    known = HubWordPieces{std::move(learned), where};
  }
  WordPiece& vocabulary = known->pieces;
  if (vocabulary.size() > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("vocabulary: expected at most ",
                                                   config.vocabulary, " pieces in ", known->where,
                                                   ", got ", vocabulary.size()));
  }
  const TextNormalization& text = vocabulary.options().text;
  data->lines.push_back(absl::StrFormat("words      %d pieces, %s%s", vocabulary.size(),
                                        known->where,
                                        text == TextNormalization() ? ""
                                        : text.lower_case           ? "; in lower case"
                                                                    : "; cased"));
  data->facts.emplace_back("vocabulary", HashText(vocabulary.digest()));
  for (auto& [name, content] : WordPieceFiles(vocabulary)) data->files[name] = content;
  return std::move(vocabulary);
}

absl::StatusOr<AppData> OpenDocuments(const AppOptions& options, const BertConfig& config,
                                      const std::string& vocabulary_file) {
  const Stop& stop = options.session.stop;
  ASSIGN_OR_RETURN(const TextDocuments documents, DocumentsOf(options.data));
  RETURN_IF_ERROR(CheckStop(stop));
  AppData data;
  ASSIGN_OR_RETURN(const WordPiece vocabulary,
                   VocabularyFor(options, config, vocabulary_file, documents.training, &data));
  RETURN_IF_ERROR(CheckStop(stop));
  MaskedTextOptions masks;
  masks.length = config.sequence_length;
  masks.most_predicted = config.predictions;
  masks.seed = options.session.seed;
  ASSIGN_OR_RETURN(MaskedText training,
                   MaskedText::Create("training text", documents.training, vocabulary, masks));
  RETURN_IF_ERROR(CheckStop(stop));
  ASSIGN_OR_RETURN(MaskedText held_out,
                   MaskedText::Create("held-out text", documents.held_out, vocabulary, masks));
  data.lines.push_back(
      absl::StrFormat("text       %d tokens of %d documents to learn from, %d of %d held out",
                      training.num_tokens(), training.num_documents(), held_out.num_tokens(),
                      held_out.num_documents()));
  data.training = std::make_unique<MaskedText>(std::move(training));
  data.held_out = std::make_unique<MaskedText>(std::move(held_out));
  data.held_out_name = "held-out text";
  return data;
}

absl::StatusOr<TextClasses> ReadClasses(const std::string& data, int64_t expected) {
  std::error_code error;
  const std::string path =
      fs::is_directory(data, error) ? absl::StrCat(data, "/", kClassesFile) : data;
  ASSIGN_OR_RETURN(TextClasses classes, ReadTextClasses(path));
  if (static_cast<int64_t>(classes.names.size()) == expected) return classes;
  return absl::InvalidArgumentError(absl::StrCat(
      "classes: expected --classes=", classes.names.size(), ", as ", path, " has, got ", expected));
}

std::vector<std::string> Sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

// Gives classes the order that they have in the model that the run goes on with, or begins with: a
// row of its classifier is for one of them.
absl::Status OrderClasses(const AppOptions& options, TextClasses* classes) {
  const bool resumed = !options.resume.checkpoint.empty();
  const std::string& checkpoint = resumed ? options.resume.checkpoint : options.init;
  if (checkpoint.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> known, ClassNamesOf(checkpoint));
  if (known.size() != classes->names.size()) return absl::OkStatus();  // or nobody has named them
  if (Sorted(known) != Sorted(classes->names)) {
    return absl::FailedPreconditionError(
        absl::StrCat("classes: expected ", absl::StrJoin(known, ", "), ", as ",
                     RunFolderOf(checkpoint), "/", kClassNamesFile,
                     " names the rows of the classifier, got ", absl::StrJoin(classes->names, ", "),
                     "; without that file rows stand for classes in ascending order"));
  }
  std::vector<int32_t> place(known.size());
  for (size_t i = 0; i < known.size(); ++i) {
    const auto found = std::find(known.begin(), known.end(), classes->names[i]);
    place[i] = static_cast<int32_t>(found - known.begin());
  }
  for (LabelledTexts* texts : {&classes->training, &classes->held_out}) {
    for (int32_t& label : texts->labels) label = place[label];
  }
  classes->names = known;
  return absl::OkStatus();
}

absl::StatusOr<AppData> OpenClasses(const AppOptions& options, const BertConfig& config,
                                    const std::string& vocabulary_file) {
  const Stop& stop = options.session.stop;
  ASSIGN_OR_RETURN(TextClasses classes, ReadClasses(options.data, config.classes));
  RETURN_IF_ERROR(OrderClasses(options, &classes));
  RETURN_IF_ERROR(CheckStop(stop));
  AppData data;
  data.files[kClassNamesFile] = ClassNamesText(classes.names);
  ASSIGN_OR_RETURN(const WordPiece vocabulary,
                   VocabularyFor(options, config, vocabulary_file, classes.training.texts, &data));
  RETURN_IF_ERROR(CheckStop(stop));
  ASSIGN_OR_RETURN(LabelledText training, LabelledText::Create("training texts", classes.training,
                                                               vocabulary, config.sequence_length));
  ASSIGN_OR_RETURN(LabelledText held_out, LabelledText::Create("held-out texts", classes.held_out,
                                                               vocabulary, config.sequence_length));
  data.lines.push_back(absl::StrFormat(
      "texts      %d of %d classes to learn from, %d held out; %.0f %% are cut at %d tokens",
      training.num_samples(), classes.names.size(), held_out.num_samples(),
      100.0 * static_cast<double>(training.num_cut()) / static_cast<double>(training.num_samples()),
      config.sequence_length));
  data.lines.push_back(absl::StrFormat(
      "baseline   of what is held out the largest class is %.3f, a linear classifier of words "
      "names %.3f right",
      MajorityAccuracy(classes), BagOfWordsAccuracy(classes)));
  data.training = std::make_unique<LabelledText>(std::move(training));
  data.held_out = std::make_unique<LabelledText>(std::move(held_out));
  data.held_out_name = "held-out texts";
  return data;
}

}  // namespace

absl::Status CheckClasses(const AppOptions& options, int64_t classes) {
  return ReadClasses(options.data, classes).status();
}

absl::StatusOr<AppData> OpenBertText(const AppOptions& options, const BertConfig& config,
                                     const std::string& vocabulary_file) {
  const fs::path path = fs::path(options.data);
  std::error_code error;
  if (path.filename() == kFetched && !fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        "data: ", options.data, ": expected texts, got none; bazel run //tools:dataset -- fetch ",
        kFetched, " brings them"));
  }
  const auto open = config.classes > 0 ? OpenClasses : OpenDocuments;
  ASSIGN_OR_RETURN(AppData data, open(options, config, vocabulary_file));
  data.order = SampleOrder::kEpochs;
  return data;
}

}  // namespace sluice
