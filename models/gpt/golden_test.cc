// What the compiler makes of the tiny GPT: goldens of every boxing and of each plan's size, of
// every station on the way to a plan, and what must hold whatever the goldens say. To write the
// goldens anew:
//   bazel run //models/gpt:golden_test -- --update_goldens
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/select_sbp.h"
#include "framework/data/text_corpus.h"
#include "framework/passes/cut_stages.h"
#include "framework/plan/program_index.h"
#include "framework/plan/statistics.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/gpt/parity_layouts.h"

namespace sluice {

bool update_goldens = false;  // set by main

namespace {

constexpr char kGoldens[] = "models/gpt/testdata/golden";
constexpr double kMostPlannedToLive = 1.02;
// Micro-batches use their slots in turn but all temporaries at one place, so where stages leave
// little else on a device the peak of live bytes itself is out of reach: by name of the layout.
const std::map<std::string, double> kPlannedToLive = {
    {"pipe=4 micro=4", 1.025},
    {"data=2 model=2 pipe=2 micro=2", 1.055},
    {"data=2 model=2 pipe=2 micro=2 script_length=1", 1.055},
    // Two pieces of the model in turn on one device; blocks whose inputs alone are kept.
    {"data=1 micro=2 chunks=2", 1.12},
    {"data=2 model=2 micro=2 recompute", 1.04},
    {"data=2 model=2 micro=2 recompute zero=3", 1.065},
    {"data=2 model=2 pipe=2 micro=2 script_length=1 zero=1", 1.055},
    {"data=2 pipe=2 micro=4 zero=3", 1.04},
};

// The two programs that a trainer compiles for a layout.
struct Programs {
  Graph train, eval;
  std::vector<ProgramGraph> list() const { return {{"train", &train}, {"eval", &eval}}; }
};

absl::Status Build(const GptLayout& layout, Programs* programs) {
  RETURN_IF_ERROR(layout.BuildTrain(AdamWWithClip().optimizer, &programs->train));
  return BuildGptEval(layout.Config(), &programs->eval);
}

absl::StatusOr<std::vector<BoxingNote>> Boxings(const GptLayout& layout, const Graph& train) {
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(layout.mesh));
  const Machine machine = Machine::Cpu();
  const Grid grid(mesh, layout.micro_batches, layout.chunks);
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  ASSIGN_OR_RETURN(const std::unique_ptr<Graph> cut,
                   RunPasses(train, {CutStages(grid.num_stages())}));
  ASSIGN_OR_RETURN(const SbpAssignment assignment,
                   SelectSbp(*cut, grid, &planner, machine, &layouts));
  ASSIGN_OR_RETURN(TaskGraph tasks, Lower(*cut, grid, assignment, &planner, machine));
  return std::move(tasks.boxings);
}

absl::StatusOr<CompileOptions> OptionsOf(const GptLayout& layout) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(layout.mesh));
  options.micro_batches = layout.micro_batches;
  options.script_length = layout.script_length;
  options.chunks = layout.chunks;
  options.machine = Machine::Cpu();
  return options;
}

absl::StatusOr<plan::Plan> CompileLayout(const GptLayout& layout, const Programs& programs) {
  ASSIGN_OR_RETURN(const CompileOptions options, OptionsOf(layout));
  return CompilePlan(programs.list(), options);
}

// The same packing as in the plan, with its peak of live bytes.
absl::StatusOr<Packing> Pack(const plan::Plan& plan, plan::Program program) {
  PackingOptions options;
  for (const plan::Device& device : plan.devices()) options.base.push_back(device.variable_bytes());
  return PackMemory(&program, options);
}

struct Traffic {
  int64_t instructions = 0, messages = 0;  // a step
};

// Every token is a req to and an ack from each of its readers; a pass is one message.
absl::StatusOr<Traffic> CountTraffic(const plan::Program& program) {
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  Traffic traffic;
  for (int a = 0; a < index.num_actors(); ++a) {
    traffic.instructions += int64_t{index.actor(a).length} * index.actor(a).firings;
  }
  for (int r = 0; r < index.num_registers(); ++r) {
    const ProgramIndex::Register& reg = index.reg(r);
    traffic.messages += 2 * int64_t{reg.tokens} * (reg.consumers_end - reg.consumers_begin);
  }
  traffic.messages += program.reuse_edges_size();
  return traffic;
}

