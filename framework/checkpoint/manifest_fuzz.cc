// Text of a manifest: as it is, and with the digest that would let it pass as undamaged.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::ParseManifest(text, "manifest").status().IgnoreError();
  const auto sealed = sluice::SealManifest(text, "manifest");
  if (!sealed.ok()) return 0;
  const auto manifest = sluice::ParseManifest(*sealed, "manifest");
  if (!manifest.ok()) return 0;
  SLUICE_CHECK(manifest->meta.step >= 0 && manifest->meta.samples >= 0);
  for (const auto& [name, boxes] : manifest->boxes) {
    const auto tensor = sluice::ParseType(name, manifest->types.at(name));
    SLUICE_CHECK_OK(tensor.status());
    int64_t volume = 0;
    for (const sluice::StoredBox& stored : boxes) {
      SLUICE_CHECK(sluice::IsInside(stored.box, tensor->shape)) << name;
      SLUICE_CHECK(stored.part < manifest->parts) << name;
      if (!manifest->part) volume += sluice::Volume(stored.box);
    }
    SLUICE_CHECK(manifest->part || volume == tensor->shape.NumElements()) << name;
  }
  const std::string printed = sluice::PrintManifest(*manifest);
  const auto again = sluice::ParseManifest(printed, "manifest");
  SLUICE_CHECK_OK(again.status()) << printed;
  SLUICE_CHECK(sluice::PrintManifest(*again) == printed) << printed;
  return 0;
}
