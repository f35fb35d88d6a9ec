// Plans of several ranks whose devices have memory spaces of their own: what crosses devices does
// so in the memory of hosts or by collectives, and what compiling costs does not grow with ranks.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/plan/kinds.h"
#include "framework/plan/validate.h"
#include "framework/plan/validate_collectives.h"
#include "framework/testing/models.h"
#include "framework/testing/random_graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Job {
  std::string mesh;
  int32_t ranks = 2;
  int64_t micro_batches = 1;
  bool nccl = false;
  bool representatives_only = false;
};

absl::StatusOr<Compilation> CompileMlp(const Job& job, int32_t rank) {
  CompileOptions options;
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(job.mesh));
  options.mesh = mesh.OverRanks(job.ranks);
  options.ranks = job.ranks;
  options.rank = rank;
  options.micro_batches = job.micro_batches;
  options.machine = Machine::Cpu();
  options.collectives.nccl = job.nccl;
  options.representatives_only = job.representatives_only;
  MlpOptions model;
  model.batch = 256;
  model.widths = {64, 64, 128, 64, 64};
  model.annotation = MegatronAnnotations(4);
  model.optimizer.clip = 1;
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, model));
  return Compile({{"train", &graph}}, options);
}

std::vector<plan::Plan> PlansOf(const Job& job) {
  std::vector<plan::Plan> plans;
  for (int32_t rank = 0; rank < job.ranks; ++rank) {
    auto compilation = CompileMlp(job, rank);
    EXPECT_TRUE(compilation.ok()) << job.mesh << ": " << compilation.status();
    plans.push_back(compilation.ok() ? std::move(compilation->plan) : plan::Plan());
  }
  return plans;
}

const std::vector<Job> kJobs = {{"data=2 @cuda"},
                                {"model=2 @cuda"},
                                {"pipe=2 @cuda", 2, 4},
                                {"data=2 model=2 @cuda", 2, 4},
                                {"data=2 pipe=2 @async", 4, 4},
                                {"data=3 @cuda", 3},
                                {"data=2 pipe=2 @cpu,cuda", 2, 4}};

// Where an instruction's device or a register lies, in the words of its kind.
bool IsOnHost(const plan::Plan& plan, int32_t device) {
  return IsHost(KindOf(plan.devices(device)));
}

// What the plan of a rank has, by what it is for.
struct Counts {
  int pulls = 0, readers = 0;      // of others here, of others' here
  int to_host = 0, from_host = 0;  // operands of copies
  int between = 0;                 // operands of copies, of another device
  int folds = 0;                   // of devices, outside of scripts
};

// What ranks exchange lies on hosts. Copies between a device and its host are instructions of the
// device's stream of copies; nothing else of a device touches another space, but copies that read
// devices of its rank, and all of its streams have an order. The session's work is the host's.
Counts ExpectHostsBetween(const plan::Plan& plan) {
  EXPECT_EQ(ValidatePlan(plan), absl::OkStatus());
  Counts counts;
  const plan::Program& program = plan.programs(0);
  for (const plan::Actor& actor : program.actors()) {
    const plan::Stream& stream = program.streams(actor.stream());
    const bool is_host = IsOnHost(plan, stream.device());
    if (!is_host) {
      EXPECT_GT(stream.order_size(), 0) << actor.name();
    }
    if (stream.kind() == plan::STREAM_HOST) {
      EXPECT_TRUE(is_host) << actor.name();
    }
    for (const plan::Instruction& x : actor.script()) {
      const bool exchanges =
          x.kind() == plan::INSTRUCTION_PULL || x.kind() == plan::INSTRUCTION_REMOTE;
      if (exchanges) {
        EXPECT_TRUE(is_host) << actor.name();
      }
      counts.pulls += x.kind() == plan::INSTRUCTION_PULL ? 1 : 0;
      counts.readers += x.kind() == plan::INSTRUCTION_REMOTE && x.inputs_size() > 0 ? 1 : 0;
      const bool apart = !is_host && stream.kind() != plan::STREAM_COMPUTE;
      counts.folds += apart && x.kind() == plan::INSTRUCTION_FOLD ? 1 : 0;
      for (const auto* operands : {&x.inputs(), &x.outputs()}) {
        for (const plan::Operand& operand : *operands) {
          if (operand.storage_case() != plan::Operand::kRegister) continue;
          const plan::Register& reg = program.registers(operand.register_());
          if (exchanges) {
            EXPECT_TRUE(IsOnHost(plan, reg.device())) << actor.name();
          }
          if (is_host || reg.bytes() == 0 || reg.device() == stream.device()) continue;
          EXPECT_EQ(x.kind(), plan::INSTRUCTION_COPY) << actor.name();
          if (!IsOnHost(plan, reg.device())) {
            EXPECT_EQ(operands, &x.inputs()) << actor.name();
            EXPECT_EQ(plan.devices(reg.device()).rank(), plan.rank()) << actor.name();
            ++counts.between;
            continue;
          }
          const bool out = operands == &x.outputs();
          EXPECT_EQ(stream.kind(), out ? plan::STREAM_COPY_OUT : plan::STREAM_COPY) << actor.name();
          (out ? counts.to_host : counts.from_host) += 1;
        }
      }
    }
  }
  return counts;
}

