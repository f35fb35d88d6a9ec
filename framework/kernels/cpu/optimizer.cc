// Updates of variables, each one pass over memory. Scalars are read at every firing and what
// follows from them is computed in f64, as the reference implementation does. A kernel serves both
// forms of its op: the one that gives a value copies the variable and changes the copy, so that the
// bits of both are equal.
#include <array>
#include <cmath>
#include <cstring>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/rows.h"
#include "framework/kernels/update_steps.h"

namespace sluice::cpu {
namespace {

#define SLUICE_INLINE inline
#include "framework/kernels/update_steps.inc"
#undef SLUICE_INLINE

void UpdateSgd(const SgdStep& step, const float* gradient, float* variable, float* momentum,
               int64_t n) {
  if (momentum != nullptr) {
    Vectors().optimizer.sgd_momentum(step, gradient, variable, momentum, n);
  } else {
    Vectors().optimizer.sgd(step, gradient, variable, n);
  }
}

// Elements that are copied and then changed while they are in the nearest cache.
constexpr int64_t kPiece = 2048;

// update(begin, end) over all elements of `to`, a variable or, if it is another than `from`, a copy
// of it that is made on the way.
template <typename F>
void UpdateElements(const KernelContext& context, int64_t n, int64_t grain, const float* from,
                    float* to, F&& update) {
  Parallel(context, n, grain, [&](int64_t begin, int64_t end) {
    if (from == to) return update(begin, end);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t piece = std::min(end, at + kPiece);
      std::memcpy(to + at, from + at, (piece - at) * sizeof(float));
      update(at, piece);
    }
  });
}

// The rows forms: a table, then its states, and the rows that are named. With `to` the table stays:
// each row named is copied there and changed, and rows that the shard has none of are the identity
// of the sum that brings the shards' together.
template <int kTables>
struct NamedRows {
  TableRows rows;
  const uint64_t* ids;  // sorted
  const float* values;
  std::array<float*, kTables> tables;
  float* to;  // null: none
  int64_t n;
  int64_t offset = 0;  // of a row from its id

  // update(gradient, tables, n) changes n elements of the tables in order, update(gradient, ids,
  // tables, n) those at so many ids.
  template <typename F>
  void Update(const KernelContext& context, std::byte* scratch, const F& update) const {
    if (rows.width == 0) return;  // a shard without columns has no bytes either
    if (to != nullptr) std::fill_n(to, n * rows.width, -0.0f);
    const int64_t first = rows.BeginAt(context.micro), of_group = rows.IdsOfGroup(n);
    for (int64_t g = 0; g < rows.groups; ++g) {
      const int64_t begin = g * of_group * rows.width;
      NamedRows group = *this;
      group.offset = g * rows.held - first;
      if (to != nullptr) group.to += begin;
      const DistinctRows distinct(context, ids + g * of_group, values + begin, of_group, rows.width,
                                  first, first + rows.held, scratch);
      const auto fetch = [&](int64_t id) {
        const int64_t place = (id + group.offset) * rows.width;
        for (const float* table : group.tables) FetchRow(table + place, rows.width);
      };
      if (distinct.AreElements() && to == nullptr) {
        std::array<float*, kTables> at = tables;
        for (float*& table : at) table += group.offset;
        distinct.ForEachElement([&](const int32_t* row_ids, const float* gradient, int64_t count) {
          update(gradient, row_ids, at.data(), count);
        });
      } else if (rows.width < NarrowRows<F>::kWidth) {
        distinct.ForEach([&] { return NarrowRows<F>(group, update); }, fetch);
      } else {
        distinct.ForEach([&] { return WideRows<F>{group, update}; }, fetch);
      }
    }
  }

 private:
  void StoreCopies(const float* row, const RowPlaces& places, int64_t from) const {
    for (int64_t i = from; i < places.size(); ++i) {
      std::copy_n(row, rows.width, to + places[i] * rows.width);
    }
  }

  // Changes each row where it stands.
  template <typename F>
  struct WideRows {
    const NamedRows& named;
    const F& update;
    void operator()(int64_t id, const float* gradient, const RowPlaces& places) const {
      const int64_t width = named.rows.width;
      std::array<float*, kTables> at = named.tables;
      for (float*& table : at) table += (id + named.offset) * width;
      if (named.to != nullptr) {
        at[0] = std::copy_n(at[0], width, named.to + places[0] * width) - width;
      }
      update(gradient, at.data(), width);
      if (named.to != nullptr) named.StoreCopies(at[0], places, 1);
    }
    void Finish() const {}
  };

