// Every kernel of a training step beside the limit that binds it: its arithmetic at the
// matmul peak, or its bytes at the bandwidth of a working set of that size, both measured in this
// run. The list is the compiled plan's own, distinct instructions with their counts, so it misses
// none.
//   bazel run //bench:ops_benchmark -- --size=small --threads=2 [--only=matmul]
//   bazel run //bench:ops_benchmark -- --size=resnet50 --precision=bf16 --threads=2
// A kernel is run over and over on the same operands, which small ones find in a cache. In a step
// they may have to be fetched: //bench:gpt_step measures the sum of the kernels and of that.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/gpt_sizes.h"
#include "bench/limits.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/device/memory.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/kinds.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/loaded_program.h"
#include "framework/train/command.h"
#include "models/gpt/gpt.h"
#include "models/resnet/resnet.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, size, "tiny", "a GPT, tiny, default or small, or resnet50 on 8 pictures");
ABSL_FLAG(std::string, precision, "f32", "f32 or bf16");
ABSL_FLAG(int32_t, threads, 1, "of the one device");
ABSL_FLAG(std::string, only, "", "measure only ops with this in their name");
ABSL_FLAG(double, budget, 0.1, "seconds an instruction");
ABSL_FLAG(bool, json, false, "lines for bench/report.py instead of a table");

namespace sluice {
namespace {

absl::Status BuildStep(const std::string& size, DType precision, Graph* graph) {
  OptimizerOptions optimizer;
  if (size == "resnet50") {
    ResNetConfig config;
    config.batch = 8;
    config.precision.compute = precision;
    optimizer.kind = OptimizerOptions::kSgd;
    optimizer.momentum = 0.9;
    return BuildResNetTrain(config, optimizer, graph);
  }
  ASSIGN_OR_RETURN(GptConfig config, GptOfSize(size));
  config.precision.compute = precision;
  return BuildGptTrain(config, optimizer, graph);
}

absl::StatusOr<plan::Plan> CompileStep(const std::string& size, DType precision) {
  Graph graph;
  RETURN_IF_ERROR(BuildStep(size, precision, &graph));
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse("data=1"));
  options.machine = Machine::Cpu();
  return CompilePlan(programs, options);
}

// An instruction that stands `count` times in a step, if the places of its operands are left out.
struct Distinct {
  plan::Instruction instruction;
  std::vector<int> place;  // of operands, inputs first: which of the places that differ
  int64_t count = 0;
};

// Operands that lie at one address get one place.
std::vector<int> PlacesOf(const plan::Instruction& instruction) {
  std::vector<std::string> seen;
  std::vector<int> places;
  const auto add = [&](const plan::Operand& operand) {
    const std::string name = absl::StrCat(operand.storage_case(), ":", operand.register_(), ":",
                                          operand.temporary(), ":", operand.offset());
    const auto found = std::find(seen.begin(), seen.end(), name);
    places.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(name);
  };
  for (const plan::Operand& operand : instruction.inputs()) add(operand);
  for (const plan::Operand& operand : instruction.outputs()) add(operand);
  return places;
}

std::vector<Distinct> DistinctOf(const plan::Program& program) {
  std::map<std::string, Distinct> found;
  for (const plan::Actor& actor : program.actors()) {
    for (const plan::Instruction& planned : actor.script()) {
      Distinct one = {planned, PlacesOf(planned), 0};
      one.instruction.clear_scope();
      one.instruction.clear_nanoseconds();
      one.instruction.clear_scratch();
      for (auto* operands : {one.instruction.mutable_inputs(), one.instruction.mutable_outputs()}) {
        for (plan::Operand& operand : *operands) {
          operand.clear_storage();
          operand.clear_offset();
        }
      }
      const std::string key =
          absl::StrCat(absl::StrJoin(one.place, ","), one.instruction.SerializeAsString());
      found.emplace(key, one).first->second.count += actor.firings_per_step();
    }
  }
  std::vector<Distinct> all;
  for (const auto& [key, one] : found) all.push_back(one);
  return all;
}

struct Row {
  std::string name;
  int64_t count = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double arithmetic_limit = 0, memory_limit = 0;  // seconds
  double Limit() const { return std::max(arithmetic_limit, memory_limit); }
  const char* Binds() const { return arithmetic_limit > memory_limit ? "matmul" : "memory"; }
};

std::string NameOf(const KernelSpec& spec) {
  const auto shape = [](std::string* out, const Shard& shard) {
    absl::StrAppend(out, shard.local.ToString());
  };
  std::string name = absl::StrCat(spec.op, " ", absl::StrJoin(spec.inputs, " ", shape), " -> ",
                                  absl::StrJoin(spec.outputs, " ", shape));
  return name.size() > 76 ? absl::StrCat(name.substr(0, 73), "...") : name;
}

// What is held against the products' limit and summed apart.
bool IsProduct(absl::string_view op) {
  return absl::StartsWith(op, "matmul") || absl::StartsWith(op, "conv2d");
}

// Ids are rows of the table, or columns of the logits.
int32_t IdLimit(const KernelSpec& spec) {
  if (absl::StartsWith(spec.op, "ce_")) {
    return static_cast<int32_t>(spec.inputs[0].logical[spec.inputs[0].logical.rank() - 1]);
  }
  if (spec.op == "embedding_gradient") return static_cast<int32_t>(spec.outputs[0].logical[0]);
  return static_cast<int32_t>(spec.inputs[0].logical[0]);
}

class OpBench {
 public:
  static absl::StatusOr<OpBench> Create(int threads, int64_t bytes) {
    OpBench made;
    made.thread_pool_ = std::make_unique<CpuThreadPool>(threads, InitKernelThread);
    made.limits_ = MeasureLimits(made.thread_pool_.get());
    ASSIGN_OR_RETURN(made.memory_, Memory::Allocate(bytes));
    return made;
  }

