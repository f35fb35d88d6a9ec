#include "framework/comm/comm_net.h"

namespace sluice {

absl::Status StatusOf(const WireMessage& message) {
  return message.code == 0
             ? absl::OkStatus()
             : absl::Status(static_cast<absl::StatusCode>(message.code), message.text);
}

WireMessage WithStatus(WireMessage::Kind kind, const absl::Status& status) {
  WireMessage message;
  message.kind = kind;
  message.code = static_cast<int32_t>(status.code());
  message.text = std::string(status.message());
  return message;
}

void RefuseToJoin(CommNet* net, const absl::Status& why) {
  for (int32_t rank = 0; rank < net->ranks(); ++rank) {
    if (rank != net->rank()) net->Send(rank, WithStatus(WireMessage::Kind::kLeft, why));
  }
}

}  // namespace sluice
