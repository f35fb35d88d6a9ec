#include "framework/wire/event_loop.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "framework/wire/connected_testing.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Clock = EventLoop::Clock;
using std::chrono::milliseconds;

// What threads wait for.
class Count {
 public:
  void Add() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
  }
  // Whether there are so many within ten seconds. Looks again and again, as gcc 12's thread
  // sanitizer does not know what a condition variable does that waits for a time.
  bool Reaches(int count) {
    const auto until = Clock::now() + std::chrono::seconds(10);
    while (value() < count && Clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
    return value() >= count;
  }
  int value() {
    std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  int count_ = 0;
};

class EventLoopTest : public ::testing::Test {
 protected:
  EventLoopTest() : loop_(*EventLoop::Start()) {}
  ~EventLoopTest() override {
    // Watches end before their sockets do.
    loop_.reset();
  }

  EventLoop::Watch Add(const Descriptor& socket, bool writes,
                       std::function<void(bool, bool)> ready) {
    EventLoop::Watch watch = 0;
    loop_->PostAndWait([&] {
      const auto added = loop_->Add(socket.number(), writes, std::move(ready));
      EXPECT_TRUE(added.ok()) << added.status();
      watch = *added;
    });
    return watch;
  }
  static void Say(const Descriptor& socket, const std::string& text) {
    EXPECT_EQ(send(socket.number(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  static std::string Hear(const Descriptor& socket) {
    std::array<char, 100> text;
    const ssize_t got = recv(socket.number(), text.data(), text.size(), 0);
    return std::string(text.data(), got > 0 ? got : 0);
  }

  std::unique_ptr<EventLoop> loop_;
};

TEST_F(EventLoopTest, TellsOnceOfWhatComes) {
  auto [caller, taken] = Connected();
  Count calls;
  std::string heard;
  Say(caller, "before");  // also of what was there before
  Add(taken, /*writes=*/false, [&, &taken = taken](bool readable, bool writable) {
    EXPECT_TRUE(readable);
    EXPECT_FALSE(writable);
    if (calls.value() > 0) heard += Hear(taken);
    calls.Add();
  });
  ASSERT_TRUE(calls.Reaches(1));
  // Not read, it is not told again.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(calls.value(), 1);
  Say(caller, ", after");
  ASSERT_TRUE(calls.Reaches(2));
  caller = Descriptor();
  EXPECT_TRUE(calls.Reaches(3)) << "the end is told";
  loop_.reset();
  EXPECT_EQ(heard, "before, after");
}

TEST_F(EventLoopTest, TellsWhenItHasBecomeWritable) {
  auto [caller, taken] = Connected();
  Count writable_calls;
  Add(caller, /*writes=*/true, [&](bool, bool writable) {
    if (writable) writable_calls.Add();
  });
  ASSERT_TRUE(writable_calls.Reaches(1));
  const std::string much(1 << 20, 'x');
  while (send(caller.number(), much.data(), much.size(), MSG_NOSIGNAL) > 0) {
  }
  EXPECT_EQ(errno, EAGAIN);
  std::string read(4 << 20, ' ');
  int drained = 0;
  while (writable_calls.value() < 2 && drained < 1000) {
    if (recv(taken.number(), read.data(), read.size(), 0) <= 0) ++drained;
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(writable_calls.Reaches(2));
  loop_.reset();
}

// Both are ready in one round, and whichever is called first removes the other: with its socket,
// whose number is then another's.
TEST_F(EventLoopTest, AWatchThatWasRemovedInTheSameRoundIsToldNoMore) {
  for (int round = 0; round < 50; ++round) {
    std::array<Descriptor, 2> callers, takens;
    for (int i = 0; i < 2; ++i) std::tie(callers[i], takens[i]) = Connected();
    std::array<EventLoop::Watch, 2> watches = {};
    Count calls;
    for (int i = 0; i < 2; ++i) {
      watches[i] = Add(takens[i], /*writes=*/false, [&, i](bool, bool) {
        loop_->Remove(watches[1 - i]);
        takens[1 - i] = Descriptor();
        calls.Add();
      });
    }
    // Both come while the loop is busy.
    loop_->PostAndWait([&] {
      for (int i = 0; i < 2; ++i) Say(callers[i], "x");
    });
    ASSERT_TRUE(calls.Reaches(1));
    loop_->PostAndWait([] {});
    loop_->PostAndWait([] {});
    EXPECT_EQ(calls.value(), 1);
    loop_->PostAndWait([&] {
      for (const EventLoop::Watch watch : watches) loop_->Remove(watch);
    });
  }
}

TEST_F(EventLoopTest, ACallbackMayRemoveItselfAndAnother) {
  auto [caller, taken] = Connected();
  Count calls;
  EventLoop::Watch watch = 0;
  // What the callback holds lives as long as it runs.
  const auto held = std::make_shared<std::string>("held");
  watch = Add(taken, /*writes=*/false, [&, held](bool, bool) {
    loop_->Remove(watch);
    loop_->Remove(watch);
    EXPECT_EQ(*held, "held");
    calls.Add();
  });
  loop_->PostAndWait([] {});  // from here on the loop sees `watch`
  Say(caller, "x");
  ASSERT_TRUE(calls.Reaches(1));
  Say(caller, "y");
  loop_->PostAndWait([] {});
  loop_->PostAndWait([] {});
  EXPECT_EQ(calls.value(), 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(EventLoopTest, WhatCannotBeWatchedIsAnError) {
  loop_->PostAndWait([&] {
    EXPECT_TRUE(absl::IsResourceExhausted(loop_->Add(-1, false, [](bool, bool) {}).status()));
  });
}

TEST_F(EventLoopTest, TimersComeInTheirOrderAndNotBefore) {
  std::vector<int> order;
  Count calls;
  const auto begin = Clock::now();
  loop_->PostAndWait([&] {
    for (const int time : {60, 20, 40, 0}) {
      loop_->After(milliseconds(time), [&, time] {
        EXPECT_GE(Clock::now() - begin, milliseconds(time));
        order.push_back(time);
        calls.Add();
      });
    }
  });
  ASSERT_TRUE(calls.Reaches(4));
  EXPECT_EQ(order, (std::vector<int>{0, 20, 40, 60}));
}

TEST_F(EventLoopTest, ATimerMayBeginAnother) {
  Count calls;
  std::function<void()> again = [&] {
    calls.Add();
    if (calls.value() < 10) loop_->After(milliseconds(1), again);
  };
  loop_->PostAndWait([&] { loop_->After(milliseconds(1), again); });
  ASSERT_TRUE(calls.Reaches(10));
  loop_.reset();
  EXPECT_EQ(calls.value(), 10);
}

// Timers that are always due keep nobody from its turn.
TEST_F(EventLoopTest, ATimerOfNoTimeThatBeginsItselfLetsOthersIn) {
  auto [caller, taken] = Connected();
  std::atomic<bool> stop{false};
  Count heard;
  std::function<void()> again = [&] {
    if (!stop) loop_->After(Clock::duration::zero(), again);
  };
  Add(taken, /*writes=*/false, [&](bool, bool) { heard.Add(); });
  loop_->Post([&] { again(); });
  Count posted;
  Say(caller, "x");
  loop_->Post([&] { posted.Add(); });
  EXPECT_TRUE(heard.Reaches(1));
  EXPECT_TRUE(posted.Reaches(1));
  stop = true;
  loop_->PostAndWait([] {});
  loop_.reset();
}

TEST_F(EventLoopTest, PostsOfManyThreadsAllComeEachThreadsInOrder) {
  constexpr int kThreads = 4, kPosts = 5000;
  std::array<int, kThreads> next = {};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        const auto call = [&, t, i] {
          if (next[t]++ != i) ++wrong;
        };
        i % 100 == 0 ? loop_->PostAndWait(call) : loop_->Post(call);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop_->PostAndWait([] {});
  for (const int count : next) EXPECT_EQ(count, kPosts);
  EXPECT_EQ(wrong, 0);
}

TEST_F(EventLoopTest, WhatACallbackPostsComesAfterIt) {
  std::vector<int> order;
  loop_->PostAndWait([&] {
    loop_->Post([&] { order.push_back(2); });
    order.push_back(1);
  });
  loop_->PostAndWait([] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(EventLoopTest, ACallbackThatWaitsForAnotherDoesNotWaitForItself) {
  std::vector<int> order;
  loop_->PostAndWait([&] {
    loop_->PostAndWait([&] { order.push_back(1); });
    order.push_back(2);
  });
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(EventLoopTest, AtItsEndWhatWasPostedIsCalledAndNothingElse) {
  auto [caller, taken] = Connected();
  std::atomic<int> posted{0}, late{0};
  const auto held = std::make_shared<int>(1);
  Add(taken, /*writes=*/false, [held](bool, bool) {});
  std::atomic<bool> busy{false};
  loop_->Post([&, loop = loop_.get()] {
    busy = true;
    std::this_thread::sleep_for(milliseconds(50));
    loop->After(milliseconds(1), [&late, held] { ++late; });
  });
  while (!busy) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) loop_->Post([&posted, held] { ++posted; });
  loop_.reset();
  EXPECT_EQ(posted, 1000);
  Say(caller, "x");
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(late, 0);
  EXPECT_EQ(held.use_count(), 1) << "all that was to be called has gone";
}

}  // namespace
}  // namespace sluice
