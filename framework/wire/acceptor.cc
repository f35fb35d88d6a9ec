#include "framework/wire/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

// A verdict fits into what the kernel keeps for a connection that has said nothing yet. Who does
// not take it is not waited for.
constexpr auto kVerdictLimit = std::chrono::milliseconds(500);
// Descriptors have run out, or the like: the next try is not made at once.
constexpr auto kAcceptPause = std::chrono::milliseconds(200);
// Of those that come at once so many are taken before those that are there have their turn: else a
// good one were pushed out by those behind it before it could answer.
constexpr int kAcceptsATurn = 16;
// Whoever knocks does not fill the log.
constexpr auto kBetweenWarnings = std::chrono::seconds(1);
// Who is shut out before it could say who it is comes again, so often; by then somebody listens
// there, or has gone.
constexpr int kMostTries = 20;
constexpr auto kBetweenTries = std::chrono::milliseconds(50);
constexpr auto kGoneLimit = std::chrono::seconds(2);

absl::Span<const std::byte> Bytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

template <typename Message>
absl::string_view Text(const Message& message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

// All behind the answer, the verdict as well, is as the hello has said, which both proofs cover.
absl::Status SealAsSaid(const Caller& caller, absl::string_view secret, const Hello& hello,
                        const Challenge& challenge, const Answer& answer, Side side,
                        Connection* connection) {
  if (!caller.sealed) return absl::OkStatus();
  const std::string handshake = absl::StrCat(Text(hello), Text(challenge), Text(answer));
  ASSIGN_OR_RETURN(const SealKeys keys, DeriveSealKeys(secret, handshake, side));
  connection->Seal(keys);
  return absl::OkStatus();
}

}  // namespace

absl::Status Tell(Newcomer* newcomer, const absl::Status& verdict, absl::string_view text) {
  return newcomer->connection.Write(Bytes(MakeVerdict(verdict, text)),
                                    EventLoop::Clock::now() + kVerdictLimit);
}

// A connection of which nothing is known yet, and how far it has come.
struct Acceptor::Unknown {
  Descriptor socket;
  EventLoop::Watch watch = 0;
  EventLoop::Clock::time_point until;
  std::string from;
  size_t got = 0;  // bytes of the message that is being read
  bool challenged = false;
  Hello hello;
  Challenge challenge;
  Answer answer;
};

Acceptor::Acceptor(EventLoop* loop, Descriptor listener, const AcceptorOptions& options, Take take)
    : loop_(*loop), listener_(std::move(listener)), options_(options), take_(std::move(take)) {}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(EventLoop* loop, Descriptor listener,
                                                          const AcceptorOptions& options,
                                                          Take take) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(loop, std::move(listener), options, std::move(take)));
  absl::Status status;
  loop->PostAndWait([&] { status = acceptor->Watch(); });
  RETURN_IF_ERROR(status);
  return acceptor;
}

Acceptor::~Acceptor() {
  loop_.PostAndWait([this] {
    *alive_ = false;
    loop_.Remove(watch_);
    while (!unknown_.empty()) Drop(unknown_.begin()->first);
  });
}

absl::Status Acceptor::Watch() {
  ASSIGN_OR_RETURN(
      watch_, loop_.Add(listener_.number(), /*writes=*/false, [this](bool, bool) { AcceptAll(); }));
  AcceptAll();  // what came before is told only once
  return absl::OkStatus();
}

void Acceptor::AcceptAll() {
  if (accepts_later_) return;
  for (int taken = 0; taken < kAcceptsATurn; ++taken) {
    absl::StatusOr<Descriptor> socket = Accept(listener_.number());
    if (!socket.ok()) {
      Warn(socket.status().message());
      return AcceptAfter(kAcceptPause);
    }
    if (!socket->open()) return;
    AddUnknown(*std::move(socket));
  }
  AcceptAfter(EventLoop::Clock::duration::zero());
}

void Acceptor::AcceptAfter(EventLoop::Clock::duration time) {
  accepts_later_ = true;
  loop_.After(time, [this, alive = alive_] {
    if (!*alive) return;
    accepts_later_ = false;
    AcceptAll();
  });
}

void Acceptor::Warn(absl::string_view what) {
  const auto now = EventLoop::Clock::now();
  if (now < next_warning_) {
    ++unsaid_;
    return;
  }
  const std::string others =
      unsaid_ > 0 ? absl::StrCat("; and ", unsaid_, " such since the last of these lines") : "";
  SLUICE_LOG(WARNING) << what << others;
  next_warning_ = now + kBetweenWarnings;
  unsaid_ = 0;
}

void Acceptor::AddUnknown(Descriptor socket) {
  if (unknown_.size() >= options_.most_unknown) {
    ++refused_;
    Drop(unknown_.begin()->first);
  }
  const int64_t number = count_++;
  auto unknown = std::make_unique<Unknown>();
  const absl::StatusOr<Endpoint> from = RemoteEndpoint(socket.number());
  unknown->from = from.ok() ? EndpointText(*from) : "an unknown address";
  unknown->socket = std::move(socket);
  const auto watch = loop_.Add(unknown->socket.number(), /*writes=*/false,
                               [this, number](bool, bool) { OnReadable(number); });
  if (!watch.ok()) return;
  unknown->watch = *watch;
  unknown->until = EventLoop::Clock::now() + options_.limit;
  unknown_[number] = std::move(unknown);
  if (!drops_later_) DropLate();
  OnReadable(number);
}

// Those whose time is over. All have the same, so the first that came is the first to go.
void Acceptor::DropLate() {
  const auto now = EventLoop::Clock::now();
  while (!unknown_.empty() && unknown_.begin()->second->until <= now) {
    ++refused_;
    Drop(unknown_.begin()->first);
  }
  drops_later_ = !unknown_.empty();
  if (!drops_later_) return;
  loop_.After(unknown_.begin()->second->until - now, [this, alive = alive_] {
    if (*alive) DropLate();
  });
}

