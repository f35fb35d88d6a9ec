#include "framework/wire/connected_testing.h"

#include <chrono>

#include "framework/base/log.h"

namespace sluice {

std::pair<Descriptor, Descriptor> Connected() {
  const absl::StatusOr<Descriptor> listener = Listen({"127.0.0.1", 0});
  SLUICE_CHECK_OK(listener.status());
  const absl::StatusOr<Endpoint> endpoint = LocalEndpoint(listener->number());
  SLUICE_CHECK_OK(endpoint.status());
  absl::StatusOr<Descriptor> caller =
      Connect(*endpoint, std::chrono::steady_clock::now() + std::chrono::seconds(5));
  SLUICE_CHECK_OK(caller.status());
  absl::StatusOr<Descriptor> taken = Descriptor();
  while (!taken->open()) {
    taken = Accept(listener->number());
    SLUICE_CHECK_OK(taken.status());
  }
  return {*std::move(caller), *std::move(taken)};
}

}  // namespace sluice
