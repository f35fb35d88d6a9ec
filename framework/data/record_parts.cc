#include "framework/data/record_parts.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/list_folder.h"
#include "framework/data/packed.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// NAME-00012-of-01024
bool IsTensorFlowPart(absl::string_view name) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, '-');
  const size_t count = words.size();
  return count >= 4 && IsNumber(words[count - 1]) && words[count - 2] == "of" &&
         IsNumber(words[count - 3]);
}

std::optional<Framing> NamedFraming(absl::string_view path) {
  absl::string_view name = path.substr(path.rfind('/') + 1);
  absl::ConsumeSuffix(&name, ".gz") || absl::ConsumeSuffix(&name, ".zst");
  if (absl::EndsWith(name, ".tfrecord") || absl::EndsWith(name, ".tfrecords") ||
      IsTensorFlowPart(name)) {
    return Framing::kTfRecord;
  }
  if (absl::EndsWith(name, ".ofrecord") || absl::StartsWith(name, "part-")) {
    return Framing::kOfRecord;
  }
  return std::nullopt;
}

bool IsHeldOutName(absl::string_view name) {
  return absl::StartsWith(name, "val-") || absl::StartsWith(name, "validation-");
}

// Adds the files of records that lie in the folder itself, which have all one framing.
absl::Status AddFiles(const fs::path& folder, std::optional<Framing>* framing,
                      std::vector<std::string>* files) {
  ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> entries, ListFolder(folder));
  for (const fs::directory_entry& entry : entries) {
    std::error_code error;
    const std::string path = entry.path().string();
    const std::optional<Framing> found = NamedFraming(path);
    if (!found.has_value() || !entry.is_regular_file(error)) continue;
    if (framing->value_or(*found) != *found) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: ", path, ": expected ", **framing == Framing::kTfRecord ? "TFRecord" : "OFRecord",
          " by its name, as the files before it are"));
    }
    *framing = found;
    files->push_back(path);
  }
  return absl::OkStatus();
}

// Parts the files of one folder by what their names begin with, where some are held out.
absl::Status SplitByName(RecordFiles* files) {
  const auto name_of = [](const std::string& path) { return fs::path(path).filename().string(); };
  const auto held_out = [&](const std::string& path) { return IsHeldOutName(name_of(path)); };
  const auto middle =
      std::stable_partition(files->training.begin(), files->training.end(), std::not_fn(held_out));
  if (middle == files->training.end()) return absl::OkStatus();
  files->held_out.assign(middle, files->training.end());
  files->training.erase(middle, files->training.end());
  for (const std::string& path : files->training) {
    if (absl::StartsWith(name_of(path), "train-")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", path, ": expected a name that begins with train-, as others of the ",
                     "folder begin with val- or validation-"));
  }
  return absl::OkStatus();
}

// By the name or, if that says nothing, by the bytes, which TFRecord is known by.
absl::StatusOr<Framing> FramingOfFile(const std::string& path) {
  const absl::StatusOr<Framing> by_name = FramingOfName(path);
  if (by_name.ok()) return by_name;
  const absl::StatusOr<std::string> begin = ReadUnpackedBegin(path, kRecognizedBytes);
  if (!begin.ok()) return by_name;
  const RecognizedFile file = RecognizeBytes(*begin);
  if (file.kind == FileKind::kTfRecord) return Framing::kTfRecord;
  return absl::NotFoundError(
      absl::StrCat(by_name.status().message(), ", got ", DescribeFile(file, path)));
}

}  // namespace

absl::StatusOr<Framing> FramingOfName(absl::string_view path) {
  const std::optional<Framing> framing = NamedFraming(path);
  if (framing.has_value()) return *framing;
  return absl::NotFoundError(absl::StrCat("data: ", path,
                                          ": expected a file NAME.tfrecord, NAME-1-of-8, "
                                          "NAME.ofrecord or part-NUMBER"));
}

absl::StatusOr<RecordFiles> ListRecordFiles(const std::string& path) {
  RecordFiles files;
  files.path = path;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(files.framing, FramingOfFile(path));
    files.training = {path};
    return files;
  }
  const fs::path root(path);
  std::optional<Framing> framing;
  const fs::path held_out =
      fs::is_directory(root / "val", error) ? root / "val" : root / "validation";
  const bool folders = fs::is_directory(root / "train", error) && fs::is_directory(held_out, error);
  RETURN_IF_ERROR(AddFiles(folders ? root / "train" : root, &framing, &files.training));
  if (folders) {
    RETURN_IF_ERROR(AddFiles(held_out, &framing, &files.held_out));
  } else {
    RETURN_IF_ERROR(SplitByName(&files));
  }
  if (files.training.empty()) {
    return absl::NotFoundError(
        absl::StrCat("data: ", path, ": expected files of records to learn ", "from, got none"));
  }
  files.framing = *framing;
  return files;
}

absl::StatusOr<RecordParts> RecordParts::Open(Framing framing, std::string path,
                                              absl::Span<const std::string> files) {
  RecordParts parts(std::move(path));
  AllowOpenFiles(static_cast<int64_t>(files.size()));
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(RandomAccessFile opened, OpenUnpacked(file));
    ASSIGN_OR_RETURN(FramedRecords records, FramedRecords::Open(framing, std::move(opened)));
    parts.begins_.push_back(parts.num_records() + records.num_records());
    parts.parts_.push_back(std::move(records));
  }
  if (parts.num_records() > 0) return parts;
  const absl::Status none = absl::DataLossError(absl::StrCat(
      "data: ", parts.path_, ": expected records, got none in ", parts.bytes(), " bytes"));
  return files.empty() ? none : ExplainFraming(none, files[0], framing);
}

int64_t RecordParts::bytes() const {
  int64_t bytes = 0;
  for (const FramedRecords& part : parts_) bytes += part.bytes();
  return bytes;
}

int64_t RecordParts::cut_bytes() const {
  int64_t bytes = 0;
  for (const FramedRecords& part : parts_) bytes += part.cut_bytes();
  return bytes;
}

RecordParts::Place RecordParts::Find(int64_t record) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), record);
  const int64_t part = next - begins_.begin() - 1;
  return {parts_[part], record - begins_[part]};
}

int64_t RecordParts::frame_bytes(int64_t record) const {
  const Place place = Find(record);
  return place.part.frame_bytes(place.record);
}

absl::Status RecordParts::ReadFrame(int64_t record, int64_t offset, int64_t size, char* to) const {
  const Place place = Find(record);
  return place.part.ReadFrame(place.record, offset, size, to);
}

absl::Status RecordParts::Read(int64_t record, std::string* to) const {
  const Place place = Find(record);
  return place.part.Read(place.record, to);
}

std::string RecordParts::Name(int64_t record) const {
  const Place place = Find(record);
  return place.part.Name(place.record);
}

std::string RecordParts::NameBelow(int64_t record) const {
  const Place place = Find(record);
  const std::string& file = place.part.path();
  return absl::StrCat(
      file == path_ ? "" : absl::StrCat(fs::path(file).lexically_relative(path_).string(), ": "),
      "record ", place.record, " at byte ", place.part.begin(place.record));
}

}  // namespace sluice