absl::StatusOr<std::string> Summary(const plan::Plan& plan) {
  std::string text;
  for (const plan::Program& program : plan.programs()) {
    ASSIGN_OR_RETURN(const Traffic traffic, CountTraffic(program));
    ASSIGN_OR_RETURN(const Packing packing, Pack(plan, program));
    absl::StrAppend(&text, "program ", program.name(), ": ", program.actors_size(), " actors, ",
                    program.registers_size(), " registers, ", program.reuse_edges_size(),
                    " reuse edges, ", traffic.instructions, " instructions and ", traffic.messages,
                    " messages a step\n");
    for (int d = 0; d < plan.devices_size(); ++d) {
      absl::StrAppend(&text, "  device ", d, ": ", plan.devices(d).variable_bytes(),
                      " bytes of variables, ", packing.devices[d].packed, " planned, ",
                      packing.devices[d].live, " live at the peak\n");
    }
  }
  return text;
}

std::string GoldenText(const GptLayout& layout, const std::vector<BoxingNote>& boxings,
                       const std::string& summary) {
  return absl::StrCat("The tiny GPT on ", layout.Name(), ".\n\nBoxings of program train:\n",
                      BoxingSummary(boxings), "\n", summary);
}

std::string FirstDifference(const std::string& golden, const std::string& text) {
  const std::vector<std::string> expected = absl::StrSplit(golden, '\n'),
                                 got = absl::StrSplit(text, '\n');
  size_t line = 0;
  while (line < expected.size() && line < got.size() && expected[line] == got[line]) ++line;
  return absl::StrCat("line ", line + 1,
                      "\nexpected: ", line < expected.size() ? expected[line] : "the end",
                      "\ngot:      ", line < got.size() ? got[line] : "the end");
}

// `name`: of the file, below the folder of goldens.
void CompareGolden(absl::string_view name, const std::string& text) {
  const std::string path = absl::StrCat(kGoldens, "/", name, ".txt");
  if (update_goldens) {
    const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
    ASSERT_NE(root, nullptr) << "--update_goldens needs bazel run";
    const std::string target = absl::StrCat(root, "/", path);
    std::ofstream file(target);
    file << text;
    file.close();
    ASSERT_TRUE(file.good()) << target;
    std::printf("wrote %s\n", target.c_str());
    return;
  }
  const absl::StatusOr<std::string> golden = ReadFile(path);
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_TRUE(*golden == text) << path << " differs; if that is meant: bazel run "
                               << "//models/gpt:golden_test -- --update_goldens\n"
                               << FirstDifference(*golden, text);
}

// Compiled once for all tests of this file.
struct Compiled {
  GptLayout layout;
  std::vector<BoxingNote> boxings;
  plan::Plan plan;
  double seconds = 0;
};

const Compiled& CompiledFor(const GptLayout& layout) {
  static auto* compiled = new std::map<std::string, Compiled>();
  const auto found = compiled->find(layout.Name());
  if (found != compiled->end()) return found->second;
  Compiled& made = (*compiled)[layout.Name()];
  made.layout = layout;
  Programs programs;
  const absl::Status built = Build(layout, &programs);
  EXPECT_TRUE(built.ok()) << built;
  auto boxings = Boxings(layout, programs.train);
  EXPECT_TRUE(boxings.ok()) << layout.Name() << ": " << boxings.status();
  if (boxings.ok()) made.boxings = *std::move(boxings);
  const auto begin = std::chrono::steady_clock::now();
  auto plan = CompileLayout(layout, programs);
  made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_TRUE(plan.ok()) << layout.Name() << ": " << plan.status();
  if (plan.ok()) made.plan = *std::move(plan);
  return made;
}

// The tensors that each parameter's gradient is made in, by the parameter's name.
std::map<std::string, std::string> GradientNames(const Graph& train) {
  std::map<std::string, std::string> names;
  for (const auto& entry : train.TensorsOf(Role::kGradient)) {
    const Node& producer = train.node(train.tensor(entry.first).producer);
    names[train.node(train.tensor(entry.second).producer).name] = absl::StrCat(
        producer.name,
        producer.outputs.size() == 1 ? "" : absl::StrCat(":", train.tensor(entry.first).output));
  }
  return names;
}

