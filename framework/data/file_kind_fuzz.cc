// The begin of any file. Whatever it is has a name, and what its magic number says stands.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/file_kind.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const sluice::FileKind magic = sluice::KindOfMagic(bytes);
  const sluice::RecognizedFile file = sluice::RecognizeBytes(bytes);
  SLUICE_CHECK(!file.name.empty());
  SLUICE_CHECK(magic == sluice::FileKind::kUnknown || magic == file.kind);
  if (file.kind == sluice::FileKind::kText) SLUICE_CHECK(bytes.find('\0') == bytes.npos);
  return 0;
}
