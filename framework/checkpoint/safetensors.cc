#include "framework/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/json.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHeaderLimit = 100'000'000;

struct DTypeWord {
  const char* word;
  int64_t size;
};
// Sluice's in the order of DType.
constexpr DTypeWord kWords[] = {
    {"F32", 4},  {"F64", 8}, {"BF16", 2},    {"I32", 4},     {"U8", 1},     {"F16", 2},
    {"BOOL", 1}, {"I8", 1},  {"U16", 2},     {"I16", 2},     {"U32", 4},    {"I64", 8},
    {"U64", 8},  {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

std::string WordOf(DType dtype) { return kWords[static_cast<int>(dtype)].word; }

// Null for a word that the format does not have.
const DTypeWord* FindWord(absl::string_view word) {
  for (const DTypeWord& d : kWords) {
    if (word == d.word) return &d;
  }
  return nullptr;
}

std::optional<DType> OursOf(absl::string_view word) {
  for (const DType dtype : kDTypes) {
    if (word == WordOf(dtype)) return dtype;
  }
  return std::nullopt;
}

float HalfToFloat(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  float value = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 1024),
                           std::max(exponent, 1) - 25);
  if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
  return half >> 15 != 0 ? -value : value;
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

absl::Status Damaged(absl::string_view where, absl::string_view expected, absl::string_view got) {
  return absl::DataLossError(absl::StrCat(where, ": expected ", expected, ", got ", got));
}

// The non-negative integers of a JSON array.
bool ParseIntegers(const Json& json, std::vector<int64_t>* values) {
  if (!json.is_array()) return false;
  for (const Json& value : json) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
    values->push_back(value.get<int64_t>());
  }
  return true;
}

struct ParsedEntry {
  StoredTensor tensor;
  int64_t begin = 0, end = 0;
};

absl::StatusOr<ParsedEntry> ParseEntry(const std::string& path, const std::string& name,
                                       const Json& json) {
  const std::string where = absl::StrCat(path, ": tensor ", name);
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    return Damaged(where, "dtype, shape and data_offsets", json.dump().substr(0, 80));
  }
  ParsedEntry parsed;
  parsed.tensor.name = name;
  const DTypeWord* word =
      json["dtype"].is_string() ? FindWord(json["dtype"].get<std::string>()) : nullptr;
  if (word == nullptr) {
    return Damaged(where, "a dtype such as F32, BF16, F16 or I32", json["dtype"].dump());
  }
  parsed.tensor.dtype = word->word;
  std::vector<int64_t> extents, offsets;
  if (!ParseIntegers(json["shape"], &extents) || !ParseIntegers(json["data_offsets"], &offsets) ||
      offsets.size() != 2 || offsets[0] > offsets[1]) {
    return Damaged(where, "a shape and two rising offsets", json.dump().substr(0, 80));
  }
  int64_t bytes = word->size;
  for (const int64_t extent : extents) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return Damaged(where, "a shape of less than 2^63 bytes", json["shape"].dump());
    }
  }
  parsed.begin = offsets[0];
  parsed.end = offsets[1];
  if (parsed.end - parsed.begin != bytes) {
    return Damaged(where, absl::StrCat(bytes, " bytes for its shape"),
                   absl::StrCat(parsed.end - parsed.begin));
  }
  parsed.tensor.shape = Shape(absl::MakeConstSpan(extents));
  return parsed;
}