// "phase recipe size" of all boxings that cross devices -> how many; size is "scalar", "rows" (one
// number a token), "activation" or "other".
std::map<std::string, int> CountWire(const Compiled& compiled) {
  const GptConfig config = compiled.layout.Config();
  const int64_t tokens = config.batch * config.sequence_length;
  std::map<std::string, int> counts;
  for (const BoxingNote& note : compiled.boxings) {
    if (note.bytes == 0) continue;
    // An all-reduce on two devices moves twice the tensor's bytes, a reduce-scatter once.
    const int64_t most = 2 * 4 * tokens * 2;
    const char* size = note.bytes <= 16                     ? "scalar"
                       : note.bytes <= most                 ? "rows"
                       : note.bytes <= most * config.hidden ? "activation"
                                                            : "other";
    ++counts[absl::StrCat(PhaseName(note.phase), " ", note.recipe, " ", size)];
  }
  return counts;
}

std::string Notes(const Compiled& compiled) { return BoxingSummary(compiled.boxings); }

TEST(GoldenTest, BoxingsAndPlans) {
  for (const GptLayout& layout : ParityLayouts()) {
    const Compiled& compiled = CompiledFor(layout);
    const auto summary = Summary(compiled.plan);
    ASSERT_TRUE(summary.ok()) << layout.Name() << ": " << summary.status();
    CompareGolden(layout.Stem(), GoldenText(layout, compiled.boxings, *summary));
  }
}

