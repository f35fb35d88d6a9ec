#include "framework/data/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/packed.h"
#include "framework/data/text_file.h"
#include "framework/data/zip.h"

namespace sluice {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY", kEnding = ".npy";
constexpr int kMostDimensions = 64;       // of NumPy 2
constexpr int64_t kMostHeader = 1 << 20;  // no array of numbers needs a hundredth
constexpr int64_t kAlignment = 64;        // of the first value in a file
constexpr int64_t kPreamble = 6 + 2, kShortHead = kPreamble + 2, kLongHead = kPreamble + 4;

template <typename... Args>
absl::Status Expected(const Args&... what) {
  return absl::DataLossError(absl::StrCat("expected ", what...));
}

// What the header says, a dictionary as Python writes it.
struct Header {
  std::optional<std::string> type;
  std::optional<bool> fortran;
  std::optional<Shape> shape;
  int64_t end = 0;  // its first byte behind, where the values begin
};

class HeaderParser {
 public:
  HeaderParser(absl::string_view text, int64_t begin) : text_(text), begin_(begin) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    RETURN_IF_ERROR(Take("{"));
    while (!Taken("}")) {
      ASSIGN_OR_RETURN(const std::string key, Text());
      RETURN_IF_ERROR(Take(":"));
      if (key == "descr" && !header.type) {
        if (At('[') || At('(')) {
          return absl::InvalidArgumentError("expected an array of numbers, got one of records");
        }
        ASSIGN_OR_RETURN(header.type, Text());
      } else if (key == "fortran_order" && !header.fortran) {
        header.fortran = Taken("True");
        if (!*header.fortran) RETURN_IF_ERROR(Take("False"));
      } else if (key == "shape" && !header.shape) {
        ASSIGN_OR_RETURN(header.shape, Extents());
      } else {
        return Wrong(absl::StrCat("descr, fortran_order and shape, each once, but for ", key));
      }
      if (!Taken(",") && !At('}')) return Wrong("a comma or }");
    }
    Skip();
    if (at_ < text_.size()) return Wrong("the end of the header");
    if (header.type && header.fortran && header.shape) return header;
    return Wrong("descr, fortran_order and shape before it");
  }

