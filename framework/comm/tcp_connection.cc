#include "framework/comm/tcp_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
// Other connections have their turn after so much of one.
constexpr size_t kBytesATurn = size_t{4} << 20;
// The loop is woken for so many bytes of a register at a time, not for each segment.
constexpr size_t kLeastWake = size_t{256} << 10;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

TcpConnection::TcpConnection(EventLoop* loop, Connection connection, bool bulk, Owner* owner)
    : loop_(*loop), connection_(std::move(connection)), bulk_(bulk), owner_(*owner) {
  buffer_.resize(bulk ? kBytesFrameBytes : kBufferBytes);
}

absl::Status TcpConnection::Start() {
  ASSIGN_OR_RETURN(
      watch_, loop_.Add(connection_.number(), /*writes=*/true,
                        [this](bool readable, bool writable) { OnReady(readable, writable); }));
  OnReady(/*readable=*/true, /*writable=*/true);  // what came before is told only once
  return absl::OkStatus();
}

void TcpConnection::Stop() {
  *alive_ = false;
  loop_.Remove(watch_);
}

void TcpConnection::Finish() {
  discards_ = true;
  to_ = nullptr;
  WakeFor(1);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!frame_.empty()) SendWritten({});
  last_ = true;
  Flush();
}

void TcpConnection::Send(const Frame& frame, absl::Span<const Run> runs) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_ || last_) return;
  WriteFrame(frame, &frame_);
  SendWritten(runs);
}

void TcpConnection::Hold(const Frame& frame) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_ && !last_) WriteFrame(frame, &frame_);
}

void TcpConnection::SendHeld() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!frame_.empty()) SendWritten({});
}

void TcpConnection::SendWritten(absl::Span<const Run> runs) {
  size_t done = 0;
  // The usual case takes no memory: nothing waits, and the kernel takes it all.
  if (queue_.empty()) {
    std::array<Run, Connection::kRunsACall> parts;
    parts[0] = Bytes(frame_);
    size_t count = 1, bytes = frame_.size();
    for (; count <= runs.size() && count < parts.size(); ++count) {
      parts[count] = runs[count - 1];
      bytes += parts[count].size();
    }
    const absl::StatusOr<size_t> sent = connection_.Send(absl::MakeSpan(parts).first(count));
    if (sent.ok()) done = *sent;
    if (done == bytes && count == runs.size() + 1) return frame_.clear();
  }
  Outgoing outgoing;
  outgoing.head = frame_;
  frame_.clear();
  outgoing.runs.assign(runs.begin(), runs.end());
  outgoing.done = done;
  Queue(std::move(outgoing));
}

void TcpConnection::SendOwned(const Frame& frame, std::vector<std::byte> bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_ || last_) return;
  Outgoing outgoing;
  outgoing.head.swap(frame_);
  WriteFrame(frame, &outgoing.head);
  outgoing.owned = std::move(bytes);
  outgoing.runs = {absl::MakeSpan(outgoing.owned)};
  Queue(std::move(outgoing));
}

// An error of sending is not told here: the loop finds it when it reads, on its own thread.
void TcpConnection::Queue(Outgoing outgoing) {
  queue_.push_back(std::move(outgoing));
  Flush();
}

void TcpConnection::Flush() {
  while (!queue_.empty()) {
    Outgoing& first = queue_.front();
    std::array<Run, Connection::kRunsACall> parts;
    size_t count = 0, skip = first.done;
    const auto add = [&](Run run) {
      const size_t skipped = std::min(skip, run.size());
      skip -= skipped;
      run.remove_prefix(skipped);
      if (!run.empty() && count < parts.size()) parts[count++] = run;
    };
    add(Bytes(first.head));
    for (const Run& run : first.runs) add(run);
    if (count == 0) {
      queue_.pop_front();
      continue;
    }
    const absl::StatusOr<size_t> sent = connection_.Send(absl::MakeSpan(parts).first(count));
    if (!sent.ok()) {
      closed_ = true;
      queue_.clear();
      frame_.clear();
      return;
    }
    if (*sent == 0) return;
    first.done += *sent;
  }
  if (!connection_.Flush()) return;
  if (last_ && !closed_) {
    closed_ = true;
    shutdown(connection_.number(), SHUT_WR);
  }
}

