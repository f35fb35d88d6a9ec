#include "models/bert/text.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/base/stop.h"
#include "framework/checkpoint/file.h"
#include "framework/data/bag_of_words.h"
#include "framework/data/labelled_text.h"
#include "framework/data/masked_text.h"
#include "framework/data/text_documents.h"
#include "framework/data/word_piece.h"
#include "models/bert/vocabulary_file.h"

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

// The text of the vocabulary that the run has already, and where that is; empty: it has none.
absl::StatusOr<std::pair<std::string, std::string>> KnownVocabulary(const AppOptions& options,
                                                                    const std::string& file) {
  std::vector<std::string> candidates;
  if (!options.resume.run.empty()) {
    candidates.push_back(absl::StrCat(options.resume.run, "/", kVocabularyFile));
  }
  if (!file.empty()) {
    candidates.push_back(file);
  } else if (!options.init.empty()) {
    candidates.push_back(VocabularyOfRun(options.init));
  }
  for (const std::string& path : candidates) {
    std::error_code error;
    if (path != file && !fs::exists(path, error)) continue;
    ASSIGN_OR_RETURN(std::string text, ReadText(path, kVocabularyLimit));
    return std::pair(std::move(text), path);
  }
  return std::pair<std::string, std::string>();
}

absl::StatusOr<WordPiece> VocabularyFor(const AppOptions& options, const BertConfig& config,
                                        const std::string& file,
                                        const std::vector<std::string>& texts, AppData* data) {
  ASSIGN_OR_RETURN(auto known, KnownVocabulary(options, file));
  auto& [text, where] = known;
  if (where.empty()) {
    const std::vector<absl::string_view> views(texts.begin(), texts.end());
    ASSIGN_OR_RETURN(text, LearnWordPieces(views, config.vocabulary));
    where = "learned from the text";
  }
  ASSIGN_OR_RETURN(WordPiece vocabulary, WordPiece::Parse(where, text));
  if (vocabulary.size() > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("vocabulary: expected at most ",
                                                   config.vocabulary, " pieces in ", where,
                                                   ", got ", vocabulary.size()));
  }
  data->lines.push_back(absl::StrFormat("words      %d pieces, %s", vocabulary.size(), where));
  data->facts.emplace_back("vocabulary", HashText(vocabulary.digest()));
  data->files[kVocabularyFile] = std::move(text);
  return vocabulary;
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

absl::StatusOr<AppData> OpenClasses(const AppOptions& options, const BertConfig& config,
                                    const std::string& vocabulary_file) {
  const Stop& stop = options.session.stop;
  ASSIGN_OR_RETURN(const TextClasses classes, ReadClasses(options.data, config.classes));
  RETURN_IF_ERROR(CheckStop(stop));
  AppData data;
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
