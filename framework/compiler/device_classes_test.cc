#include "framework/compiler/device_classes.h"

#include <string>
#include <vector>

#include "framework/actor/virtual_clock.h"
#include "framework/base/status.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/plan/proof.h"
#include "framework/testing/models.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

absl::StatusOr<plan::Program> ProgramOf(const std::string& mesh_text, int64_t micro) {
  MlpOptions options;
  options.batch = 64;
  options.widths = {64, 64, 128, 64, 64};
  options.words = MegatronWords(4);
  options.optimizer.clip = 1;
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
  options.stages = static_cast<int32_t>(mesh.num_stages());
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, options));
  const Machine machine = Machine::Cpu();
  const Grid grid(mesh, micro);
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  ASSIGN_OR_RETURN(const SbpAssignment assignment,
                   SelectSbp(graph, grid, &planner, machine, &layouts));
  ASSIGN_OR_RETURN(const TaskGraph tasks, Lower(graph, grid, assignment, &planner, machine));
  return BuildProgram("train", tasks, grid, {});
}

struct Figures {
  std::vector<int64_t> packed;
  int64_t nanoseconds = 0;
};

absl::StatusOr<Figures> Place(plan::Program* program, int devices) {
  RETURN_IF_ERROR(RecordOrder(program).status());
  ASSIGN_OR_RETURN(const Packing packing, PackMemory(program));
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(*program));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  ClockOptions clock;
  clock.steps = 3;
  ASSIGN_OR_RETURN(const ClockResult run, RunClock(index, clock));
  Figures figures;
  for (int d = 0; d < devices; ++d) figures.packed.push_back(packing.devices[d].packed);
  figures.nanoseconds = run.step_nanoseconds;
  return figures;
}

void Compare(const std::string& mesh, int64_t micro, int devices) {
  SCOPED_TRACE(mesh);
  absl::StatusOr<plan::Program> full = ProgramOf(mesh, micro);
  ASSERT_TRUE(full.ok()) << full.status();
  const plan::Program bare = *full;
  const DeviceClasses classes(bare, std::vector<int64_t>(devices, 0));
  plan::Program quotient = classes.Quotient();
  const absl::StatusOr<Figures> small = Place(&quotient, devices);
  ASSERT_TRUE(small.ok()) << small.status();
  const absl::StatusOr<Figures> whole = Place(&*full, devices);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_NEAR(static_cast<double>(small->nanoseconds), static_cast<double>(whole->nanoseconds),
              0.02 * static_cast<double>(whole->nanoseconds));
  for (int d = 0; d < devices; ++d) {
    EXPECT_NEAR(static_cast<double>(small->packed[classes.representative(d)]),
                static_cast<double>(whole->packed[d]), 0.03 * static_cast<double>(whole->packed[d]))
        << "device " << d;
  }
  // The full program with the quotient's order and offsets: live, and no bytes shared too early.
  plan::Program expanded = bare;
  classes.Expand(quotient, &expanded);
  plan::Program bare_quotient = quotient;
  bare_quotient.clear_passes();
  const auto index = ProgramIndex::Build(bare_quotient);
  ASSERT_TRUE(index.ok());
  const auto run = RunClock(*index);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(AddPasses(&expanded, classes.LiftEvents(quotient, run->begin_rank),
                        classes.LiftEvents(quotient, run->end_rank))
                  .ok());
  const auto full_index = ProgramIndex::Build(expanded);
  ASSERT_TRUE(full_index.ok());
  Certificate lifted, own;
  lifted.position = classes.LiftEvents(quotient, run->begin_rank);
  EXPECT_TRUE(CheckCertificate(*full_index, lifted).ok());
  EXPECT_TRUE(ProveLive(*full_index, &own).ok());
  if (devices <= 8) {
    const absl::Status whole_safe = CheckPacking(*full);
    EXPECT_TRUE(whole_safe.ok()) << whole_safe;
    const absl::Status safe = CheckPacking(expanded);
    EXPECT_TRUE(safe.ok()) << safe;
  }
}

TEST(DeviceClassesTest, DataParallelDevicesAreOneClassButForTheOneThatFetches) {
  const absl::StatusOr<plan::Program> program = ProgramOf("data=8", 1);
  ASSERT_TRUE(program.ok()) << program.status();
  const DeviceClasses classes(*program, std::vector<int64_t>(8, 0));
  EXPECT_EQ(classes.num_classes(), 2);
  for (int d = 2; d < 8; ++d) EXPECT_EQ(classes.representative(d), 1);
}

TEST(DeviceClassesTest, StagesAreDifferentClasses) {
  const absl::StatusOr<plan::Program> program = ProgramOf("data=2 pipe=4", 2);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_GE(DeviceClasses(*program, std::vector<int64_t>(8, 0)).num_classes(), 4);
}

TEST(DeviceClassesTest, QuotientAndFullProgramAgree) {
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
