// What actors tell each other: that a register may be read, that a slot is free, that bytes change
// hands. Never data and never an address; the fence is passed on without being looked at.
// Messages may overtake each other, but not those of one sender to one receiver that carry fences.
#ifndef SLUICE_FRAMEWORK_ACTOR_MESSAGE_H_
#define SLUICE_FRAMEWORK_ACTOR_MESSAGE_H_

#include <cstdint>
#include <vector>

#include "framework/base/fence.h"

namespace sluice {

struct Message {
  enum class Kind : uint8_t { kReq, kAck, kReuse };
  Kind kind;
  int32_t to;     // actor
  int32_t index;  // req: a consumer; ack: an ack count; reuse: a reuse edge (plan/program_index.h)
  int64_t sequence;  // req: the token; ack: the sequence number that may be made now; reuse: 0
  Fence fence = 0;   // before which it is not true yet
  friend bool operator==(const Message&, const Message&) = default;
};

using MessageList = std::vector<Message>;

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_ACTOR_MESSAGE_H_