 private:
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool At(char c) {
    Skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Taken(absl::string_view token) {
    Skip();
    if (!absl::StartsWith(text_.substr(at_), token)) return false;
    at_ += token.size();
    return true;
  }
  absl::Status Take(absl::string_view token) {
    return Taken(token) ? absl::OkStatus() : Wrong(token);
  }
  absl::Status Wrong(absl::string_view expected) const {
    constexpr size_t kShown = 12;
    return Expected(expected, " at byte ", begin_ + static_cast<int64_t>(at_), ", got \"",
                    Printable(text_.substr(at_, kShown)), "\"");
  }

  absl::StatusOr<std::string> Text() {
    Skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Wrong("a text in quotes");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return Wrong("a text that ends");
    std::string text(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return text;
  }

  absl::StatusOr<Shape> Extents() {
    Shape shape;
    RETURN_IF_ERROR(Take("("));
    while (!Taken(")")) {
      Skip();
      const size_t begin = at_;
      while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
      int64_t extent = 0;
      if (!absl::SimpleAtoi(text_.substr(begin, at_ - begin), &extent)) {
        at_ = begin;
        return Wrong("an extent");
      }
      if (shape.rank() == kMostDimensions) {
        return Wrong(absl::StrCat("at most ", kMostDimensions, " dimensions"));
      }
      shape.Append(extent);
      Taken("L");  // Python 2's long
      if (!Taken(",") && !At(')')) return Wrong("a comma or )");
    }
    return shape;
  }

  const absl::string_view text_;
  const int64_t begin_;  // of the text in the file
  size_t at_ = 0;
};

// Exactly as many, or which are missing.
absl::Status ReadWhole(PackedStream* stream, const char* what, int64_t size, char* to) {
  ASSIGN_OR_RETURN(const int64_t got, stream->Read(reinterpret_cast<uint8_t*>(to), size));
  return got == size ? absl::OkStatus() : Expected(what, " of ", size, " bytes, got ", got);
}

absl::StatusOr<Header> ReadHeader(PackedStream* stream) {
  char head[kLongHead];
  RETURN_IF_ERROR(ReadWhole(stream, "a .npy head", kPreamble, head));
  if (absl::string_view(head, kMagic.size()) != kMagic) {
    return Expected("a .npy file, which begins with ", absl::CHexEscape(kMagic), ", got ",
                    absl::CHexEscape(absl::string_view(head, kMagic.size())));
  }
  const int version = static_cast<uint8_t>(head[kMagic.size()]);
  if (version < 1 || version > 3) {
    return Expected("version 1, 2 or 3 at byte ", kMagic.size(), ", got ", version);
  }
  uint32_t size = 0;
  const int64_t size_bytes = version == 1 ? kShortHead - kPreamble : kLongHead - kPreamble;
  RETURN_IF_ERROR(
      ReadWhole(stream, "the header's size", size_bytes, reinterpret_cast<char*>(&size)));
  if (size > kMostHeader) {
    return Expected("a header of at most ", kMostHeader, " bytes at byte ", kPreamble, ", got ",
                    size);
  }
  std::string text(size, '\0');
  RETURN_IF_ERROR(ReadWhole(stream, "a header", size, text.data()));
  ASSIGN_OR_RETURN(Header header, HeaderParser(text, kPreamble + size_bytes).Parse());
  header.end = kPreamble + size_bytes + size;
  return header;
}

// Sets the type of `array`; whether the first byte of a value is the highest.
absl::StatusOr<bool> ReadType(absl::string_view type, NpyArray* array) {
  const auto refused = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected numbers, such as <f4, |u1 or >i8, got type ", absl::CHexEscape(type)));
  };
  if (type.size() < 3 || !absl::StrContains("<>|=", type[0]) ||
      !absl::StrContains("biufc", type[1])) {
    return refused();
  }
  array->kind = type[1];
  const absl::string_view digits = type.substr(2);
  const auto one_of = [&](std::initializer_list<const char*> sizes) {
    return std::find(sizes.begin(), sizes.end(), digits) != sizes.end();
  };
  const bool known = array->kind == 'b'   ? one_of({"1"})
                     : array->kind == 'f' ? one_of({"2", "4", "8"})
                     : array->kind == 'c' ? one_of({"8", "16"})
                                          : one_of({"1", "2", "4", "8"});
  if (!known || !absl::SimpleAtoi(digits, &array->item_bytes)) return refused();
  return type[0] == '>';
}

void ReverseValues(NpyArray* array) {
  const int64_t size = array->kind == 'c' ? array->item_bytes / 2 : array->item_bytes;
  for (auto at = array->values.begin(); at != array->values.end(); at += size) {
    std::reverse(at, at + size);
  }
}

// From the first dimension innermost to the last.
void MakeRowMajor(NpyArray* array) {
  const int rank = array->shape.rank();
  const int64_t size = array->item_bytes;
  std::vector<int64_t> strides(rank, size), index(rank, 0);
  for (int d = 1; d < rank; ++d) strides[d] = strides[d - 1] * array->shape[d - 1];
  std::string values(array->values.size(), '\0');
  int64_t from = 0;
  for (size_t to = 0; to < values.size(); to += size) {
    std::memcpy(values.data() + to, array->values.data() + from, size);
    for (int d = rank - 1; d >= 0; --d) {
      from += strides[d];
      if (++index[d] < array->shape[d]) break;
      from -= strides[d] * index[d];
      index[d] = 0;
    }
  }
  array->values = std::move(values);
}

// The bytes of all values, of which there are at most `most`.
absl::StatusOr<int64_t> SizeOf(const NpyArray& array, int64_t most) {
  const bool none = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  int64_t size = none ? 0 : array.item_bytes;
  for (const int64_t extent : array.shape) {
    if (extent > 0 && size > most / extent) {
      return Expected(array.TypeName(), " ", array.shape.ToString(), ", got ", most,
                      " bytes of values at most");
    }
    size *= extent;
  }
  return size;
}

absl::StatusOr<NpyArray> ReadUnnamed(PackedStream* stream) {
  ASSIGN_OR_RETURN(const Header header, ReadHeader(stream));
  NpyArray array;
  array.shape = *header.shape;
  ASSIGN_OR_RETURN(const bool reversed, ReadType(*header.type, &array));
  ASSIGN_OR_RETURN(const int64_t size, SizeOf(array, stream->AtMostLeft()));
  array.values.resize(size);
  ASSIGN_OR_RETURN(const int64_t got,
                   stream->Read(reinterpret_cast<uint8_t*>(array.values.data()), size));
  uint8_t beyond = 0;
  ASSIGN_OR_RETURN(const int64_t more, got < size ? 0 : stream->Read(&beyond, 1));
  if (got < size || more > 0) {
    return Expected(size, " bytes of ", array.TypeName(), " ", array.shape.ToString(), ", got ",
                    more > 0 ? "more" : absl::StrCat(got));
  }
  if (reversed) ReverseValues(&array);
  if (*header.fortran && array.shape.rank() > 1) MakeRowMajor(&array);
  return array;
}

absl::StatusOr<NpyArray> Read(absl::string_view name, PackedStream* stream) {
  absl::StatusOr<NpyArray> array = ReadUnnamed(stream);
  if (!array.ok()) return AddContext(array.status(), name);
  return array;
}

}  // namespace