  const Limits& limits() const { return limits_; }

  absl::StatusOr<Row> Measure(const Distinct& one, double budget) {
    ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(one.instruction, thread_pool_->threads()));
    ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, PrepareCpuKernel(spec));
    std::vector<std::byte*> operands = Place(one, spec);
    std::vector<std::byte> scratch(kernel->scratch() + 64);
    void* aligned = scratch.data();
    size_t space = scratch.size();
    std::align(64, 1, aligned, space);
    // The second firing of a step: an accumulator is added to rather than set.
    CpuStream stream(thread_pool_.get());
    const KernelContext firing = {
        .step = 1, .micro = spec.op == "accumulate" ? 1 : 0, .stream = &stream};
    absl::Status status;
    Row row = RowOf(one, spec);
    row.seconds = TimeOf(budget, [&] {
      status = kernel->Launch(firing, operands.data(), static_cast<std::byte*>(aligned));
    });
    RETURN_IF_ERROR(status);
    return row;
  }

 private:
  std::vector<std::byte*> Place(const Distinct& one, const KernelSpec& spec) {
    std::vector<std::byte*> operands, at_place;
    std::byte* next = memory_.data();
    const auto place = [&](const Shard& shard) {
      const size_t i = static_cast<size_t>(one.place[operands.size()]);
      if (i == at_place.size()) {
        at_place.push_back(next);
        next += (shard.NumBytes() + 127) / 64 * 64;
      }
      operands.push_back(at_place[i]);
    };
    for (const Shard& shard : spec.inputs) place(shard);
    for (const Shard& shard : spec.outputs) place(shard);
    // Whatever the last kernel left may be denormal, or beyond what a step ever sees.
    float* values = reinterpret_cast<float*>(memory_.data());
    for (int64_t i = 0; i < (next - memory_.data()) / 4; ++i) {
      values[i] =
          0.25f + static_cast<float>(static_cast<uint32_t>(i) * 2654435761u >> 9) * 0x1p-24f;
    }
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      if (spec.inputs[i].dtype != DType::kI32) continue;
      int32_t* ids = reinterpret_cast<int32_t*>(operands[i]);
      const int64_t n = spec.inputs[i].NumElements();
      const uint32_t limit = n == 1 ? 2 : IdLimit(spec);
      uint32_t state = 1;
      for (int64_t e = 0; e < n; ++e, state = state * 1664525 + 1013904223) {
        ids[e] = n == 1 ? 1 : static_cast<int32_t>((state >> 4) % limit);
      }
    }
    return operands;
  }

  Row RowOf(const Distinct& one, const KernelSpec& spec) const {
    Row row;
    row.name = NameOf(spec);
    row.count = one.count;
    row.flops = static_cast<double>(one.instruction.flops());
    int64_t loaded = 0, stored = 0, in_place = 0;
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      loaded += spec.inputs[i].NumBytes();
      if (!one.instruction.inputs(static_cast<int>(i)).updates()) continue;
      stored += spec.inputs[i].NumBytes();
      in_place += spec.inputs[i].NumBytes();
    }
    for (size_t o = 0; o < spec.outputs.size(); ++o) {
      const int64_t bytes = spec.outputs[o].NumBytes();
      stored += bytes;
      const auto inputs = one.place.begin() + static_cast<int64_t>(spec.inputs.size());
      if (std::find(one.place.begin(), inputs, inputs[o]) != inputs) in_place += bytes;
    }
    // Of a table only the rows that are named are touched.
    if (spec.op == "embedding") loaded = stored + spec.inputs[1].NumBytes();
    if (spec.op == "ce_pick") loaded = 2 * stored;
    row.bytes = static_cast<double>(loaded + stored);
    if (row.bytes > 0) {
      row.memory_limit =
          row.bytes / limits_.BytesPerSecond(loaded + stored - in_place, loaded, stored, in_place);
    }
    if (IsProduct(spec.op) || absl::StartsWith(spec.op, "attention")) {
      const bool low = spec.inputs[0].dtype == DType::kBF16;
      row.arithmetic_limit = row.flops / (low ? limits_.bf16_matmul_flops : limits_.matmul_flops);
    }
    return row;
  }

  std::unique_ptr<CpuThreadPool> thread_pool_;
  Limits limits_;
  Memory memory_;
};

