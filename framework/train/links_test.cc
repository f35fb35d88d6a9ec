// Links are what a connection shows them to be, and all ranks of a job take the same.
#include "framework/train/links.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "framework/train/link_probe.h"
#include "framework/wire/connected_testing.h"
#include "framework/wire/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr auto kLimit = std::chrono::seconds(60);

Deadline Soon() { return std::chrono::steady_clock::now() + kLimit; }

TEST(LinksFile, SetsWhatItNamesAndNothingElse) {
  Machine machine;
  machine.flops_per_second = 3e11;
  machine.host_of_rank = {0, 1};
  machine.kernels = Machine::Parse("kernel.add.1=8:10")->kernels;
  Machine expected = machine;
  expected.link(LinkKind::kNetwork) = {70000, 3e9};
  expected.link(LinkKind::kProcess).latency_nanoseconds = 5;
  ASSERT_EQ(ReadLinks("network_latency_nanoseconds=70000 network_bytes_per_second=3e9\n"
                      "process_latency_nanoseconds=5\n",
                      &machine),
            absl::OkStatus());
  EXPECT_EQ(machine.ToString(), expected.ToString());
  EXPECT_EQ(machine.host_of_rank, expected.host_of_rank);
  Machine again;
  ASSERT_EQ(ReadLinks(LinksFileText(machine), &again), absl::OkStatus());
  EXPECT_EQ(again.links, machine.links);
}

TEST(LinksFile, ErrorsNameTheFileAndTheWord) {
  const std::string path = testing::TempDir() + "/bad_links.txt";
  for (const char* bad : {"flops_per_second=1e9", "host_latency_nanoseconds=-1", "rubbish",
                          "network_bytes_per_second=fast", "host_of_rank=0"}) {
    std::ofstream(path) << "devices_per_host=2\n" << bad << "\n";
    Machine machine;
    const absl::Status status = ReadLinksWish(path, &machine);
    const std::string word(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("--links"), HasSubstr(path),
                               HasSubstr(word.substr(0, word.find('=')))));
    EXPECT_EQ(machine.ToString(), Machine().ToString()) << "half of a bad file was taken";
  }
  Machine machine;
  EXPECT_THAT(std::string(ReadLinksWish("no/such/file", &machine).message()),
              HasSubstr("no/such/file"));
  EXPECT_EQ(ReadLinksWish("default", &machine), absl::OkStatus());
  EXPECT_EQ(ReadLinksWish("measure", &machine), absl::OkStatus());
}

TEST(LinkProbe, APairOfRanksStandsForALink) {
  using Pair = std::pair<int32_t, int32_t>;
  EXPECT_EQ(ProbePair({0, 0, 1, 1}, LinkKind::kHost), Pair(0, 1));
  EXPECT_EQ(ProbePair({0, 0, 1, 1}, LinkKind::kNetwork), Pair(0, 2));
  EXPECT_EQ(ProbePair({0, 1, 1}, LinkKind::kHost), Pair(1, 2));
  EXPECT_EQ(ProbePair({0, 1, 2}, LinkKind::kHost), std::nullopt);
  EXPECT_EQ(ProbePair({0, 0}, LinkKind::kNetwork), std::nullopt);
}

TEST(LinkProbe, NearbyMeasurementsAreRoundedAlike) {
  for (const double noise : {0.8, 0.9, 1.0, 1.1, 1.3}) {
    const Link link = RoundLink({static_cast<int64_t>(20000 * noise), 5e9 * noise});
    EXPECT_EQ(link, (Link{20000, 5e9})) << noise;
  }
  EXPECT_EQ(RoundLink({0, 0}), (Link{1, 1}));
  EXPECT_EQ(RoundLink({1, 9.9e9}).bytes_per_second, 1e10);
}

