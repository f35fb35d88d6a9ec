#include "framework/comm/in_process_net.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "framework/comm/pieces.h"

namespace sluice {

class InProcessNet::Endpoint final : public CommNet {
 public:
  Endpoint(InProcessNet* net, int32_t rank) : net_(*net), rank_(rank) {}

  int32_t rank() const override { return rank_; }
  int32_t ranks() const override { return static_cast<int32_t>(net_.endpoints_.size()); }
  int32_t place_on_host() const override { return rank_; }  // each has cards of its own
  bool reads_in_place(int32_t) const override { return net_.options_.in_place; }
  bool pulls_ahead(int32_t) const override {
    return net_.options_.ahead && !net_.options_.in_place;
  }
  void Open(Receiver* receiver) override {
    std::vector<std::shared_ptr<Parcel>> early;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      receiver_ = receiver;
      early.swap(early_);
    }
    for (auto& parcel : early) net_.Post(std::move(parcel));
  }
  void Close() override {
    std::lock_guard<std::mutex> lock(mutex_);
    receiver_ = nullptr;
    closed_ = true;
  }
  void Send(int32_t to, WireMessage message) override {
    auto parcel = std::make_shared<Parcel>();
    parcel->from = rank_;
    parcel->to = to;
    parcel->message = std::move(message);
    std::vector<std::shared_ptr<Parcel>> wanted;
    if (parcel->message.kind == WireMessage::Kind::kToken && !parcel->message.failed) {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto is_other = [&](const std::shared_ptr<Parcel>& request) {
        return request->request.edge != parcel->message.edge;
      };
      const auto first = std::partition(ahead_.begin(), ahead_.end(), is_other);
      wanted.assign(first, ahead_.end());
      ahead_.erase(first, ahead_.end());
    }
    net_.Post(std::move(parcel));
    for (auto& request : wanted) net_.Post(std::move(request));
  }
  // The net's thread, the receiver's lock held: the token that is pulled is still to be told.
  void Keep(const std::shared_ptr<Parcel>& request) {
    ++net_.ahead_;
    ahead_.push_back(request);
  }
  void Pull(int32_t from, const PullRequest& request, int32_t pull, std::byte* to) override {
    auto parcel = std::make_shared<Parcel>();
    parcel->kind = Parcel::Kind::kRequest;
    parcel->from = rank_;
    parcel->to = from;
    parcel->request = request;
    parcel->pull = pull;
    parcel->destination = to;
    ++net_.pulls_;
    const bool early = net_.options_.early_end && request.sequence % 2 == 0;
    net_.Post(std::move(parcel));
    std::lock_guard<std::mutex> lock(mutex_);
    if (early && receiver_ != nullptr) receiver_->PullEnded(pull, request.sequence, {});
  }

  const std::byte* FindInPlace(int32_t from, const PullRequest& request, int32_t) override {
    int64_t offset = 0;
    if (!net_.options_.in_place || !LieInRow(request, &offset)) return nullptr;
    Endpoint& owner = *net_.endpoints_[from];
    std::lock_guard<std::mutex> lock(owner.mutex_);
    if (owner.receiver_ == nullptr) return nullptr;
    const auto slot = owner.receiver_->Locate(rank_, request);
    if (!slot.ok()) return nullptr;
    ++net_.in_place_;
    return slot->data() + offset;
  }

  // The net's thread. Null: nobody is there; what comes before Open is kept for it.
  template <typename F>
  void WithReceiver(const std::shared_ptr<Parcel>& parcel, F&& deliver) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (receiver_ != nullptr) {
      deliver(receiver_);
    } else if (!closed_) {
      early_.push_back(parcel);
    }
  }

 private:
  InProcessNet& net_;
  const int32_t rank_;
  std::mutex mutex_;  // held while the receiver is called, so that Close waits for that
  Receiver* receiver_ = nullptr;
  bool closed_ = false;
  std::vector<std::shared_ptr<Parcel>> early_, ahead_;  // guarded by mutex_
};

InProcessNet::InProcessNet(int32_t ranks, const InProcessNetOptions& options)
    : options_(options), random_(options.seed) {
  for (int32_t rank = 0; rank < ranks; ++rank) {
    endpoints_.push_back(std::make_unique<Endpoint>(this, rank));
  }
  thread_ = std::thread([this] { Main(); });
}

InProcessNet::~InProcessNet() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CommNet* InProcessNet::endpoint(int32_t rank) { return endpoints_[rank].get(); }

void InProcessNet::Post(std::shared_ptr<Parcel> parcel) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto delay = random_() % (static_cast<uint64_t>(options_.most_delay.count()) + 1);
    Clock::time_point when = Clock::now() + std::chrono::microseconds(delay);
    if (parcel->kind == Parcel::Kind::kMessage) {
      Clock::time_point& last = last_[{parcel->from, parcel->to}];
      if (options_.ordered) when = std::max(when, last);
      last = when;
    }
    Clock::time_point& asked = asked_[{parcel->from, parcel->to}];
    if (parcel->kind == Parcel::Kind::kRequest) {
      asked = std::max(asked, when);
    } else if (parcel->message.kind == WireMessage::Kind::kPulled) {
      when = std::max(when, asked);
    }
    queue_.push({when, posted_++, std::move(parcel)});
  }
  changed_.notify_all();
}

void InProcessNet::Main() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (queue_.empty()) {
      changed_.wait(lock);
      continue;
    }
    if (queue_.top().when > Clock::now()) {
      const Clock::time_point when = queue_.top().when;
      changed_.wait_until(lock, when);
      continue;
    }
    const std::shared_ptr<Parcel> parcel = queue_.top().parcel;
    queue_.pop();
    lock.unlock();
    Endpoint& to = *endpoints_[parcel->to];
    switch (parcel->kind) {
      case Parcel::Kind::kMessage:
        to.WithReceiver(parcel, [&](CommNet::Receiver* receiver) {
          receiver->Receive(parcel->from, parcel->message);
        });
        break;
      case Parcel::Kind::kRequest: {
        to.WithReceiver(parcel, [&](CommNet::Receiver* receiver) {
          auto answer = std::make_shared<Parcel>(*parcel);
          answer->kind = Parcel::Kind::kBytes;
          std::swap(answer->from, answer->to);
          const auto slot = receiver->Locate(parcel->from, parcel->request);
          if (absl::IsUnavailable(slot.status())) return to.Keep(parcel);
          answer->status = slot.status();
          if (slot.ok()) {
            answer->bytes.resize(parcel->request.bytes);
            Gather(parcel->request, *slot, answer->bytes.data());
          }
          Post(std::move(answer));
        });
        break;
      }
      case Parcel::Kind::kBytes:
        to.WithReceiver(parcel, [&](CommNet::Receiver* receiver) {
          receiver->PullBegan(parcel->pull, parcel->request.sequence);
          if (parcel->status.ok() && !parcel->bytes.empty()) {
            std::memcpy(parcel->destination, parcel->bytes.data(), parcel->bytes.size());
          }
          receiver->PullEnded(parcel->pull, parcel->request.sequence, parcel->status);
        });
        break;
    }
    lock.lock();
  }
}

}  // namespace sluice
