#include "framework/tools/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/data/decode_image.h"
#include "framework/data/delimited_text.h"
#include "framework/data/example.h"
#include "framework/data/file.h"
#include "framework/data/framed_records.h"
#include "framework/data/idx.h"
#include "framework/data/image_folder.h"
#include "framework/data/npy.h"
#include "framework/data/packed.h"
#include "framework/data/record_io.h"
#include "framework/data/text_file.h"
#include "framework/data/token_layout.h"
#include "framework/data/token_sequence.h"

namespace sluice {
namespace {

constexpr int64_t kSamples = 3, kValues = 8;
constexpr size_t kTextShown = 60;

std::string Line(absl::string_view name, absl::string_view text) {
  return absl::StrFormat("%-10s %s\n", name, text);
}

// "12 records; the last 3 bytes are of one that is cut short".
std::string Counted(int64_t count, const char* what, int64_t cut) {
  return absl::StrCat(
      count, " ", what,
      cut > 0 ? absl::StrCat("; the last ", cut, " bytes are of one that is cut short") : "");
}

std::string ShownBytes(absl::string_view bytes) {
  const absl::StatusOr<ImageSize> size = ReadImageSize(bytes);
  if (size.ok()) {
    return absl::StrCat("picture of ", size->height, " x ", size->width, " in ", bytes.size(),
                        " bytes");
  }
  return absl::StrCat("\"", absl::CHexEscape(bytes.substr(0, kTextShown)), "\"",
                      bytes.size() > kTextShown ? absl::StrCat(".. ", bytes.size(), " bytes") : "");
}

template <typename T>
std::string ShownValues(const std::vector<T>& values) {
  const size_t shown = std::min<size_t>(values.size(), kValues);
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " ");
    if constexpr (std::is_same_v<T, std::string>) {
      text += ShownBytes(values[i]);
    } else {
      absl::StrAppend(&text, values[i]);
    }
  }
  return text + (shown < values.size() ? absl::StrCat(" .. ", values.size(), " values") : "");
}

std::string Shown(const Feature& feature) {
  return std::visit(
      [](const auto& values) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::monostate>) {
          return "nothing";
        } else {
          return ShownValues(values);
        }
      },
      feature);
}

absl::StatusOr<std::string> InspectFramed(const std::string& path, Framing framing) {
  ASSIGN_OR_RETURN(RandomAccessFile file, OpenUnpacked(path));
  ASSIGN_OR_RETURN(const FramedRecords records, FramedRecords::Open(framing, std::move(file)));
  std::map<std::string, std::set<std::string>> types;
  std::string samples, bytes;
  for (int64_t i = 0; i < records.num_records(); ++i) {
    RETURN_IF_ERROR(records.Read(i, &bytes));
    const absl::StatusOr<Example> example = ParseExample(framing, bytes);
    if (!example.ok()) return AddContext(example.status(), records.Name(i));
    std::vector<std::string> shown;
    for (const auto& [name, feature] : *example) {
      types[name].insert(absl::StrCat(FeatureTypeName(feature), "[", FeatureSize(feature), "]"));
      if (i < kSamples) shown.push_back(absl::StrCat(Printable(name), " = ", Shown(feature)));
    }
    if (i < kSamples) samples += Line(absl::StrCat("record ", i), absl::StrJoin(shown, "; "));
  }
  std::string lines =
      Line("records", Counted(records.num_records(), "records", records.cut_bytes()));
  for (const auto& [name, of] : types) {
    constexpr size_t kTypes = 3;
    lines +=
        Line("feature", absl::StrCat(Printable(name), "  ",
                                     of.size() > kTypes
                                         ? absl::StrCat(of.size(), " types, such as ", *of.begin())
                                         : absl::StrJoin(of, " or ")));
  }
  return lines + samples;
}

absl::StatusOr<std::string> InspectRecordIo(const std::string& path) {
  ASSIGN_OR_RETURN(const RecordFile file, RecordFile::Open(path));
  std::string lines =
      Line("records", Counted(static_cast<int64_t>(file.keys().size()), "records", 0));
  int64_t shown = 0;
  for (const int64_t key : file.keys()) {
    ASSIGN_OR_RETURN(const PictureRecord record, file.Read(key));
    if (shown++ >= kSamples) continue;
    lines += Line(absl::StrCat("key ", key),
                  absl::StrCat("labels ", ShownValues(record.labels), "; ",
                               record.bytes.empty() ? "no picture" : ShownBytes(record.bytes)));
  }
  return lines;
}

