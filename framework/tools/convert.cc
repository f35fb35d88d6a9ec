#include "framework/tools/convert.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status.h"
#include "framework/data/delimited_text.h"
#include "framework/data/example.h"
#include "framework/data/file.h"
#include "framework/data/framed_records.h"
#include "framework/data/idx.h"
#include "framework/data/image_folder.h"
#include "framework/data/npy.h"
#include "framework/data/packed.h"
#include "framework/data/record_io.h"
#include "framework/data/record_photos.h"
#include "framework/data/text_file.h"
#include "framework/data/token_file.h"

namespace sluice {
namespace {

// A file that is there when it is whole, or not at all.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), partial_(path + ".partial"), stream_(partial_, std::ios::binary) {}
  ~NewFile() {
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);
  }
  std::ofstream& stream() { return stream_; }
  absl::Status Finish() {
    stream_.close();
    std::error_code error;
    if (stream_) std::filesystem::rename(partial_, path_, error);
    if (stream_ && !error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path_, ": cannot be written"));
  }

 private:
  const std::string path_, partial_;
  std::ofstream stream_;
};

absl::Status WriteBytes(const std::string& path, absl::string_view bytes) {
  NewFile file(path);
  file.stream() << bytes;
  return file.Finish();
}

enum class Content { kRecords, kArrays, kTable, kTokens, kOther };

Content ContentOf(FileFormat format) {
  switch (format) {
    case FileFormat::kTfRecord:
    case FileFormat::kOfRecord:
    case FileFormat::kRecordIo:
    case FileFormat::kImageFolder:
      return Content::kRecords;
    case FileFormat::kNpy:
    case FileFormat::kNpz:
    case FileFormat::kIdx:
      return Content::kArrays;
    case FileFormat::kCsv:
    case FileFormat::kTsv:
    case FileFormat::kHugeCtrRaw:
      return Content::kTable;
    case FileFormat::kNanoGpt:
    case FileFormat::kLlmC:
    case FileFormat::kMegatron:
      return Content::kTokens;
    case FileFormat::kText:
      break;
  }
  return Content::kOther;
}

Framing FramingOf(FileFormat format) {
  return format == FileFormat::kTfRecord ? Framing::kTfRecord : Framing::kOfRecord;
}

absl::Status RefuseCut(const std::string& path, int64_t bytes, const char* what) {
  if (bytes == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data: ", path, ": expected whole ", what, ", got ",
                                          bytes,
                                          " bytes of one that is cut short behind the last"));
}

// Records.

absl::StatusOr<PictureRecord> PictureOf(Example example, uint64_t id) {
  ASSIGN_OR_RETURN(const PhotoFeatures features, FindPhotoFeatures(example));
  ASSIGN_OR_RETURN(const int64_t label, FindInteger(example, features.label));
  constexpr int64_t kExact = 1 << 24;  // RecordIO keeps labels in f32
  if (label < 0 || label > kExact) {
    return absl::InvalidArgumentError(absl::StrCat("feature ", features.label,
                                                   ": expected a label of 0 to ", kExact,
                                                   ", which RecordIO keeps exactly, got ", label));
  }
  ASSIGN_OR_RETURN(const std::string* const bytes, FindBytes(example, features.image));
  return PictureRecord{{static_cast<float>(label)}, id, 0, *bytes};
}

absl::StatusOr<Example> ExampleOf(const PictureRecord& record, Framing framing) {
  const float label = record.labels[0];
  if (record.labels.size() != 1 || record.bytes.empty() || label != std::floor(label)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a picture with one label that is an integer, got ", record.labels.size(),
        " labels, the first ", label, ", and ", record.bytes.size(), " bytes"));
  }
  const std::vector<std::string> picture = {record.bytes};
  if (framing == Framing::kTfRecord) {
    return Example{{"image/encoded", picture},
                   {"image/class/label", std::vector<int64_t>{static_cast<int64_t>(label)}}};
  }
  return Example{{"encoded", picture},
                 {"class/label", std::vector<int32_t>{static_cast<int32_t>(label)}}};
}

