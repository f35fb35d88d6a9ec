// What a rank is told of links before it has a net: the first byte says whether the rest is what
// the one end of a probe says to the other, what was measured between others, or a text of links.
#include <sys/socket.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/machine/machine.h"
#include "framework/train/link_probe.h"
#include "framework/train/links.h"
#include "framework/wire/connection.h"

namespace sluice {
namespace {

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

// All that the other end says; what is said to it waits with the kernel.
class OtherEnd {
 public:
  OtherEnd(const uint8_t* data, size_t size) {
    int ends[2];
    SLUICE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    here_ = Connection(Descriptor(ends[0]));
    there_ = Descriptor(ends[1]);
    SLUICE_CHECK(send(there_.number(), data, size, 0) == static_cast<ssize_t>(size));
    shutdown(there_.number(), SHUT_WR);
  }
  Connection* connection() { return &here_; }

 private:
  Connection here_;
  Descriptor there_;
};

void Probe(const uint8_t* data, size_t size) {
  OtherEnd other(data, size);
  const absl::StatusOr<Link> measured = MeasureLink(other.connection(), /*asks=*/false, Soon());
  SLUICE_CHECK(!absl::IsDeadlineExceeded(measured.status())) << measured.status();
}

// Whatever is believed of a link can be reckoned with, and told on as it was told.
void Receive(const uint8_t* data, size_t size) {
  OtherEnd other(data, size);
  const absl::StatusOr<Link> link = ReceiveLink(other.connection(), Soon());
  if (!link.ok()) return;
  const Link rounded = RoundLink(*link);
  SLUICE_CHECK(rounded.latency_nanoseconds > 0 && rounded.bytes_per_second >= 1 &&
               std::isfinite(rounded.bytes_per_second));
}

void Text(absl::string_view text) {
  Machine machine;
  if (!ReadLinks(text, &machine).ok()) return;
  Machine again;
  SLUICE_CHECK_OK(ReadLinks(LinksFileText(machine), &again));
  SLUICE_CHECK(LinksFileText(again) == LinksFileText(machine)) << text;
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  switch (data[0] % 3) {
    case 0:
      sluice::Probe(data + 1, size - 1);
      break;
    case 1:
      sluice::Receive(data + 1, size - 1);
      break;
    default:
      sluice::Text({reinterpret_cast<const char*>(data) + 1, size - 1});
      break;
  }
  return 0;
}
