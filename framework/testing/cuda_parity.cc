#include "framework/testing/cuda_parity.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/kernels/cuda/collectives.h"
#include "framework/kernels/cuda/support.h"
#include "framework/sbp/mesh.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/expect_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// At most: a step of the emulation takes about a second.
constexpr int64_t kFreeSteps = 4;

// Tests on one card put all devices on it, which NCCL does not serve.
bool HasCardEach(const ParityCase& of) {
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(of.mesh);
  const auto free = CudaSupport().free_bytes();
  return mesh.ok() && free.ok() && static_cast<int64_t>(free->size()) >= mesh->num_devices();
}

ParityCase OnCuda(ParityCase of, CudaSums sums) {
  if (sums == CudaSums::kOfNccl && HasCardEach(of)) of.collectives = &NcclSupport();
  if (!absl::StrContains(of.mesh, '@')) of.mesh += " @cuda";
  of.name += " on CUDA devices";
  of.cuda = &CudaSupport();
  of.bounds.free_steps = std::min(of.bounds.free_steps, kFreeSteps);
  return of;
}

struct Trained {
  std::vector<Fetches> record;  // of each step its results and all variables
  CudaLaunches last;            // of the last step
};

Trained Train(const TrainingSetting& setting, const ParityCase& of, uint64_t seed, bool checks,
              int64_t steps) {
  Trained trained;
  const auto train = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<ParityRun> run, ParityRun::Start(of, setting));
    for (int64_t step = 0; step < steps; ++step) {
      const CudaLaunches before = CountCudaLaunches();
      RETURN_IF_ERROR(run->Step(step).status());
      trained.record.push_back(run->fetches());
      ASSIGN_OR_RETURN(trained.record.emplace_back(), run->ReadVariables());  // waits for updates
      const CudaLaunches after = CountCudaLaunches();
      trained.last = {after.kernels - before.kernels, after.graphs - before.graphs};
    }
    return absl::OkStatus();
  };
  BeginCudaOrder(seed, checks);
  EXPECT_EQ(train(), absl::OkStatus());
  EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
  return trained;
}

void ExpectSameBits(const Trained& first, const Trained& second) {
  ASSERT_EQ(first.record.size(), second.record.size());
  for (size_t n = 0; n < first.record.size(); ++n) {
    for (const auto& [name, tensor] : first.record[n]) {
      EXPECT_EQ(second.record[n].at(name).bytes, tensor.bytes)
          << name << " after " << n << " steps";
    }
  }
}

}  // namespace

void ExpectCudaParity(const TrainingSetting& setting, const ParityCase& of, const ParityCase& one,
                      CudaSums sums) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  ExpectParity(setting, OnCuda(of, sums), one);
  EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
}

void ExpectCudaOrder(const TrainingSetting& setting, const ParityCase& of, int64_t steps,
                     CudaSums sums) {
  const ParityCase cuda = OnCuda(of, sums);
  ExpectSameBits(Train(setting, cuda, /*seed=*/1, /*checks=*/true, steps),
                 Train(setting, cuda, /*seed=*/2, /*checks=*/true, steps));
  EXPECT_EQ(CountStagedCudaCopies(), 0);
}

void ExpectCudaGraphs(const TrainingSetting& setting, const ParityCase& of, bool checks) {
  constexpr int64_t kSteps = 3;  // what has two variants is captured in two and replayed in one
  ParityCase cuda = OnCuda(of, CudaSums::kOfNccl);
  cuda.fetches_gradients = false;  // as a job trains: copies to the host would cut stretches
  const Trained with_graphs = Train(setting, cuda, /*seed=*/1, checks, kSteps);
  cuda.cuda_graphs = false;
  const Trained without = Train(setting, cuda, /*seed=*/2, /*checks=*/false, kSteps);
  ExpectSameBits(with_graphs, without);
  std::cout << of.name << ": of a step " << without.last.kernels << " launches, with graphs "
            << with_graphs.last.kernels << " and " << with_graphs.last.graphs << " graphs\n";
  EXPECT_EQ(without.last.graphs, 0);
  if (without.last.kernels == 0 || of.script_length == 1) return;  // nobody counts; no scripts
  EXPECT_GT(with_graphs.last.graphs, 0);
  EXPECT_LT(with_graphs.last.kernels + with_graphs.last.graphs, without.last.kernels);
}

void ExpectCudaMemory(const TrainingSetting& setting, ParityCase of) {
  of = OnCuda(of, CudaSums::kOfNccl);
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  int64_t planned = 0, scratch = 0;
  const auto count = [&](plan::Plan* plan) -> absl::Status {
    const auto is_card = [&](int32_t device) {
      return plan->devices(device).kind() == plan::DEVICE_CUDA;
    };
    for (int d = 0; d < plan->devices_size(); ++d) {
      if (is_card(d)) planned += plan->devices(d).memory_bytes();
    }
    for (const plan::Program& program : plan->programs()) {
      for (const plan::Stream& stream : program.streams()) {
        if (is_card(stream.device())) planned += static_cast<int64_t>(sizeof(int64_t));
      }
      for (const plan::Actor& actor : program.actors()) {
        for (const plan::Instruction& x : actor.script()) {
          if (x.has_scratch_offset()) scratch += x.scratch();
        }
      }
    }
    return absl::OkStatus();
  };
  const auto free = [] {
    const auto bytes = CudaSupport().free_bytes();
    EXPECT_EQ(bytes.status(), absl::OkStatus());
    return std::accumulate(bytes->begin(), bytes->end(), int64_t{0});
  };
  const int64_t before = free();
  const auto run = ParityRun::Start(of, setting, count);
  ASSERT_EQ(run.status(), absl::OkStatus());
  EXPECT_EQ((*run)->Step(0).status(), absl::OkStatus());
  EXPECT_EQ(before - free(), planned);
  EXPECT_GT(scratch, 0);
}

void ExpectCudaFusion(const TrainingSetting& setting, ParityCase of, int64_t fused, int64_t apart) {
  of = OnCuda(of, CudaSums::kOfNccl);
  of.cuda_graphs = false;
  of.largest_logits = CompileOptions().largest_logits;  // by pieces a gradient is another sum
  const Trained together = Train(setting, of, /*seed=*/1, /*checks=*/false, /*steps=*/2);
  of.fuse = false;
  const Trained one_by_one = Train(setting, of, /*seed=*/1, /*checks=*/false, /*steps=*/2);
  ExpectSameBits(together, one_by_one);
  if (one_by_one.last.kernels == 0) return;  // nobody counts
  EXPECT_EQ(together.last.kernels, fused);
  EXPECT_EQ(one_by_one.last.kernels, apart);
}

}  // namespace sluice
