// Which classes take part in a step: of each group those that labels name, and the others of the
// smallest draws. They are found as on the CPU, by the digits of the draws from the highest on:
// time and scratch follow the number of classes, whatever the draws are.
#include <algorithm>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/philox.h"
#include "framework/kernels/cuda/set_error.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
// Digits of a draw have at most twelve bits.
constexpr int kBuckets = 1 << 12, kBucketsOfThread = kBuckets / kThreads;
struct Digit {
  int shift;
  uint32_t ones;
};

struct Sample {
  int64_t labels, classes, count;  // of a group, and how many of them take part
  int64_t group, groups;           // the first that the shard has, and how many
  bool all;                        // of the classes take part
};

// Which labels are the first of their class.
__global__ void __launch_bounds__(256) MarkFirst(const int32_t* labels, int64_t n, int64_t limit,
                                                 int32_t* is_first, DeviceErrors errors) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const int32_t label = labels[i];
  if (label < 0 || label >= limit) SetError(errors, DeviceErrorKind::kLabel, label, limit, i);
  int64_t j = 0;
  while (labels[j] != label) ++j;
  is_first[i] = j == i ? 1 : 0;
}

// Where each label's class stands among those of its group that take part. Named classes are the
// first of them, ascending; a group's are put there, and counted.
__global__ void __launch_bounds__(256)
    PlaceLabels(Sample sample, const int32_t* labels, const int32_t* is_first, int32_t* classes,
                int32_t* positions) {
  const int64_t i = ThreadIndex();
  if (i >= sample.labels) return;
  const int64_t label = labels[i], group = label / sample.classes;
  if (sample.all || label < 0) {
    positions[i] = static_cast<int32_t>(label);
    return;
  }
  const int64_t first = group * sample.classes;
  int64_t before = 0;
  for (int64_t j = 0; j < sample.labels; ++j) {
    before += is_first[j] != 0 && labels[j] >= first && labels[j] < label ? 1 : 0;
  }
  positions[i] = static_cast<int32_t>(group * sample.count + before);
  const int64_t held = group - sample.group;
  if (is_first[i] == 0 || held < 0 || held >= sample.groups || before >= sample.count) return;
  classes[held * sample.count + before] = static_cast<int32_t>(label - first);
}

__global__ void __launch_bounds__(256) ListAll(int64_t n, int64_t classes, int32_t* to) {
  const int64_t i = ThreadIndex();
  if (i < n) to[i] = static_cast<int32_t>(i % classes);
}

// Words of the logical indices [first, first + n): a thread four of them.
__global__ void __launch_bounds__(256)
    DrawWords(Draw draw, int64_t first, int64_t n, uint32_t* words) {
  const int64_t block = first / 4 + ThreadIndex();
  const uint4 four = PhiloxWords(draw, block);
  const auto put = [&](int64_t at, uint32_t word) {
    if (at >= first && at < first + n) words[at - first] = word;
  };
  put(block * 4, four.x);
  put(block * 4 + 1, four.y);
  put(block * 4 + 2, four.z);
  put(block * 4 + 3, four.w);
}

// The draws of a group's classes, of which some are named and stand aside.
struct Draws {
  const uint32_t* words;
  int64_t classes;
  const int32_t* named;  // ascending
  int64_t names;

  __device__ bool IsNamed(int64_t c) const {
    int64_t low = 0, high = names;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (named[middle] < c) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < names && named[low] == c;
  }
};

// In shared memory.
struct Counters {
  uint32_t counts[kBuckets];
  uint32_t parts[kThreads];  // of so many buckets each
  uint32_t warps[kWarps];
  uint32_t prefix, left;
};

// Goes on to the value of a digit at which the last class that is wanted lies.
__device__ void ChooseDigit(const Draws& draws, const Digit& digit, uint32_t mask, Counters* at) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int b = thread; b < kBuckets; b += kThreads) at->counts[b] = 0;
  __syncthreads();
  const auto add = [&](uint32_t word, uint32_t count) {
    if ((word & mask) != at->prefix) return;
    atomicAdd(&at->counts[word >> digit.shift & digit.ones], count);
  };
  for (int64_t c = thread; c < draws.classes; c += kThreads) add(draws.words[c], 1);
  for (int64_t i = thread; i < draws.names; i += kThreads) {
    add(draws.words[draws.named[i]], ~uint32_t{0});  // less one
  }
  __syncthreads();
  uint32_t sum = 0;
  for (int b = 0; b < kBucketsOfThread; ++b) sum += at->counts[thread * kBucketsOfThread + b];
  at->parts[thread] = sum;
  __syncthreads();
  if (thread == 0) {
    uint32_t left = at->left;
    int value = 0;
    while (left > at->parts[value]) left -= at->parts[value++];
    value *= kBucketsOfThread;
    while (left > at->counts[value]) left -= at->counts[value++];
    at->prefix |= static_cast<uint32_t>(value) << digit.shift;
    at->left = left;
  }
  __syncthreads();
}

// The sum of the values of the threads before this one, and of all threads.
struct Scanned {
  uint32_t before, all;
};
__device__ Scanned Scan(uint32_t value, Counters* at) {
  uint32_t sum = value;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint32_t other = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(distance));
    if (Lane() >= distance) sum += other;
  }
  if (Lane() == kWarp - 1) at->warps[WarpOfBlock()] = sum;
  __syncthreads();
  Scanned scanned = {sum - value, 0};
  for (int w = 0; w < kWarps; ++w) {
    if (w < WarpOfBlock()) scanned.before += at->warps[w];
    scanned.all += at->warps[w];
  }
  __syncthreads();
  return scanned;
}

