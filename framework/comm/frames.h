// What ranks send each other as bytes: frames, each {u32 size, u8 type, body}, where the size
// counts the type and the body. Bytes of registers follow the frame that announces them and are not
// counted in it. Numbers are little endian. What comes from the wire is believed in nothing: a
// frame that is not as it should be is InvalidArgument, and none makes its reader take more memory
// than it has itself, times eight. Pure.
#ifndef SLUICE_FRAMEWORK_COMM_FRAMES_H_
#define SLUICE_FRAMEWORK_COMM_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/comm/comm_net.h"
#include "framework/comm/verbs.h"
#include "framework/device/memory.h"

namespace sluice {

enum class FrameType : uint8_t {
  kMessage = 1,     // a WireMessage; of a token, its bytes may ride along
  kPull = 2,        // a pull's number, sequence and PullRequest
  kPullAgain = 3,   // the same pull as once before, of another sequence
  kBytes = 4,       // a pull has been served: so many bytes follow, or an error
  kBeat = 5,        // that the sender lives
  kMark = 6,        // a memory of the sender that the reader may map, if it can
  kCanRead = 7,     // that the reader of a mark can
  kVerbs = 8,       // memories of the sender that the reader may read by RDMA, if it can
  kConnected = 9,   // that the reader of a kVerbs can
  kMail = 10,       // a memory of the sender in which it writes letters to the reader (host_mail.h)
  kReadsMail = 11,  // that the reader of a kMail reads them
};

// Where a slot lies: in the n-th memory that its owner has told of.
struct MemoryPlace {
  int32_t memory = -1;
  uint64_t offset = 0, bytes = 0;
};

struct Frame {
  FrameType type = FrameType::kBeat;
  WireMessage message;   // kMessage
  int32_t pull = -1;     // of a message: the pull whose bytes ride along, or whose slot lies there
  int64_t sequence = 0;  // kPull, kPullAgain, kBytes
  PullRequest request;   // kPull
  int64_t bytes = 0;     // kBytes: that follow
  absl::Status status;   // kBytes
  // Of a token: the bytes that ride along, which lie in what was read; or else where the slot lies
  // in the sender's memory.
  absl::Span<const std::byte> along;
  MemoryPlace place;
  MemoryMark mark;                   // kMark, kMail
  uint64_t offset = 0;               // kMail: where in that memory
  VerbsAddress verbs;                // kVerbs
  std::vector<VerbsRegion> regions;  // the same
};

inline constexpr size_t kFrameHeadBytes = 4;
inline constexpr size_t kMostFrameBytes = size_t{64} << 20;
// A frame of kBytes, without an error, is always this large, head included.
inline constexpr size_t kBytesFrameBytes = kFrameHeadBytes + 1 + 4 + 8 + 8 + 4 + 4;

// Appends the frame; `along` goes behind a message.
void WriteFrame(const Frame& frame, std::string* to);

// The size behind the head; InvalidArgument if it is none or too large.
absl::StatusOr<size_t> ReadFrameHead(absl::Span<const std::byte> head);
// Of what stands behind the head.
absl::StatusOr<Frame> ReadFrame(absl::Span<const std::byte> bytes);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_FRAMES_H_
