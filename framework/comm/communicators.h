// What joins devices whose collectives a library does: a communicator for each group of them.
#ifndef SLUICE_FRAMEWORK_COMM_COMMUNICATORS_H_
#define SLUICE_FRAMEWORK_COMM_COMMUNICATORS_H_

#include <cstdint>
#include <vector>

namespace sluice {

struct CommunicatorGroup {
  std::vector<int32_t> devices;  // as the plan numbers them; their order is that of their ranks
  std::vector<int> cards;        // that each of them is on
};

class Communicators {
 public:
  virtual ~Communicators() = default;
  // Collectives under way end as they are, and later ones are errors: what waits for a member that
  // never comes goes on. Any thread, while others launch collectives, too.
  virtual void Abort() = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_COMMUNICATORS_H_