// What the phases hand on of a GPT of two blocks, as they make it for the representatives.
TEST(GoldenTest, Stations) {
  const GptLayout layout = {"data=2 model=2 pipe=2", 2};
  GptConfig config = layout.Config();
  config.layers = 2;
  Graph train;
  ASSERT_TRUE(BuildGptTrain(config, AdamWWithClip().optimizer, &train).ok());
  auto options = OptionsOf(layout);
  ASSERT_TRUE(options.ok()) << options.status();
  options->representatives_only = true;
  int stations = 0;
  options->observe = [&](absl::string_view, const Station& station) {
    ++stations;
    CompareGolden(absl::StrCat("stations/", StationName(station)), ToText(station));
    return Verify(station);
  };
  const auto plan = CompilePlan({{"train", &train}}, *options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(stations, 4);
}

TEST(GoldenTest, EveryStationOfEveryLayoutHolds) {
  for (const GptLayout& layout : ParityLayouts()) {
    Programs programs;
    ASSERT_TRUE(Build(layout, &programs).ok());
    auto options = OptionsOf(layout);
    ASSERT_TRUE(options.ok()) << options.status();
    options->observe = [](absl::string_view, const Station& station) { return Verify(station); };
    const auto plan = CompilePlan(programs.list(), *options);
    EXPECT_TRUE(plan.ok()) << layout.Name() << ": " << plan.status();
  }
}

TEST(GoldenTest, DataParallelReducesEachParameterOnceAStep) {
  for (const int64_t micro : {1, 2, 4}) {
    Programs programs;
    const GptLayout layout = {"data=2", micro};
    ASSERT_TRUE(Build(layout, &programs).ok());
    const std::map<std::string, std::string> gradients = GradientNames(programs.train);
    const Compiled& compiled = CompiledFor(layout);
    std::map<std::string, int> reductions;  // by tensor
    int scalars = 0;
    for (const BoxingNote& note : compiled.boxings) {
      if (note.bytes == 0) continue;
      EXPECT_EQ(note.firings, 1) << note.tensor;
      if (note.bytes <= 16) {
        ++scalars;
      } else {
        ++reductions[note.tensor];
      }
    }
    EXPECT_EQ(gradients.size(), 4u * 16 + 4);  // every parameter has a dense gradient
    for (const auto& gradient : gradients) {
      EXPECT_EQ(reductions[gradient.second], 1) << gradient.first << ", micro=" << micro;
    }
    EXPECT_EQ(reductions.size(), gradients.size()) << Notes(compiled);
    EXPECT_EQ(scalars, 1) << "the loss alone; " << Notes(compiled);
  }
}

TEST(GoldenTest, MegatronsAnnotationsGiveItsBoxingsAndNothingElse) {
  const Compiled& compiled = CompiledFor({"model=2"});
  const int layers = static_cast<int>(compiled.layout.Config().layers);
  EXPECT_EQ(CountWire(compiled),
            (std::map<std::string, int>{{"forward all_reduce[0] activation", 2 * layers + 1},
                                        {"forward all_reduce[0] rows", 3},
                                        {"backward all_reduce[0] activation", 2 * layers + 1},
                                        {"update all_reduce[0] scalar", 1}}))
      << Notes(compiled);
}

// Each all-reduce of an activation becomes a reduce-scatter and an all-gather, and what is computed
// on a shard of the sequence owes its parameters' gradients.
TEST(GoldenTest, ASplitSequenceScattersAndGathersInsteadOfReducing) {
  const Compiled& compiled = CompiledFor({"model=2", 1, 8, 0, true});
  const int layers = static_cast<int>(compiled.layout.Config().layers);
  std::map<std::string, int> counts = CountWire(compiled);
  const int summed = counts["update all_reduce[0] rows"];  // small: of norms and biases
  EXPECT_EQ(summed, 4 * layers + 2 + 2 * layers) << Notes(compiled);
  EXPECT_EQ(counts,
            (std::map<std::string, int>{{"forward reduce_scatter[0] activation", 2 * layers + 1},
                                        {"forward all_gather[0] activation", 2 * layers + 1},
                                        {"forward all_reduce[0] rows", 3},
                                        {"backward reduce_scatter[0] activation", 2 * layers + 1},
                                        {"backward all_gather[0] activation", 2 * layers + 1},
                                        {"update all_reduce[0] rows", summed},
                                        {"update all_reduce[0] scalar", 1}}))
      << Notes(compiled);
}

TEST(GoldenTest, BothAnnotationsGiveTheUnion) {
  const Compiled& compiled = CompiledFor({"data=2 model=2"});
  const int layers = static_cast<int>(compiled.layout.Config().layers);
  std::map<std::string, int> forward;
  for (const BoxingNote& note : compiled.boxings) {
    if (note.bytes > 16) ++forward[std::string(PhaseName(note.phase))];
  }
  EXPECT_EQ(forward["forward"], 2 * layers + 1 + 3) << Notes(compiled);
  EXPECT_EQ(forward["backward"], 2 * layers + 1) << Notes(compiled);
  EXPECT_EQ(forward["update"], 16 * layers + 4) << Notes(compiled);
}

TEST(GoldenTest, TheTiedTablesGradientIsReducedOnceAStep) {
  for (const GptLayout& layout : {GptLayout{"data=2"}, GptLayout{"data=2", 4},
                                  GptLayout{"data=2 model=2"}, GptLayout{"data=4"}}) {
    Programs programs;
    ASSERT_TRUE(Build(layout, &programs).ok());
    const std::string gradient = GradientNames(programs.train)["embedding/table"];
    const GptConfig config = layout.Config();
    const int64_t table = config.vocabulary * config.hidden * 4;
    int of_gradient = 0, of_its_size = 0;
    for (const BoxingNote& note : CompiledFor(layout).boxings) {
      if (note.bytes == 0) continue;
      of_gradient += note.tensor == gradient;
      of_its_size += note.phase == Phase::kUpdate && note.bytes >= table &&
                     absl::StrContains(note.tensor, "embedding");
    }
    EXPECT_EQ(of_gradient, 1) << layout.Name() << "\n" << Notes(CompiledFor(layout));
    EXPECT_LE(of_its_size, 1) << layout.Name() << "\n" << Notes(CompiledFor(layout));
  }
}

// Across stages the table goes to its second reader and the gradient that arises there comes back,
// once a step, whatever the number of micro-batches.
TEST(GoldenTest, ATableTiedAcrossStagesTravelsOnceAStep) {
  for (const GptLayout& layout :
       {GptLayout{"pipe=2"}, GptLayout{"pipe=2", 4}, GptLayout{"pipe=4", 4}}) {
    const GptConfig config = layout.Config();
    const int64_t table = config.vocabulary * config.hidden * 4;
    const int64_t last = layout.Stages() - 1;
    int there = 0, back = 0;
    for (const BoxingNote& note : CompiledFor(layout).boxings) {
      if (note.bytes != table) continue;
      EXPECT_EQ(note.firings, 1) << layout.Name() << ": " << note.tensor << " " << note.recipe;
      there += absl::StrContains(note.recipe, absl::StrCat("stage 0->", last));
      back += absl::StrContains(note.recipe, absl::StrCat("stage ", last, "->0"));
    }
    EXPECT_EQ(there, 1) << layout.Name() << "\n" << Notes(CompiledFor(layout));
    EXPECT_EQ(back, 1) << layout.Name() << "\n" << Notes(CompiledFor(layout));
  }
}

// The rows that the embedding's gradient adds to what comes from the other stage once a step. In
// the batch's order they were gathered over `data` in each micro-batch: 2 x 262144 and 4 x 65536
// bytes.
TEST(GoldenTest, ATiedTablesRowsStayOnTheirDevices) {
  for (const GptLayout& layout :
       {GptLayout{"data=2 model=2 pipe=2", 2}, GptLayout{"data=2 pipe=2", 4}}) {
    const plan::Program& program = CompiledFor(layout).plan.programs(0);
    const auto index = ProgramIndex::Build(program);
    ASSERT_TRUE(index.ok()) << layout.Name() << ": " << index.status();
    int packs = 0;
    for (const BoxingCount& boxing : CountProgram(*index).boxings) {
      if (boxing.tensor != "positions/dropout/backward" && boxing.tensor != "tokens") continue;
      EXPECT_EQ(boxing.wire_bytes, 0) << layout.Name() << ": " << boxing.tensor;
      EXPECT_EQ(boxing.times, layout.micro_batches) << layout.Name() << ": " << boxing.tensor;
      ++packs;
    }
    EXPECT_EQ(packs, 2) << layout.Name() << ", rows and ids\n" << Notes(CompiledFor(layout));
    // A shard of the batch, and no more, is what each device of the first stage packs.
    const GptConfig config = layout.Config();
    const int64_t rows = config.batch * config.sequence_length * config.hidden * 4 / 2;
    int64_t registers = 0;
    for (const plan::Register& reg : program.registers()) {
      if (reg.name() != "positions/dropout/backward" || reg.emit_every() == 1) continue;
      EXPECT_EQ(reg.bytes(), rows) << layout.Name();
      ++registers;
    }
    EXPECT_EQ(registers, Mesh::Parse(layout.mesh)->num_devices() / 2) << layout.Name();
  }
}

TEST(GoldenTest, PlannedBytesAreNearThePeakOfLiveBytes) {
  std::vector<GptLayout> layouts = ParityLayouts();
  layouts.push_back(ReferenceLayout(8));
  for (const GptLayout& layout : layouts) {
    const Compiled& compiled = CompiledFor(layout);
    for (const plan::Program& program : compiled.plan.programs()) {
      const auto packing = Pack(compiled.plan, program);
      ASSERT_TRUE(packing.ok()) << layout.Name() << ": " << packing.status();
      double worst = 0;
      int64_t planned = 0, live = 0, unshared = 0;
      for (const PackedDevice& device : packing->devices) {
        const double ratio = device.live == 0 ? 1
                                              : static_cast<double>(device.packed) /
                                                    static_cast<double>(device.live);
        if (ratio <= worst) continue;
        worst = ratio;
        planned = device.packed, live = device.live, unshared = device.unshared;
      }
      const auto exception = kPlannedToLive.find(layout.Name());
      const bool excepted = exception != kPlannedToLive.end() && program.name() == "train";
      EXPECT_LE(worst, excepted ? exception->second : kMostPlannedToLive)
          << layout.Name() << ", program " << program.name();
      if (excepted) {
        EXPECT_GT(worst, kMostPlannedToLive) << layout.Name() << " is no exception any more";
      }
      std::printf("%-42s %-6s planned %8.3f MB, live %8.3f, unshared %8.3f: %.4f\n",
                  layout.Name().c_str(), program.name().c_str(), static_cast<double>(planned) / 1e6,
                  static_cast<double>(live) / 1e6, static_cast<double>(unshared) / 1e6, worst);
    }
    std::printf("%-42s compiled in %.2f s\n", layout.Name().c_str(), compiled.seconds);
  }
}

TEST(GoldenTest, NoTwoTensorsOfALayoutUseTheSameBytesAtOnce) {
  for (const GptLayout& layout : ParityLayouts()) {
    const Compiled& compiled = CompiledFor(layout);
    PackingOptions options;
    for (const plan::Device& device : compiled.plan.devices()) {
      options.base.push_back(device.variable_bytes());
    }
    for (const plan::Program& program : compiled.plan.programs()) {
      EXPECT_EQ(CheckPacking(program, options), absl::OkStatus()) << layout.Name();
    }
  }
}

TEST(GoldenTest, TheSameGraphsGiveTheSamePlan) {
  const GptLayout layout = {"data=2 model=2 pipe=2", 2};
  Programs programs;
  ASSERT_TRUE(Build(layout, &programs).ok());
  const auto again = CompileLayout(layout, programs);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->digest(), CompiledFor(layout).plan.digest());
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--update_goldens") sluice::update_goldens = true;
  }
  return RUN_ALL_TESTS();
}
