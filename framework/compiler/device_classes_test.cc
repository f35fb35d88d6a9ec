#include "framework/compiler/device_classes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/expansion.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/passes/cut_stages.h"
#include "framework/plan/proof.h"
#include "framework/plan/text.h"
#include "framework/testing/models.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// The program of the representatives and that of all devices.
struct Programs {
  std::vector<int32_t> representatives;
  int num_classes = 0;
  plan::Program representative_program, full;
};

absl::StatusOr<Programs> ProgramsOf(const std::string& mesh_text, int64_t micro,
                                    int64_t script_length = 0) {
  MlpOptions options;
  options.batch = 256;
  options.widths = {64, 64, 128, 64, 64};
  options.annotation = MegatronAnnotations(4);
  options.optimizer.clip = 1;
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
  Graph whole;
  RETURN_IF_ERROR(BuildMlp(&whole, options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Graph> cut,
                   RunPasses(whole, {CutStages(mesh.num_stages())}));
  const Graph& graph = *cut;
  const Machine machine = Machine::Cpu();
  const Grid grid(mesh, micro);
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  ASSIGN_OR_RETURN(const SbpAssignment assignment,
                   SelectSbp(graph, grid, &planner, machine, &layouts));
  DeviceClasses classes(grid);
  ASSIGN_OR_RETURN(const TaskGraph few, Lower(graph, grid, assignment, &planner, machine, classes));
  ASSIGN_OR_RETURN(const TaskGraph all, Lower(graph, grid, assignment, &planner, machine));
  ScheduleOptions schedule;
  schedule.script_length = script_length;
  Programs programs;
  programs.full = BuildSchedule("train", all, grid, schedule).program;
  schedule.outline = true;
  programs.representative_program = BuildSchedule("train", few, grid, schedule).program;
  programs.num_classes = classes.num_classes();
  programs.representatives.assign(classes.representatives().begin(),
                                  classes.representatives().end());
  return programs;
}

std::vector<std::string> Lines(const plan::Program& program) {
  plan::Plan plan;
  *plan.add_programs() = program;
  return absl::StrSplit(PrintPlan(plan), '\n');
}

struct Figures {
  std::vector<int64_t> packed;  // by device, up to the last that the program names
  int64_t nanoseconds = 0;
};

absl::StatusOr<Figures> Place(plan::Program* program) {
  RETURN_IF_ERROR(RecordOrder(program).status());
  ASSIGN_OR_RETURN(const Packing packing, PackMemory(program));
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  ClockOptions clock;
  clock.steps = 3;
  ASSIGN_OR_RETURN(const ClockResult run, RunClock(index, clock));
  Figures figures;
  for (const PackedDevice& device : packing.devices) figures.packed.push_back(device.packed);
  figures.nanoseconds = run.step_nanoseconds;
  return figures;
}

void Compare(const std::string& mesh, int64_t micro, int devices) {
  SCOPED_TRACE(mesh);
  const absl::StatusOr<Programs> programs = ProgramsOf(mesh, micro);
  ASSERT_TRUE(programs.ok()) << programs.status();
  const std::vector<int32_t>& representatives = programs->representatives;
  plan::Program representative_program = programs->representative_program, full = programs->full;
  const absl::StatusOr<Figures> small = Place(&representative_program);
  ASSERT_TRUE(small.ok()) << small.status();
  const absl::StatusOr<Figures> whole = Place(&full);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->packed.size(), static_cast<size_t>(devices));
  EXPECT_NEAR(static_cast<double>(small->nanoseconds), static_cast<double>(whole->nanoseconds),
              0.02 * static_cast<double>(whole->nanoseconds));
  for (int d = 0; d < devices; ++d) {
    ASSERT_LT(static_cast<size_t>(representatives[d]), small->packed.size());
    EXPECT_NEAR(static_cast<double>(small->packed[representatives[d]]),
                static_cast<double>(whole->packed[d]), 0.03 * static_cast<double>(whole->packed[d]))
        << "device " << d;
  }
  // The full program with the representative program's order and offsets: live, and no bytes shared
  // too early.
  plan::Program expanded = programs->full;
  const Expansion classes(programs->full, representatives);
  classes.Expand(representative_program, &expanded);
  plan::Program bare_representative_program = representative_program;
  bare_representative_program.clear_reuse_edges();
  const auto index = ProgramIndex::Build(bare_representative_program);
  ASSERT_TRUE(index.ok());
  const auto run = RunClock(*index);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(AddReuseEdges(&expanded,
                            classes.LiftInstances(representative_program, run->begin_rank),
                            classes.LiftInstances(representative_program, run->end_rank))
                  .ok());
  const auto full_index = ProgramIndex::Build(expanded);
  ASSERT_TRUE(full_index.ok());
  Certificate lifted, own;
  lifted.position = classes.LiftInstances(representative_program, run->begin_rank);
  EXPECT_TRUE(CheckCertificate(*full_index, lifted).ok());
  EXPECT_TRUE(ProveLive(*full_index, &own).ok());
  if (devices <= 8) {
    const absl::Status whole_safe = CheckPacking(full);
    EXPECT_TRUE(whole_safe.ok()) << whole_safe;
    const absl::Status safe = CheckPacking(expanded);
    EXPECT_TRUE(safe.ok()) << safe;
  }
}