int64_t OperandBytes(const plan::Instruction& instruction) {
  int64_t bytes = 0;
  for (const auto* operands : {&instruction.inputs(), &instruction.outputs()}) {
    for (const plan::Operand& operand : *operands) {
      bytes += ShardFromProto(operand.shard()).value().NumBytes() + 128;
    }
  }
  return bytes;
}

// Seconds of a step: of its kernels as they were measured, and as their limits would have it.
struct Totals {
  double all = 0, flops_limit = 0;
  double products = 0, products_limit = 0;
  double others = 0, others_limit = 0;
};

Totals TotalsOf(const std::vector<Row>& rows) {
  Totals totals;
  for (const Row& row : rows) {
    const double count = static_cast<double>(row.count);
    totals.all += row.seconds * count;
    totals.flops_limit += row.arithmetic_limit * count;
    const bool product = IsProduct(row.name);
    (product ? totals.products : totals.others) += row.seconds * count;
    (product ? totals.products_limit : totals.others_limit) += row.Limit() * count;
  }
  return totals;
}

void PrintTable(const std::vector<Row>& rows, const Totals& totals, const Limits& limits) {
  absl::PrintF("%s\n%9s %5s %6s %8s %7s  %-6s %5s  op\n", limits.ToString(), "us", "times", "share",
               "GFLOP/s", "GB/s", "limit", "of it");
  for (const Row& row : rows) {
    absl::PrintF("%9.1f %5d %5.1f%% %8.0f %7.1f  %-6s %5.2f  %s\n", row.seconds * 1e6, row.count,
                 100 * row.seconds * static_cast<double>(row.count) / totals.all,
                 row.flops / row.seconds * 1e-9, row.bytes / row.seconds * 1e-9, row.Binds(),
                 row.Limit() / row.seconds, row.name);
  }
  absl::PrintF("sum of kernels %.2f ms, of which products %.2f; others at %.2f of their limits\n",
               totals.all * 1e3, totals.products * 1e3, totals.others_limit / totals.others);
  absl::PrintF("share of the matmul limit: over the sum %.2f, over the products %.2f\n",
               totals.flops_limit / totals.all, totals.products_limit / totals.products);
}