// Puts the classes below the prefix, and the first `left` of those at it, ascending.
__device__ void ListChosen(const Draws& draws, Counters* at, int32_t* to) {
  const uint32_t prefix = at->prefix, left = at->left;
  uint32_t below = 0, equal = 0;  // before the classes that are looked at
  for (int64_t first = 0; first < draws.classes; first += kThreads) {
    const int64_t c = first + threadIdx.x;
    const bool stands = c < draws.classes && draws.words[c] <= prefix && !draws.IsNamed(c);
    const bool is_below = stands && draws.words[c] < prefix, is_equal = stands && !is_below;
    // Both counts in one word, as neither is more than the number of threads.
    const Scanned scanned = Scan((is_below ? 1u : 0u) + (is_equal ? 1u << 16 : 0u), at);
    const uint32_t own_below = below + (scanned.before & 0xffff);
    const uint32_t own_equal = equal + (scanned.before >> 16);
    if (is_below || (is_equal && own_equal < left)) {
      to[own_below + (own_equal < left ? own_equal : left)] = static_cast<int32_t>(c);
    }
    below += scanned.all & 0xffff;
    equal += scanned.all >> 16;
  }
}

// One block: a group's named classes are there, others of the smallest draws join them.
__global__ void __launch_bounds__(kThreads)
    ChooseOthers(Sample sample, int64_t group, const int32_t* labels, const int32_t* is_first,
                 const uint32_t* words, int32_t* classes) {
  Counters* const at = SharedMemory<Counters>();
  uint32_t named = 0;
  for (int64_t i = threadIdx.x; i < sample.labels; i += kThreads) {
    named += is_first[i] != 0 && labels[i] / sample.classes == group ? 1 : 0;
  }
  const int64_t names = Scan(named, at).all;
  if (names >= sample.count) return;  // all threads do
  if (threadIdx.x == 0) {
    at->prefix = 0;
    at->left = static_cast<uint32_t>(sample.count - names);
  }
  __syncthreads();
  const Draws draws = {words, sample.classes, classes, names};
  ChooseDigit(draws, Digit{20, 0xfff}, 0, at);
  ChooseDigit(draws, Digit{8, 0xfff}, 0xfff00000, at);
  ChooseDigit(draws, Digit{0, 0xff}, 0xffffff00, at);
  ListChosen(draws, at, classes + names);
}

// Draws and choices of a shard's groups, one after the other: they share scratch.
absl::Status ChooseInGroups(const KernelContext& context, const Sample& sample, int64_t key,
                            const int32_t* labels, const int32_t* is_first, uint32_t* words,
                            int32_t* classes) {
  const Draw draw = DrawOf(context, key);
  for (int64_t g = 0; g < sample.groups; ++g) {
    const int64_t group = sample.group + g, first = group * sample.classes;
    const int64_t blocks = (first + sample.classes - 1) / 4 - first / 4 + 1;
    RETURN_IF_ERROR(Launch(context, DrawWords, GridOf(blocks), draw, first, sample.classes, words));
    RETURN_IF_ERROR(Launch(context, ChooseOthers, Grid{dim3(1), dim3(kThreads), sizeof(Counters)},
                           sample, group, labels, is_first, words, classes + g * sample.count));
  }
  return absl::OkStatus();
}

}  // namespace

// labels; classes, positions.
PreparedKernel PrepareSampleClasses(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireAll(spec, DType::kI32));
  ASSIGN_OR_RETURN(const SampleAttributes a, ParseAttributes<SampleAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const Shard& out = spec.outputs[0];
  const int64_t groups = out.local[0], offset = out.offset[0], by = out.stride_per_micro[0];
  ScratchLayout layout;
  const int64_t first_at = layout.Reserve(n * 4), words_at = layout.Reserve(a.classes * 4);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        std::byte* const scratch = at.scratch<std::byte>();
        int32_t* const is_first = reinterpret_cast<int32_t*>(scratch + first_at);
        const int32_t* const labels = at.at<int32_t>(0);
        int32_t *const classes = at.at<int32_t>(1), *const positions = at.at<int32_t>(2);
        const Sample sample = {n,      a.classes,           a.count, offset + context.micro * by,
                               groups, a.count == a.classes};
        if (n > 0) {
          RETURN_IF_ERROR(Launch(context, MarkFirst, GridOf(n), labels, n, a.groups * a.classes,
                                 is_first, StreamOf(context).errors()));
          RETURN_IF_ERROR(Launch(context, PlaceLabels, GridOf(n), sample, labels, is_first, classes,
                                 positions));
        }
        if (groups * a.count == 0) return absl::OkStatus();
        if (sample.all) {
          return Launch(context, ListAll, GridOf(groups * a.count), groups * a.count, a.classes,
                        classes);
        }
        return ChooseInGroups(context, sample, a.key, labels, is_first,
                              reinterpret_cast<uint32_t*>(scratch + words_at), classes);
      },
      layout.bytes());
}

}  // namespace sluice::cuda