std::string NpyArray::TypeName() const { return absl::StrFormat("%c%d", kind, item_bytes); }

absl::StatusOr<NpyArray> ParseNpy(absl::string_view name, absl::string_view bytes) {
  PackedStream stream(bytes);
  return Read(name, &stream);
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path) {
  ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  PackedStream stream(file);
  absl::StatusOr<NpyArray> array = Read(absl::StrCat("data: ", path), &stream);
  if (array.ok()) return array;
  return ExplainKind(array.status(), path, FileKind::kNpy, "a NumPy array");
}

absl::StatusOr<NpyLayout> FindNpyValues(absl::string_view name, const RandomAccessFile& file) {
  const auto find = [&]() -> absl::StatusOr<NpyLayout> {
    PackedStream stream(file);
    ASSIGN_OR_RETURN(const Header header, ReadHeader(&stream));
    NpyArray array;
    array.shape = *header.shape;
    ASSIGN_OR_RETURN(const bool big_endian, ReadType(*header.type, &array));
    const int64_t there = file.size() - header.end;
    ASSIGN_OR_RETURN(const int64_t size, SizeOf(array, there));
    if (size != there) {
      return Expected(size, " bytes of ", array.TypeName(), " ", array.shape.ToString(), ", got ",
                      there);
    }
    return NpyLayout{array.kind,      array.item_bytes, big_endian && array.item_bytes > 1,
                     *header.fortran, array.shape,      header.end};
  };
  absl::StatusOr<NpyLayout> layout = find();
  if (!layout.ok()) return AddContext(layout.status(), name);
  return layout;
}

std::string NpyBytes(const NpyArray& array) {
  std::string header = absl::StrCat("{'descr': '", array.item_bytes == 1 ? "|" : "<",
                                    array.TypeName(), "', 'fortran_order': False, 'shape': (");
  for (int d = 0; d < array.shape.rank(); ++d) {
    absl::StrAppend(&header, d > 0 ? " " : "", array.shape[d],
                    d == 0 || d + 1 < array.shape.rank() ? "," : "");
  }
  header += "), }";
  const auto size = static_cast<int64_t>(header.size());
  header.append(kAlignment - 1 - (kShortHead + size) % kAlignment, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string bytes = absl::StrCat(kMagic, absl::string_view("\x01\0", 2));
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return absl::StrCat(bytes, header, array.values);
}

absl::StatusOr<NamedArrays> ParseNpz(absl::string_view name, std::string bytes) {
  const RandomAccessFile file = RandomAccessFile::OfBytes(std::string(name), std::move(bytes));
  ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(file));
  NamedArrays arrays;
  for (const ZipMember& member : members) {
    const std::string place = absl::StrCat(name, ": ", absl::CHexEscape(member.name));
    if (!absl::EndsWith(member.name, kEnding)) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": expected an array, NAME.npy, in a .npz"));
    }
    ASSIGN_OR_RETURN(const std::string array, ReadZipMember(file, member));
    arrays.emplace_back(member.name.substr(0, member.name.size() - kEnding.size()), NpyArray());
    ASSIGN_OR_RETURN(arrays.back().second, ParseNpy(place, array));
  }
  return arrays;
}

absl::StatusOr<NamedArrays> ReadNpz(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadAnyBytes(path));
  absl::StatusOr<NamedArrays> arrays = ParseNpz(absl::StrCat("data: ", path), std::move(bytes));
  if (arrays.ok()) return arrays;
  return ExplainKind(arrays.status(), path, FileKind::kZip, "an .npz of NumPy arrays");
}

absl::StatusOr<std::string> NpzBytes(const NamedArrays& arrays, bool deflate) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [name, array] : arrays) {
    members.emplace_back(absl::StrCat(name, kEnding), NpyBytes(array));
  }
  return ZipBytes(members, deflate);
}

}  // namespace sluice
