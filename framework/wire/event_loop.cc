#include "framework/wire/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"

namespace sluice {
namespace {

constexpr EventLoop::Watch kWake = 0;

absl::Status NoDescriptor(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("no ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Start() {
  std::unique_ptr<EventLoop> loop(new EventLoop());
  loop->epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_.open()) return NoDescriptor("epoll");
  loop->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_.open()) return NoDescriptor("eventfd");
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  if (epoll_ctl(loop->epoll_.number(), EPOLL_CTL_ADD, loop->wake_.number(), &event) != 0) {
    return NoDescriptor("epoll for an eventfd");
  }
  RETURN_IF_ERROR(StartThread([raw = loop.get()] { raw->Main(); }, &loop->thread_));
  return loop;
}

EventLoop::~EventLoop() {
  if (!thread_.joinable()) return;
  Post([this] { stop_ = true; });
  thread_.join();
}

void EventLoop::Post(std::function<void()> call) {
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(call));
  }
  const uint64_t one = 1;
  // The counter cannot overflow: it is read before it is written again.
  if (first) SLUICE_CHECK(write(wake_.number(), &one, sizeof(one)) == sizeof(one));
}

void EventLoop::PostAndWait(std::function<void()> call) {
  if (std::this_thread::get_id() == thread_.get_id()) return call();
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Post([&] {
    call();
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
    changed.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return done; });
}

absl::StatusOr<EventLoop::Watch> EventLoop::Add(int descriptor, bool writes,
                                                std::function<void(bool, bool)> ready) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (writes ? EPOLLOUT : 0u);
  event.data.u64 = static_cast<uint64_t>(++last_);
  watched_[last_] = std::make_shared<Watched>(Watched{descriptor, std::move(ready)});
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0) return last_;
  watched_.erase(last_);
  return NoDescriptor("epoll for a socket");
}

void EventLoop::Remove(Watch watch) {
  const auto found = watched_.find(watch);
  if (found == watched_.end()) return;
  epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, found->second->descriptor, nullptr);
  watched_.erase(found);
}

void EventLoop::After(Clock::duration time, std::function<void()> call) {
  timers_.emplace(Clock::now() + time, std::move(call));
}

void EventLoop::RunPosted() {
  uint64_t count = 0;
  (void)!read(wake_.number(), &count, sizeof(count));
  std::vector<std::function<void()>> calls;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(posted_);
  }
  for (const auto& call : calls) call();
}

// Those that are due now; what they begin has its turn after descriptors have had theirs, however
// soon it is due.
int EventLoop::RunTimers() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const std::function<void()> call = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    call();
  }
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first - Clock::now();
  if (left <= Clock::duration::zero()) return 0;
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<int64_t>(milliseconds + 1, 1000 * 3600));
}

void EventLoop::Main() {
  std::array<epoll_event, 64> events;
  while (!stop_) {
    const int count = epoll_wait(epoll_.number(), events.data(), events.size(), RunTimers());
    for (int i = 0; i < count; ++i) {
      const auto watch = static_cast<Watch>(events[i].data.u64);
      if (watch == kWake) {
        RunPosted();
        continue;
      }
      // One that an earlier callback of this round has removed is told no more.
      const auto found = watched_.find(watch);
      if (found == watched_.end()) continue;
      const std::shared_ptr<Watched> watched = found->second;
      const uint32_t what = events[i].events;
      const bool error = (what & (EPOLLERR | EPOLLHUP)) != 0;
      watched->ready(error || (what & (EPOLLIN | EPOLLRDHUP)) != 0,
                     error || (what & EPOLLOUT) != 0);
    }
  }
}

}  // namespace sluice
