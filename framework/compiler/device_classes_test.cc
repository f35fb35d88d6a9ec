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
  programs.full = BuildSchedule("train", all, grid, schedule)->program;
  schedule.outline = true;
  programs.representative_program = BuildSchedule("train", few, grid, schedule)->program;
  programs.num_classes = classes.num_classes();
  programs.representatives.assign(classes.representatives().begin(),
                                  classes.representatives().end());
  return programs;
}

void Renumber(const std::vector<int32_t>& to_register, const std::vector<int32_t>& to_temporary,
              plan::Instruction* x) {
  for (auto* operands : {x->mutable_inputs(), x->mutable_outputs()}) {
    for (plan::Operand& operand : *operands) {
      if (operand.storage_case() == plan::Operand::kTemporary) {
        operand.set_temporary(to_temporary[operand.temporary()]);
      } else {
        operand.set_register_(to_register[operand.register_()]);
      }
    }
  }
}

// Of all devices' program what the representatives have, with boxings in outline: what compiling
// for them alone should give.
plan::Program PartOf(const plan::Program& full, const std::vector<int32_t>& representatives) {
  const auto device_of = [&](int a) { return full.streams(full.actors(a).stream()).device(); };
  // A device's n-th is its representative's n-th, whose numbers keep their order.
  const auto number = [&](int count, const auto& device) {
    std::vector<int32_t> to(count, -1);
    std::vector<std::vector<int32_t>> of(representatives.size());
    int32_t next = 0;
    for (int n = 0; n < count; ++n) {
      const int32_t d = device(n);
      if (d < 0 || representatives[d] == d) to[n] = next++;
      if (d >= 0) of[d].push_back(n);
    }
    for (size_t d = 0; d < of.size(); ++d) {
      for (size_t i = 0; i < of[d].size(); ++i) to[of[d][i]] = to[of[representatives[d]][i]];
    }
    return to;
  };
  const auto stands = [&](int32_t device) {
    return device < 0 || representatives[device] == device;
  };
  const auto to_stream =
      number(full.streams_size(), [&](int s) { return full.streams(s).device(); });
  const auto to_actor = number(full.actors_size(), device_of);
  const auto device_of_register = [&](int r) {
    const plan::Register& reg = full.registers(r);
    return reg.producer() < 0 && reg.variable().empty() ? -1 : reg.device();
  };
  const auto to_register = number(full.registers_size(), device_of_register);
  const auto to_temporary = number(full.temporaries_size(),
                                   [&](int n) { return device_of(full.temporaries(n).actor()); });
  plan::Program part;
  part.set_name(full.name());
  part.set_micro_batches(full.micro_batches());
  *part.mutable_feeds() = full.feeds();
  *part.mutable_fetches() = full.fetches();
  for (int s = 0; s < full.streams_size(); ++s) {
    if (stands(full.streams(s).device())) *part.add_streams() = full.streams(s);
  }
  for (int r = 0; r < full.registers_size(); ++r) {
    if (!stands(device_of_register(r))) continue;
    plan::Register* reg = part.add_registers();
    *reg = full.registers(r);
    if (reg->producer() >= 0) reg->set_producer(to_actor[reg->producer()]);
  }
  for (int n = 0; n < full.temporaries_size(); ++n) {
    if (!stands(device_of(full.temporaries(n).actor()))) continue;
    *part.add_temporaries() = full.temporaries(n);
    part.mutable_temporaries(part.temporaries_size() - 1)
        ->set_actor(to_actor[full.temporaries(n).actor()]);
  }
  for (int a = 0; a < full.actors_size(); ++a) {
    if (!stands(device_of(a))) continue;
    plan::Actor* actor = part.add_actors();
    *actor = full.actors(a);
    actor->set_stream(to_stream[actor->stream()]);
    actor->set_priority(to_actor[a]);
    for (plan::Instruction& x : *actor->mutable_script()) {
      Renumber(to_register, to_temporary, &x);
      OutlineBoxing(&x);
    }
  }
  return part;
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
  const Expansion classes(representative_program, expanded, representatives);
  ASSERT_TRUE(classes.Expand(&expanded).ok());
  plan::Program bare_representative_program = representative_program;
  bare_representative_program.clear_reuse_edges();
  const auto index = ProgramIndex::Build(bare_representative_program);
  ASSERT_TRUE(index.ok());
  const auto run = RunClock(*index);
  ASSERT_TRUE(run.ok()) << run.status();
  const InstanceRanks ranks = classes.Lift(run->begin_rank, run->end_rank);
  const std::vector<int64_t> base(devices, 0);  // nothing is pulled
  ASSERT_TRUE(PackRank(base, ranks.begin, ranks.end, &expanded).ok());
  const auto full_index = ProgramIndex::Build(expanded);
  ASSERT_TRUE(full_index.ok());
  Certificate lifted, own;
  lifted.position = ranks.begin;
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
    const plan::Program shard = PartOf(programs->full, programs->representatives);
    const plan::Program& representative_program = programs->representative_program;
    const std::vector<std::string> expected = Lines(shard), got = Lines(representative_program);
    for (size_t line = 0; line < std::min(expected.size(), got.size()); ++line) {
      ASSERT_EQ(expected[line], got[line]) << "line " << line;
    }
    EXPECT_EQ(shard.SerializeAsString(), representative_program.SerializeAsString());
  }
}

// As if a device with a smaller shard stood for the others.
TEST(DeviceClassesTest, ADeviceThatDoesNotFitItsRepresentativeIsRefused) {
  auto programs = ProgramsOf("data=3", 1);
  ASSERT_TRUE(programs.ok()) << programs.status();
  plan::Program& few = programs->representative_program;
  ASSERT_TRUE(Place(&few).ok());
  int largest = 0;
  for (int r = 0; r < few.registers_size(); ++r) {
    const bool sized = few.registers(r).producer() >= 0 && few.registers(r).bytes() > 0;
    if (sized && few.registers(r).variable().empty()) largest = r;
  }
  plan::Register* reg = few.mutable_registers(largest);
  reg->set_bytes(reg->bytes() - 1);
  plan::Program full = programs->full;
  const absl::Status status = Expansion(few, full, programs->representatives).Expand(&full);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find(reg->name() + ": expected at most"), std::string::npos) << status;
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
