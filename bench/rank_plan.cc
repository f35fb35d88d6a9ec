// What a rank of a large job pays for its plan: seconds, the process's largest resident set and
// bytes of plan, and what that is for each item that its devices have. One rank of 8 devices of a
// GPT with 24 layers, complete with regions and proofs.
//
//   bazel run -c opt //bench:rank_plan -- "data=128 model=8" 1
//   bazel run -c opt //bench:rank_plan -- "data=32 model=8 pipe=4" 8
//
// The arguments are mesh, micro-batches and, if given, the rank and the hidden width; a width that
// nothing divides makes uneven shards.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "framework/compiler/compile.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

constexpr int64_t kDevicesOfARank = 8;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The largest resident set so far.
double Mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: rank_plan MESH MICRO_BATCHES [RANK [HIDDEN]]\n");
    return 2;
  }
  int64_t micro = 1, rank = 0, hidden = 256;
  const bool numbers = absl::SimpleAtoi(argv[2], &micro) &&
                       (argc < 4 || absl::SimpleAtoi(argv[3], &rank)) &&
                       (argc < 5 || absl::SimpleAtoi(argv[4], &hidden));
  const auto mesh = Mesh::Parse(argv[1]);
  if (!numbers || !mesh.ok()) {
    std::fprintf(stderr, "rank_plan: expected a mesh and numbers: %s\n",
                 std::string(mesh.status().message()).c_str());
    return 2;
  }
  GptConfig config;
  config.layers = 24;
  config.hidden = hidden;
  config.heads = hidden % 8 == 0 ? 8 : hidden / 8;
  config.batch = std::max<int64_t>(2 * mesh->AxisSize("data"), 8) * micro;
  Graph graph;
  absl::Status status = BuildGptTrain(config, OptimizerOptions(), &graph);
  CompileOptions options;
  options.ranks =
      static_cast<int32_t>((mesh->num_devices() + kDevicesOfARank - 1) / kDevicesOfARank);
  options.rank = static_cast<int32_t>(rank);
  options.mesh = mesh->OverRanks(options.ranks);
  options.micro_batches = micro;
  options.machine = Machine::Cpu();
  const double begin = Seconds();
  double last = begin;
  options.phase_end = [&](absl::string_view phase) {
    const double now = Seconds();
    std::printf("  %-16s %7.3f s %6.0f MiB\n", std::string(phase).c_str(), now - last, Mebibytes());
    last = now;
  };
  const absl::StatusOr<plan::Plan> plan =
      status.ok() ? CompilePlan({{"train", &graph}}, options) : status;
  if (!plan.ok()) {
    std::fprintf(stderr, "rank_plan: %s\n", std::string(plan.status().message()).c_str());
    return 1;
  }
  const double seconds = Seconds() - begin;
  int64_t items = 0, pulls = 0, remote = 0, regions = 0;
  for (const plan::Actor& actor : plan->programs(0).actors()) {
    for (const plan::Instruction& x : actor.script()) {
      pulls += x.kind() == plan::INSTRUCTION_PULL ? 1 : 0;
      remote += x.kind() == plan::INSTRUCTION_REMOTE ? 1 : 0;
      regions += x.regions_size();
      ++items;
    }
  }
  items -= pulls + remote;
  const double mib = Mebibytes();
  std::printf("%s micro=%lld rank %lld of %d: %.2f s, %.0f MiB resident, plan %.1f MiB\n", argv[1],
              static_cast<long long>(micro), static_cast<long long>(rank), options.ranks, seconds,
              mib, static_cast<double>(plan->ByteSizeLong()) / (1 << 20));
  std::printf(
      "%lld items, %lld pulls, %lld remote actors, %lld regions; %.1f us and %.1f KiB an item\n",
      static_cast<long long>(items), static_cast<long long>(pulls), static_cast<long long>(remote),
      static_cast<long long>(regions), 1e6 * seconds / static_cast<double>(items),
      1024 * mib / static_cast<double>(items));
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