  // Rows that fill no register are brought together first, and changed many at a time.
  template <typename F>
  class NarrowRows {
   public:
    static constexpr int64_t kWidth = 16;  // of those that are wide

    NarrowRows(const NamedRows& named, const F& update) : named_(named), update_(update) {}
    void operator()(int64_t id, const float* gradient, const RowPlaces& places) {
      const int64_t width = named_.rows.width;
      if ((count_ + 1) * width > kElements) Finish();
      Copy(gradient, gradient_ + count_ * width);
      const int64_t row = id + named_.offset;
      for (int t = 0; t < kTables; ++t) {
        Copy(named_.tables[t] + row * width, at_[t] + count_ * width);
      }
      table_rows_[count_] = row;
      places_[count_++] = places;
    }
    void Finish() {
      const int64_t width = named_.rows.width;
      std::array<float*, kTables> at;
      for (int t = 0; t < kTables; ++t) at[t] = at_[t];
      if (count_ > 0) update_(gradient_, at.data(), count_ * width);
      for (int64_t i = 0; i < count_; ++i) {
        for (int t = named_.to != nullptr ? 1 : 0; t < kTables; ++t) {
          Copy(at_[t] + i * width, named_.tables[t] + table_rows_[i] * width);
        }
        if (named_.to != nullptr) named_.StoreCopies(at_[0] + i * width, places_[i], 0);
      }
      count_ = 0;
    }

   private:
    static constexpr int64_t kElements = 256;

    void Copy(const float* from, float* to) const {
      *to = *from;
      for (int64_t e = 1; e < named_.rows.width; ++e) to[e] = from[e];
    }

    const NamedRows& named_;
    const F& update_;
    int64_t count_ = 0;
    alignas(64) float gradient_[kElements];
    alignas(64) float at_[kTables][kElements];
    int64_t table_rows_[kElements];
    RowPlaces places_[kElements];
  };
};

// Of an update: the operand that it writes, behind its inputs where it gives a value.
int Written(const KernelSpec& spec) {
  return spec.outputs.empty() ? 0 : static_cast<int>(spec.inputs.size());
}

// The rules of ops/update_rule.h: the loops over elements, whose states are as many pointers.
struct AdamWRule {
  using Attributes = AdamWAttributes;
  using Step = AdamWStep;
  static constexpr int kStates = 2;
  static constexpr bool kReadsStep = true;
  static void Run(const AdamWStep& step, const float* gradient, float* variable,
                  float* const* states, int64_t n) {
    Vectors().optimizer.adamw(step, gradient, variable, states[0], states[1], n);
  }
  static void RunAtIds(const AdamWStep& step, const float* gradient, const int32_t* ids,
                       float* variable, float* const* states, int64_t n) {
    Vectors().optimizer_at_ids.adamw(step, gradient, ids, variable, states[0], states[1], n);
  }
};

struct AdagradRule {
  using Attributes = AdagradAttributes;
  using Step = AdagradStep;
  static constexpr int kStates = 1;
  static constexpr bool kReadsStep = false;
  static void Run(const AdagradStep& step, const float* gradient, float* variable,
                  float* const* states, int64_t n) {
    Vectors().optimizer.adagrad(step, gradient, variable, states[0], n);
  }
  static void RunAtIds(const AdagradStep& step, const float* gradient, const int32_t* ids,
                       float* variable, float* const* states, int64_t n) {
    Vectors().optimizer_at_ids.adagrad(step, gradient, ids, variable, states[0], n);
  }
};

struct FtrlRule {
  using Attributes = FtrlAttributes;
  using Step = FtrlStep;
  static constexpr int kStates = 2;
  static constexpr bool kReadsStep = false;
  // A rate of 0 changes nothing.
  static void Run(const FtrlStep& step, const float* gradient, float* variable,
                  float* const* states, int64_t n) {
    if (step.learning_rate == 0) return;
    Vectors().optimizer.ftrl(step, gradient, variable, states[0], states[1], n);
  }
  static void RunAtIds(const FtrlStep& step, const float* gradient, const int32_t* ids,
                       float* variable, float* const* states, int64_t n) {
    if (step.learning_rate == 0) return;
    Vectors().optimizer_at_ids.ftrl(step, gradient, ids, variable, states[0], states[1], n);
  }
};

// With a momentum or none.
template <int states>
struct SgdRule {
  using Step = SgdStep;
  static void Run(const SgdStep& step, const float* gradient, float* variable, float* const* at,
                  int64_t n) {
    UpdateSgd(step, gradient, variable, states > 0 ? at[0] : nullptr, n);
  }
  static void RunAtIds(const SgdStep& step, const float* gradient, const int32_t* ids,
                       float* variable, float* const* at, int64_t n) {
    if constexpr (states > 0) {
      Vectors().optimizer_at_ids.sgd_momentum(step, gradient, ids, variable, at[0], n);
    } else {
      Vectors().optimizer_at_ids.sgd(step, gradient, ids, variable, n);
    }
  }
};

// What NamedRows does to a variable and its states.
template <typename Rule>
struct RowsUpdate {
  const typename Rule::Step step;
  void operator()(const float* gradient, float* const* table, int64_t n) const {
    Rule::Run(step, gradient, table[0], table + 1, n);
  }
  void operator()(const float* gradient, const int32_t* ids, float* const* table, int64_t n) const {
    Rule::RunAtIds(step, gradient, ids, table[0], table + 1, n);
  }
};

// The pointers of one place of the states, which stand behind the variable.
template <typename Rule>
std::array<float*, Rule::kStates> StatesAt(const Operands& at, int64_t place) {
  std::array<float*, Rule::kStates> states;
  for (int s = 0; s < Rule::kStates; ++s) states[s] = at.at(1 + s) + place;
  return states;
}

template <typename Rule>
typename Rule::Step StepAt(const typename Rule::Attributes& attributes, const Operands& at,
                           int factor) {
  const int32_t step = Rule::kReadsStep ? *at.at<int32_t>(factor + 2) : 0;
  return StepOf(attributes, *at.at(factor), *at.at(factor + 1), step);
}

// variable, states.., gradient, factor, learning rate, [step]; then the value, or nothing.
template <typename Rule>
PreparedKernel PrepareUpdate(const KernelSpec& spec) {
  constexpr int kGradient = 1 + Rule::kStates, kFactor = kGradient + 1;
  RETURN_IF_ERROR(Rule::kReadsStep ? RequireF32(spec, {kFactor + 2}) : RequireF32(spec));
  ASSIGN_OR_RETURN(const auto attributes,
                   ParseAttributes<typename Rule::Attributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const typename Rule::Step step = StepAt<Rule>(attributes, at, kFactor);
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain / Rule::kStates, at.at(0), to,
                   [&](int64_t begin, int64_t end) {
                     Rule::Run(step, at.at(kGradient) + begin, to + begin,
                               StatesAt<Rule>(at, begin).data(), end - begin);
                   });
  });
}