void TcpConnection::OnReady(bool readable, bool writable) {
  if (writable) {
    std::lock_guard<std::mutex> lock(mutex_);
    Flush();
  }
  if (readable) Read();
}

void TcpConnection::Read() {
  size_t read = 0;
  while (!over_) {
    const size_t before = left_;
    if (!ReadOnce()) return;
    read += kBufferBytes + (before > left_ ? before - left_ : 0);
    if (read < kBytesATurn) continue;
    loop_.Post([this, alive = alive_] {
      if (*alive) Read();
    });
    return;
  }
}

bool TcpConnection::ReadOnce() {
  // The frame of a refusal is longer than those that bytes follow: no byte of theirs is to be read
  // into the room that it has made.
  if (bulk_ && end_ == 0) buffer_.resize(kBytesFrameBytes);
  const bool direct = left_ > 0 && !discards_;
  std::byte* const to = direct ? to_ : discards_ ? buffer_.data() : buffer_.data() + end_;
  const size_t room = direct ? left_ : discards_ ? buffer_.size() : buffer_.size() - end_;
  const absl::StatusOr<Connection::Received> got = connection_.Receive(to, room);
  if (!got.ok()) {
    End(got.status());
    return false;
  }
  if (got->bytes == 0) return false;
  if (discards_) {
    owner_.OnDiscarded();
    return true;
  }
  absl::Status status;
  if (direct) {
    to_ += got->bytes;
    left_ -= got->bytes;
    WakeForRest();
    if (left_ == 0) status = owner_.OnRead(this);
    // All that was there has been read. An end may stand behind it that the loop has told of by
    // now: it is looked for once the peer's other connection has ended.
    if (left_ > 0 && !got->more && !looks_for_end_) return false;
  } else {
    end_ += got->bytes;
    status = ReadFrames();
  }
  if (!status.ok()) End(status);
  return !over_;
}

// What is left in the end is the beginning of a frame, however short. It goes to the front, so that
// there is always room to read the rest: a read into no room gives nothing, as does a connection
// that is closed.
absl::Status TcpConnection::ReadFrames() {
  size_t whole = 0;  // of the frame that has begun to come
  while (end_ - begin_ >= kFrameHeadBytes && !discards_) {
    const absl::Span<const std::byte> read = absl::MakeSpan(buffer_).subspan(begin_, end_ - begin_);
    ASSIGN_OR_RETURN(const size_t size, ReadFrameHead(read));
    whole = kFrameHeadBytes + size;
    if (read.size() < whole) break;
    ASSIGN_OR_RETURN(const Frame frame, ReadFrame(read.subspan(kFrameHeadBytes, size)));
    begin_ += whole;
    RETURN_IF_ERROR(owner_.OnFrame(this, frame));
  }
  end_ -= begin_;
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_);
  begin_ = 0;
  // What is said to come is not believed before it does: the buffer doubles, and no more.
  if (end_ == buffer_.size()) buffer_.resize(std::min(whole, 2 * buffer_.size()));
  return absl::OkStatus();
}

// On a bulk connection nothing is read behind the frame, so all of it comes from the socket.
void TcpConnection::ReadInto(std::byte* to, size_t bytes) {
  to_ = to;
  left_ = bytes;
  WakeForRest();
}

// Of what is sealed the part of a record may stand here already, and never comes again.
void TcpConnection::WakeForRest() {
  if (connection_.sealed() && left_ < kLeastWake + kMostSealedBytes) return WakeFor(1);
  WakeFor(std::clamp<size_t>(left_, 1, kLeastWake));
}

// Only advice: without it the loop is woken more often.
void TcpConnection::WakeFor(size_t bytes) {
  if (bytes == wakes_for_) return;
  wakes_for_ = bytes;
  const auto least = static_cast<int>(bytes);
  setsockopt(connection_.number(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
}

void TcpConnection::End(const absl::Status& why) {
  over_ = true;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    queue_.clear();
    frame_.clear();
  }
  loop_.Remove(watch_);
  shutdown(connection_.number(), SHUT_RDWR);
  owner_.OnOver(this, why);
}

}  // namespace sluice
