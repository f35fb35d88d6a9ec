// What ranks of a host tell each other from worker to worker: tokens, and that they were pulled.
// Each rank writes its letters into memory that others can only read (device/memory.h), a ring for
// each inbox of each other rank, and says in that same memory how far it has read theirs and which
// of its workers sleep; so nobody ever writes what is another's. Who sleeps does so on the next
// cell of each ring that it reads. A letter costs its sender a line of a cache, and a system call
// where its reader sleeps; no thread of the net has a part in it.
//
// What is read may change while it is read, and hold anything: it is copied once, and what the copy
// says is looked at as if it had come over the wire.
#ifndef SLUICE_FRAMEWORK_COMM_HOST_MAIL_H_
#define SLUICE_FRAMEWORK_COMM_HOST_MAIL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/queue.h"
#include "framework/comm/comm_net.h"
#include "framework/comm/frames.h"
#include "framework/device/memory.h"

namespace sluice {

// As it lies in a cell.
struct Letter {
  uint8_t kind = 0, failed = 0;
  int16_t worker = -1;
  int32_t pull = -1;
  Edge edge;
  int32_t memory = -1;  // MemoryPlace
  int64_t sequence = 0;
  uint64_t offset = 0, bytes = 0;
};
// The frame that says the same, and back. InvalidArgument: no frame says that.
Letter LetterOf(const Frame& token);
absl::StatusOr<Frame> FrameOf(const Letter& letter);

// This rank's part of the memory, by which all others of its host read it.
class HostMail {
 public:
  struct Cell {
    std::atomic<uint32_t> number;  // of the letter in it, counted from 1
    std::atomic<uint32_t> unused;
    std::array<std::atomic<uint64_t>, 7> letter;
  };
  struct alignas(64) Line {
    std::atomic<uint32_t> value;
  };
  static constexpr uint32_t kCells = 64;
  // What is one other rank's: how many of its letters each inbox here has taken, and those to it.
  struct Part {
    std::array<Line, CommNet::kInboxes> taken;
    std::array<std::array<Cell, kCells>, CommNet::kInboxes> letters;
  };
  struct Head {
    std::array<Line, CommNet::kInboxes> sleeps;
  };

  // For so many others. Unavailable: this kernel cannot wait for several things (futex_waitv).
  static absl::StatusOr<std::unique_ptr<HostMail>> Make(int32_t others);

  const MemoryMark& mark() const { return memory_.mark(); }
  static uint64_t OffsetOf(int32_t part) { return sizeof(Head) + uint64_t{sizeof(Part)} * part; }
  Head& head() { return *reinterpret_cast<Head*>(memory_.data()); }
  Part& part(int32_t number) { return *reinterpret_cast<Part*>(memory_.data() + OffsetOf(number)); }

 private:
  explicit HostMail(Memory memory) : memory_(std::move(memory)) {}

  const Memory memory_;
};

// Between this rank and one other.
class MailRoute {
 public:
  MailRoute(HostMail* mail, int32_t part)
      : own_(mail->part(part)), mark_(mail->mark()), offset_(HostMail::OffsetOf(part)) {}

  // The kMail that the other one is to Map.
  Frame Introduction() const;
  // The other rank's memory, and where what is this rank's lies in it. Once. Unavailable: it cannot
  // be read here; InvalidArgument: nothing lies there.
  absl::Status Map(const MemoryMark& mark, uint64_t offset);
  // The other one reads this one's.
  void SetRead() { is_read_ = true; }
  bool is_open() const { return is_read_ && theirs_.load() != nullptr; }
  // For good: nothing more is sent or taken.
  void Close() { theirs_ = nullptr; }

  // Any thread. False: it does not go this way, or there is no room; nothing was sent then.
  bool Send(int32_t inbox, const Letter& letter);
  // Wakes who sleeps and was sent something since the last time.
  void Wake();

  // The inbox's owner.
  bool HasCome(int32_t inbox) const;
  bool Take(int32_t inbox, Letter* letter);
  // The word that changes with the next letter; none: there is no route.
  std::optional<OtherBells::Word> Next(int32_t inbox) const;

 private:
  struct Outbox {
    std::mutex mutex;
    uint32_t sent = 0;             // guarded by mutex
    std::atomic<bool> told{true};  // whoever sleeps was woken for all that was sent
  };

  const HostMail::Cell& NextOf(const HostMail::Part& theirs, int32_t inbox) const {
    return theirs
        .letters[inbox][own_.taken[inbox].value.load(std::memory_order_relaxed) % HostMail::kCells];
  }

  HostMail::Part& own_;
  const MemoryMark mark_;
  const uint64_t offset_;
  std::array<Outbox, CommNet::kInboxes> out_;
  std::optional<PeerMemory> mapped_;
  const HostMail::Head* their_head_ = nullptr;           // before theirs_ is set
  std::atomic<const HostMail::Part*> theirs_ = nullptr;  // null: no route
  std::atomic<bool> is_read_{false};
};

// What all others of the host say to one worker of this rank.
class HostInbox final : public Inbox {
 public:
  using Read = std::function<void(const Letter&)>;

  HostInbox(HostMail* mail, int32_t number, std::function<void()> wake)
      : mail_(*mail), number_(number), wake_(std::move(wake)) {}
  // Before anything is taken.
  void Add(MailRoute* route, Read read);
  // Any thread: a route has been mapped, on which its owner does not sleep yet.
  void Wake() const { wake_(); }

  void Take() override;
  bool HasRung() const override;
  absl::Span<const Word> Listen() override;
  void StopListening() override;

 private:
  struct Source {
    MailRoute* route;
    Read read;
  };

  HostMail& mail_;
  const int32_t number_;
  const std::function<void()> wake_;
  std::vector<Source> sources_;
  std::vector<Word> words_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_HOST_MAIL_H_