absl::Status AppendPicture(const PictureRecord& record, Framing framing, std::ostream* to) {
  ASSIGN_OR_RETURN(const Example example, ExampleOf(record, framing));
  ASSIGN_OR_RETURN(const std::string message, ExampleBytes(framing, example));
  std::string framed;
  AppendFramed(framing, message, &framed);
  *to << framed;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RecordIoToFramed(const FileOf& in, const FileOf& out) {
  ASSIGN_OR_RETURN(const RecordFile file, RecordFile::Open(in.path));
  NewFile written(out.path);
  int64_t count = 0;
  for (const int64_t key : file.keys()) {
    ASSIGN_OR_RETURN(const PictureRecord record, file.Read(key));
    // What InsightFace says of a file and of its identities is no picture.
    if (record.bytes.empty() && record.labels.size() > 1) continue;
    RETURN_IF_ERROR(AddContext(AppendPicture(record, FramingOf(out.format), &written.stream()),
                               absl::StrCat(in.path, ": record ", key)));
    ++count;
  }
  RETURN_IF_ERROR(written.Finish());
  return count;
}

// fn(number, example): every record of a file, in order; returns how many. Errors of fn are named
// with the record's place.
absl::StatusOr<int64_t> ForEachExample(const FileOf& in,
                                       const std::function<absl::Status(int64_t, Example)>& fn) {
  ASSIGN_OR_RETURN(RandomAccessFile file, OpenUnpacked(in.path));
  ASSIGN_OR_RETURN(const FramedRecords records,
                   FramedRecords::Open(FramingOf(in.format), std::move(file)));
  RETURN_IF_ERROR(RefuseCut(in.path, records.cut_bytes(), "records"));
  std::string bytes;
  for (int64_t i = 0; i < records.num_records(); ++i) {
    RETURN_IF_ERROR(records.Read(i, &bytes));
    absl::StatusOr<Example> example = ParseExample(FramingOf(in.format), bytes);
    absl::Status status = example.status();
    if (status.ok()) status = fn(i, *std::move(example));
    if (!status.ok()) return AddContext(status, records.Name(i));
  }
  return records.num_records();
}

absl::StatusOr<int64_t> FramedToFramed(const FileOf& in, const FileOf& out) {
  NewFile written(out.path);
  ASSIGN_OR_RETURN(const int64_t count, ForEachExample(in, [&](int64_t, const Example& example) {
                     ASSIGN_OR_RETURN(const std::string message,
                                      ExampleBytes(FramingOf(out.format), example));
                     std::string framed;
                     AppendFramed(FramingOf(out.format), message, &framed);
                     written.stream() << framed;
                     return absl::OkStatus();
                   }));
  RETURN_IF_ERROR(written.Finish());
  return count;
}

absl::StatusOr<int64_t> FramedToRecordIo(const FileOf& in, const FileOf& out) {
  std::vector<std::pair<int64_t, PictureRecord>> records;  // with their keys
  ASSIGN_OR_RETURN(const int64_t count, ForEachExample(in, [&](int64_t i, Example example) {
                     ASSIGN_OR_RETURN(PictureRecord record, PictureOf(std::move(example), i));
                     records.emplace_back(i, std::move(record));
                     return absl::OkStatus();
                   }));
  RETURN_IF_ERROR(WriteRecords(out.path, records));
  return count;
}

// fn(number, record): each picture of a folder of class folders, by its path.
absl::Status ForEachPicture(const std::string& path,
                            const std::function<absl::Status(int64_t, PictureRecord)>& fn) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(fs::path(path) / "train", error) &&
      fs::is_directory(fs::path(path) / "val", error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": expected a folder of class folders, got train and val: each is a file of its own"));
  }
  ASSIGN_OR_RETURN(ImageFolder folder, ListImageFolder(path));
  std::vector<ImageFile> files = std::move(folder.training);
  files.insert(files.end(), folder.held_out.begin(), folder.held_out.end());
  std::ranges::sort(files, {}, &ImageFile::path);
  for (size_t i = 0; i < files.size(); ++i) {
    ASSIGN_OR_RETURN(std::string bytes, ReadFile(absl::StrCat(path, "/", files[i].path)));
    PictureRecord record{{static_cast<float>(files[i].label)}, i, 0, std::move(bytes)};
    RETURN_IF_ERROR(fn(static_cast<int64_t>(i), std::move(record)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FolderToRecords(const FileOf& in, const FileOf& out) {
  std::vector<std::pair<int64_t, PictureRecord>> records;
  int64_t count = 0;
  if (out.format == FileFormat::kRecordIo) {
    RETURN_IF_ERROR(ForEachPicture(in.path, [&](int64_t i, PictureRecord record) {
      records.emplace_back(i, std::move(record));
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(WriteRecords(out.path, records));
    return static_cast<int64_t>(records.size());
  }
  NewFile written(out.path);
  RETURN_IF_ERROR(ForEachPicture(in.path, [&](int64_t, const PictureRecord& record) {
    ++count;
    return AppendPicture(record, FramingOf(out.format), &written.stream());
  }));
  RETURN_IF_ERROR(written.Finish());
  return count;
}

absl::StatusOr<std::string> ConvertRecords(const FileOf& in, const FileOf& out) {
  const auto convert = in.format == FileFormat::kImageFolder ? FolderToRecords
                       : in.format == FileFormat::kRecordIo  ? RecordIoToFramed
                       : out.format == FileFormat::kRecordIo ? FramedToRecordIo
                                                             : FramedToFramed;
  ASSIGN_OR_RETURN(const int64_t count, convert(in, out));
  return absl::StrCat(count, " records");
}

// Arrays.

absl::StatusOr<NamedArrays> ReadArrays(const FileOf& in) {
  if (in.format == FileFormat::kNpz) return ReadNpz(in.path);
  if (in.format == FileFormat::kNpy) {
    ASSIGN_OR_RETURN(NpyArray array, ReadNpy(in.path));
    return NamedArrays{{"arr_0", std::move(array)}};  // as NumPy calls it
  }
  ASSIGN_OR_RETURN(const IdxArray array, ReadIdx(in.path));
  return NamedArrays{
      {"arr_0", {'u', 1, array.shape, std::string(array.values.begin(), array.values.end())}}};
}

absl::StatusOr<std::string> IdxBytes(const NpyArray& array) {
  const bool fits = std::ranges::all_of(
      array.shape, [](int64_t extent) { return extent <= std::numeric_limits<uint32_t>::max(); });
  constexpr int kMostDimensions = 8;
  if (array.kind != 'u' || array.item_bytes != 1 || array.shape.rank() < 1 ||
      array.shape.rank() > kMostDimensions || !fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected an array of u1 with 1 to ", kMostDimensions, " dimensions for an IDX file, got ",
        array.TypeName(), " ", array.shape.ToString()));
  }
  std::string bytes = {0, 0, 8, static_cast<char>(array.shape.rank())};
  for (const int64_t extent : array.shape) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + array.values;
}

absl::StatusOr<std::string> ConvertArrays(const FileOf& in, const FileOf& out) {
  ASSIGN_OR_RETURN(const NamedArrays arrays, ReadArrays(in));
  if (out.format == FileFormat::kNpz) {
    ASSIGN_OR_RETURN(const std::string bytes, NpzBytes(arrays, /*deflate=*/true));
    RETURN_IF_ERROR(WriteBytes(out.path, bytes));
    return absl::StrCat(arrays.size(), " arrays");
  }
  if (arrays.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(in.path, ": expected one array for ", out.path, ", got ", arrays.size()));
  }
  const NpyArray& array = arrays[0].second;
  std::string bytes = NpyBytes(array);
  if (out.format == FileFormat::kIdx) {
    const absl::StatusOr<std::string> idx = IdxBytes(array);
    if (!idx.ok()) return AddContext(idx.status(), in.path);
    bytes = *idx;
  }
  RETURN_IF_ERROR(WriteBytes(out.path, bytes));
  return absl::StrCat("an array of ", array.TypeName(), " ", array.shape.ToString());
}

// Tables.

absl::StatusOr<RawSample> SampleOf(absl::Span<const absl::string_view> fields,
                                   const RawColumns& columns) {
  const int64_t expected = columns.labels + columns.numbers + columns.keys;
  if (static_cast<int64_t>(fields.size()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", columns.labels, " labels, ",
                                                   columns.numbers, " numbers and ", columns.keys,
                                                   " keys, got ", fields.size(), " fields"));
  }
  RawSample sample;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    const absl::string_view field = fields[i];
    if (column < columns.labels + columns.numbers) {
      float number = std::nanf("");
      const bool label = column < columns.labels;
      const bool missing = field.empty() && !label && columns.floats;
      if (!missing) {
        const absl::StatusOr<float> read =
            NumberOfField(field, label || !columns.floats ? "" : " or nothing");
        if (!read.ok()) return AddContext(read.status(), absl::StrCat("field ", i));
        number = *read;
      }
      const bool fits = columns.floats || (number >= 0 && number == std::floor(number));
      if (!fits) {
        return absl::InvalidArgumentError(
            absl::StrCat("field ", i, ": expected an integer of 0 or more, got ", field));
      }
      (label ? sample.labels : sample.numbers).push_back(number);
      continue;
    }
    uint32_t key = 0;  // of a value that is missing
    constexpr size_t kDigits = 8;
    const bool digits = field.size() <= kDigits && std::ranges::all_of(field, absl::ascii_isxdigit);
    if (!digits || (!field.empty() && !absl::SimpleHexAtoi(field, &key))) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", i, ": expected up to 8 hexadecimal digits, got \"", field, "\""));
    }
    sample.keys.push_back(key);
  }
  return sample;
}

