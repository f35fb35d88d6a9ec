// Bytes of a .safetensors file; every tensor of what opens is read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("safetensors", MFD_CLOEXEC);
  SLUICE_CHECK(descriptor >= 0);
  SLUICE_CHECK_EQ(write(descriptor, data, size), static_cast<ssize_t>(size));
  {
    const auto reader = sluice::SafetensorsReader::Open(absl::StrCat("/proc/self/fd/", descriptor));
    if (reader.ok()) {
      for (const sluice::TensorEntry& entry : reader->entries()) {
        SLUICE_CHECK_OK(reader->Read(entry.name).status()) << entry.name;
      }
      for (const sluice::StoredTensor& tensor : reader->stored()) {
        const bool narrow =
            tensor.dtype == "F32" || tensor.dtype == "F16" || tensor.dtype == "BF16";
        SLUICE_CHECK(reader->ReadAsF32(tensor.name).ok() == narrow) << tensor.name;
      }
    }
  }
  close(descriptor);
  return 0;
}