TEST(LowerHostsTest, WhatRanksExchangeLiesOnHosts) {
  for (const Job& job : kJobs) {
    SCOPED_TRACE(job.mesh);
    for (const plan::Plan& plan : PlansOf(job)) {
      const Counts counts = ExpectHostsBetween(plan);
      EXPECT_GT(counts.pulls, 0) << "rank " << plan.rank();
      EXPECT_GT(counts.readers, 0) << "rank " << plan.rank();
      EXPECT_GT(counts.to_host, 0) << "rank " << plan.rank();
      EXPECT_GT(counts.from_host, 0) << "rank " << plan.rank();
    }
  }
}

// The most bytes of one value that a device brings to its host, a firing.
int64_t MostBytesToHosts(const plan::Plan& plan) {
  int64_t most = 0;
  for (const plan::Actor& actor : plan.programs(0).actors()) {
    if (plan.programs(0).streams(actor.stream()).kind() != plan::STREAM_COPY_OUT) continue;
    for (const plan::Instruction& x : actor.script()) most = std::max(most, x.wire_bytes());
  }
  return most;
}

// Devices are dealt to ranks in their order: of two ranks each has both stages. Of four no two are
// of one rank.
TEST(LowerHostsTest, DevicesOfOneRankCopyFromEachOther) {
  for (const bool nccl : {true, false}) {
    for (const plan::Plan& plan : PlansOf({"data=2 pipe=2 @cuda", 2, 4, nccl})) {
      EXPECT_GT(ExpectHostsBetween(plan).between, 0);
    }
    for (const plan::Plan& plan : PlansOf({"data=2 pipe=2 @cuda", 4, 4, nccl})) {
      EXPECT_EQ(ExpectHostsBetween(plan).between, 0);
    }
  }
}

// What crosses stages inside of a rank does not go by the host, which has scalars alone then.
TEST(LowerHostsTest, StagesOfOneRankCrossNoHost) {
  for (const plan::Plan& plan : PlansOf({"data=2 pipe=2 @cuda", 2, 4, true})) {
    EXPECT_LE(MostBytesToHosts(plan), 8);
  }
  for (const plan::Plan& plan : PlansOf({"data=2 pipe=2 @cuda", 4, 4, true})) {
    EXPECT_GE(MostBytesToHosts(plan), int64_t{4} * 256 / 4 / 2 * 64);
  }
}

// Every op, layouts that nobody would choose.
TEST(LowerHostsTest, RandomGraphsToo) {
  int compiled = 0, folds = 0, between = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto random = MakeRandomGraph(seed, /*steps=*/1, DType::kF32);
    ASSERT_TRUE(random.ok()) << random.status();
    CompileOptions options;
    options.ranks = seed % 2 == 0 ? 2 : 4;
    options.mesh =
        Mesh::Parse(absl::StrCat(random->mesh.ToString(), " @cuda"))->OverRanks(options.ranks);
    options.rank = static_cast<int32_t>(seed / 2) % options.ranks;
    options.micro_batches = random->micro_batches;
    options.script_length = random->script_length;
    options.machine = Machine::Cpu();
    CompileOptions one = options;  // what was asked for may have no signature
    one.rank = 0, one.ranks = 1, one.mesh = random->mesh;
    if (!CompilePlan({{"train", random->graph.get()}}, one).ok()) continue;
    const auto plan = CompilePlan({{"train", random->graph.get()}}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Counts counts = ExpectHostsBetween(*plan);
    folds += counts.folds;
    between += counts.between;
    ++compiled;
  }
  EXPECT_GT(compiled, 20);
  EXPECT_GT(folds, 0);
  EXPECT_GT(between, 0);
}