void Acceptor::Drop(int64_t number) {
  const auto found = unknown_.find(number);
  if (found == unknown_.end()) return;
  loop_.Remove(found->second->watch);
  unknown_.erase(found);
}

bool Acceptor::ReadMore(Unknown* unknown, absl::Span<std::byte> message) {
  const ssize_t got = recv(unknown->socket.number(), message.data() + unknown->got,
                           message.size() - unknown->got, 0);
  if (got > 0) unknown->got += static_cast<size_t>(got);
  // Closed, or broken: its time ends now, by a message that never ends.
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) unknown->got = SIZE_MAX;
  return unknown->got == message.size();
}

// Reads until there is no more, as it is told only once of what there is.
void Acceptor::OnReadable(int64_t number) {
  const auto found = unknown_.find(number);
  if (found == unknown_.end()) return;
  Unknown& unknown = *found->second;
  const auto refuse = [&] {
    ++refused_;
    Drop(number);
  };
  if (!unknown.challenged) {
    if (!ReadMore(&unknown, absl::MakeSpan(unknown.hello))) {
      if (unknown.got == SIZE_MAX) refuse();
      return;
    }
    const absl::StatusOr<Caller> caller = ReadHello(unknown.hello);
    if (!caller.ok()) return refuse();
    unknown.challenged = true;
    unknown.got = 0;
    unknown.challenge = MakeChallenge(options_.secret, unknown.hello);
    const auto deadline = EventLoop::Clock::now() + kVerdictLimit;
    if (!WriteAll(unknown.socket.number(), absl::MakeSpan(unknown.challenge), deadline).ok()) {
      return refuse();
    }
  }
  if (!ReadMore(&unknown, absl::MakeSpan(unknown.answer))) {
    if (unknown.got == SIZE_MAX) refuse();
    return;
  }
  const absl::StatusOr<std::string> added =
      ReadAnswer(options_.secret, unknown.hello, unknown.challenge, unknown.answer);
  Newcomer newcomer;
  newcomer.from = unknown.from;
  newcomer.caller = *ReadHello(unknown.hello);
  loop_.Remove(unknown.watch);
  newcomer.connection = Connection(std::move(unknown.socket));
  absl::Status known = added.status();
  if (known.ok()) {
    known = SealAsSaid(newcomer.caller, options_.secret, unknown.hello, unknown.challenge,
                       unknown.answer, Side::kServer, &newcomer.connection);
  }
  unknown_.erase(found);
  if (!known.ok()) {
    ++refused_;
    Warn(absl::StrCat("refused a process at ", newcomer.from, ": ", known.message()));
    // Unsealed: there is no secret that both know.
    Tell(&newcomer, known, "").IgnoreError();
    return;
  }
  newcomer.added = *added;
  take_(std::move(newcomer));
}

namespace {

// The messages before the verdict, and its head.
absl::StatusOr<ReadVerdictHead> Exchange(Connection* connection, const Caller& caller,
                                         absl::string_view secret, Deadline deadline,
                                         const std::function<std::string(int)>& add,
                                         const Stop& stop) {
  const Hello hello = MakeHello(caller);
  RETURN_IF_ERROR(connection->Write(absl::MakeSpan(hello), deadline));
  Challenge challenge;
  RETURN_IF_ERROR(connection->Read(absl::MakeSpan(challenge), deadline, stop));
  ASSIGN_OR_RETURN(const Answer answer,
                   MakeAnswer(secret, hello, challenge, add(connection->number())));
  RETURN_IF_ERROR(connection->Write(absl::MakeSpan(answer), deadline));
  RETURN_IF_ERROR(SealAsSaid(caller, secret, hello, challenge, answer, Side::kClient, connection));
  VerdictHead head;
  RETURN_IF_ERROR(connection->Read(absl::MakeSpan(head), deadline, stop));
  return ReadVerdict(head);
}

}  // namespace

absl::StatusOr<Admission> Enter(const Endpoint& endpoint, const Caller& caller,
                                absl::string_view secret, Deadline deadline,
                                const std::function<std::string(int socket)>& add,
                                const Stop& stop) {
  const std::string where = absl::StrCat("at ", EndpointText(endpoint));
  std::optional<std::string> added;
  const auto add_once = [&](int socket) {
    if (!added.has_value()) added = add(socket);
    return *added;
  };
  Deadline connected = deadline;
  for (int tries = 1;; ++tries) {
    Admission admission;
    ASSIGN_OR_RETURN(Descriptor socket, Connect(endpoint, connected, stop));
    admission.connection = Connection(std::move(socket));
    const absl::StatusOr<ReadVerdictHead> verdict =
        Exchange(&admission.connection, caller, secret, deadline, add_once, stop);
    if (absl::IsUnavailable(verdict.status()) && tries < kMostTries) {
      std::this_thread::sleep_for(kBetweenTries);
      connected = std::min<Deadline>(deadline, EventLoop::Clock::now() + kGoneLimit);
      continue;
    }
    if (!verdict.ok()) return AddContext(verdict.status(), where);
    admission.text.resize(verdict->bytes);
    const absl::Span<char> text = absl::MakeSpan(admission.text);
    RETURN_IF_ERROR(
        AddContext(admission.connection.Read(
                       {reinterpret_cast<std::byte*>(text.data()), text.size()}, deadline, stop),
                   where));
    if (verdict->code != absl::StatusCode::kOk) return absl::Status(verdict->code, admission.text);
    return admission;
  }
}

}  // namespace sluice
