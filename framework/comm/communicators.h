// What joins devices whose collectives a library does: a communicator for each group of them.
// Devices of a group may be of several processes, which have to be told of each other first.
#ifndef SLUICE_FRAMEWORK_COMM_COMMUNICATORS_H_
#define SLUICE_FRAMEWORK_COMM_COMMUNICATORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct CommunicatorGroup {
  std::vector<int32_t> devices;  // as the plan numbers them; their order is that of their ranks
  // That each of them is on; -1: the device is another process's.
  std::vector<int32_t> cards;
};

// Introduce, then Connect, once, before any collective is launched.
class Communicators {
 public:
  virtual ~Communicators() = default;
  // What all processes have to know of this one: ids of the groups whose first device it has, and
  // which cards its devices are on. Lines of text.
  virtual absl::StatusOr<std::string> Introduce() = 0;
  // `introductions` of all processes, one behind the other in any order. Every process of a group
  // calls it, and it waits for them; it ends when they fail to come in a minute, or at Abort.
  // Errors: a line that is none, a group without an id, two devices of a group on one card, what
  // the library says.
  virtual absl::Status Connect(absl::string_view introductions) = 0;
  // Collectives under way end as they are, and later ones are errors: what waits for a member that
  // never comes goes on. Any thread, while others launch collectives or connect, too.
  virtual void Abort() = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_COMMUNICATORS_H_