TEST(DeviceClassesTest, DataParallelDevicesAreOneClass) {
  const absl::StatusOr<Programs> programs = ProgramsOf("data=8", 1);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(programs->representatives, std::vector<int32_t>(8, 0));
}

TEST(DeviceClassesTest, StagesAreDifferentClasses) {
  const absl::StatusOr<Programs> programs = ProgramsOf("data=4 pipe=4", 2);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(programs->num_classes, 4);
  for (int d = 0; d < 16; ++d) EXPECT_EQ(programs->representatives[d], d % 4);
}

// A scalar that is whole on axis model joins a sum of partial ones there, and the first holds its
// value; or shards are uneven. Every device has every item all the same.
TEST(DeviceClassesTest, WhatDiffersInBytesAloneIsOneClass) {
  for (const char* mesh : {"data=2 model=4", "data=3", "data=5 model=3"}) {
    const absl::StatusOr<Programs> programs = ProgramsOf(mesh, 1);
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_EQ(programs->num_classes, 1) << mesh;
  }
}

// What is compiled for representatives alone is their part of what is compiled for all.
TEST(DeviceClassesTest, RepresentativesProgramIsTheirPartOfTheWhole) {
  struct {
    const char* mesh;
    int64_t micro, script_length, classes;
  } const cases[] = {
      {"data=1", 1, 0, 1},         {"data=2", 1, 0, 1},
      {"data=8", 1, 0, 1},         {"data=8", 4, 1, 1},
      {"model=4", 1, 0, 1},        {"data=4 model=2", 1, 0, 1},
      {"data=2 pipe=4", 4, 0, 4},  {"data=4 model=2 pipe=2", 2, 0, 2},
      {"data=64", 1, 0, 1},        {"data=8 model=2 pipe=4", 4, 0, 4},
      {"data=3", 1, 0, 1},         {"data=5", 1, 0, 1},
      {"data=7 model=2", 1, 0, 1}, {"data=3 pipe=2", 1, 0, 2},
      {"data=128", 1, 0, 1},       {"data=32 model=2 pipe=2", 2, 0, 2},
      {"data=2 model=3", 1, 0, 1}, {"data=6 model=3 pipe=2", 2, 1, 2},
      {"data=200", 1, 0, 1},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.mesh);
    const auto programs = ProgramsOf(each.mesh, each.micro, each.script_length);
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_EQ(programs->num_classes, each.classes);
    const plan::Program shard =
        Expansion(programs->full, programs->representatives).RepresentativeProgram();
    const plan::Program& representative_program = programs->representative_program;
    const std::vector<std::string> expected = Lines(shard), got = Lines(representative_program);
    for (size_t line = 0; line < std::min(expected.size(), got.size()); ++line) {
      ASSERT_EQ(expected[line], got[line]) << "line " << line;
    }
    EXPECT_EQ(shard.SerializeAsString(), representative_program.SerializeAsString());
  }
}

TEST(DeviceClassesTest, RepresentativeAndFullProgramAgree) {
  Compare("data=2", 1, 2);
  Compare("data=4", 2, 4);
  Compare("data=2 model=2", 1, 4);
  Compare("data=2 pipe=4", 4, 8);
  Compare("data=4 model=2 pipe=2", 2, 16);
  Compare("data=16", 1, 16);
  Compare("data=8 model=2 pipe=4", 4, 64);
}

}  // namespace
}  // namespace sluice
