// For tests: two ends of a connection.
#ifndef SLUICE_FRAMEWORK_WIRE_CONNECTED_TESTING_H_
#define SLUICE_FRAMEWORK_WIRE_CONNECTED_TESTING_H_

#include <utility>

#include "framework/wire/socket.h"

namespace sluice {

// Over loopback; who connected, who accepted. Aborts where that fails.
std::pair<Descriptor, Descriptor> Connected();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_CONNECTED_TESTING_H_
