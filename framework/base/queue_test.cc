#include "framework/base/queue.h"

#include <time.h>

#include <thread>

#include "framework/testing/allocations.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Item {
  int producer, number;
};

microseconds ThreadCpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return microseconds(time.tv_sec * 1'000'000 + time.tv_nsec / 1000);
}

// The owner receives everything from every producer in order, popping one or all there are and
// sleeping between.
void ReceiveInOrder(microseconds spin) {
  constexpr int kProducers = 4, kItems = 20000;
  Queue<Item> queue(16);
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kItems; ++i) {
        queue.Push({p, i});
        if (i % 1000 == p) std::this_thread::sleep_for(microseconds(100));
      }
    });
  }
  std::vector<int> next(kProducers, 0);
  std::vector<Item> items;
  for (int received = 0; received < kProducers * kItems;) {
    ASSERT_TRUE(queue.WaitNonEmpty(spin));
    Item first;
    ASSERT_TRUE(queue.Pop(&first));  // a true WaitNonEmpty means there is one
    items.assign(1, first);
    for (Item more; received % 3 != 0 && queue.Pop(&more);) items.push_back(more);
    for (const Item& item : items) EXPECT_EQ(item.number, next[item.producer]++);
    received += items.size();
  }
  for (std::thread& producer : producers) producer.join();
  Item item;
  EXPECT_FALSE(queue.Pop(&item));
}

TEST(QueueTest, ManyProducersStayInOrder) { ReceiveInOrder(microseconds(20)); }
TEST(QueueTest, ManyProducersStayInOrderWithoutSpinning) { ReceiveInOrder(microseconds(0)); }

TEST(QueueTest, PingPongNeverLosesAWakeUp) {
  Queue<int> there, back;
  std::thread other([&] {
    for (int i = 0; i < 20000; ++i) {
      there.WaitNonEmpty(microseconds(i % 3));
      int value;
      ASSERT_TRUE(there.Pop(&value));
      back.Push(value + 1);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    there.Push(i);
    ASSERT_TRUE(back.WaitNonEmpty(microseconds(i % 5)));
    int value;
    ASSERT_TRUE(back.Pop(&value));
    ASSERT_EQ(value, i + 1);
  }
  other.join();
}

TEST(QueueTest, SteadyStateAllocatesNothing) {
  Queue<int> queue(4);
  std::vector<int> items;
  items.reserve(100);
  auto round = [&] {
    for (int i = 0; i < 100; ++i) queue.Push(i);
    EXPECT_TRUE(queue.WaitNonEmpty(microseconds(0)));
    int first;
    EXPECT_TRUE(queue.Pop(&first));
    items.clear();
    for (int more; queue.Pop(&more);) items.push_back(more);
    EXPECT_EQ(items.size(), 99);
  };
  round();
  round();  // both halves have grown now
  StartCountingAllocations();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(CountedAllocations().own, 0);
}

TEST(QueueTest, DeadlineEndsTheWait) {
  Queue<int> queue;
  const auto start = Queue<int>::Clock::now();
  EXPECT_FALSE(queue.WaitNonEmpty(microseconds(50), start + milliseconds(20)));
  EXPECT_GE(Queue<int>::Clock::now() - start, milliseconds(20));
  EXPECT_FALSE(queue.WaitNonEmpty(microseconds(0), start));  // long past
  queue.Push(1);
  EXPECT_TRUE(queue.WaitNonEmpty(microseconds(0), start));
}

TEST(QueueTest, WakeEndsTheRunningOrTheNextWait) {
  Queue<int> queue;
  queue.Wake();
  int item;
  EXPECT_FALSE(queue.Pop(&item));  // does not swallow the wake
  EXPECT_FALSE(queue.WaitNonEmpty(microseconds(10)));
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    queue.Wake();
  });
  EXPECT_FALSE(queue.WaitNonEmpty(microseconds(10)));
  waker.join();
  // One wake ends one wait.
  EXPECT_FALSE(queue.WaitNonEmpty(microseconds(0), Queue<int>::Clock::now() + milliseconds(5)));
}

TEST(QueueTest, ASleepingOwnerUsesNoProcessor) {
  Queue<int> queue;
  const microseconds before = ThreadCpuTime();
  EXPECT_FALSE(queue.WaitNonEmpty(microseconds(50), Queue<int>::Clock::now() + milliseconds(200)));
  EXPECT_LT(ThreadCpuTime() - before, milliseconds(2));  // 1 % of the time slept
}

}  // namespace
}  // namespace sluice
