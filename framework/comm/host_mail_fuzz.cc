// Letters, one behind another, as a worker copies them out of another rank's memory: one that reads
// is a frame that a connection could have brought, and is written as what was read.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/comm/frames.h"
#include "framework/comm/host_mail.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (; size >= sizeof(sluice::Letter); data += sizeof(sluice::Letter)) {
    size -= sizeof(sluice::Letter);
    sluice::Letter letter;
    std::memcpy(&letter, data, sizeof(letter));
    const absl::StatusOr<sluice::Frame> frame = sluice::FrameOf(letter);
    if (!frame.ok()) continue;
    const sluice::Letter again = sluice::LetterOf(*frame);
    SLUICE_CHECK(std::memcmp(&again, data, sizeof(again)) == 0);
    std::string written;
    sluice::WriteFrame(*frame, &written);
    const auto bytes =
        absl::MakeSpan(reinterpret_cast<const std::byte*>(written.data()), written.size());
    const auto read = sluice::ReadFrame(bytes.subspan(sluice::kFrameHeadBytes));
    SLUICE_CHECK(read.ok()) << read.status();
  }
  return 0;
}
