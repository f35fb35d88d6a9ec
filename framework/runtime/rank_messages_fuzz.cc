// A rank that trains with two others, which say anything: a byte says whether the next message is
// the one that came next in a run in which nobody lied, or a lie, and which. Each thing that the
// rank waits for comes to an end, and every slot that it lets others read is its own.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/log.h"
#include "framework/comm/in_process_net.h"
#include "framework/comm/pieces.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/test_ranks.h"

namespace sluice {
namespace {

constexpr int32_t kRanks = kTestRanks;
constexpr int64_t kSteps = 3;
constexpr int kKinds = static_cast<int>(WireMessage::Kind::kClock) + 2;  // and one that is none

using Heard = std::vector<std::pair<int32_t, WireMessage>>;

// Steps and a question; whatever comes of them.
absl::Status Train(Runtime* runtime) {
  for (int64_t step = 0; step < kSteps; ++step) {
    const absl::Status begun = runtime->Enqueue(0, {}, step);
    if (!begun.ok()) return begun;
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    const absl::Status ended = runtime->Next().status();
    if (!ended.ok()) return ended;
  }
  const auto answer = [](absl::Span<const std::string>) -> absl::StatusOr<std::string> {
    return "yes";
  };
  for (const Asker asker : {Asker::kSession, Asker::kSaver}) {
    const absl::Status asked = runtime->Ask(asker, "?", answer).status();
    if (!asked.ok()) return asked;
  }
  return absl::OkStatus();
}

RuntimeOptions Options() {
  RuntimeOptions options;
  options.workers = options.threads_per_device = 1;
  options.prepare = PrepareNothing;
  return options;
}

// Notes what its rank hears, in order.
class Ear final : public CommNet, public CommNet::Receiver {
 public:
  explicit Ear(CommNet* net) : net_(*net) {}
  int32_t rank() const override { return net_.rank(); }
  int32_t ranks() const override { return net_.ranks(); }
  void Open(CommNet::Receiver* receiver) override {
    receiver_ = receiver;
    net_.Open(this);
  }
  void Close() override { net_.Close(); }
  void Send(int32_t to, WireMessage message) override { net_.Send(to, std::move(message)); }
  void Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) override {
    net_.Pull(from, request, pull, to);
  }
  void Receive(int32_t from, const WireMessage& message) override {
    heard_.emplace_back(from, message);
    receiver_->Receive(from, message);
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t from,
                                                     const PullRequest& request) override {
    return receiver_->Locate(from, request);
  }
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) override {
    receiver_->PullEnded(pull, sequence, status);
  }
  Heard heard() const { return heard_; }

 private:
  CommNet& net_;
  CommNet::Receiver* receiver_ = nullptr;
  Heard heard_;
};

