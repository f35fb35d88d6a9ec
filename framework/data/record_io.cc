#include "framework/data/record_io.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/little_endian.h"
#include "framework/data/packed.h"

namespace sluice {
namespace {

constexpr uint32_t kMagic = 0xced7230a;
// A payload that has the magic at a place that is a multiple of four is cut there, so that a reader
// who looks for records finds no other; which part it is stands above its length.
enum Part : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };
constexpr int kPartShift = 29;
constexpr uint32_t kMostBytes = (uint32_t{1} << kPartShift) - 1;
constexpr size_t kWord = 4, kHeader = 24;  // of a picture: flag, label, id, id2

void Put(const void* value, size_t size, std::string* to) {
  to->append(static_cast<const char*>(value), size);
}

void PutPart(Part part, absl::string_view bytes, std::string* to) {
  Put(&kMagic, kWord, to);
  const uint32_t length = static_cast<uint32_t>(bytes.size()) | part << kPartShift;
  Put(&length, kWord, to);
  to->append(bytes.data(), bytes.size());
  to->append((kWord - bytes.size() % kWord) % kWord, '\0');
}

std::string Payload(const PictureRecord& record) {
  // A single label stands in the header; of several it has the number, and they follow.
  const uint32_t flag = record.labels.size() == 1 ? 0 : static_cast<uint32_t>(record.labels.size());
  const float label = flag == 0 ? record.labels[0] : 0;
  std::string payload;
  Put(&flag, sizeof(flag), &payload);
  Put(&label, sizeof(label), &payload);
  Put(&record.id, sizeof(record.id), &payload);
  Put(&record.id2, sizeof(record.id2), &payload);
  if (flag > 0) Put(record.labels.data(), flag * sizeof(float), &payload);
  return payload + record.bytes;
}

absl::Status Expected(const std::string& what) {
  return absl::DataLossError(absl::StrCat("expected ", what));
}

// The payload, its parts put together again.
absl::StatusOr<std::string> Joined(absl::string_view bytes) {
  std::string payload;
  for (bool first = true;; first = false) {
    if (bytes.size() < 2 * kWord) {
      return Expected(absl::StrCat("a record's head of 8 bytes, got ", bytes.size()));
    }
    if (Take<uint32_t>(bytes, 0) != kMagic) {
      return Expected(absl::StrFormat("a record, which begins with %08x, got %08x", kMagic,
                                      Take<uint32_t>(bytes, 0)));
    }
    const uint32_t length = Take<uint32_t>(bytes, kWord) & kMostBytes;
    const uint32_t part = Take<uint32_t>(bytes, kWord) >> kPartShift;
    const bool fits = first ? part == kWhole || part == kFirst : part == kMiddle || part == kLast;
    if (!fits) return Expected(absl::StrCat("the parts of a record in order, got kind ", part));
    bytes.remove_prefix(2 * kWord);
    if (bytes.size() < length) {
      return Expected(absl::StrCat("a record of ", length, " bytes, got ", bytes.size()));
    }
    if (!first) Put(&kMagic, kWord, &payload);
    payload.append(bytes.data(), length);
    if (part == kWhole || part == kLast) return payload;
    bytes.remove_prefix(std::min<size_t>((length + kWord - 1) / kWord * kWord, bytes.size()));
  }
}

}  // namespace

std::string RecordBytes(const PictureRecord& record) {
  const std::string payload = Payload(record);
  std::string bytes;
  size_t begin = 0;
  for (size_t at = 0; at + kWord <= payload.size(); at += kWord) {
    if (Take<uint32_t>(payload, at) != kMagic) continue;
    PutPart(begin == 0 ? kFirst : kMiddle, absl::string_view(payload).substr(begin, at - begin),
            &bytes);
    begin = at + kWord;
  }
  PutPart(begin == 0 ? kWhole : kLast, absl::string_view(payload).substr(begin), &bytes);
  return bytes;
}

