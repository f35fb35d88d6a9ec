#include "framework/compiler/stations.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

absl::Status CompileMlp(const std::string& mesh, int64_t micro_batches,
                        const StationObserver& observe, bool representatives_only = false) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(mesh));
  options.machine = Machine::Cpu();
  options.micro_batches = micro_batches;
  options.representatives_only = representatives_only;
  options.observe = observe;
  MlpOptions model;
  model.batch = 16;
  model.widths = {8, 16, 8};
  model.annotation = MegatronAnnotations(2);
  model.optimizer.clip = 1;
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, model));
  return CompilePlan({{"train", &graph}}, options).status();
}

// What the compiler handed on, copied, to be broken.
struct Stations {
  TaskGraph tasks;
  Schedule schedule;
  Ordered ordered;
  Placed placed;
};

// Of the last that each phase gave: with several devices of a class, tasks and schedule of all.
const Stations& StationsOfMlp() {
  static const auto* stations = [] {
    auto* made = new Stations;
    const absl::Status status =
        CompileMlp("data=2 model=2", 2, [made](absl::string_view, const Station& station) {
          const struct {
            Stations* made;
            void operator()(const TaskGraph* x) const { made->tasks = *x; }
            void operator()(const Schedule* x) const { made->schedule = *x; }
            void operator()(const Ordered* x) const { made->ordered = *x; }
            void operator()(const Placed* x) const { made->placed = *x; }
          } keep{made};
          std::visit(keep, station);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return made;
  }();
  return *stations;
}

TEST(StationsTest, WhatEachPhaseHandsOnHolds) {
  for (const char* mesh : {"data=1", "data=3", "data=2 model=2", "data=2 pipe=2", "model=4"}) {
    for (const bool representatives_only : {false, true}) {
      std::vector<std::string> seen;
      const absl::Status status = CompileMlp(
          mesh, 2,
          [&](absl::string_view program, const Station& station) {
            EXPECT_EQ(program, "train");
            EXPECT_FALSE(ToText(station).empty());
            seen.emplace_back(StationName(station));
            return Verify(station);
          },
          representatives_only);
      EXPECT_TRUE(status.ok()) << mesh << ": " << status;
      std::vector<std::string> expected = {"tasks", "schedule", "ordered", "placed"};
      if (!representatives_only && std::string(mesh) != "data=1") {
        expected.insert(expected.end(), {"tasks", "schedule"});  // of all devices
      }
      EXPECT_EQ(seen, expected) << mesh;
    }
  }
}

TEST(StationsTest, AnErrorOfTheObserverEndsTheCompilation) {
  const absl::Status status =
      CompileMlp("data=2", 1, [](absl::string_view, const Station& station) {
        return std::holds_alternative<const Ordered*>(station) ? absl::AbortedError("seen enough")
                                                               : absl::OkStatus();
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
}

std::string ErrorOf(const TaskGraph& tasks) { return std::string(Verify(&tasks).message()); }
std::string ErrorOf(const Schedule& schedule) { return std::string(Verify(&schedule).message()); }
std::string ErrorOf(const Ordered& ordered) { return std::string(Verify(&ordered).message()); }
std::string ErrorOf(const Placed& placed) { return std::string(Verify(&placed).message()); }

// The first task that reads another task's result, and its input.
std::pair<TaskId, size_t> Reader(const TaskGraph& graph) {
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    for (size_t i = 0; i < graph.tasks[t].inputs.size(); ++i) {
      const Value& value = graph.values[graph.tasks[t].inputs[i].value];
      if (value.producer >= 0 && value.tokens == 2) return {static_cast<TaskId>(t), i};
    }
  }
  ADD_FAILURE() << "no task reads another's result";
  return {0, 0};
}

TEST(StationsTest, TasksThatReadWhatIsNotThereAreRefused) {
  const TaskGraph& good = StationsOfMlp().tasks;
  ASSERT_EQ(ErrorOf(good), "");
  const auto [reader, input] = Reader(good);
  const ValueId read = good.tasks[reader].inputs[input].value;

  TaskGraph late = good;
  std::swap(late.tasks[reader], late.tasks[good.values[read].producer]);
  EXPECT_THAT(ErrorOf(late), HasSubstr("later task"));

  TaskGraph nobody = good;
  nobody.tasks[good.values[read].producer].outputs.clear();
  nobody.values[read].producer = -1;
  EXPECT_THAT(ErrorOf(nobody), HasSubstr("which nobody makes"));

  TaskGraph outside = good;
  outside.tasks[reader].inputs[input].value = static_cast<ValueId>(good.values.size());
  EXPECT_THAT(ErrorOf(outside), HasSubstr("values, got "));

  TaskGraph updates = good;
  updates.tasks[reader].inputs[input].updates = true;
  EXPECT_THAT(ErrorOf(updates), HasSubstr("expected to update a variable"));

  TaskGraph rates = good;
  rates.values[read].tokens = 3;
  EXPECT_THAT(ErrorOf(rates), HasSubstr("tokens"));

  TaskGraph firings = good;
  firings.tasks[reader].every = 5;
  EXPECT_THAT(ErrorOf(firings), HasSubstr("expected firings in groups of one token"));
}

TEST(StationsTest, ValuesThatDoNotKnowTheirMakerOrBytesAreRefused) {
  const TaskGraph& good = StationsOfMlp().tasks;
  const auto [reader, input] = Reader(good);
  const ValueId read = good.tasks[reader].inputs[input].value;

  TaskGraph twice = good;
  twice.tasks[reader].outputs = twice.tasks[good.values[read].producer].outputs;
  EXPECT_THAT(ErrorOf(twice), HasSubstr("as task "));

  TaskGraph claimed = good;
  for (Task& task : claimed.tasks) {
    if (!task.outputs.empty()) claimed.values[task.outputs[0]].producer = 0;
  }
  EXPECT_THAT(ErrorOf(claimed), HasSubstr("as its producer, got 0"));

  TaskGraph beyond = good;
  beyond.values[read].offset = 1 << 20;
  EXPECT_THAT(ErrorOf(beyond), HasSubstr("expected bytes within"));

  TaskGraph elsewhere = good;
  const auto other = [&](const Value& value) {
    return value.root >= 0 && value.device != good.values[read].device &&
           good.values[value.root].root == value.root;
  };
  const auto found = std::find_if(good.values.begin(), good.values.end(), other);
  ASSERT_NE(found, good.values.end());
  elsewhere.values[read].root = found->root;
  EXPECT_THAT(ErrorOf(elsewhere), HasSubstr("views bytes of device"));

  TaskGraph rootless = good;
  rootless.values[read].root = static_cast<ValueId>(good.values.size());
  EXPECT_THAT(ErrorOf(rootless), HasSubstr("expected a root, got"));

  TaskGraph regions = good;
  for (Task& task : regions.tasks) {
    if (!task.regions.empty()) task.regions[0].sources = {static_cast<int>(task.inputs.size())};
  }
  EXPECT_THAT(ErrorOf(regions), HasSubstr("expected regions of its"));
}

TEST(StationsTest, AScheduleHoldsNothingThatLaterPhasesFind) {
  const Schedule& good = StationsOfMlp().schedule;
  ASSERT_EQ(ErrorOf(good), "");
  Schedule ordered = good;
  ordered.program.mutable_streams(0)->add_order()->set_to(1);
  EXPECT_THAT(ErrorOf(ordered), HasSubstr("expected no schedule entries yet, got 1"));
  Schedule placed = good;
  placed.program.mutable_registers(0)->add_slot_offsets(64);
  EXPECT_THAT(ErrorOf(placed), HasSubstr("expected no offsets yet, got 1"));
  Schedule reusing = good;
  reusing.program.add_reuse_edges();
  EXPECT_THAT(ErrorOf(reusing), HasSubstr("expected no reuse edges yet"));
  Schedule actors = good;
  actors.actor_of[0] = good.program.actors_size();
  EXPECT_THAT(ErrorOf(actors), HasSubstr("of tasks, got"));
  Schedule rates = good;
  for (plan::Actor& actor : *rates.program.mutable_actors()) {
    if (actor.firings_per_step() == 2) actor.set_firings_per_step(3);
  }
  EXPECT_NE(ErrorOf(rates), "");
}

// The first stream with an order of more than one entry.
plan::Stream* Listed(plan::Program* program) {
  for (plan::Stream& stream : *program->mutable_streams()) {
    if (stream.order_size() > 1) return &stream;
  }
  ADD_FAILURE() << "no stream has an order";
  return nullptr;
}

TEST(StationsTest, OrdersHoldEveryInstanceOnceAndCanRun) {
  const Ordered& good = StationsOfMlp().ordered;
  ASSERT_EQ(ErrorOf(good), "");
  Ordered shorter = good;
  Listed(&shorter.program)->mutable_order()->RemoveLast();
  EXPECT_THAT(ErrorOf(shorter), HasSubstr("0 times"));
  Ordered without = good;
  Listed(&without.program)->clear_order();
  EXPECT_THAT(ErrorOf(without), HasSubstr("expected an order of stream"));
  Ordered backwards = good;
  plan::Stream* stream = Listed(&backwards.program);
  stream->mutable_order()->SwapElements(0, stream->order_size() - 1);
  EXPECT_EQ(Verify(&backwards).code(), absl::StatusCode::kFailedPrecondition);
  Ordered placed = good;
  placed.program.add_reuse_edges();
  EXPECT_THAT(ErrorOf(placed), HasSubstr("expected no reuse edges yet"));
}

TEST(StationsTest, BytesThatAreNotThereOrAnothersAreRefused) {
  const Placed& good = StationsOfMlp().placed;
  ASSERT_EQ(ErrorOf(good), "");
  Placed slots = good;
  for (plan::Register& reg : *slots.program.mutable_registers()) reg.clear_slot_offsets();
  EXPECT_THAT(ErrorOf(slots), ContainsRegex("slot offsets: expected [1-9][0-9]*, got 0"));
  Placed shared = good;
  for (plan::Register& reg : *shared.program.mutable_registers()) {
    for (int64_t& offset : *reg.mutable_slot_offsets()) offset = shared.base[reg.device()];
  }
  EXPECT_EQ(Verify(&shared).code(), absl::StatusCode::kFailedPrecondition);
  Placed variables = good;
  for (int64_t& base : variables.base) base += 64;
  EXPECT_EQ(Verify(&variables).code(), absl::StatusCode::kFailedPrecondition);
  Placed edges = good;
  ASSERT_GT(edges.program.reuse_edges_size(), 0);
  edges.program.clear_reuse_edges();
  EXPECT_EQ(Verify(&edges).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sluice
