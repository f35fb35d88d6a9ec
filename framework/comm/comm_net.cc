#include "framework/comm/comm_net.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

absl::Status TakenError(const CommNet& net) {
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", net.rank(), " of ", net.ranks(),
                   ": expected a net that no session has had, got one that serves another or has; "
                   "ranks that start a second session have to meet anew"));
}

}  // namespace

absl::Status CommNet::Take() {
  return taken_.exchange(true) ? TakenError(*this) : absl::OkStatus();
}

absl::Status CommNet::CheckFree() const { return taken_ ? TakenError(*this) : absl::OkStatus(); }

void CommNet::SendAll(std::vector<AddressedMessage>* messages) {
  for (AddressedMessage& each : *messages) Send(each.to, std::move(each.message));
  messages->clear();
}

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

WireMessage LeftBecause(int32_t rank, const absl::Status& why) {
  return WithStatus(WireMessage::Kind::kLeft,
                    AddContext(why, absl::StrCat("rank ", rank, " has left")));
}

void RefuseToJoin(CommNet* net, const absl::Status& why) {
  for (int32_t rank = 0; rank < net->ranks(); ++rank) {
    if (rank != net->rank()) net->Send(rank, LeftBecause(net->rank(), why));
  }
}

}  // namespace sluice