// What each rank hears where nobody lies.
std::vector<Heard> Listen() {
  InProcessNet net(kRanks, {.ordered = true});
  std::vector<std::unique_ptr<Ear>> ears;
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    ears.push_back(std::make_unique<Ear>(net.endpoint(rank)));
    threads.emplace_back([rank, ear = ears.back().get()] {
      RuntimeOptions options = Options();
      options.net = ear;
      const auto runtime = Runtime::Start(TestPlanOfRank(rank, plan::DEVICE_CPU), options);
      SLUICE_CHECK_OK(runtime.status());
      SLUICE_CHECK_OK(Train(runtime->get()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Heard> heard;
  for (const auto& ear : ears) heard.push_back(ear->heard());
  return heard;
}

class Input {
 public:
  explicit Input(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t Next() {
    if (bytes_.empty()) return 0;
    const uint8_t next = bytes_.front();
    bytes_.remove_prefix(1);
    return next;
  }
  template <typename T>
  T Number() {
    T value = 0;
    for (size_t n = 0; n < sizeof(value); ++n) {
      value = static_cast<T>(static_cast<uint64_t>(value) << 8 | Next());
    }
    return value;
  }
  std::string Text() {
    const size_t wanted = Next();  // first, as it takes a byte of them
    const size_t size = std::min(wanted, bytes_.size());
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_.remove_prefix(size);
    return text;
  }

 private:
  absl::Span<const uint8_t> bytes_;
};

// The others, and the one thread that all of the rank's workers and its session have.
class Others final : public CommNet, public Executor {
 public:
  Others(int32_t rank, const Heard* heard, Input input)
      : rank_(rank), heard_(*heard), input_(input) {
    for (const auto& [from, message] : heard_) last_[message.kind] = message;
  }

  int32_t rank() const override { return rank_; }
  int32_t ranks() const override { return kRanks; }
  void Open(Receiver* receiver) override { receiver_ = receiver; }
  void Close() override { receiver_ = nullptr; }
  void Send(int32_t to, WireMessage) override {
    SLUICE_CHECK(to >= 0 && to < kRanks && to != rank_);
  }
  void Pull(int32_t, const PullRequest& request, int32_t pull, std::byte* to) override {
    std::memset(to, 0, static_cast<size_t>(request.bytes));
    receiver_->PullEnded(pull, request.sequence, absl::OkStatus());
  }

  void Add(Task* task) override { tasks_.push_back(task); }
  void Remove(Task* task) override { std::erase(tasks_, task); }
  void WaitUntil(const char* what, const std::function<bool()>& ready) override {
    for (int64_t turns = 0; !ready(); ++turns) {
      SLUICE_CHECK_LT(turns, 1'000'000) << what << " does not come";
      if (!Turn()) Say();
    }
  }

 private:
  bool Turn() {
    bool any = false;
    for (size_t n = 0; n < tasks_.size(); ++n) {
      if (!tasks_[n]->HasWork()) continue;
      tasks_[n]->Turn();
      any = true;
    }
    return any;
  }

  int32_t Other(uint8_t which) const { return (rank_ + 1 + which % (kRanks - 1)) % kRanks; }

  // In the end they are lost, first one, then the other.
  void Say() {
    if (receiver_ == nullptr) return;
    if (input_.empty()) {
      SLUICE_CHECK_LT(lost_, kRanks) << "it waits for who is lost";
      const int32_t rank = Other(static_cast<uint8_t>(lost_++));
      return receiver_->Receive(rank, LeftBecause(rank, absl::UnavailableError("lost")));
    }
    const uint8_t what = input_.Next();
    if ((what & 0x80) != 0) {
      if (next_ < heard_.size()) {
        const auto& [from, message] = heard_[next_++];
        receiver_->Receive(from, message);
      }
    } else if ((what & 0x40) != 0) {
      LieAboutPull();
    } else {
      Lie(static_cast<WireMessage::Kind>(what % kKinds));
    }
  }

  // A message that was heard, or will be, changed here and there.
  void Lie(WireMessage::Kind kind) {
    WireMessage message = last_[kind];
    message.kind = kind;
    const uint8_t from = input_.Next(), changes = input_.Next();
    if ((changes & 1) != 0) Change(&message.edge);
    if ((changes & 2) != 0) message.sequence += static_cast<int8_t>(input_.Next());
    if ((changes & 4) != 0) message.sequence = input_.Number<int64_t>();
    if ((changes & 8) != 0) message.number = input_.Number<int64_t>();
    if ((changes & 16) != 0) message.asker = static_cast<Asker>(input_.Next());
    if ((changes & 32) != 0) message.code = static_cast<int8_t>(input_.Next());
    if ((changes & 64) != 0) message.text = input_.Text();
    if ((changes & 128) != 0) message.edges = input_.Text();
    message.failed = (from & 0x80) != 0;
    receiver_->Receive(Other(from), message);
  }

  void Change(Edge* edge) {
    const uint8_t how = input_.Next();
    if (how < 0x80 && !heard_.empty()) *edge = heard_[how % heard_.size()].second.edge;
    int32_t* const numbers[] = {&edge->program, &edge->source_device, &edge->source,
                                &edge->reader_device, &edge->reader};
    if ((how & 0x40) != 0) *numbers[how % 5] = input_.Number<int32_t>();
  }

  void LieAboutPull() {
    PullRequest request;
    request.edge = last_[WireMessage::Kind::kPulled].edge;
    Change(&request.edge);
    const uint8_t from = input_.Next();
    request.sequence = static_cast<int8_t>(input_.Next());
    request.element_bytes = static_cast<int8_t>(input_.Next());
    PullRequest::Piece piece;
    piece.offset = static_cast<int8_t>(input_.Next());
    piece.extent = {static_cast<int8_t>(input_.Next())};
    piece.strides = {static_cast<int8_t>(input_.Next())};
    request.bytes = int64_t{request.element_bytes} * piece.extent[0];
    request.pieces = {piece};
    const auto slot = receiver_->Locate(Other(from), request);
    if (!slot.ok()) return;
    std::vector<std::byte> bytes(static_cast<size_t>(request.bytes));
    Gather(request, *slot, bytes.data());
  }

  const int32_t rank_;
  const Heard& heard_;
  Input input_;
  Receiver* receiver_ = nullptr;
  std::vector<Task*> tasks_;
  std::map<WireMessage::Kind, WireMessage> last_;
  size_t next_ = 0;
  int32_t lost_ = 0;
};

void Run(Input input) {
  static const auto* const heard = new std::vector<Heard>(Listen());
  static const auto* const plans = new std::vector<plan::Plan>{TestPlanOfRank(0, plan::DEVICE_CPU),
                                                               TestPlanOfRank(1, plan::DEVICE_CPU)};
  const int32_t rank = input.Next() % 2;
  Others others(rank, &(*heard)[rank], input);
  RuntimeOptions options = Options();
  options.net = &others;
  options.executor = &others;
  const auto runtime = Runtime::Start((*plans)[rank], options);
  if (!runtime.ok()) return;
  Train(runtime->get()).IgnoreError();
  (*runtime)->Close().IgnoreError();
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Run(sluice::Input({data, size}));
  return 0;
}
