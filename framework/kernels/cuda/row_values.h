// What a row's elements are to a kernel that goes over them several times. A warp keeps them in
// registers, from one read of memory on; a block, whose rows have no end, reads and makes them anew
// for each pass. Sums are those of WarpRow and BlockRow (block.h) and have their bits. For the
// files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_ROW_VALUES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_ROW_VALUES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {

// A row of at most kLongestOfWarp elements, in packs, by a warp.
class HeldRow : public WarpRow {
 public:
  static constexpr bool kHolds = true;

  // `arrays` numbers of each element, which make(i, float(&)[arrays][n]) reads: of the n elements
  // from i on, where n is `width` or 1. It stores nothing, and may be asked twice for an element.
  template <int width, int arrays, typename Make>
  class Values {
   public:
    SLUICE_INLINE Values(const HeldRow&, const Rows& rows, const Make& make)
        : length_(static_cast<int>(rows.length)), make_(make) {
      SLUICE_UNROLLED
      for (int p = 0; p < kPacks; ++p) {
        if (Start(p) < length_) make_(Start(p), held_[p]);
      }
    }
    // fn(i, made) for every element, by one thread.
    template <typename Fn>
    SLUICE_INLINE void ForEach(const Fn& fn) const {
      SLUICE_UNROLLED
      for (int p = 0; p < kPacks; ++p) {
        if (Start(p) < length_) fn(static_cast<int64_t>(Start(p)), held_[p]);
      }
    }
    // The sum over term(made, float(&)[n]), in every thread.
    template <typename Term>
    SLUICE_INLINE float Sum(const Term& term) const {
      LaneFold<SumFold> fold;
      int end = 0;
      SLUICE_UNROLLED
      for (int p = 0; p < kPacks; ++p) {
        if ((p + 1) * kOfWarp > length_) continue;
        float terms[width];
        term(held_[p], terms);
        fold.AddPacks(terms);
        end = (p + 1) * kOfWarp;
      }
      if (end > 0) fold.template Restore<width>();
      // The rest is folded element by element, and another lane may hold it.
      fold.Add(end, length_, [&](int i) {
        float made[arrays][1], terms[1];
        make_(i, made);
        term(made, terms);
        return terms[0];
      });
      return fold.Result();
    }

   private:
    static constexpr int kOfWarp = kWarp * width;
    static constexpr int kPacks = static_cast<int>(kLongestOfWarp) / kOfWarp;
    static __device__ int Start(int p) { return p * kOfWarp + Lane() * width; }

    const int length_;
    const Make make_;
    float held_[kPacks][arrays][width];
  };
};

// A row of any length, in packs or not, by a block. Everything is held and captured by value: what
// this class or its lambdas referred to, nvcc 13.0 took for local memory, and a read of the row
// through it for one of local memory, too (compile_cuda.sh refuses such code).
class ReadRow : public BlockRow {
 public:
  static constexpr bool kHolds = false;

  template <int width, int arrays, typename Make>
  class Values {
   public:
    SLUICE_INLINE Values(const ReadRow&, const Rows& rows, const Make& make)
        : rows_(rows), make_(make) {}
    template <typename Fn>
    SLUICE_INLINE void ForEach(const Fn& fn) const {
      ReadRow().template ForEach<width>(rows_, [&, make = make_]<int n>(int64_t i, Count<n>) {
        float made[arrays][n];
        make(i, made);
        fn(i, made);
      });
    }
    template <typename Term>
    SLUICE_INLINE float Sum(const Term& term) const {
      const auto terms_of = [&, make = make_]<int n>(int64_t i, float(&terms)[n]) {
        float made[arrays][n];
        make(i, made);
        term(made, terms);
      };
      return ReadRow().template Sum<width>(rows_, terms_of);
    }

   private:
    const Rows rows_;
    const Make make_;
  };
};

template <int width, int arrays, typename Row, typename Make>
SLUICE_INLINE auto ValuesOf(const Row& row, const Rows& rows, const Make& make) {
  return typename Row::template Values<width, arrays, Make>(row, rows, make);
}

// Launches kernel(rows, arguments..), that of two on HeldRow or on ReadRow which such rows are for.
template <typename... Parameters, typename... Arguments>
absl::Status LaunchOnValues(const KernelContext& context, const Rows& rows,
                            void (*of_held)(Parameters...), void (*of_read)(Parameters...),
                            Arguments... arguments) {
  if (rows.count == 0) return absl::OkStatus();
  return rows.in_packs && rows.length <= kLongestOfWarp
             ? Launch(context, of_held, HeldRow::GridOf(rows.count), rows, arguments...)
             : Launch(context, of_read, ReadRow::GridOf(rows.count), rows, arguments...);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_ROW_VALUES_H_