absl::StatusOr<int64_t> WriteRaw(const DelimitedText& table, const RawColumns& columns,
                                 const std::string& path) {
  NewFile written(path);
  int64_t rows = 0;
  RETURN_IF_ERROR(table.ForEachRow([&](int64_t, absl::Span<const absl::string_view> fields) {
    ASSIGN_OR_RETURN(const RawSample sample, SampleOf(fields, columns));
    written.stream() << RawBytes(columns, sample);
    ++rows;
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(written.Finish());
  return rows;
}

std::string CsvField(absl::string_view field) {
  if (field.find_first_of(",\"\r\n") == field.npos) return std::string(field);
  return absl::StrCat("\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
}

// A TSV file has no quotes, so no field may hold what ends one.
absl::Status AppendRow(FileFormat format, absl::Span<const std::string> fields, std::ostream* to) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (format == FileFormat::kTsv && fields[i].find_first_of("\t\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", i, ": expected no TAB and no end of line for a .tsv, got one"));
    }
    *to << (i == 0                       ? ""
            : format == FileFormat::kTsv ? "\t"
                                         : ",")
        << (format == FileFormat::kTsv ? fields[i] : CsvField(fields[i]));
  }
  *to << "\n";
  return absl::OkStatus();
}

// Labels, numbers and keys by Criteo's names: label, I1.., C1...
std::vector<std::string> RawNames(const RawColumns& columns) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < columns.labels; ++i) {
    names.push_back(columns.labels == 1 ? "label" : absl::StrCat("label", i + 1));
  }
  for (int64_t i = 0; i < columns.numbers; ++i) names.push_back(absl::StrCat("I", i + 1));
  for (int64_t i = 0; i < columns.keys; ++i) names.push_back(absl::StrCat("C", i + 1));
  return names;
}

