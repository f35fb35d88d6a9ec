// A training step of the tiny GPT allocates nothing of its own, in the workers, their thread
// pools and the session's thread. oneDNN keeps its books on the heap: a few small blocks a call,
// which are counted by themselves. They are the library's because product.cc marks each of its
// calls (ScopedLibraryCall); the calls are counted here, at oneDNN's own door.
#include <dlfcn.h>
#include <dnnl.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/data/batch.h"
#include "framework/data/sample_order.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/tiled_product.h"
#include "framework/kernels/kernel.h"
#include "framework/session/plan_session.h"
#include "framework/testing/allocations.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace {
std::atomic<int64_t> library_calls{0};
}  // namespace

// Stands before the library's own, which it calls.
extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                                dnnl_stream_t stream, int n,
                                                const dnnl_exec_arg_t* arguments) {
  static const auto execute =
      reinterpret_cast<decltype(&dnnl_primitive_execute)>(dlsym(RTLD_NEXT, __func__));
  library_calls.fetch_add(1, std::memory_order_relaxed);
  return execute(primitive, stream, n, arguments);
}

namespace sluice {
namespace {

// Bookkeeping of oneDNN 2.6 in one execution of a product: six blocks, of 104 bytes at most, one of
// them for the scratch that it is given. An implementation that allocates what it computes in
// (gemm:jit, megabytes a call) breaks both.
constexpr int64_t kMostPerCall = 6, kLargestOfLibrary = 1024;
constexpr int kWarm = 3, kSteps = 5;

// The door that a planted kernel goes through before it computes; null: none.
const AllocationDoor* planted = nullptr;
std::atomic<int64_t> planted_firings{0};

class PlantedKernel final : public Kernel {
 public:
  explicit PlantedKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    if (planted != nullptr) {
      planted_firings.fetch_add(1, std::memory_order_relaxed);
      planted->get(4096);
    }
    return kernel_->Launch(context, operands, scratch);
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  std::unique_ptr<Kernel> kernel_;
};

// Plants where tokens are looked up: once a step, micro-batch and device of the first stage.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareWithPlant(const KernelSpec& spec) {
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = PrepareCpuKernel(spec);
  if (!kernel.ok() || spec.op != "embedding") return kernel;
  return std::unique_ptr<Kernel>(std::make_unique<PlantedKernel>(*std::move(kernel)));
}

// A session that trains, and all that a step needs.
class Training {
 public:
  explicit Training(const GptLayout& layout)
      : text_(*TextDataset::Create("fixed.txt", *ReadFile("models/gpt/testdata/fixed.txt"), 64)),
        batch_(text_, layout.batch) {
    absl::StatusOr<plan::Plan> plan = CompileParityPlan(GptParity(layout), AdamWWithClip());
    EXPECT_TRUE(plan.ok()) << plan.status();
    RuntimeOptions options;
    options.workers = 2;
    options.threads_per_device = 2;
    options.prepare = PrepareWithPlant;
    options.init_thread = InitKernelThread;
    auto session = StartPlan(*std::move(plan), options);
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) session_ = *std::move(session);
    *rate_.data<float>() = 1e-3f;
    *count_.data<int32_t>() = 1;
    const absl::Status read = ReadBatch(text_, {SampleOrder::kRandom, 1}, 0, &batch_);
    EXPECT_TRUE(read.ok()) << read;
    Run(kWarm);
  }

  // What `steps` steps allocate, one always ahead.
  Allocations Run(int steps) {
    library_calls.store(0);
    planted_firings.store(0);
    bool ok = true;
    StartCountingAllocations(ScopedLibraryCall::Active);
    for (int step = 0; step < steps; ++step) {
      ok = session_->Step("train", feeds_).ok() && ok;
      if (step > 0) ok = session_->Next(&fetches_).ok() && ok;
    }
    ok = session_->Next(&fetches_).ok() && ok;
    const Allocations counted = CountedAllocations();
    EXPECT_TRUE(ok) << session_->status();
    return counted;
  }

 private:
  TextDataset text_;
  Batch batch_;
  HostTensor rate_ = HostTensor(DType::kF32, {}), count_ = HostTensor(DType::kI32, {});
  // A tensor, and rows that the devices read.
  const Feeds feeds_ = {{"tokens", SampleRows{&text_, 0, {SampleOrder::kRandom, 1}, 0}},
                        {"labels", &batch_.tensors[1]},
                        {"learning_rate", &rate_},
                        {"step", &count_}};
  Fetches fetches_;
  std::unique_ptr<Session> session_;
};

TEST(StepAllocationsTest, OurCodeAllocatesNothingAndOneDnnLittle) {
  if (!kCountsAllocations) GTEST_SKIP() << "allocations are the sanitizer's";
  GptLayout low = {"data=2 model=2", 2};
  low.precision.compute = DType::kBF16;
  for (const GptLayout& layout :
       {GptLayout{"data=1"}, GptLayout{"data=1", 4}, low, GptLayout{"data=2 model=2 pipe=2", 2},
        GptLayout{"data=2 model=2 pipe=2 @async", 2},
        GptLayout{"data=2 model=2 pipe=2 @cpu,async", 2},
        GptLayout{"data=2 model=2 pipe=2 @null", 2}}) {
    Training training(layout);
    const Allocations counted = training.Run(kSteps);
    const int64_t calls = library_calls.load();
    std::printf(
        "%s: %.0f products a step, %.2f allocations of oneDNN in each, largest %d bytes\n",
        layout.Name().c_str(), static_cast<double>(calls) / kSteps,
        static_cast<double>(counted.library) / static_cast<double>(std::max<int64_t>(1, calls)),
        static_cast<int>(counted.largest_library));
    EXPECT_EQ(counted.own, 0) << layout.Name() << ", largest " << counted.largest_own << " bytes";
    if (absl::StrContains(layout.mesh, "@null")) {
      EXPECT_EQ(calls, 0) << layout.Name();  // the protocol alone
      continue;
    }
    if (cpu::ProductsAreTiled()) {
      EXPECT_EQ(calls, 0) << layout.Name();  // below AVX-512 products are ours
    } else {
      EXPECT_GT(calls, 24 * kSteps) << layout.Name();  // four layers of two products, thrice
    }
    EXPECT_LE(counted.library, kMostPerCall * calls) << layout.Name();
    EXPECT_LE(counted.largest_library, kLargestOfLibrary) << layout.Name();
  }
}

TEST(StepAllocationsTest, AnAllocationInAStepIsSeenThroughEveryDoor) {
  if (!kCountsAllocations) GTEST_SKIP() << "allocations are the sanitizer's";
  Training training({"data=2 model=2 pipe=2", 2});
  for (const AllocationDoor& door : AllocationDoors()) {
    planted = &door;
    const Allocations counted = training.Run(1);
    planted = nullptr;
    EXPECT_GT(planted_firings.load(), 0);
    EXPECT_EQ(counted.own, planted_firings.load()) << door.name;
    EXPECT_GE(counted.largest_own, 4096) << door.name;
  }
}

}  // namespace
}  // namespace sluice
