#include "framework/data/picture_pairs.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// An instruction of one byte makes a value of several words, so the longest list that a set may
// have is said: a thousand times as many pairs as LFW has.
constexpr size_t kMostValues = 1 << 24;

struct Value {
  enum Kind : uint8_t { kMark, kList, kBytes, kTruth, kPair } kind = kMark;
  bool truth = false;
  size_t list = 0, second = 0;  // lists; of a pair both
  absl::string_view bytes = {};
};

const char* NameOf(Value::Kind kind) {
  constexpr const char* kNames[] = {"a mark", "a list", "bytes", "a truth value",
                                    "a pair of lists"};
  return kNames[kind];
}

// The instructions that are followed, as Python's pickletools names them.
enum Instruction : uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kMark = '(',
  kStop = '.',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kTuple2 = 0x86,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kShortBinString = 'U',
  kBinString = 'T',
  kShortBinBytes = 'C',
  kBinBytes = 'B',
  kBinBytes8 = 0x8e,
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
};

// Follows the instructions on a stack of their values. What they put aside to name again is not
// kept, for nothing that names it is followed.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<PicturePairs> Read() {
    ASSIGN_OR_RETURN(const uint64_t first, Number(1));
    ASSIGN_OR_RETURN(const uint64_t protocol, Number(1));
    if (first != kProto || protocol < 2 || protocol > 5) {
      at_ = 0;
      return Expected("a pickle of protocol 2 to 5, which begins with 80 02 to 80 05");
    }
    for (;;) {
      begin_ = at_;
      ASSIGN_OR_RETURN(const uint64_t instruction, Number(1));
      if (instruction == kStop) break;
      RETURN_IF_ERROR(Follow(static_cast<uint8_t>(instruction)));
      if (values_ > kMostValues) return Expected(absl::StrCat("at most ", kMostValues, " values"));
    }
    return Result();
  }

 private:
  absl::Status Expected(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("expected ", what, " at byte ", begin_));
  }

  // Little-endian, of so many bytes.
  absl::StatusOr<uint64_t> Number(size_t size) {
    if (bytes_.size() - at_ < size) {
      return Expected(
          absl::StrCat("the end of a pickle, got the end of its ", bytes_.size(), " bytes"));
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[at_ + i])) << (8 * i);
    }
    at_ += size;
    return value;
  }

  void Push(Value value) {
    stack_.push_back(value);
    ++values_;
  }

  absl::Status PushBytes(size_t size_of_length) {
    ASSIGN_OR_RETURN(const uint64_t length, Number(size_of_length));
    if (length > bytes_.size() - at_) {
      return Expected(
          absl::StrCat("bytes of a length that the file has, got a length of ", length));
    }
    Push({.kind = Value::kBytes, .bytes = bytes_.substr(at_, length)});
    at_ += length;
    return absl::OkStatus();
  }

  // Those above the last mark, which goes too.
  absl::StatusOr<std::vector<Value>> PopToMark() {
    size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1].kind != Value::kMark) --mark;
    if (mark == 0) return Expected("a mark before what is appended");
    std::vector<Value> above(stack_.begin() + mark, stack_.end());
    stack_.resize(mark - 1);
    return above;
  }

  absl::Status Append(const std::vector<Value>& values) {
    if (stack_.empty() || stack_.back().kind != Value::kList) {
      return Expected("a list to append to");
    }
    std::vector<Value>& list = lists_[stack_.back().list];
    for (const Value& value : values) {
      if (value.kind != Value::kBytes && value.kind != Value::kTruth) {
        return Expected(absl::StrCat("lists of bytes and truth values, got ", NameOf(value.kind)));
      }
      list.push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status MakePair() {
    const size_t n = stack_.size();
    if (n < 2 || stack_[n - 1].kind != Value::kList || stack_[n - 2].kind != Value::kList) {
      return Expected("two lists to make a pair of");
    }
    const Value pair = {
        .kind = Value::kPair, .list = stack_[n - 2].list, .second = stack_[n - 1].list};
    stack_.resize(n - 2);
    Push(pair);
    return absl::OkStatus();
  }

  absl::Status Follow(uint8_t instruction) {
    switch (instruction) {
      case kFrame:
        return Number(8).status();
      case kBinPut:
        return Number(1).status();
      case kLongBinPut:
        return Number(4).status();
      case kMemoize:
        return absl::OkStatus();
      case kMark:
        Push({.kind = Value::kMark});
        return absl::OkStatus();
      case kEmptyList:
        Push({.kind = Value::kList, .list = lists_.size()});
        lists_.emplace_back();
        return absl::OkStatus();
      case kNewTrue:
      case kNewFalse:
        Push({.kind = Value::kTruth, .truth = instruction == kNewTrue});
        return absl::OkStatus();
      case kShortBinString:
      case kShortBinBytes:
        return PushBytes(1);
      case kBinString:
      case kBinBytes:
        return PushBytes(4);
      case kBinBytes8:
        return PushBytes(8);
      case kTuple2:
        return MakePair();
      case kAppend:
      case kAppends:
        return AppendBy(instruction);
      default:
        return Expected(absl::StrFormat(
            "an instruction that a list of pictures or of truth values takes, got %02x",
            instruction));
    }
  }

  absl::Status AppendBy(uint8_t instruction) {
    if (instruction == kAppends) {
      ASSIGN_OR_RETURN(const std::vector<Value> values, PopToMark());
      return Append(values);
    }
    if (stack_.empty()) return Expected("a value to append");
    const Value value = stack_.back();
    stack_.pop_back();
    return Append({value});
  }

  absl::StatusOr<PicturePairs> Result() const {
    if (stack_.size() != 1 || stack_[0].kind != Value::kPair) {
      return Expected("a pair of lists to be all that is left");
    }
    if (at_ != bytes_.size()) {
      return Expected(
          absl::StrCat("the end of the file, got ", bytes_.size() - at_, " bytes more"));
    }
    PicturePairs pairs;
    for (const Value& value : lists_[stack_[0].list]) {
      if (value.kind != Value::kBytes) return Expected("the first list to be of pictures");
      pairs.pictures.push_back(value.bytes);
    }
    for (const Value& value : lists_[stack_[0].second]) {
      if (value.kind != Value::kTruth) return Expected("the second list to be of truth values");
      pairs.same.push_back(value.truth);
    }
    if (pairs.same.empty() || pairs.pictures.size() != 2 * pairs.same.size()) {
      return Expected(absl::StrCat("two pictures for each of ", pairs.same.size(), " pairs, got ",
                                   pairs.pictures.size()));
    }
    return pairs;
  }

  const absl::string_view bytes_;
  size_t at_ = 0, begin_ = 0;  // of what is read next; of the instruction that is followed
  size_t values_ = 0;          // made so far
  std::vector<Value> stack_;
  std::vector<std::vector<Value>> lists_;
};

}  // namespace

absl::StatusOr<PicturePairs> ParsePicturePairs(absl::string_view bytes) {
  return Reader(bytes).Read();
}

}  // namespace sluice