absl::StatusOr<std::string> ConvertRaw(const FileOf& in, const FileOf& out,
                                       const RawColumns& columns) {
  ASSIGN_OR_RETURN(RandomAccessFile file, OpenUnpacked(in.path));
  ASSIGN_OR_RETURN(const HugeCtrRaw raw, HugeCtrRaw::Open(columns, std::move(file)));
  RETURN_IF_ERROR(RefuseCut(in.path, raw.cut_bytes(), "samples"));
  NewFile written(out.path);
  if (out.format == FileFormat::kCsv) {
    RETURN_IF_ERROR(AppendRow(out.format, RawNames(columns), &written.stream()));
  }
  constexpr int64_t kAtOnce = 1 << 12;
  for (int64_t first = 0; first < raw.num_samples(); first += kAtOnce) {
    ASSIGN_OR_RETURN(const std::vector<RawSample> samples,
                     raw.Read(first, std::min(kAtOnce, raw.num_samples() - first)));
    for (const RawSample& sample : samples) {
      std::vector<std::string> fields;
      const auto add = [&](float number) {
        fields.push_back(std::isnan(number) ? "" : absl::StrFormat("%.9g", number));
      };
      std::ranges::for_each(sample.labels, add);
      std::ranges::for_each(sample.numbers, add);
      for (const uint32_t key : sample.keys) {
        fields.push_back(key == 0 ? "" : absl::StrFormat("%08x", key));
      }
      RETURN_IF_ERROR(AppendRow(out.format, fields, &written.stream()));
    }
  }
  RETURN_IF_ERROR(written.Finish());
  return absl::StrCat(raw.num_samples(), " rows");
}