// variable, states.., sorted ids, values, factor, learning rate, [step]; then the rows, or nothing.
template <typename Rule>
PreparedKernel PrepareUpdateSparse(const char* op, const KernelSpec& spec) {
  constexpr int kIds = 1 + Rule::kStates, kFactor = kIds + 2;
  RETURN_IF_ERROR(Rule::kReadsStep ? RequireF32(spec, {kIds, kFactor + 2})
                                   : RequireF32(spec, {kIds}));
  ASSIGN_OR_RETURN(const auto attributes,
                   ParseAttributes<typename Rule::Attributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[kIds].NumElements() / 2, of_group = rows.IdsOfGroup(n);
  const int written = Written(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const uint64_t* ids = at.at<uint64_t>(kIds);
        RETURN_IF_ERROR(CheckSortedIds(context, op, ids, rows.groups, of_group, rows.whole));
        const typename Rule::Step step = StepAt<Rule>(attributes, at, kFactor);
        float* const out = written == 0 ? nullptr : at.at(written);
        std::array<float*, kIds> tables;
        for (int t = 0; t < kIds; ++t) tables[t] = at.at(t);
        NamedRows<kIds>{rows, ids, at.at(kIds + 1), tables, out, n}.Update(
            context, at.scratch<std::byte>(), RowsUpdate<Rule>{step});
        return absl::OkStatus();
      },
      DistinctRows::Scratch(of_group, rows.width));
}

}  // namespace

// Sums of squares of the variable and of the gradient, factor; ratio.
PreparedKernel PrepareTrustRatio(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const LarsAttributes a, ParseAttributes<LarsAttributes>(spec.attributes));
  return MakeKernel([a](const KernelContext&, const Operands& at) {
    *at.at(3) = TrustRatioOf(a, *at.at(0), *at.at(1), *at.at(2));
  });
}

PreparedKernel PrepareClipFactor(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const ClipAttributes a, ParseAttributes<ClipAttributes>(spec.attributes));
  return MakeKernel(
      [a](const KernelContext&, const Operands& at) { *at.at(1) = ClipFactorOf(a, *at.at(0)); });
}

