// What other ranks say of their shards: two texts with a zero byte between them. Whatever they are,
// the error about them is short and is one line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "framework/base/log.h"
#include "framework/session/replica_digests.h"

namespace sluice {
namespace {

constexpr size_t kLongestError = 512;

void Compare(absl::string_view bytes) {
  const std::vector<std::string> texts =
      absl::StrSplit(bytes, absl::MaxSplits(absl::ByChar('\0'), 1));
  const absl::Status status = CompareReplicas(texts, {"w", "h0/attention/qkv/w"});
  SLUICE_CHECK_LE(status.message().size(), kLongestError);
  SLUICE_CHECK(status.message().find('\n') == absl::string_view::npos);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Compare({reinterpret_cast<const char*>(data), size});
  return 0;
}