absl::StatusOr<std::string> ConvertTable(const FileOf& in, const FileOf& out,
                                         const RawColumns& columns) {
  if (in.format == FileFormat::kHugeCtrRaw) return ConvertRaw(in, out, columns);
  const bool csv = in.format == FileFormat::kCsv;
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(in.path));
  // A .csv begins with names; a .tsv, as Criteo's is, has none, and keeps those of a .csv as a row.
  ASSIGN_OR_RETURN(const DelimitedText table,
                   DelimitedText::Open(in.path, text,
                                       {.delimiter = csv ? ',' : '\t',
                                        .quotes = csv,
                                        .names = csv && out.format == FileFormat::kHugeCtrRaw}));
  if (out.format == FileFormat::kHugeCtrRaw) {
    ASSIGN_OR_RETURN(const int64_t rows, WriteRaw(table, columns, out.path));
    return absl::StrCat(rows, " samples");
  }
  NewFile written(out.path);
  int64_t rows = 0;
  RETURN_IF_ERROR(table.ForEachRow([&](int64_t, absl::Span<const absl::string_view> fields) {
    ++rows;
    return AppendRow(out.format, std::vector<std::string>(fields.begin(), fields.end()),
                     &written.stream());
  }));
  RETURN_IF_ERROR(written.Finish());
  return absl::StrCat(rows, " lines");
}

// Tokens.

absl::StatusOr<std::string> ConvertTokens(const FileOf& in, const FileOf& out) {
  ASSIGN_OR_RETURN(TokenFile file, ReadTokenFile(in.path));
  file.format = out.format == FileFormat::kNanoGpt ? TokenFormat::kNanoGpt
                : out.format == FileFormat::kLlmC  ? TokenFormat::kLlmC
                                                   : TokenFormat::kMegatron;
  // As many as the largest needs: a vocabulary is not in the file.
  const int64_t vocabulary =
      file.tokens.empty() ? 1 : int64_t{*std::ranges::max_element(file.tokens)} + 1;
  RETURN_IF_ERROR(WriteTokenFile(out.path, file, vocabulary));
  return absl::StrCat(file.tokens.size(), " tokens",
                      vocabulary > kMost16BitVocabulary ? " of 32 bits" : "");
}

}  // namespace

absl::StatusOr<std::string> ConvertFile(const FileOf& in, const FileOf& out,
                                        const RawColumns& columns) {
  const Content content = ContentOf(in.format);
  if (content == Content::kOther || content != ContentOf(out.format) || in.format == out.format ||
      out.format == FileFormat::kImageFolder) {
    return absl::InvalidArgumentError(
        absl::StrCat(in.path, ": expected formats that hold the same, and are not, of ",
                     "{tfrecord, ofrecord, recordio}, to these from a folder of images, {npy, npz, "
                     "idx}, {csv, tsv, hugectr} or ",
                     "{nanogpt, llm.c, megatron}, got ", FileFormatName(in.format), " and ",
                     FileFormatName(out.format)));
  }
  if (!PackedEnding(out.path).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(out.path, ": expected a name without ",
                                                   PackedEnding(out.path),
                                                   ": nothing is packed here"));
  }
  absl::StatusOr<std::string> written = absl::InternalError("convert: no such content");
  if (content == Content::kRecords) written = ConvertRecords(in, out);
  if (content == Content::kArrays) written = ConvertArrays(in, out);
  if (content == Content::kTable) written = ConvertTable(in, out, columns);
  if (content == Content::kTokens) written = ConvertTokens(in, out);
  RETURN_IF_ERROR(written.status());
  return absl::StrCat(out.path, ": ", *written);
}

}  // namespace sluice