// variable, gradient, factor, learning rate, step, momentum or nothing; then the value or nothing.
PreparedKernel PrepareSgd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {4}));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const bool has_momentum = spec.inputs.size() > 5;
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const SgdStep step = StepOf(attributes, *at.at(2), *at.at(3), *at.at<int32_t>(4));
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain, at.at(0), to, [&](int64_t begin, int64_t end) {
      UpdateSgd(step, at.at(1) + begin, to + begin, has_momentum ? at.at(5) + begin : nullptr,
                end - begin);
    });
  });
}

// variable, momentum, gradient, factor, learning rate, ratio; then the value, or nothing.
PreparedKernel PrepareLars(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const LarsAttributes attributes,
                   ParseAttributes<LarsAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const SgdStep step = StepOf(attributes, *at.at(3), *at.at(4), static_cast<double>(*at.at(5)));
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain, at.at(0), to, [&](int64_t begin, int64_t end) {
      UpdateSgd(step, at.at(2) + begin, to + begin, at.at(1) + begin, end - begin);
    });
  });
}

// variable, sorted ids, values, factor, learning rate, step, momentum or nothing; then the rows
// or nothing.
PreparedKernel PrepareSgdSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1, 5}));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements() / 2, of_group = rows.IdsOfGroup(n);
  const bool has_momentum = spec.inputs.size() > 6;
  const int written = Written(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const uint64_t* ids = at.at<uint64_t>(1);
        RETURN_IF_ERROR(
            CheckSortedIds(context, "sgd_sparse", ids, rows.groups, of_group, rows.whole));
        const SgdStep step = StepOf(attributes, *at.at(3), *at.at(4), *at.at<int32_t>(5));
        float* const out = written == 0 ? nullptr : at.at(written);
        std::byte* const scratch = at.scratch<std::byte>();
        if (has_momentum) {
          NamedRows<2>{rows, ids, at.at(2), {at.at(0), at.at(6)}, out, n}.Update(
              context, scratch, RowsUpdate<SgdRule<1>>{step});
        } else {
          NamedRows<1>{rows, ids, at.at(2), {at.at(0)}, out, n}.Update(
              context, scratch, RowsUpdate<SgdRule<0>>{step});
        }
        return absl::OkStatus();
      },
      DistinctRows::Scratch(of_group, rows.width));
}

// variable, m, v, gradient, factor, step; then the direction.
PreparedKernel PrepareAdamDirection(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {5}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const AdamWStep step = DirectionStepOf(attributes, *at.at(4), *at.at<int32_t>(5));
    Parallel(context, n, kCheapGrain / 2, [&](int64_t begin, int64_t end) {
      Vectors().optimizer.adam_direction(step, at.at(3) + begin, at.at(0) + begin, at.at(1) + begin,
                                         at.at(2) + begin, at.at(6) + begin, end - begin);
    });
  });
}

PreparedKernel PrepareAdamW(const KernelSpec& spec) { return PrepareUpdate<AdamWRule>(spec); }
PreparedKernel PrepareAdamWSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<AdamWRule>("adamw_sparse", spec);
}
PreparedKernel PrepareAdagrad(const KernelSpec& spec) { return PrepareUpdate<AdagradRule>(spec); }
PreparedKernel PrepareAdagradSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<AdagradRule>("adagrad_sparse", spec);
}
PreparedKernel PrepareFtrl(const KernelSpec& spec) { return PrepareUpdate<FtrlRule>(spec); }
PreparedKernel PrepareFtrlSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<FtrlRule>("ftrl_sparse", spec);
}

// variable, value.
PreparedKernel PrepareAssign(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    Parallel(context, n, 4 * kCheapGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(at.at(0) + begin, at.at(1) + begin, (end - begin) * sizeof(float));
    });
  });
}

// variable, sorted ids, rows. In order, as the last of rows named more than once counts.
PreparedKernel PrepareAssignSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t width = rows.width;
  const int64_t of_group = rows.IdsOfGroup(spec.inputs[1].NumElements() / 2);
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const uint64_t* ids = at.at<uint64_t>(1);
    RETURN_IF_ERROR(
        CheckSortedIds(context, "assign_sparse", ids, rows.groups, of_group, rows.whole));
    if (width == 0) return absl::OkStatus();  // a shard without columns has no bytes either
    const int64_t first = rows.BeginAt(context.micro);
    for (int64_t g = 0; g < rows.groups; ++g) {
      const SortedIds held = IdsBetween(ids + g * of_group, of_group, first, first + rows.held);
      float* const table = at.at(0) + (g * rows.held - first) * width;
      const float* const values = at.at(2) + g * of_group * width;
      for (int64_t i = 0; i < held.count; ++i) {
        std::memcpy(table + IdOf(held.entries[i]) * width,
                    values + PlaceOf(held.entries[i]) * width, width * sizeof(float));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace sluice::cpu