template <typename T>
int64_t CountNotFinite(absl::string_view values) {
  int64_t count = 0;
  for (size_t at = 0; at < values.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, values.data() + at, sizeof(T));
    count += std::isfinite(value) ? 0 : 1;
  }
  return count;
}

// "; 2 are not finite", of numbers that people would not see among the first ones.
std::string NotFinite(const NpyArray& array) {
  int64_t count = 0;
  if (array.kind == 'f' && array.item_bytes == 4) count = CountNotFinite<float>(array.values);
  if (array.kind == 'f' && array.item_bytes == 8) count = CountNotFinite<double>(array.values);
  return count == 0 ? "" : absl::StrCat("; ", count, count == 1 ? " is" : " are", " not finite");
}

std::string ShownArray(const NpyArray& array) {
  std::vector<std::string> values;
  const int64_t count = array.shape.NumElements();
  for (int64_t i = 0; i < std::min(count, kValues); ++i) {
    const char* const at = array.values.data() + i * array.item_bytes;
    const auto value = [&](auto zero) {
      std::memcpy(&zero, at, sizeof(zero));
      return zero;
    };
    const bool is_signed = array.kind == 'i';
    if (array.kind == 'f' && array.item_bytes == 4) {
      values.push_back(absl::StrCat(value(0.0f)));
    } else if (array.kind == 'f' && array.item_bytes == 8) {
      values.push_back(absl::StrCat(value(0.0)));
    } else if (array.kind == 'f' || array.kind == 'c') {
      values.push_back(absl::BytesToHexString(absl::string_view(at, array.item_bytes)));
    } else if (array.item_bytes == 1) {
      values.push_back(absl::StrCat(is_signed ? value(int8_t{0}) : value(uint8_t{0})));
    } else if (array.item_bytes == 2) {
      values.push_back(absl::StrCat(is_signed ? value(int16_t{0}) : value(uint16_t{0})));
    } else if (array.item_bytes == 4) {
      values.push_back(is_signed ? absl::StrCat(value(int32_t{0}))
                                 : absl::StrCat(value(uint32_t{0})));
    } else {
      values.push_back(is_signed ? absl::StrCat(value(int64_t{0}))
                                 : absl::StrCat(value(uint64_t{0})));
    }
  }
  return absl::StrCat(array.TypeName(), " ", array.shape.ToString(), "  ",
                      absl::StrJoin(values, " "), count > kValues ? " .." : "", NotFinite(array));
}

absl::StatusOr<std::string> InspectArrays(const std::string& path, FileFormat format) {
  if (format == FileFormat::kIdx) {
    ASSIGN_OR_RETURN(const IdxArray array, ReadIdx(path));
    return Line("array", ShownArray({'u', 1, array.shape,
                                     std::string(array.values.begin(), array.values.end())}));
  }
  if (format == FileFormat::kNpy) {
    ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
    return Line("array", ShownArray(array));
  }
  ASSIGN_OR_RETURN(const NamedArrays arrays, ReadNpz(path));
  std::string lines = Line("arrays", absl::StrCat(arrays.size()));
  for (const auto& [name, array] : arrays) {
    lines += Line("array", absl::StrCat(Printable(name), "  ", ShownArray(array)));
  }
  return lines;
}

absl::StatusOr<std::string> InspectDelimited(const std::string& path, char delimiter) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  const bool csv = delimiter == ',';
  ASSIGN_OR_RETURN(
      const DelimitedText table,
      DelimitedText::Open(path, text, {.delimiter = delimiter, .quotes = csv, .names = csv}));
  int64_t rows = 0;
  std::string samples;
  RETURN_IF_ERROR(table.ForEachRow([&](int64_t line, absl::Span<const absl::string_view> fields) {
    if (rows++ < kSamples) {
      samples += Line(absl::StrCat("line ", line), Printable(absl::StrJoin(fields, " | ")));
    }
    return absl::OkStatus();
  }));
  std::string lines = Line("rows", absl::StrCat(rows, " of ", table.columns(), " columns"));
  if (csv) lines += Line("columns", Printable(absl::StrJoin(table.names(), " | ")));
  return lines + samples;
}

