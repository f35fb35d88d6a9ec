// Who stands between the ends of a sealed connection: the input says which records an honest end
// seals, what becomes of them on their way, and how they come. The other end gives the records
// before the first byte that is another, to the last of them, and nothing else.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/wire/records.h"

namespace sluice {
namespace {

constexpr size_t kMostRecords = 8, kMostChanges = 16;
constexpr size_t kMostOfMany = 512;  // bytes of most records
constexpr size_t kMostPieces = 256;

const SealKey kKey = {std::byte{7}};

class Between {
 public:
  explicit Between(absl::Span<const uint8_t> input) : input_(input) {}

  void Run() {
    SealRecords();
    const std::string honest = Joined();
    ChangeRecords();
    const std::string changed = Joined();
    const auto differs =
        std::mismatch(honest.begin(), honest.end(), changed.begin(), changed.end());
    const auto same = static_cast<size_t>(differs.first - honest.begin());
    size_t come = 0, given = 0;
    for (const size_t size : sizes_) {
      if (come + size + kRecordExtraBytes > same) break;
      come += size + kRecordExtraBytes;
      given += size;
    }
    bool failed = false;
    const std::string text = Give(changed, &failed);
    SLUICE_CHECK(text == text_.substr(0, given))
        << text.size() << " bytes given, of which " << given << " were sealed";
    SLUICE_CHECK(!failed || changed.size() > come) << "an honest record does not open";
  }

 private:
  size_t Next() {
    if (input_.empty()) return 0;
    const uint8_t next = input_.front();
    input_.remove_prefix(1);
    return next;
  }
  size_t NextPair() { return Next() + 256 * Next(); }

  void SealRecords() {
    RecordWriter writer(kKey);
    for (size_t count = Next() % (kMostRecords + 1); count > 0; --count) {
      const size_t any = NextPair();
      const bool is_large = Next() == 255;  // seldom, as it takes time
      std::string text(1 + (is_large ? any : any % kMostOfMany), '\0');
      for (char& c : text) c = static_cast<char>(state_ = state_ * 29 + 17);
      text_ += text;
      sizes_.push_back(text.size());
      const absl::Span<const std::byte> part(reinterpret_cast<const std::byte*>(text.data()),
                                             text.size());
      SLUICE_CHECK_EQ(writer.Seal({&part, 1}, 0).value(), text.size());
      records_.emplace_back(reinterpret_cast<const char*>(writer.left().data()),
                            writer.left().size());
    }
  }

  void ChangeRecords() {
    for (size_t changes = Next() % kMostChanges; changes > 0 && !records_.empty(); --changes) {
      const size_t index = Next() % records_.size();
      std::string& record = records_[index];
      switch (Next() % 6) {
        case 0:
          if (!record.empty()) record[NextPair() % record.size()] ^= static_cast<char>(Next());
          break;
        case 1:
          records_.erase(records_.begin() + static_cast<int64_t>(index));
          break;
        case 2:
          if (records_.size() < 2 * kMostRecords) records_.push_back(std::string(record));
          break;
        case 3:
          std::swap(record, records_.back());
          break;
        case 4:
          record.resize(NextPair() % (record.size() + 1));
          break;
        case 5:
          for (size_t bytes = Next() % 32; bytes > 0; --bytes) {
            record.insert(record.begin(), static_cast<char>(Next()));
          }
          break;
      }
    }
  }

  std::string Joined() const {
    std::string all;
    for (const std::string& record : records_) all += record;
    return all;
  }

  // The room is as large as it is said to be, so that a sanitizer sees who leaves it.
  std::string Give(absl::Span<const char> sealed, bool* failed) {
    RecordReader reader(kKey);
    std::string text;
    const size_t least = 1 + sealed.size() / kMostPieces;
    const size_t piece = least + NextPair();
    std::vector<std::byte> room(least + NextPair() % kMostOfMany);
    while (true) {
      const absl::StatusOr<size_t> taken = reader.Take(room.data(), room.size());
      if (!taken.ok()) {
        SLUICE_CHECK(reader.Take(room.data(), room.size()).status() == taken.status());
        *failed = true;
        return text;
      }
      SLUICE_CHECK(*taken <= room.size());
      text.append(reinterpret_cast<const char*>(room.data()), *taken);
      if (*taken > 0) continue;
      if (sealed.empty()) return text;
      const absl::Span<std::byte> free = reader.Room();
      const size_t came = std::min({piece, free.size(), sealed.size()});
      SLUICE_CHECK(came > 0);
      std::memcpy(free.data(), sealed.data(), came);
      sealed.remove_prefix(came);
      reader.Came(came);
    }
  }

  absl::Span<const uint8_t> input_;
  uint8_t state_ = 0;
  std::string text_;           // of all records
  std::vector<size_t> sizes_;  // of each, as it was sealed
  std::vector<std::string> records_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Between({data, size}).Run();
  return 0;
}
