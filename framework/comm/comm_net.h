// How runtimes of several ranks talk: messages, and bytes that the reader fetches. What is sent
// names things by plan numbers, which mean the same to all ranks; nothing is an address.
#ifndef SLUICE_FRAMEWORK_COMM_COMM_NET_H_
#define SLUICE_FRAMEWORK_COMM_COMM_NET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/fence.h"
#include "framework/base/queue.h"
#include "framework/device/memory.h"
#include "framework/device/stream.h"

namespace sluice {

// One item of one device reads one register of a device of another rank. Numbers are those of
// plan.proto, Register.number and Instruction.number.
struct Edge {
  int32_t program = 0;
  int32_t source_device = 0, source = 0;
  int32_t reader_device = 0, reader = 0;
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

// Threads of a rank that ask questions of all ranks. What one of them asks is numbered apart,
// answered by the same one of the others, and waits for no other.
enum class Asker : uint8_t {
  kSession,  // the session's thread
  kSaver,    // what writes a checkpoint while steps go on
};
inline constexpr int kAskers = 2;

struct WireMessage {
  enum class Kind : uint8_t {
    kHello,     // to rank 0: here I am, and these are my decisions
    kWelcome,   // from rank 0: all are here and agree, or not
    kToken,     // of an edge: the token with this number may be pulled
    kPulled,    // of an edge: its bytes have arrived
    kBegan,     // to rank 0: this step of this program has begun here
    kEnded,     // to rank 0: it has ended here
    kOver,      // from rank 0: it has ended everywhere
    kSays,      // to rank 0: this rank's part of the question with this number
    kVerdict,   // from rank 0: the answer to it
    kLeft,      // this rank takes no more part, and this asker of it asks no more; an error names
                // whichever rank is the reason
    kAskWaits,  // whom do you wait for?
    kWaits,     // runtime/waits.h: the answer, with the number of the question, or unasked
    kAskClock,  // to rank 0, when `sequence` is the sender's time
    kClock,     // the same sequence, and what rank 0's clock reads
  };
  Kind kind = Kind::kHello;
  // Of a token: its step has failed, and it holds nothing. Of a leave with an error: it is that of
  // a step, on all ranks.
  bool failed = false;
  Asker asker = Asker::kSession;  // of a question, its answer and a leave
  Edge edge;                      // of a step: its program alone
  // Of a token: the inbox of its owner that wants to hear that it was pulled, and of a kPulled that
  // same one; -1: none. Only advice on the way to take.
  int32_t worker = -1;
  // Of a token: from 0 on, by edge; of an end: by program; of a beginning and a question: as this
  // rank counts them; of a leave: steps begun.
  int64_t sequence = 0;
  int64_t number = 0;  // of a step: what random ops see; of a leave: questions asked
  int32_t code = 0;    // absl::StatusCode: of a welcome, an end, an answer, a leave
  std::string text;    // its message; of a hello, the decisions; of an answer, what it says
  std::string edges;   // of a hello: what this rank reads of others, and others of it
};

// The error that a message carries in its code and text, and the message that carries one.
absl::Status StatusOf(const WireMessage& message);
WireMessage WithStatus(WireMessage::Kind kind, const absl::Status& status);
// What all are told, or find out, of a rank that goes for a reason.
WireMessage LeftBecause(int32_t rank, const absl::Status& why);

// What a pull brings: boxes of the register's slot, one behind another.
struct PullRequest {
  struct Piece {
    int64_t offset = 0;                    // bytes from the start of the slot
    std::vector<int64_t> extent, strides;  // elements
  };
  Edge edge;
  int64_t sequence = 0;
  int32_t element_bytes = 0;
  int64_t bytes = 0;    // of all pieces
  int32_t worker = -1;  // the inbox of who pulls that wants to hear of tokens; -1: none
  std::vector<Piece> pieces;
};

// Memory of a rank, and where other processes of the host may map it.
struct OfferedMemory {
  absl::Span<std::byte> bytes;
  MemoryMark mark;
};

// A message and the rank that it is for.
struct AddressedMessage {
  int32_t to = 0;
  WireMessage message;
};

// What ranks of the host say to one worker of this rank with no thread of the net in between. The
// worker's alone, which takes what has come before it sleeps, and sleeps on it too.
class Inbox : public OtherBells {
 public:
  // Has the receiver receive what has come.
  virtual void Take() = 0;
};

// Of one rank; any thread. Messages and bytes may overtake each other, from one rank to another
// too: a token that is named implies those before it, and bytes are there when they are said to be.
// But no kPulled overtakes a pull: of a step that has failed a rank gives back tokens that it has
// asked for ahead, and what is asked for behind that would look like a lie.
class CommNet {
 public:
  // Called on threads of the net and, of what comes to inboxes, on those of their owners.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void Receive(int32_t from, const WireMessage& message) = 0;
    // The slot that another rank pulls from; it stays as it is until that rank says that it has
    // the bytes. Errors: that token is not here, or the slot has not all of the pieces.
    // Unavailable: it is the next to be told; the bytes are asked for again behind it.
    virtual absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t from,
                                                               const PullRequest& request) = 0;
    // The bytes of a pull of this rank begin to come. For traces: nothing waits for it, and nets
    // that ask for nothing ahead need not say it.
    virtual void PullBegan(int32_t /*pull*/, int64_t /*sequence*/) {}
    // A pull of this rank has ended, its bytes are where it wanted them.
    virtual void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) = 0;
  };

  virtual ~CommNet() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t ranks() const = 0;
  // Ranks on the host of this one, itself included, and whether they may read each other's memory,
  // where that is shared and was offered.
  virtual int32_t ranks_of_host() const { return 1; }
  // Of them, how many come before this one.
  virtual int32_t place_on_host() const { return 0; }
  virtual bool shares_memory() const { return false; }
  // Whether what lies in a row in that rank's memory is read there as a rule, so that a pull of it
  // moves nothing. Known before ranks have met; FindInPlace tells what is so.
  virtual bool reads_in_place(int32_t /*of*/) const { return false; }
  // Before Open, for a worker with a number below kInboxes. `wake` makes it look again at what it
  // sleeps on. Owned by the net; null: what is said to this rank comes by threads of the net alone.
  static constexpr int32_t kInboxes = 8;
  virtual Inbox* OpenInbox(int32_t /*worker*/, std::function<void()> /*wake*/) { return nullptr; }
  // Is what leaves this host encrypted and authenticated?
  virtual bool seals() const { return false; }
  // Before Open, any number of times: memory that slots of this rank lie in and that pulls bring
  // bytes to. It outlives Close. Errors: of a net whose hardware cannot read it.
  virtual absl::Status Offer(const OfferedMemory&) { return absl::OkStatus(); }
  // A net serves one session, which takes it before it opens it: FailedPrecondition for any later
  // one, also once the first is over, as other ranks have been told so.
  absl::Status Take();
  absl::Status CheckFree() const;
  // Once. What has come before is received then. No call comes, and no byte is written, after
  // Close.
  virtual void Open(Receiver* receiver) = 0;
  virtual void Close() = 0;
  virtual void Send(int32_t to, WireMessage message) = 0;
  // Messages of one moment; those of one rank may go together, which wakes it once. None is left.
  virtual void SendAll(std::vector<AddressedMessage>* messages);
  // Whether a pull from that rank may be asked for before its token is told, so that its bytes
  // leave with the token. PullEnded may come before the token, too.
  virtual bool pulls_ahead(int32_t /*from*/) const { return false; }
  // So many bytes come along with a token whose edge was asked for before, whoever asks.
  virtual int64_t most_along() const { return 0; }
  // `pull` is what PullEnded is told. Pulls of an edge are one after another.
  virtual void Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) = 0;
  // Where the pieces lie in a row, to be read there until the owner is told that they were; null:
  // they have to be pulled.
  virtual const std::byte* FindInPlace(int32_t /*from*/, const PullRequest&, int32_t /*pull*/) {
    return nullptr;
  }

 private:
  std::atomic<bool> taken_{false};
};

// Of a rank that could not even start: the others need not wait for it.
void RefuseToJoin(CommNet* net, const absl::Status& why);

// The stream that a rank's pulls run on. They end in any order; Record gives the fence of the last
// one that was begun, of that one alone.
class PullStream : public Stream {
 public:
  // Where the bytes are once it has ended: at `to`, or where they lie in another process, where
  // they can only be read.
  virtual std::byte* Pull(int32_t pull, int64_t sequence, std::byte* to) = 0;

 protected:
  PullStream() : Stream(nullptr) {}
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_COMM_NET_H_
