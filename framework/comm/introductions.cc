#include "framework/comm/introductions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// What is shown of a line that somebody else wrote.
constexpr size_t kShown = 80;

absl::Status Wrong(absl::string_view line, absl::string_view expected) {
  const absl::string_view shown = line.substr(0, kShown);
  return absl::InvalidArgumentError(absl::StrCat("introductions of processes: expected ", expected,
                                                 ", got \"", absl::CHexEscape(shown), "\"",
                                                 shown.size() < line.size() ? "..." : ""));
}

bool IsHexadecimal(absl::string_view text) {
  return !text.empty() && text.size() % 2 == 0 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
}

bool ParseDevice(absl::string_view text, int32_t* device) {
  return absl::SimpleAtoi(text, device) && *device >= 0;
}

absl::Status AddId(absl::string_view line, absl::string_view devices, absl::string_view id,
                   Introductions* to) {
  std::vector<int32_t> group;
  for (absl::string_view word : absl::StrSplit(devices, ',')) {
    if (!ParseDevice(word, &group.emplace_back())) return Wrong(line, "devices of a group");
  }
  if (!IsHexadecimal(id)) return Wrong(line, "an id in hexadecimal digits");
  const bool fresh = to->ids.emplace(std::move(group), absl::HexStringToBytes(id)).second;
  return fresh ? absl::OkStatus() : Wrong(line, "one id for a group");
}

absl::Status AddCard(absl::string_view line, absl::string_view device, absl::string_view card,
                     Introductions* to) {
  int32_t number = 0;
  if (!ParseDevice(device, &number)) return Wrong(line, "the number of a device");
  if (card.empty()) return Wrong(line, "the name of a card");
  return to->cards.emplace(number, card).second ? absl::OkStatus()
                                                : Wrong(line, "one card for a device");
}

}  // namespace

std::string PrintIntroductions(const Introductions& introductions) {
  std::string text;
  for (const auto& [group, id] : introductions.ids) {
    absl::StrAppend(&text, "id ", absl::StrJoin(group, ","), " ", absl::BytesToHexString(id), "\n");
  }
  for (const auto& [device, card] : introductions.cards) {
    absl::StrAppend(&text, "card ", device, " ", card, "\n");
  }
  return text;
}

absl::StatusOr<Introductions> ParseIntroductions(absl::string_view text) {
  Introductions parsed;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    const absl::string_view kind = words[0];
    if (words.size() != 3 || (kind != "id" && kind != "card")) {
      return Wrong(line, "\"id DEVICES DIGITS\" or \"card DEVICE NAME\"");
    }
    RETURN_IF_ERROR((kind == "id" ? AddId : AddCard)(line, words[1], words[2], &parsed));
  }
  return parsed;
}

absl::Status CheckCardEach(const Introductions& introductions, const std::vector<int32_t>& group) {
  std::map<absl::string_view, int32_t> device_on;
  for (const int32_t device : group) {
    const auto found = introductions.cards.find(device);
    if (found == introductions.cards.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("introductions of processes: expected the card of device ", device,
                       ", one of devices ", absl::StrJoin(group, ", "), "; nobody has it"));
    }
    const auto [at, fresh] = device_on.emplace(found->second, device);
    if (fresh) continue;
    const absl::string_view card = found->second;
    return absl::FailedPreconditionError(absl::StrCat(
        "collectives of devices ", absl::StrJoin(group, ", "),
        ": expected a card for each, got card ", card.substr(card.rfind('/') + 1), " for devices ",
        at->second, " and ", device, "; --reproducible makes copies of them"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