// Two ends whose bytes pass on only after a while, 64 KiB at a time.
class SlowLink {
 public:
  explicit SlowLink(std::chrono::milliseconds wait) {
    for (const bool back : {false, true}) {
      threads_.emplace_back([this, back, wait] {
        const int from = back ? there_.first.number() : here_.second.number();
        const int to = back ? here_.second.number() : there_.first.number();
        std::vector<std::byte> bytes(size_t{64} << 10);
        while (true) {
          const ssize_t got = recv(from, bytes.data(), bytes.size(), 0);
          if (got < 0 && errno == EAGAIN) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (!over_) continue;
          }
          if (got <= 0) return;
          std::this_thread::sleep_for(wait);
          if (!WriteAll(to, {bytes.data(), static_cast<size_t>(got)}, Soon()).ok()) return;
        }
      });
    }
  }
  ~SlowLink() {
    over_ = true;
    shutdown(here_.second.number(), SHUT_RDWR);
    shutdown(there_.first.number(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }
  Connection* here() { return &near_; }
  Connection* there() { return &far_; }

 private:
  std::pair<Descriptor, Descriptor> here_ = Connected(), there_ = Connected();
  Connection near_{std::move(here_.first)}, far_{std::move(there_.second)};
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

Link Measured(Connection* here, Connection* there) {
  absl::Status answered;
  std::thread other([&] { answered = MeasureLink(there, false, Soon()).status(); });
  const absl::StatusOr<Link> link = MeasureLink(here, true, Soon());
  other.join();
  EXPECT_EQ(answered, absl::OkStatus());
  EXPECT_EQ(link.status(), absl::OkStatus());
  return link.value_or(Link());
}

TEST(LinkProbe, ASlowLinkIsSeenToBeSlow) {
  Link slow;
  {
    SlowLink link(std::chrono::milliseconds(3));
    slow = Measured(link.here(), link.there());
  }
  EXPECT_GE(slow.latency_nanoseconds, 3000000);
  EXPECT_LE(slow.bytes_per_second, 64 * 1024 / 0.003);
  EXPECT_GT(slow.bytes_per_second, 0);
  auto [here, there] = Connected();
  Connection near(std::move(here)), far(std::move(there));
  const Link fast = Measured(&near, &far);
  EXPECT_LT(fast.latency_nanoseconds, slow.latency_nanoseconds);
  EXPECT_GT(fast.bytes_per_second, slow.bytes_per_second);
}

TEST(LinkProbe, AnEndThatIsGoneIsAnError) {
  auto [here, there] = Connected();
  there = Descriptor();
  Connection near(std::move(here));
  EXPECT_EQ(MeasureLink(&near, true, Soon()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(LinksHosts, RanksThatAHostDoesNotHaveInARowAreWarnedOf) {
  Machine machine;
  for (const std::vector<int32_t>& fine : {std::vector<int32_t>{}, {0}, {0, 0, 1, 1}, {0, 1, 2}}) {
    machine.host_of_rank = fine;
    EXPECT_EQ(WarnOfScatteredHosts(machine), "");
  }
  machine.host_of_rank = {0, 1, 0, 1};
  EXPECT_THAT(WarnOfScatteredHosts(machine),
              testing::AllOf(HasSubstr("(hosts of ranks 0 1 0 1)"),
                             HasSubstr("srun --distribution=block, mpirun --map-by slot")));
}

// Ranks that meet over loopback, each a thread of this process.
class LinksOfAJob : public testing::Test {
 protected:
  static constexpr int32_t kRanks = 3;
  std::chrono::milliseconds stall_limit_{60000};
  bool rdma_ = false;
  std::string rdma_device_;

  // `work` of each rank, with its job.
  void OnAll(const std::function<void(Job*)>& work) {
    const auto listener = Listen({"127.0.0.1", 0});
    ASSERT_EQ(listener.status(), absl::OkStatus());
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        JobOptions options;
        options.place.rank = rank;
        options.place.ranks = kRanks;
        options.place.address = EndpointText(*LocalEndpoint(listener->number()));
        options.read_memory = false;
        options.rdma = rdma_;
        options.rdma_device = rdma_device_;
        options.stall_limit = stall_limit_;
        if (rank == 0) options.place.listener = dup(listener->number());
        const auto job = Job::Join(options);
        ASSERT_EQ(job.status(), absl::OkStatus());
        work(job->get());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // The links that a rank begins with, as if each had its own calibration. None is round, so that
  // what was measured, which is rounded, equals none by chance: a host's often is the default.
  static Machine Calibrated(int32_t rank) {
    Machine machine;
    machine.link(LinkKind::kHost) = {23457, 6.7e9};
    machine.link(LinkKind::kNetwork) = {1000 + rank, 8.9e8};
    return machine;
  }

  // What each rank ends with.
  std::vector<Machine> Agreed(absl::string_view wish, const std::string& resumed_by_first) {
    std::vector<Machine> machines(kRanks);
    OnAll([&](Job* job) {
      Machine& machine = machines[job->rank()];
      machine = Calibrated(job->rank());
      EXPECT_EQ(AgreeOnLinks(job, job->is_first() ? wish : "default",
                             job->is_first() ? resumed_by_first : "", &machine),
                absl::OkStatus());
    });
    for (const Machine& machine : machines) {
      EXPECT_EQ(machine.LinksText(), machines[0].LinksText());
      EXPECT_EQ(machine.host_of_rank, std::vector<int32_t>(kRanks, 0));
    }
    return machines;
  }
};

TEST_F(LinksOfAJob, AreThoseOfTheFirstRank) {
  const Machine machine = Agreed("default", "")[1];
  EXPECT_EQ(machine.links, Calibrated(0).links);
  EXPECT_EQ(DescribeLinks(machine), "host 23.457 us, 6.7 GB/s");
}

TEST_F(LinksOfAJob, AreMeasuredWhereTheFirstRankSaysSoAndOnceForARun) {
  const Machine measured = Agreed("measure", "")[2];
  const Link& host = measured.link(LinkKind::kHost);
  EXPECT_EQ(host, RoundLink(host));
  EXPECT_NE(host, Calibrated(0).link(LinkKind::kHost));
  EXPECT_EQ(measured.link(LinkKind::kNetwork), Calibrated(0).link(LinkKind::kNetwork))
      << "there is none";
  const std::string run = testing::TempDir() + "/run";
  fs::create_directories(run);
  std::ofstream(run + "/links.txt") << "host_latency_nanoseconds=77777\n";
  for (const char* wish : {"measure", "default"}) {
    EXPECT_EQ(Agreed(wish, run)[1].link(LinkKind::kHost).latency_nanoseconds, 77777) << wish;
  }
  EXPECT_EQ(Agreed("a_file_read_before", run)[1].link(LinkKind::kHost),
            Calibrated(0).link(LinkKind::kHost));
}

TEST_F(LinksOfAJob, ARecordThatIsDamagedEndsTheJobOnAllRanks) {
  const std::string run = testing::TempDir() + "/damaged";
  fs::create_directories(run);
  std::ofstream(run + "/links.txt") << "host_latency_nanoseconds=soon\n";
  OnAll([&](Job* job) {
    Machine machine;
    EXPECT_THAT(std::string(AgreeOnLinks(job, "measure", run, &machine).message()),
                HasSubstr("host_latency_nanoseconds"));
  });
}

// As one that is stopped after the rendezvous, whose connections stay.
TEST_F(LinksOfAJob, TheFirstRankThatSaysNothingIsNamedAndGivenUp) {
  stall_limit_ = std::chrono::milliseconds(1000);
  const auto begin = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  std::atomic<int> given_up{0};
  OnAll([&](Job* job) {
    if (job->is_first()) {
      while (given_up < kRanks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    Machine machine;
    const absl::Status status = AgreeOnLinks(job, "default", "", &machine);
    EXPECT_THAT(std::string(status.message()),
                testing::ContainsRegex("rank 0, at 127.0.0.1:[0-9]+, has not said who shares a "
                                       "host and what links cost within 1 s and is given up"));
    ++given_up;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("rank 0, at 127.0.0.1:[0-9]+, has not said who shares a host "
                                     "and what links cost for 0.5 s; it is given up after 1 s"));
}

TEST_F(LinksOfAJob, TheFirstRankThatHasGoneIsNamed) {
  OnAll([&](Job* job) {
    if (job->is_first()) return;
    Machine machine;
    EXPECT_THAT(std::string(AgreeOnLinks(job, "default", "", &machine).message()),
                testing::ContainsRegex("rank 0, at 127.0.0.1:[0-9]+, is lost before it has said "
                                       "who shares a host and what links cost: "));
  });
}

// The net will say that there is no device, and how to go on without; links are not the place.
TEST_F(LinksOfAJob, RdmaThatIsNotThereLeavesWhatTcpHas) {
  rdma_ = true;
  rdma_device_ = "no_such_device";
  testing::internal::CaptureStderr();
  const Machine measured = Agreed("measure", "")[1];
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("RDMA between ranks is not measured: no RDMA device"));
  const Link& host = measured.link(LinkKind::kHost);
  EXPECT_EQ(host, RoundLink(host));
  EXPECT_NE(host, Calibrated(0).link(LinkKind::kHost));
}

// Where there is a device, as in //ci:rdma_vm, and ranks that do not read each other's memory.
TEST_F(LinksOfAJob, RdmaIsMeasuredWhereItIsTheNet) {
  rdma_ = true;
  testing::internal::CaptureStderr();
  const double rate = Agreed("measure", "")[1].link(LinkKind::kHost).bytes_per_second;
  const std::string log = testing::internal::GetCapturedStderr();
  if (absl::StrContains(log, "RDMA between ranks is not measured: no RDMA device")) {
    std::cout << "SKIPPED: no RDMA device; //ci:rdma_vm has some\n";
    GTEST_SKIP();
  }
  const std::string says = "RDMA reads of rank 1 come at ";
  const size_t said = log.find(says);
  ASSERT_NE(said, std::string::npos) << log;
  const double measured = std::stod(log.substr(said + says.size())) * 1e9;
  EXPECT_EQ(RoundLink({1, measured}).bytes_per_second, rate);
  std::cout << log.substr(said);
}

// As if ranks 1 and 2 were on a host of their own: what they measure the first one tells.
TEST_F(LinksOfAJob, APairWithoutTheFirstRankTellsIt) {
  OnAll([&](Job* job) {
    const Machine machine = Calibrated(0);
    const auto links = job->MeasureLinks({0, 1, 1}, machine.links);
    ASSERT_EQ(links.status(), absl::OkStatus());
    for (const LinkKind kind : {LinkKind::kHost, LinkKind::kNetwork}) {
      const Link& link = (*links)[static_cast<size_t>(kind)];
      EXPECT_EQ(link == machine.link(kind), !job->is_first()) << LinkKindName(kind);
      EXPECT_EQ(job->is_first() ? RoundLink(link) : machine.link(kind), link);
    }
  });
}

}  // namespace
}  // namespace sluice
