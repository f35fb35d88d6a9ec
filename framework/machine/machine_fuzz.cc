// A machine, as --machine names it.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/machine/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Machine::Parse(absl::string_view(reinterpret_cast<const char*>(data), size))
      .status()
      .IgnoreError();
  return 0;
}
