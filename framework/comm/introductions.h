// What processes tell each other before their devices meet in communicators (comm/communicators.h):
// ids of groups, and which card each device is on. Text, a line each, which other processes wrote.
//
//   id 0,2 6a3f...       of the group of devices 0 and 2: bytes in hexadecimal digits
//   card 2 HOST/PLACE    of device 2: whatever names a host and no other one, and the card in it
#ifndef SLUICE_FRAMEWORK_COMM_INTRODUCTIONS_H_
#define SLUICE_FRAMEWORK_COMM_INTRODUCTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct Introductions {
  std::map<std::vector<int32_t>, std::string> ids;  // by group
  std::map<int32_t, std::string> cards;             // by device
  friend bool operator==(const Introductions&, const Introductions&) = default;
};

std::string PrintIntroductions(const Introductions& introductions);
// Of several printed ones, one behind the other. InvalidArgument names the line: expected and got;
// a group or a device that is there twice.
absl::StatusOr<Introductions> ParseIntroductions(absl::string_view text);

// FailedPrecondition names two devices of the group on one card; InvalidArgument: a device whose
// card nobody has named.
absl::Status CheckCardEach(const Introductions& introductions, const std::vector<int32_t>& group);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_INTRODUCTIONS_H_