absl::StatusOr<PictureRecord> ParseRecord(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::string payload, Joined(bytes));
  if (payload.size() < kHeader) {
    return Expected(absl::StrCat("a picture's head of ", kHeader, " bytes, got ", payload.size()));
  }
  PictureRecord record;
  const uint32_t flag = Take<uint32_t>(payload, 0);
  record.labels = {Take<float>(payload, 4)};
  record.id = Take<uint64_t>(payload, 8);
  record.id2 = Take<uint64_t>(payload, 16);
  if (flag > (payload.size() - kHeader) / sizeof(float)) {
    return Expected(
        absl::StrCat(flag, " labels, got ", payload.size() - kHeader, " bytes behind the head"));
  }
  if (flag > 0) {
    record.labels.resize(flag);
    std::memcpy(record.labels.data(), payload.data() + kHeader, flag * sizeof(float));
  }
  record.bytes = payload.substr(kHeader + flag * sizeof(float));
  return record;
}

namespace {

std::string IndexOf(const std::string& path) {
  return path.substr(0, path.size() - std::min<size_t>(path.size(), 4)) + ".idx";
}

// The keys and where their records begin.
absl::StatusOr<std::map<int64_t, int64_t>> ReadIndex(const std::string& path, int64_t size) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::map<int64_t, int64_t> begins;
  int line = 0;
  for (const absl::string_view row : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++line;
    const std::pair<absl::string_view, absl::string_view> of = absl::StrSplit(row, '\t');
    int64_t key = 0, begin = 0;
    if (!absl::SimpleAtoi(of.first, &key) || !absl::SimpleAtoi(of.second, &begin)) {
      return absl::DataLossError(
          absl::StrCat(path, ": line ", line, ": expected a key, a tab and a place, got ", row));
    }
    if (begin < 0 || begin >= size || !begins.emplace(key, begin).second) {
      return absl::DataLossError(absl::StrCat(path, ": line ", line,
                                              ": expected each key once, at ", "a place below ",
                                              size, ", got ", row));
    }
  }
  if (!begins.empty()) return begins;
  return absl::DataLossError(absl::StrCat(path, ": expected keys of records, got none"));
}

}  // namespace

absl::StatusOr<RecordFile> RecordFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(RandomAccessFile file, OpenUnpacked(path));
  RecordFile records(std::move(file));
  const int64_t size = records.bytes();
  ASSIGN_OR_RETURN(const auto begins, ReadIndex(IndexOf(path), size));
  std::vector<int64_t> places;
  for (const auto& [key, begin] : begins) places.push_back(begin);
  std::sort(places.begin(), places.end());
  for (const auto& [key, begin] : begins) {
    const auto next = std::upper_bound(places.begin(), places.end(), begin);
    records.keys_.push_back(key);
    records.places_.push_back({begin, next == places.end() ? size : *next});
  }
  return records;
}

int64_t RecordFile::begin(int64_t key) const {
  return places_[std::ranges::lower_bound(keys_, key) - keys_.begin()].begin;
}

absl::StatusOr<PictureRecord> RecordFile::Read(int64_t key) const {
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
  if (found == keys_.end() || *found != key) {
    return absl::NotFoundError(
        absl::StrCat(file_.path(), ": expected a record of key ", key, ", got none"));
  }
  const Place& place = places_[found - keys_.begin()];
  std::string bytes(place.end - place.begin, '\0');
  RETURN_IF_ERROR(file_.ReadAt(place.begin, place.end - place.begin, bytes.data()));
  absl::StatusOr<PictureRecord> record = ParseRecord(bytes);
  if (record.ok()) return record;
  return ExplainKind(AddContext(record.status(), absl::StrCat(file_.path(), ": record ", key)),
                     file_.path(), FileKind::kRecordIo, "RecordIO of MXNet");
}

absl::Status WriteRecords(const std::string& path,
                          const std::vector<std::pair<int64_t, PictureRecord>>& records) {
  std::ofstream rec(path, std::ios::binary), index(IndexOf(path));
  int64_t place = 0;
  for (const auto& [key, record] : records) {
    const std::string bytes = RecordBytes(record);
    rec << bytes;
    index << key << '\t' << place << '\n';
    place += static_cast<int64_t>(bytes.size());
  }
  rec.close(), index.close();
  if (rec && index) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
}

}  // namespace sluice
