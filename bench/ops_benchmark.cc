// Every kernel of a training step beside the limit that binds it: its arithmetic at the
// matmul peak, or its bytes at the bandwidth of a working set of that size, both measured in this
// run. The list is the compiled plan's own, distinct instructions with their counts, so it misses
// none.
//   bazel run //bench:ops_benchmark -- --size=small --threads=2 [--only=matmul]
//   bazel run //bench:ops_benchmark -- --size=resnet50 --precision=bf16 --threads=2
// A kernel is run over and over on the same operands, which small ones find in a cache. In a step
// they may have to be fetched: //bench:gpt_step measures the sum of the kernels and of that.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/limits.h"
#include "bench/op_timing.h"
#include "bench/step_models.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/loaded_program.h"
#include "framework/train/command.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, size, "tiny",
          "a GPT, tiny, default or small; bert_base, resnet50, wide_and_deep or arcface");
ABSL_FLAG(std::string, precision, "f32", "f32 or bf16");
ABSL_FLAG(int32_t, threads, 1, "of the one device");
ABSL_FLAG(std::string, only, "", "measure only ops with this in their name");
ABSL_FLAG(double, budget, 0.1, "seconds an instruction");
ABSL_FLAG(bool, json, false, "lines for bench/report.py instead of a table");

namespace sluice {
namespace {

absl::StatusOr<plan::Plan> CompileStep(const std::string& size, DType precision) {
  Graph graph;
  RETURN_IF_ERROR(BuildNamedStep(size, precision, &graph));
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse("data=1"));
  options.machine = Machine::Cpu();
  return CompilePlan(programs, options);
}

// Seconds of a step: of its kernels as they were measured, and as their limits would have it.
struct Totals {
  double all = 0, flops_limit = 0;
  double products = 0, products_limit = 0;
  double others = 0, others_limit = 0;
};

Totals TotalsOf(const std::vector<OpTime>& rows) {
  Totals totals;
  for (const OpTime& row : rows) {
    const double count = static_cast<double>(row.count);
    totals.all += row.seconds * count;
    totals.flops_limit += row.arithmetic_limit * count;
    const bool product = IsProduct(row.name);
    (product ? totals.products : totals.others) += row.seconds * count;
    (product ? totals.products_limit : totals.others_limit) += row.Limit() * count;
  }
  return totals;
}

void PrintTable(const std::vector<OpTime>& rows, const Totals& totals, const Limits& limits) {
  absl::PrintF("%s\n%9s %5s %6s %8s %7s  %-6s %5s  op\n", limits.ToString(), "us", "times", "share",
               "GFLOP/s", "GB/s", "limit", "of it");
  for (const OpTime& row : rows) {
    absl::PrintF("%9.1f %5d %5.1f%% %8.0f %7.1f  %-6s %5.2f  %s\n", row.seconds * 1e6, row.count,
                 100 * row.seconds * static_cast<double>(row.count) / totals.all,
                 row.flops / row.seconds * 1e-9, row.bytes / row.seconds * 1e-9, row.Binds(),
                 row.Limit() / row.seconds, row.name);
  }
  absl::PrintF("sum of kernels %.2f ms, of which products %.2f; others at %.2f of their limits\n",
               totals.all * 1e3, totals.products * 1e3, totals.others_limit / totals.others);
  if (totals.products == 0) return;
  absl::PrintF("share of the products' limits: over the sum %.2f, over the products %.2f\n",
               totals.flops_limit / totals.all, totals.products_limit / totals.products);
}

nlohmann::json LineOf(const std::string& name, double value, const std::string& unit) {
  return {{"name", name}, {"value", value}, {"unit", unit}};
}

// What the page's rooflines are drawn from, in operations and bytes a second.
void PrintLimits(const std::string& prefix, const Limits& limits) {
  const auto print = [&](const std::string& name, double value, const std::string& unit) {
    absl::PrintF("%s\n", LineOf(absl::StrCat(prefix, "limit/", name), value, unit).dump());
  };
  print("matmul/f32", limits.matmul_flops, "FLOP/s");
  print("matmul/bf16", limits.bf16_matmul_flops, "FLOP/s");
  print("convolution/f32", limits.convolution_flops, "FLOP/s");
  print("convolution/bf16", limits.bf16_convolution_flops, "FLOP/s");
  for (const Bandwidth& at : limits.bandwidth) {
    print(absl::StrCat("read/bytes:", at.bytes), at.read, "B/s");
    print(absl::StrCat("triad/bytes:", at.bytes), at.triad, "B/s");
  }
}

void PrintJson(const std::vector<OpTime>& rows, const Totals& totals, const Limits& limits) {
  const std::string precision = absl::GetFlag(FLAGS_precision);
  const std::string prefix =
      absl::StrCat("ops/", absl::GetFlag(FLAGS_size), "/threads:", absl::GetFlag(FLAGS_threads),
                   "/", precision == "f32" ? "" : absl::StrCat(precision, "/"));
  std::map<std::string, int> seen;  // shortened names may meet
  const auto print = [&](const std::string& name, double seconds, double limit, const char* binds,
                         const char* goal, const nlohmann::json& parts) {
    const int number = ++seen[name];
    nlohmann::json line =
        LineOf(absl::StrCat(prefix, name, number == 1 ? "" : absl::StrCat(" #", number)),
               seconds * 1e9, "ns");
    line["limit"] = limit * 1e9;
    line["note"] = binds;
    line["goal"] = goal;
    line["parts"] = parts;
    absl::PrintF("%s\n", line.dump());
  };
  for (const OpTime& row : rows) {
    const double share = row.seconds * static_cast<double>(row.count) / totals.all;
    print(row.name, row.seconds, row.Limit(), row.Binds(),
          row.of_tables && row.working_set > Limits::kL3 ? "0.70 of limit" : "",
          {{"times", row.count},
           {"share of the step", share},
           {"flops", row.flops},
           {"bytes", row.bytes},
           {"working_set", row.working_set}});
  }
  const nlohmann::json none = nlohmann::json::object();
  print("products of a step", totals.products, totals.products_limit, "matmul, convolution",
        "0.75 of limit", none);
  print("others of a step", totals.others, totals.others_limit, "memory, attention",
        "0.80 of limit", none);
  PrintLimits(prefix, limits);
}

absl::Status MeasureOps() {
  if (absl::GetFlag(FLAGS_threads) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads: expected at least 1, got ", absl::GetFlag(FLAGS_threads)));
  }
  InitKernelThread();
  ASSIGN_OR_RETURN(const DType precision, ParseDType(absl::GetFlag(FLAGS_precision)));
  ASSIGN_OR_RETURN(const plan::Plan plan, CompileStep(absl::GetFlag(FLAGS_size), precision));
  const std::vector<DistinctInstruction> all = DistinctInstructions(plan.programs(0));
  ASSIGN_OR_RETURN(OpTimer timer, OpTimer::Create(absl::GetFlag(FLAGS_threads), all));
  std::vector<OpTime> rows;
  std::map<std::string, int64_t> without;  // instructions that no kernel runs
  for (const DistinctInstruction& one : all) {
    const std::string op = InstructionName(one.instruction);
    if (!NeedsKernel(one.instruction.kind())) {
      without[op] += one.count;
    } else if (absl::StrContains(op, absl::GetFlag(FLAGS_only))) {
      ASSIGN_OR_RETURN(rows.emplace_back(), timer.Measure(one, absl::GetFlag(FLAGS_budget)));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const OpTime& a, const OpTime& b) {
    return a.seconds * static_cast<double>(a.count) > b.seconds * static_cast<double>(b.count);
  });
  const Totals totals = TotalsOf(rows);
  if (absl::GetFlag(FLAGS_json)) {
    PrintJson(rows, totals, timer.limits());
    return absl::OkStatus();
  }
  PrintTable(rows, totals, timer.limits());
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
