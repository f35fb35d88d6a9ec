// Where a rank says that it listens: what reads as an address is written and read back as the same.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/wire/socket.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::Endpoint> read = sluice::ParseEndpoint(text);
  if (!read.ok()) return 0;
  const absl::StatusOr<sluice::Endpoint> again = sluice::ParseEndpoint(sluice::EndpointText(*read));
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK(again->host == read->host && again->port == read->port) << text;
  return 0;
}