absl::StatusOr<std::string> InspectRaw(const std::string& path, const RawColumns& columns) {
  constexpr int64_t kAtOnce = 1 << 12;
  ASSIGN_OR_RETURN(RandomAccessFile file, OpenUnpacked(path));
  ASSIGN_OR_RETURN(const HugeCtrRaw raw, HugeCtrRaw::Open(columns, std::move(file)));
  std::string lines = Line("samples", Counted(raw.num_samples(), "samples", raw.cut_bytes()));
  lines += Line("columns",
                absl::StrCat(columns.labels, " labels and ", columns.numbers, " numbers ",
                             columns.floats ? "f32" : "u32", ", ", columns.keys, " keys u32"));
  for (int64_t first = 0; first < raw.num_samples(); first += kAtOnce) {
    ASSIGN_OR_RETURN(const std::vector<RawSample> samples,
                     raw.Read(first, std::min(kAtOnce, raw.num_samples() - first)));
    for (size_t i = 0; first == 0 && i < std::min<size_t>(samples.size(), kSamples); ++i) {
      lines += Line(absl::StrCat("sample ", i), absl::StrCat(ShownValues(samples[i].labels), "; ",
                                                             ShownValues(samples[i].numbers), "; ",
                                                             ShownValues(samples[i].keys)));
    }
  }
  return lines;
}

absl::StatusOr<std::string> InspectTokens(const std::string& path) {
  const TokenVocabulary any = {.size = 0, .name = "any vocabulary"};
  ASSIGN_OR_RETURN(const OpenTokenFile file, OpenTokens(path, any.size));
  ASSIGN_OR_RETURN(const TokenSequence tokens, TokenSequence::Open({path}, any));
  std::string lines =
      Line("tokens", absl::StrCat(tokens.size(), " of ", 8 * BytesOf(file.layout.type), " bits"));
  if (file.layout.format == TokenFormat::kMegatron) {
    lines += Line("sequences",
                  absl::StrCat(file.layout.sequences, " in ", file.layout.documents, " documents"));
  }
  if (tokens.size() == 0) return lines;
  int32_t largest = 0;
  RETURN_IF_ERROR(tokens.ForEachPiece([&](absl::Span<const int32_t> piece) {
    largest = std::max(largest, *std::ranges::max_element(piece));
    return absl::OkStatus();
  }));
  std::vector<int32_t> first(std::min(kValues, tokens.size()));
  RETURN_IF_ERROR(tokens.Read(0, static_cast<int64_t>(first.size()), first.data()));
  lines += Line("largest", absl::StrCat(largest));
  return lines +
         Line("first", absl::StrCat(ShownValues(first), tokens.size() > kValues ? " .." : ""));
}

absl::StatusOr<std::string> InspectText(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return Line("text",
              absl::StrCat(text.size(), " bytes, ", std::ranges::count(text, '\n'), " lines")) +
         Line("begins", PrintableLine(text.substr(0, kTextShown)));
}

absl::StatusOr<std::string> InspectFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const ImageFolder folder, ListImageFolder(path));
  std::string lines = Line(
      "pictures", absl::StrCat(folder.training.size(), " to learn from, ", folder.held_out.size(),
                               " held out, ", folder.classes.size(), " classes"));
  if (!folder.left_out.empty()) lines += Line("left out", DescribeLeftOut(folder.left_out));
  const FolderPhotos photos(path, folder.training);
  std::string bytes;
  for (int64_t i = 0; i < std::min(photos.size(), kSamples); ++i) {
    RETURN_IF_ERROR(photos.Read(i, &bytes));
    lines += Line(absl::StrCat("picture ", i),
                  absl::StrCat(Printable(photos.Name(i)), ": class ", folder.training[i].label,
                               ", ", ShownBytes(bytes)));
  }
  return lines;
}

absl::StatusOr<std::string> InspectAs(const std::string& path, FileFormat format,
                                      const RawColumns& columns) {
  switch (format) {
    case FileFormat::kTfRecord:
      return InspectFramed(path, Framing::kTfRecord);
    case FileFormat::kOfRecord:
      return InspectFramed(path, Framing::kOfRecord);
    case FileFormat::kRecordIo:
      return InspectRecordIo(path);
    case FileFormat::kNpy:
    case FileFormat::kNpz:
    case FileFormat::kIdx:
      return InspectArrays(path, format);
    case FileFormat::kCsv:
      return InspectDelimited(path, ',');
    case FileFormat::kTsv:
      return InspectDelimited(path, '\t');
    case FileFormat::kHugeCtrRaw:
      return InspectRaw(path, columns);
    case FileFormat::kNanoGpt:
    case FileFormat::kLlmC:
    case FileFormat::kMegatron:
      return InspectTokens(path);
    case FileFormat::kText:
      return InspectText(path);
    case FileFormat::kImageFolder:
      return InspectFolder(path);
  }
  return absl::InternalError("inspect: no such format");
}

}  // namespace

absl::StatusOr<std::string> InspectFile(const std::string& path, FileFormat format,
                                        const RawColumns& columns) {
  ASSIGN_OR_RETURN(const std::string lines, InspectAs(path, format, columns));
  return Line("format", FileFormatName(format)) + lines;
}

}  // namespace sluice
