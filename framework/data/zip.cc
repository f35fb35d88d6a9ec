#include "framework/data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/data/little_endian.h"

namespace sluice {
namespace {

// Sizes of what stands before texts of any length, and how each begins.
constexpr int64_t kEndSize = 22, kLocatorSize = 20, kLargeEndSize = 56, kEntrySize = 46,
                  kHeadSize = 30;
constexpr uint32_t kEnd = 0x06054b50, kLocator = 0x07064b50, kLargeEnd = 0x06064b50,
                   kEntry = 0x02014b50, kHead = 0x04034b50;
constexpr int64_t kMostComment = 0xffff;
constexpr uint32_t kElsewhere = 0xffffffff;  // the number has its 64-bit form in an extra field
constexpr uint16_t kLargeExtra = 1, kEncrypted = 1, kStored = 0, kDeflated = 8;
constexpr int64_t kBestRatio = 1032, kHeldBack = 258;  // of deflate

template <typename... Args>
absl::Status Expected(const RandomAccessFile& file, int64_t at, const Args&... what) {
  return absl::DataLossError(
      absl::StrCat("data: ", file.path(), ": at byte ", at, ": expected ", what...));
}

absl::StatusOr<std::string> Part(const RandomAccessFile& file, int64_t at, int64_t size,
                                 const char* what) {
  if (at < 0 || size < 0 || size > file.size() || at > file.size() - size) {
    return Expected(file, at, what, " of ", size, " bytes, got a file of ", file.size());
  }
  std::string part(size, '\0');
  RETURN_IF_ERROR(file.ReadAt(at, size, part.data()));
  return part;
}

struct Directory {
  int64_t begin = 0, size = 0, members = 0;
};

// Where the 64-bit form of the end is, it stands before the locator, which stands before the end.
absl::Status FindLarge(const RandomAccessFile& file, int64_t end, Directory* directory) {
  if (end < kLocatorSize) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string locator,
                   Part(file, end - kLocatorSize, kLocatorSize, "a locator"));
  if (Take<uint32_t>(locator, 0) != kLocator) return absl::OkStatus();
  const auto at = Take<int64_t>(locator, 8);
  ASSIGN_OR_RETURN(const std::string large,
                   Part(file, at, kLargeEndSize, "an end of the directory"));
  if (Take<uint32_t>(large, 0) != kLargeEnd) {
    return Expected(file, at, "an end of the directory in 64 bits, got ",
                    absl::CHexEscape(large.substr(0, 4)));
  }
  *directory = {Take<int64_t>(large, 48), Take<int64_t>(large, 40), Take<int64_t>(large, 32)};
  return absl::OkStatus();
}

absl::StatusOr<Directory> FindDirectory(const RandomAccessFile& file) {
  const int64_t size = std::min(file.size(), kEndSize + kMostComment);
  ASSIGN_OR_RETURN(const std::string tail, Part(file, file.size() - size, size, "an end"));
  for (int64_t at = size - kEndSize; at >= 0; --at) {
    // A comment may have the signature in it, and then not its own length behind that.
    if (Take<uint32_t>(tail, at) != kEnd || Take<uint16_t>(tail, at + 20) != size - at - kEndSize) {
      continue;
    }
    Directory directory = {Take<uint32_t>(tail, at + 16), Take<uint32_t>(tail, at + 12),
                           Take<uint16_t>(tail, at + 10)};
    RETURN_IF_ERROR(FindLarge(file, file.size() - size + at, &directory));
    return directory;
  }
  return absl::DataLossError(absl::StrCat("data: ", file.path(), ": expected a .zip, with the end ",
                                          "of a directory behind the files, got ", file.size(),
                                          " bytes without"));
}

// The 64-bit forms of those numbers that have one, in their order.
absl::Status TakeLarge(absl::string_view extra, std::vector<int64_t*> numbers) {
  std::erase_if(numbers, [](const int64_t* number) { return *number != kElsewhere; });
  while (!numbers.empty() && extra.size() >= 4) {
    const auto id = Take<uint16_t>(extra, 0), size = Take<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) break;
    if (id == kLargeExtra && size >= numbers.size() * sizeof(int64_t)) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        *numbers[i] = Take<int64_t>(extra, static_cast<int64_t>(i * sizeof(int64_t)));
      }
      return absl::OkStatus();
    }
    extra.remove_prefix(size);
  }
  if (numbers.empty()) return absl::OkStatus();
  return absl::DataLossError("sizes in 64 bits, got none");
}