void PrintJson(const std::vector<Row>& rows, const Totals& totals) {
  const std::string prefix = absl::StrCat("ops/", absl::GetFlag(FLAGS_size),
                                          "/threads:", absl::GetFlag(FLAGS_threads), "/");
  std::map<std::string, int> seen;  // shortened names may meet
  const auto print = [&](const std::string& name, double seconds, double limit, const char* binds,
                         const char* goal, const nlohmann::json& shards) {
    const int number = ++seen[name];
    const nlohmann::json line = {
        {"name", absl::StrCat(prefix, name, number == 1 ? "" : absl::StrCat(" #", number))},
        {"value", seconds * 1e9},
        {"unit", "ns"},
        {"limit", limit * 1e9},
        {"note", binds},
        {"goal", goal},
        {"shards", shards}};
    absl::PrintF("%s\n", line.dump());
  };
  for (const Row& row : rows) {
    const double share = row.seconds * static_cast<double>(row.count) / totals.all;
    print(row.name, row.seconds, row.Limit(), row.Binds(), "",
          {{"times", row.count}, {"share of the step", share}});
  }
  const nlohmann::json none = nlohmann::json::object();
  print("products of a step", totals.products, totals.products_limit, "matmul", "0.75 of limit",
        none);
  print("others of a step", totals.others, totals.others_limit, "memory, attention",
        "0.80 of limit", none);
}

absl::Status MeasureOps() {
  if (absl::GetFlag(FLAGS_threads) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads: expected at least 1, got ", absl::GetFlag(FLAGS_threads)));
  }
  InitKernelThread();
  ASSIGN_OR_RETURN(const DType precision, ParseDType(absl::GetFlag(FLAGS_precision)));
  ASSIGN_OR_RETURN(const plan::Plan plan, CompileStep(absl::GetFlag(FLAGS_size), precision));
  const std::vector<Distinct> all = DistinctOf(plan.programs(0));
  int64_t bytes = 0;
  std::map<std::string, int64_t> without;  // instructions that no kernel runs
  for (const Distinct& one : all) bytes = std::max(bytes, OperandBytes(one.instruction));
  ASSIGN_OR_RETURN(OpBench bench, OpBench::Create(absl::GetFlag(FLAGS_threads), bytes));
  std::vector<Row> rows;
  for (const Distinct& one : all) {
    const std::string op = InstructionName(one.instruction);
    if (!NeedsKernel(one.instruction.kind())) {
      without[op] += one.count;
    } else if (absl::StrContains(op, absl::GetFlag(FLAGS_only))) {
      ASSIGN_OR_RETURN(rows.emplace_back(), bench.Measure(one, absl::GetFlag(FLAGS_budget)));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.seconds * static_cast<double>(a.count) > b.seconds * static_cast<double>(b.count);
  });
  const Totals totals = TotalsOf(rows);
  if (absl::GetFlag(FLAGS_json)) {
    PrintJson(rows, totals);
    return absl::OkStatus();
  }
  PrintTable(rows, totals, bench.limits());
  for (const auto& [op, count] : without) absl::PrintF("no kernel: %d %s\n", count, op);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"ops_benchmark",
                             "Times every kernel of a training step; see bench/README.md.\n",
                             {{"Flags",
                               {{"size", "NAME", ""},
                                {"precision", "TYPE", ""},
                                {"threads", "N", ""},
                                {"only", "WORD", ""},
                                {"budget", "SECONDS", ""},
                                {"json", "", ""}}}},
                             {},
                             sluice::MeasureOps},
                            argc, argv);
}
