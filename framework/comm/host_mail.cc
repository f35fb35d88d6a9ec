#include "framework/comm/host_mail.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {

using Words = std::array<uint64_t, 7>;
static_assert(sizeof(Letter) == sizeof(Words));
static_assert(sizeof(HostMail::Cell) == 64 && sizeof(HostMail::Line) == 64);

Letter LetterOf(const Frame& token) {
  Letter letter;
  letter.kind = static_cast<uint8_t>(token.message.kind);
  letter.failed = token.message.failed ? 1 : 0;
  letter.worker = static_cast<int16_t>(token.message.worker);
  letter.pull = token.pull;
  letter.edge = token.message.edge;
  letter.memory = token.place.memory;
  letter.sequence = token.message.sequence;
  letter.offset = token.place.offset;
  letter.bytes = token.place.bytes;
  return letter;
}

absl::StatusOr<Frame> FrameOf(const Letter& letter) {
  Frame frame;
  frame.type = FrameType::kMessage;
  frame.message.kind = static_cast<WireMessage::Kind>(letter.kind);
  const bool is_of_token = frame.message.kind == WireMessage::Kind::kToken ||
                           frame.message.kind == WireMessage::Kind::kPulled;
  if (!is_of_token || letter.failed > 1 || letter.memory < -1 ||
      (letter.memory >= 0 && letter.pull < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a letter of kind ", letter.kind, ", failed ", letter.failed, ", with the slot of pull ",
        letter.pull, " in memory ", letter.memory, ", which is none"));
  }
  frame.message.failed = letter.failed == 1;
  frame.message.worker = letter.worker;
  frame.message.edge = letter.edge;
  frame.message.sequence = letter.sequence;
  frame.pull = letter.pull;
  frame.place = {letter.memory, letter.offset, letter.bytes};
  return frame;
}

absl::StatusOr<std::unique_ptr<HostMail>> HostMail::Make(int32_t others) {
  if (!Doorbell::HearsOthers()) {
    return absl::UnavailableError("this kernel has no futex_waitv, or it is forbidden here");
  }
  ASSIGN_OR_RETURN(Memory memory, Memory::AllocateShared(static_cast<int64_t>(OffsetOf(others))));
  return std::unique_ptr<HostMail>(new HostMail(std::move(memory)));
}

Frame MailRoute::Introduction() const {
  Frame frame;
  frame.type = FrameType::kMail;
  frame.mark = mark_;
  frame.offset = offset_;
  return frame;
}

absl::Status MailRoute::Map(const MemoryMark& mark, uint64_t offset) {
  if (mapped_.has_value()) return absl::InvalidArgumentError("mail of a rank is told once");
  ASSIGN_OR_RETURN(mapped_, PeerMemory::Map(mark));
  const absl::Span<const std::byte> bytes = mapped_->bytes();
  const uint64_t least = sizeof(HostMail::Head) + sizeof(HostMail::Part);
  if (bytes.size() < least || offset < sizeof(HostMail::Head) || offset % 64 != 0 ||
      offset > bytes.size() - sizeof(HostMail::Part)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mail at ", offset, " of a memory of ", bytes.size(), " bytes"));
  }
  their_head_ = reinterpret_cast<const HostMail::Head*>(bytes.data());
  theirs_ = reinterpret_cast<const HostMail::Part*>(bytes.data() + offset);
  return absl::OkStatus();
}

bool MailRoute::Send(int32_t inbox, const Letter& letter) {
  const HostMail::Part* const theirs = theirs_.load(std::memory_order_acquire);
  if (theirs == nullptr || !is_read_ || inbox < 0 || inbox >= CommNet::kInboxes) return false;
  Outbox& out = out_[inbox];
  const std::lock_guard<std::mutex> lock(out.mutex);
  const uint32_t taken = theirs->taken[inbox].value.load(std::memory_order_acquire);
  if (out.sent - taken >= HostMail::kCells) return false;
  HostMail::Cell& cell = own_.letters[inbox][out.sent % HostMail::kCells];
  const Words words = std::bit_cast<Words>(letter);
  for (size_t n = 0; n < words.size(); ++n) {
    cell.letter[n].store(words[n], std::memory_order_relaxed);
  }
  // Either the reader sees the letter, or whoever wakes sees that the reader sleeps.
  cell.number.store(++out.sent);
  out.told.store(false);
  return true;
}

void MailRoute::Wake() {
  for (int32_t inbox = 0; inbox < CommNet::kInboxes; ++inbox) {
    Outbox& out = out_[inbox];
    if (out.told.load() || out.told.exchange(true)) continue;
    if (their_head_->sleeps[inbox].value.load() == 0) continue;
    // It sleeps on the cell behind those that it has taken.
    const HostMail::Part* const theirs = theirs_.load(std::memory_order_acquire);
    if (theirs == nullptr) continue;
    const uint32_t next = theirs->taken[inbox].value.load() % HostMail::kCells;
    syscall(SYS_futex, &own_.letters[inbox][next].number, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

bool MailRoute::HasCome(int32_t inbox) const {
  const HostMail::Part* const theirs = theirs_.load(std::memory_order_acquire);
  if (theirs == nullptr) return false;
  const uint32_t taken = own_.taken[inbox].value.load(std::memory_order_relaxed);
  return NextOf(*theirs, inbox).number.load() == taken + 1;
}

bool MailRoute::Take(int32_t inbox, Letter* letter) {
  if (!HasCome(inbox)) return false;
  const HostMail::Part* const theirs = theirs_.load(std::memory_order_acquire);
  if (theirs == nullptr) return false;
  const HostMail::Cell& cell = NextOf(*theirs, inbox);
  Words words;
  for (size_t n = 0; n < words.size(); ++n) {
    words[n] = cell.letter[n].load(std::memory_order_relaxed);
  }
  *letter = std::bit_cast<Letter>(words);
  std::atomic<uint32_t>& taken = own_.taken[inbox].value;
  taken.store(taken.load(std::memory_order_relaxed) + 1);
  return true;
}

std::optional<OtherBells::Word> MailRoute::Next(int32_t inbox) const {
  const HostMail::Part* const theirs = theirs_.load(std::memory_order_acquire);
  if (theirs == nullptr) return std::nullopt;
  const HostMail::Cell& cell = NextOf(*theirs, inbox);
  return OtherBells::Word{&cell.number, cell.number.load()};
}

void HostInbox::Add(MailRoute* route, Read read) {
  sources_.push_back({route, std::move(read)});
  words_.reserve(sources_.size());
}

// Of each as many as it may have sent before: one that never ends to send does not hold the others.
void HostInbox::Take() {
  Letter letter;
  for (const Source& source : sources_) {
    for (uint32_t n = 0; n < HostMail::kCells && source.route->Take(number_, &letter); ++n) {
      source.read(letter);
    }
  }
}

bool HostInbox::HasRung() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [this](const Source& source) { return source.route->HasCome(number_); });
}

absl::Span<const OtherBells::Word> HostInbox::Listen() {
  mail_.head().sleeps[number_].value.store(1);
  words_.clear();
  for (const Source& source : sources_) {
    if (const std::optional<Word> word = source.route->Next(number_)) words_.push_back(*word);
  }
  return words_;
}

void HostInbox::StopListening() {
  mail_.head().sleeps[number_].value.store(0, std::memory_order_relaxed);
}

}  // namespace sluice