// What an entry says, whose texts are `texts`.
absl::StatusOr<ZipMember> ReadEntry(const RandomAccessFile& file, int64_t at,
                                    absl::string_view entry, absl::string_view texts) {
  ZipMember member;
  const auto flags = Take<uint16_t>(entry, 8), method = Take<uint16_t>(entry, 10);
  const auto name = Take<uint16_t>(entry, 28), extra = Take<uint16_t>(entry, 30);
  member.name = std::string(texts.substr(0, name));
  member.crc = Take<uint32_t>(entry, 16);
  member.packed = Take<uint32_t>(entry, 20);
  member.bytes = Take<uint32_t>(entry, 24);
  member.begin = Take<uint32_t>(entry, 42);
  member.deflated = method == kDeflated;
  const absl::Status large =
      TakeLarge(texts.substr(name, extra), {&member.bytes, &member.packed, &member.begin});
  if (!large.ok()) return Expected(file, at, large.message());
  if ((flags & kEncrypted) != 0 || (method != kStored && method != kDeflated)) {
    return Expected(file, at, "a file that is stored or deflated, got ",
                    (flags & kEncrypted) != 0 ? "an encrypted one"
                                              : absl::StrCat("one packed by method ", method));
  }
  const int64_t most = member.deflated && member.packed <= file.size()
                           ? member.packed * kBestRatio + kHeldBack
                           : member.packed;
  if (member.packed < 0 || member.packed > file.size() || member.bytes < 0 || member.bytes > most ||
      member.begin < 0) {
    return Expected(file, at, "a file in ", file.size(), " bytes, got ", member.bytes,
                    " packed into ", member.packed, " at byte ", member.begin);
  }
  return member;
}

// zlib counts in 32 bits.
absl::StatusOr<std::string> Inflate(absl::string_view packed, int64_t size) {
  std::string bytes(size, '\0');
  z_stream stream = {};
  SLUICE_CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK) << "zlib has no memory";
  int code = Z_OK;
  size_t taken = 0, given = 0;
  constexpr size_t kAtOnce = size_t{1} << 30;
  while (code == Z_OK) {
    const auto in = static_cast<uInt>(std::min(packed.size() - taken, kAtOnce));
    const auto room = static_cast<uInt>(std::min(bytes.size() - given, kAtOnce));
    stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(packed.data() + taken));
    stream.next_out = reinterpret_cast<uint8_t*>(bytes.data() + given);
    stream.avail_in = in, stream.avail_out = room;
    code = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in, given += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (code == Z_STREAM_END && given == bytes.size() && taken == packed.size()) return bytes;
  return absl::DataLossError(absl::StrCat(
      size, " bytes unpacked of ", packed.size(), ", got ",
      code == Z_DATA_ERROR ? "damaged ones" : absl::StrCat(given, " unpacked of ", taken)));
}