absl::StatusOr<std::string> HeaderOf(absl::Span<const TensorEntry> entries,
                                     const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t begin = 0;
  for (const TensorEntry& entry : entries) {
    if (header.contains(entry.name) || entry.name == "__metadata__") {
      return absl::InvalidArgumentError(absl::StrCat("a tensor's name twice: ", entry.name));
    }
    const int64_t end = begin + entry.shape.NumElements() * SizeOf(entry.dtype);
    header[entry.name] = {{"dtype", WordOf(entry.dtype)},
                          {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
                          {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// The observer reads a piece first, and the system copies it from the cache then: that costs less
// than two passes over memory, one for each.
absl::Status WritePieces(const TensorEntry& entry, absl::Span<const std::byte> bytes,
                         const PieceObserver& observer, FileWriter* file) {
  if (!observer) return file->Append(bytes.data(), bytes.size());
  constexpr size_t kPiece = size_t{1} << 18;  // bytes; whole elements of any type
  size_t at = 0;
  do {
    const absl::Span<const std::byte> piece = bytes.subspan(at, kPiece);
    RETURN_IF_ERROR(observer(entry, static_cast<int64_t>(at) / SizeOf(entry.dtype), piece));
    RETURN_IF_ERROR(file->Append(piece.data(), piece.size()));
    at += piece.size();
  } while (at < bytes.size());
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorEntry> entries,
                              const std::map<std::string, std::string>& metadata,
                              const TensorSource& source, FileFaults* faults,
                              const PieceObserver& observer) {
  ASSIGN_OR_RETURN(const std::string header, HeaderOf(entries, metadata));
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path, faults));
  RETURN_IF_ERROR(file.Append(LittleEndian(header.size())));
  RETURN_IF_ERROR(file.Append(header));
  for (const TensorEntry& entry : entries) {
    ASSIGN_OR_RETURN(const TensorValue value, source(entry));
    if (value.dtype() != entry.dtype || value.shape() != entry.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.name, ": expected ", DTypeName(entry.dtype), entry.shape.ToString(),
                       ", got ", DTypeName(value.dtype()), value.shape().ToString()));
    }
    RETURN_IF_ERROR(WritePieces(entry, value.bytes(), observer, &file));
  }
  return file.Close();
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(FileReader file, FileReader::Open(path));
  SafetensorsReader reader(std::move(file));
  std::array<unsigned char, 8> prefix;
  if (reader.file_.size() < 8) {
    return Damaged(path, "at least 8 bytes", absl::StrCat(reader.file_.size()));
  }
  RETURN_IF_ERROR(reader.file_.ReadAt(0, prefix.data(), 8));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
  if (length > uint64_t{kHeaderLimit} || static_cast<int64_t>(length) > reader.file_.size() - 8) {
    return Damaged(path,
                   absl::StrCat("a header of at most ",
                                std::min(kHeaderLimit, reader.file_.size() - 8), " bytes"),
                   absl::StrCat(length));
  }
  std::string header(length, '\0');
  RETURN_IF_ERROR(reader.file_.ReadAt(8, header.data(), length));
  reader.buffer_ = 8 + static_cast<int64_t>(length);
  if (header.empty() || header[0] != '{')
    return Damaged(path, "a header that begins with {", "none");
  RETURN_IF_ERROR(reader.ParseHeader(header, reader.file_.size() - reader.buffer_));
  return reader;
}

absl::Status SafetensorsReader::ParseHeader(absl::string_view header, int64_t buffer_bytes) {
  const std::string& path = file_.path();
  RETURN_IF_ERROR(CheckJsonObject(header, path));
  const Json json = Json::parse(header.begin(), header.end());
  std::vector<ParsedEntry> parsed;
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item.key() != "__metadata__") {
      ASSIGN_OR_RETURN(ParsedEntry entry, ParseEntry(path, item.key(), item.value()));
      parsed.push_back(std::move(entry));
      continue;
    }
    if (!item.value().is_object()) return Damaged(path, "__metadata__ as an object", "another");
    for (auto word = item.value().begin(); word != item.value().end(); ++word) {
      if (!word.value().is_string()) return Damaged(path, "strings in __metadata__", word.key());
      metadata_[word.key()] = word.value().get<std::string>();
    }
  }
  std::sort(parsed.begin(), parsed.end(), [](const ParsedEntry& a, const ParsedEntry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  int64_t end = 0;
  for (ParsedEntry& entry : parsed) {
    if (entry.begin != end) {
      return Damaged(absl::StrCat(path, ": tensor ", entry.tensor.name),
                     absl::StrCat("its bytes to begin at ", end), absl::StrCat(entry.begin));
    }
    end = entry.end;
    index_[entry.tensor.name] = static_cast<int>(stored_.size());
    places_.push_back({entry.begin, entry.end});
    const std::optional<DType> ours = OursOf(entry.tensor.dtype);
    if (ours) entries_.push_back({entry.tensor.name, *ours, entry.tensor.shape});
    stored_.push_back(std::move(entry.tensor));
  }
  if (end != buffer_bytes) {
    return Damaged(path, absl::StrCat(end, " bytes of tensors"), absl::StrCat(buffer_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> SafetensorsReader::Find(absl::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(file_.path(), ": no tensor ", name));
}

absl::StatusOr<HostTensor> SafetensorsReader::Read(absl::string_view name) const {
  ASSIGN_OR_RETURN(const int index, Find(name));
  const StoredTensor& stored = stored_[index];
  const std::optional<DType> dtype = OursOf(stored.dtype);
  if (!dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_.path(), ": ", name, ": expected F32, F64, BF16 or I32, got ", stored.dtype));
  }
  HostTensor tensor(*dtype, stored.shape);
  RETURN_IF_ERROR(file_.ReadAt(buffer_ + places_[index].begin, tensor.bytes.data(),
                               static_cast<int64_t>(tensor.bytes.size())));
  return tensor;
}

absl::Status SafetensorsReader::ReadBytes(absl::string_view name, int64_t from,
                                          absl::Span<std::byte> bytes) const {
  ASSIGN_OR_RETURN(const int index, Find(name));
  const auto size = static_cast<int64_t>(bytes.size());
  if (from < 0 || from > places_[index].size() || size > places_[index].size() - from) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": tensor ", name, ": expected a part of its ",
                     places_[index].size(), " bytes, got ", size, " at ", from));
  }
  return file_.ReadAt(buffer_ + places_[index].begin + from, bytes.data(), size);
}

absl::StatusOr<HostTensor> SafetensorsReader::ReadAsF32(absl::string_view name) const {
  ASSIGN_OR_RETURN(const int index, Find(name));
  const StoredTensor& stored = stored_[index];
  if (stored.dtype == "F32") return Read(name);
  const bool half = stored.dtype == "F16";
  if (!half && stored.dtype != "BF16") {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": ", name, ": expected F32, F16 or BF16, got ", stored.dtype));
  }
  HostTensor tensor(DType::kF32, stored.shape);
  std::vector<uint16_t> bits(stored.shape.NumElements());
  RETURN_IF_ERROR(file_.ReadAt(buffer_ + places_[index].begin, bits.data(),
                               static_cast<int64_t>(bits.size() * sizeof(uint16_t))));
  std::transform(bits.begin(), bits.end(), tensor.data<float>(),
                 half ? HalfToFloat : BFloat16ToFloat);
  return tensor;
}

}  // namespace sluice
