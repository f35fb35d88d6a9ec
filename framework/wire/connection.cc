#include "framework/wire/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "framework/base/status.h"

namespace sluice {
namespace {

absl::Status Broken() { return absl::UnavailableError(std::strerror(errno)); }

// 0: there is nothing for now.
absl::StatusOr<size_t> ReceiveOnce(int socket, std::byte* to, size_t room, const char* closed) {
  while (true) {
    const ssize_t got = recv(socket, to, room, 0);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return absl::UnavailableError(closed);
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return Broken();
  }
}

// 0: the kernel takes nothing for now.
absl::StatusOr<size_t> SendOnce(int socket, iovec* parts, size_t count) {
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  while (true) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return Broken();
  }
}

iovec Part(absl::Span<const std::byte> run) {
  return {const_cast<std::byte*>(run.data()), run.size()};
}

}  // namespace

absl::StatusOr<size_t> Connection::SendPlain(absl::Span<const Run> runs) {
  std::array<iovec, kRunsACall> parts;
  std::transform(runs.begin(), runs.end(), parts.begin(), Part);
  return SendOnce(socket_.number(), parts.data(), runs.size());
}

// A record is made when the one before has gone: what the kernel does not take is not sealed early,
// and at most one record is kept.
absl::StatusOr<size_t> Connection::SendSealed(absl::Span<const Run> runs) {
  RecordWriter& writer = sealed_->writer;
  size_t taken = 0;
  while (true) {
    RETURN_IF_ERROR(FlushSealed());
    if (!writer.left().empty()) return taken;
    const absl::StatusOr<size_t> sealed = writer.Seal(runs, taken);
    if (!sealed.ok()) {
      // Nothing can be said here any more; whoever reads finds it closed.
      shutdown(socket_.number(), SHUT_RDWR);
      return sealed;
    }
    if (*sealed == 0) return taken;
    taken += *sealed;
  }
}

absl::Status Connection::FlushSealed() {
  RecordWriter& writer = sealed_->writer;
  while (!writer.left().empty()) {
    iovec part = Part(writer.left());
    ASSIGN_OR_RETURN(const size_t sent, SendOnce(socket_.number(), &part, 1));
    if (sent == 0) break;
    writer.Sent(sent);
  }
  return absl::OkStatus();
}

absl::StatusOr<Connection::Received> Connection::Receive(std::byte* to, size_t room) {
  if (sealed_ != nullptr) return ReceiveSealed(to, room);
  ASSIGN_OR_RETURN(const size_t got,
                   ReceiveOnce(socket_.number(), to, room, "its connection was closed"));
  return Received{got, got == room};
}

absl::StatusOr<Connection::Received> Connection::ReceiveSealed(std::byte* to, size_t room) {
  RecordReader& reader = sealed_->reader;
  while (true) {
    ASSIGN_OR_RETURN(const size_t taken, reader.Take(to, room));
    if (taken > 0) return Received{taken, /*more=*/true};
    const char* const closed = reader.waiting() > 0
                                   ? "its sealed connection was closed within a record"
                                   : "its connection was closed";
    const absl::Span<std::byte> free = reader.Room();
    ASSIGN_OR_RETURN(const size_t got,
                     ReceiveOnce(socket_.number(), free.data(), free.size(), closed));
    if (got == 0) return Received();
    reader.Came(got);
  }
}

absl::Status Connection::Write(absl::Span<const std::byte> bytes, Deadline deadline) {
  if (sealed_ == nullptr) return WriteAll(socket_.number(), bytes, deadline);
  RecordWriter& writer = sealed_->writer;
  const Run run = bytes;
  for (size_t done = 0;;) {
    RETURN_IF_ERROR(WriteAll(socket_.number(), writer.left(), deadline));
    writer.Sent(writer.left().size());
    if (done == bytes.size()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const size_t sealed, writer.Seal({&run, 1}, done));
    done += sealed;
  }
}

absl::Status Connection::Read(absl::Span<std::byte> bytes, Deadline deadline, const Stop& stop) {
  if (sealed_ == nullptr) return ReadAll(socket_.number(), bytes, deadline, stop);
  for (size_t done = 0; done < bytes.size();) {
    ASSIGN_OR_RETURN(const Received got, Receive(bytes.data() + done, bytes.size() - done));
    done += got.bytes;
    if (got.bytes > 0) continue;
    RETURN_IF_ERROR(WaitToRead(socket_.number(), bytes.size(), done, deadline, stop));
  }
  return absl::OkStatus();
}

}  // namespace sluice