std::string Deflated(const std::string& bytes) {
  z_stream stream = {};
  SLUICE_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                            Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  SLUICE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ListZip(const RandomAccessFile& file) {
  ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  ASSIGN_OR_RETURN(const std::string entries,
                   Part(file, directory.begin, directory.size, "a directory"));
  std::vector<ZipMember> members;
  int64_t at = 0;
  const auto size = static_cast<int64_t>(entries.size());
  for (int64_t m = 0; m < directory.members; ++m) {
    const int64_t place = directory.begin + at;
    if (size - at < kEntrySize || Take<uint32_t>(entries, at) != kEntry) {
      return Expected(file, place, "entry ", m, " of ", directory.members, ", which begins with ",
                      "PK\\001\\002, got ", absl::CHexEscape(entries.substr(at, 4)));
    }
    const absl::string_view entry = absl::string_view(entries).substr(at, kEntrySize);
    const int64_t texts =
        int64_t{Take<uint16_t>(entry, 28)} + Take<uint16_t>(entry, 30) + Take<uint16_t>(entry, 32);
    if (size - at - kEntrySize < texts) {
      return Expected(file, place, texts, " bytes of names, got ", size - at - kEntrySize);
    }
    ASSIGN_OR_RETURN(
        ZipMember member,
        ReadEntry(file, place, entry, absl::string_view(entries).substr(at + kEntrySize, texts)));
    members.push_back(std::move(member));
    at += kEntrySize + texts;
  }
  return members;
}

absl::StatusOr<std::string> ReadZipMember(const RandomAccessFile& file, const ZipMember& member) {
  const std::string name = absl::CHexEscape(member.name);
  ASSIGN_OR_RETURN(const std::string head, Part(file, member.begin, kHeadSize, "a file's head"));
  if (Take<uint32_t>(head, 0) != kHead) {
    return Expected(file, member.begin, "the head of ", name, ", which begins with PK\\003\\004, ",
                    "got ", absl::CHexEscape(head.substr(0, 4)));
  }
  const int64_t begin =
      member.begin + kHeadSize + Take<uint16_t>(head, 26) + Take<uint16_t>(head, 28);
  ASSIGN_OR_RETURN(std::string bytes, Part(file, begin, member.packed, "a packed file"));
  if (member.deflated) {
    absl::StatusOr<std::string> plain = Inflate(bytes, member.bytes);
    if (!plain.ok()) return Expected(file, begin, name, ", ", plain.status().message());
    bytes = *std::move(plain);
  } else if (member.bytes != member.packed) {
    return Expected(file, begin, name, " of ", member.bytes, " bytes, got ", member.packed);
  }
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  if (crc == member.crc) return bytes;
  return Expected(file, begin, name,
                  absl::StrFormat(" of checksum %08x, got %08x", member.crc, crc));
}

absl::StatusOr<std::string> ZipBytes(
    const std::vector<std::pair<std::string, std::string>>& members, bool deflate) {
  std::string files, directory;
  constexpr uint16_t kVersion = 20, kNoDay = 0x21;  // 1980-01-01
  for (const auto& [name, bytes] : members) {
    const auto begin = files.size();
    if (begin + bytes.size() + name.size() + kHeadSize >= kElsewhere) {
      return absl::InvalidArgumentError(
          absl::StrCat("zip: expected less than 4 GiB, got more with ", name));
    }
    const std::string packed = deflate ? Deflated(bytes) : bytes;
    std::string shared;  // what the head and the entry both say
    Put(kVersion, &shared);
    Put(uint16_t{0}, &shared);
    Put(deflate ? kDeflated : kStored, &shared);
    Put(uint16_t{0}, &shared);
    Put(kNoDay, &shared);
    Put(static_cast<uint32_t>(
            crc32_z(0, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())),
        &shared);
    Put(static_cast<uint32_t>(packed.size()), &shared);
    Put(static_cast<uint32_t>(bytes.size()), &shared);
    Put(static_cast<uint16_t>(name.size()), &shared);
    Put(uint16_t{0}, &shared);
    Put(kHead, &files);
    files += shared + name + packed;
    Put(kEntry, &directory);
    Put(kVersion, &directory);
    directory += shared;
    directory.append(10, '\0');  // comment, disk, attributes
    Put(static_cast<uint32_t>(begin), &directory);
    directory += name;
  }
  if (members.size() >= 0xffff || files.size() >= kElsewhere) {
    return absl::InvalidArgumentError(absl::StrCat(
        "zip: expected at most 65,534 files in 4 GiB, got ", members.size(), " in ", files.size()));
  }
  const auto begin = static_cast<uint32_t>(files.size());
  files += directory;
  Put(kEnd, &files);
  Put(uint32_t{0}, &files);
  Put(static_cast<uint16_t>(members.size()), &files);
  Put(static_cast<uint16_t>(members.size()), &files);
  Put(static_cast<uint32_t>(directory.size()), &files);
  Put(begin, &files);
  Put(uint16_t{0}, &files);
  return files;
}

}  // namespace sluice