TEST(LowerHostsTest, EachDeviceHasAHostOfItsRank) {
  const auto plan = CompileMlp({"data=2 pipe=2 @cpu,cuda", 2, 4}, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> names;
  for (const plan::Device& device : plan->plan.devices()) names.push_back(DeviceName(device));
  EXPECT_EQ(names, (std::vector<std::string>{"0:0", "0:cuda1", "1:0", "1:cuda1", "0:1", "1:1"}));
}

// Ranks of a card each are one class: what stands for all of them is as long whatever their number,
// but for the steps of a reduction, whose number is a logarithm.
TEST(LowerHostsTest, RepresentativesDoNotGrowWithRanks) {
  const auto instructions = [](const std::string& mesh, int32_t ranks) {
    Job job{mesh, ranks};
    job.representatives_only = true;
    const auto compilation = CompileMlp(job, 0);
    EXPECT_TRUE(compilation.ok()) << mesh << ": " << compilation.status();
    int count = 0;
    if (!compilation.ok()) return count;
    EXPECT_EQ(compilation->classes.num_classes(), 1);
    for (const plan::Actor& actor : compilation->plan.programs(0).actors()) {
      count += actor.script_size();
    }
    return count;
  };
  const int small = instructions("data=4 @cuda", 4), large = instructions("data=128 @cuda", 128);
  EXPECT_GT(small, 0);
  EXPECT_LE(large, 3 * small);
}

// By device, in the order of its stream: what each collective is of, and its group.
struct Meeting {
  std::string what;
  std::vector<int32_t> group;
  friend bool operator==(const Meeting&, const Meeting&) = default;
};
using Meetings = std::map<int32_t, std::vector<Meeting>>;

void AddMeetings(const plan::Plan& plan, Meetings* meetings) {
  const plan::Program& program = plan.programs(0);
  for (const plan::Stream& stream : program.streams()) {
    if (stream.kind() != plan::STREAM_COLLECTIVE) continue;
    EXPECT_EQ(plan.devices(stream.device()).rank(), plan.rank());
    std::vector<Meeting>& of_device = (*meetings)[stream.device()];
    EXPECT_TRUE(of_device.empty()) << "device " << stream.device() << " has two orders";
    for (const plan::ScheduleEntry& entry : stream.order()) {
      const plan::Instruction& x = program.actors(entry.actor()).script(entry.from());
      of_device.push_back({absl::StrCat(x.op(), " ", x.scope(), ", firing ", entry.firing()),
                           *DevicesOfCollective(plan, x)});
    }
  }
}

// Ranks compile alone; what each of their devices meets in, and when, must be what its peers on
// other ranks have, and what one process with all devices has.
TEST(LowerHostsTest, CardsOfSeveralRanksMeetInCollectivesInOneOrder) {
  const std::vector<Job> jobs = {
      {"data=2 @cuda", 2},         {"model=2 @cuda", 2},           {"data=4 @cuda", 2},
      {"data=2 model=2 @cuda", 2}, {"data=2 model=2 @cuda", 4, 2}, {"data=2 pipe=2 @cuda", 4, 2},
      {"data=3 @cuda", 2}};
  for (Job job : jobs) {
    SCOPED_TRACE(absl::StrCat(job.mesh, " on ", job.ranks));
    job.nccl = true;
    Meetings of_ranks, of_one;
    for (const plan::Plan& plan : PlansOf(job)) AddMeetings(plan, &of_ranks);
    ASSERT_FALSE(of_ranks.empty());
    for (const auto& [device, meetings] : of_ranks) {
      EXPECT_FALSE(meetings.empty());
      for (const auto& [peer, theirs] : of_ranks) {
        const auto shared = [](const std::vector<Meeting>& all, int32_t with) {
          std::vector<Meeting> kept;
          for (const Meeting& each : all) {
            if (std::count(each.group.begin(), each.group.end(), with) > 0) kept.push_back(each);
          }
          return kept;
        };
        EXPECT_EQ(shared(meetings, peer), shared(theirs, device)) << device << " and " << peer;
      }
    }
    Job one = job;
    one.ranks = 1;
    AddMeetings(PlansOf(one)[0], &of_one);
    // One process has collectives for the same tensors, if in an order of its own.
    ASSERT_EQ(of_ranks.size(), of_one.size());
    for (auto& [device, meetings] : of_ranks) {
      const auto by_name = [](const Meeting& a, const Meeting& b) { return a.what < b.what; };
      std::sort(meetings.begin(), meetings.end(), by_name);
      std::sort(of_one[device].begin(), of_one[device].end(), by_name);
      EXPECT_EQ(meetings, of_one[device]) << device;
    }
  }
}

// What a collective does crosses no host's memory.
TEST(LowerHostsTest, CollectivesSpareCopies) {
  const auto copied = [](bool nccl) {
    Job job{"data=2 @cuda"};
    job.nccl = nccl;
    int64_t bytes = 0;
    const std::vector<plan::Plan> plans = PlansOf(job);
    for (const plan::Actor& actor : plans[0].programs(0).actors()) {
      for (const plan::Instruction& x : actor.script()) {
        if (x.kind() == plan::INSTRUCTION_COPY) bytes += x.wire_bytes();
      }
    }
    return bytes;
  };
  const int64_t with = copied(true), without = copied(false);
  EXPECT_GT(with, 0);  // of feeds and results
  EXPECT_LT(with, without / 4);
}

// A collective of a device that stands for others has one member, and names the whole group.
TEST(LowerHostsTest, OneDeviceStandsForItsGroup) {
  Job job{"data=64 model=2 @cuda", 128};
  job.nccl = job.representatives_only = true;
  const auto compilation = CompileMlp(job, 0);
  ASSERT_TRUE(compilation.ok()) << compilation.status();
  std::set<size_t> groups;
  for (const plan::Actor& actor : compilation->plan.programs(0).actors()) {
    for (const plan::Instruction& x : actor.script()) {
      if (x.kind() != plan::INSTRUCTION_COLLECTIVE) continue;
      groups.insert(DevicesOfCollective(compilation->plan, x)->size());
    }
  }
  EXPECT_EQ(groups, std::set<size_t>({2, 64}));
}

// What a boxing has made on hosts and copied to devices is not copied back for the next reader, and
// nothing is copied twice.
TEST(LowerHostsTest, NothingIsCopiedTwice) {
  for (const Job& job : kJobs) {
    SCOPED_TRACE(job.mesh);
    for (const plan::Plan& plan : PlansOf(job)) {
      const plan::Program& program = plan.programs(0);
      std::set<int32_t> filled;                      // by copies
      std::set<std::pair<int32_t, int64_t>> copied;  // registers and offsets that are read
      for (const plan::Actor& actor : program.actors()) {
        for (const plan::Instruction& x : actor.script()) {
          if (x.kind() != plan::INSTRUCTION_COPY || x.regions_size() > 0) continue;
          filled.insert(x.outputs(0).register_());
        }
      }
      for (const plan::Actor& actor : program.actors()) {
        for (const plan::Instruction& x : actor.script()) {
          if (x.kind() != plan::INSTRUCTION_COPY || x.regions_size() > 0) continue;
          const plan::Operand& from = x.inputs(0);
          if (from.storage_case() != plan::Operand::kRegister) continue;
          EXPECT_EQ(filled.count(from.register_()), 0u) << actor.name();
          const bool to_host = IsOnHost(plan, program.registers(x.outputs(0).register_()).device());
          if (!to_host) continue;
          EXPECT_TRUE(copied.emplace(from.register_(), from.offset()).second) << actor.name();
        }
      }
    }
  }
}

TEST(LowerHostsTest, WhatCannotBeCompiledIsNamed) {
  EXPECT_EQ(CompileMlp({"data=4 @cpu,cuda"}, 0).status(),
            absl::UnimplementedError("mesh: expected devices of one kind in a stage of several "
                                     "ranks, got cpu and cuda in stage 0"));
}

}  // namespace
}  // namespace sluice
