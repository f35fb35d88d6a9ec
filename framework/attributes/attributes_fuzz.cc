// Text of attributes, read as those of every op. What reads must print as what reads back.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "framework/attributes/attributes.h"
#include "framework/base/log.h"

namespace {

using sluice::Attributes;

void Try(absl::string_view text, Attributes attributes) {
  const Attributes defaults = attributes;
  if (!sluice::ParseAttributesInto(text, &attributes).ok()) return;
  const std::string printed = sluice::PrintAttributes(attributes);
  Attributes again = defaults;
  SLUICE_CHECK_OK(sluice::ParseAttributesInto(printed, &again)) << printed;
  SLUICE_CHECK(sluice::PrintAttributes(again) == printed) << printed;
}

template <size_t... kIndex>
void TryEach(absl::string_view text, std::index_sequence<kIndex...>) {
  (Try(text, Attributes(std::in_place_index<kIndex>)), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TryEach(absl::string_view(reinterpret_cast<const char*>(data), size),
          std::make_index_sequence<std::variant_size_v<Attributes>>());
  return 0;
}
