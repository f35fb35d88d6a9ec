// Sparse updates and lookups at sizes that take every way through them: few ids and many, named
// once or often, rows narrower and wider than a register, of this shard and of others, one thread
// and several, both levels of vector loops. What the ops' cases reach is the conformance tests'
// matter.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/attributes/attributes.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/kernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

constexpr int64_t kRows = 3000, kHeld = 1100, kFirst = 500;

// A shard of the middle rows of a table.
Shard Middle(int64_t width) {
  Shard shard = Shard::Whole(DType::kF32, {kRows, width});
  shard.local = {kHeld, width};
  shard.offset = {kFirst, 0};
  return shard;
}
bool IsHeld(int32_t id) { return id >= kFirst && id < kFirst + kHeld; }

uint32_t Next(uint32_t* state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 8;
}

// In (0, 1], so that FTRL's and AdaGrad's sums may be any of them.
std::vector<float> Values(int64_t n, uint32_t seed) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(Next(&seed) + 1) * 0x1p-24f;
  return values;
}

// Every fourth is one of five.
std::vector<int32_t> Ids(int64_t n) {
  std::vector<int32_t> ids(n);
  uint32_t seed = 7;
  for (int32_t& id : ids) {
    const uint32_t drawn = Next(&seed);
    id = static_cast<int32_t>(drawn % 4 == 0 ? kFirst + drawn / 4 % 5 : drawn / 4 % kRows);
  }
  return ids;
}

// What `sort_ids` makes of ids: a place and an id each.
std::vector<uint64_t> Sorted(const std::vector<int32_t>& ids) {
  std::vector<uint64_t> entries;
  for (size_t i = 0; i < ids.size(); ++i) {
    entries.push_back(static_cast<uint64_t>(ids[i]) << 32 | i);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

struct Operand {
  Shard shard;
  void* data;
};
Operand Of(std::vector<float>& values, const Shape& shape) {
  return {Shard::Whole(DType::kF32, shape), values.data()};
}
Operand Of(std::vector<uint64_t>& entries) {
  return {Shard::Whole(DType::kI32, {static_cast<int64_t>(entries.size()), 2}), entries.data()};
}

absl::Status RunOp(const std::string& op, const std::string& attributes,
                   const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
                   int threads) {
  KernelSpec spec;
  spec.op = op;
  spec.attributes = attributes;
  spec.threads = threads;
  std::vector<std::byte*> operands;
  for (const Operand& one : inputs) {
    spec.inputs.push_back(one.shard);
    operands.push_back(static_cast<std::byte*>(one.data));
  }
  for (const Operand& one : outputs) {
    spec.outputs.push_back(one.shard);
    operands.push_back(static_cast<std::byte*>(one.data));
  }
  const auto kernel = PrepareCpuKernel(spec);
  if (!kernel.ok()) return kernel.status();
  std::vector<double> scratch((*kernel)->scratch() / 8 + 8);
  void* aligned = scratch.data();
  size_t space = scratch.size() * 8;
  std::align(64, 1, aligned, space);
  CpuThreadPool thread_pool(threads, InitKernelThread);
  CpuStream stream(&thread_pool);
  return (*kernel)->Launch({.stream = &stream}, operands.data(), static_cast<std::byte*>(aligned));
}

// A rule of updates: its op without "_sparse", and how many states it has; SGD's stand last.
struct Rule {
  std::string op, attributes;
  int states;
  bool reads_step;
  bool states_last = false;
};
std::vector<Rule> Rules() {
  return {{"adamw", PrintAttributes(AdamWAttributes{0.9, 0.95, 1e-8, 0.1}), 2, true},
          {"adagrad", PrintAttributes(AdagradAttributes{1e-8, 0.1}), 1, false},
          {"ftrl", PrintAttributes(FtrlAttributes{0.1, 0.2, 1}), 2, false},
          {"sgd", PrintAttributes(SgdAttributes{0, 0.1, false}), 0, true, true},
          {"sgd", PrintAttributes(SgdAttributes{0.9, 0.1, false}), 1, true, true},
          {"sgd", PrintAttributes(SgdAttributes{0.9, 0.1, true}), 1, true, true}};
}

struct Setting {
  int64_t n, width;
  int threads;
  Isa isa;
  std::string ToString() const {
    return absl::StrCat(n, " x ", width, ", ", threads, " threads, level ", static_cast<int>(isa));
  }
};
std::vector<Isa> Levels() {
  std::vector<Isa> levels = {Isa::kV3};
  if (Runs(Isa::kV4)) levels.push_back(Isa::kV4);
  return levels;
}
std::vector<Setting> Settings() {
  std::vector<Setting> all;
  for (const int64_t n : {1, 100, 5000, 70000}) {
    for (const int64_t width : {1, 3, 16, 40}) {
      for (const int threads : {1, 3}) {
        for (const Isa isa : Levels()) all.push_back({n, width, threads, isa});
      }
    }
  }
  return all;
}

// A variable, its states, and what an update reads; rows that several values name are added in
// order, as they are by the dense update that the sparse one is held against.
class RuleTest {
 public:
  RuleTest(const Rule& rule, const Setting& setting)
      : rule_(rule),
        setting_(setting),
        ids_(Ids(setting.n)),
        sorted_(Sorted(ids_)),
        values_(Values(setting.n * setting.width, 3)) {
    for (int i = 0; i <= rule.states; ++i) tables_.push_back(Values(kHeld * setting.width, 11 + i));
  }

  // What the dense update makes of the tables, of rows that are named alone.
  std::vector<std::vector<float>> Expected() {
    const ScopedIsa level(Isa::kV3);
    const int64_t width = setting_.width;
    std::vector<float> gradient(kHeld * width);
    std::vector<bool> named(kHeld);
    for (int64_t i = 0; i < setting_.n; ++i) {
      if (!IsHeld(ids_[i])) continue;
      const int64_t row = ids_[i] - kFirst;
      for (int64_t e = 0; e < width; ++e) {
        float& sum = gradient[row * width + e];
        sum = named[row] ? sum + values_[i * width + e] : values_[i * width + e];
      }
      named[row] = true;
    }
    std::vector<std::vector<float>> made = tables_;
    std::vector<Operand> tables;
    for (std::vector<float>& table : made) tables.push_back(Of(table, {kHeld, width}));
    const std::vector<Operand> inputs = Inputs(tables, {Of(gradient, {kHeld, width})});
    EXPECT_EQ(RunOp(rule_.op, rule_.attributes, inputs, {}, 1), absl::OkStatus());
    for (size_t t = 0; t < made.size(); ++t) {
      for (int64_t e = 0; e < kHeld * width; ++e) {
        if (!named[e / width]) made[t][e] = tables_[t][e];
      }
    }
    return made;
  }

  // The tables behind the sparse update in place; with `rows` behind the one that gives rows.
  std::vector<std::vector<float>> Made(std::vector<float>* rows) {
    const ScopedIsa level(setting_.isa);
    const Shape shape = {setting_.n, setting_.width};
    std::vector<std::vector<float>> made = tables_;
    std::vector<Operand> tables, outputs;
    for (std::vector<float>& table : made) {
      tables.push_back({Middle(setting_.width), table.data()});
    }
    const std::vector<Operand> inputs = Inputs(tables, {Of(sorted_), Of(values_, shape)});
    if (rows != nullptr) {
      rows->assign(setting_.n * setting_.width, 5);
      outputs.push_back(Of(*rows, shape));
    }
    const std::string op = absl::StrCat(rule_.op, "_sparse", rows == nullptr ? "" : "_value");
    EXPECT_EQ(RunOp(op, rule_.attributes, inputs, outputs, setting_.threads), absl::OkStatus());
    return made;
  }

  const std::vector<int32_t>& ids() const { return ids_; }
  const std::vector<std::vector<float>>& tables() const { return tables_; }

 private:
  // In the order of the op's operands.
  std::vector<Operand> Inputs(const std::vector<Operand>& tables,
                              const std::vector<Operand>& gradient) {
    const auto states = tables.begin() + 1;
    std::vector<Operand> inputs = {tables[0]};
    if (!rule_.states_last) inputs.insert(inputs.end(), states, tables.end());
    inputs.insert(inputs.end(), gradient.begin(), gradient.end());
    inputs.push_back(Of(factor_, {}));
    inputs.push_back(Of(rate_, {}));
    if (rule_.reads_step) inputs.push_back({Shard::Whole(DType::kI32, {}), &step_});
    if (rule_.states_last) inputs.insert(inputs.end(), states, tables.end());
    return inputs;
  }

  const Rule rule_;
  const Setting setting_;
  std::vector<int32_t> ids_;
  std::vector<uint64_t> sorted_;
  std::vector<float> values_, factor_ = {0.5f}, rate_ = {0.01f};
  int32_t step_ = 3;
  std::vector<std::vector<float>> tables_;
};

bool SameBits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

TEST(RowsTest, ASparseUpdateIsTheDenseOneOfTheRowsThatAreNamed) {
  for (const Rule& rule : Rules()) {
    for (const Setting& setting : Settings()) {
      RuleTest test(rule, setting);
      const std::vector<std::vector<float>> expected = test.Expected(), made = test.Made(nullptr);
      for (size_t t = 0; t < expected.size(); ++t) {
        EXPECT_TRUE(SameBits(made[t].data(), expected[t].data(), kHeld * setting.width))
            << rule.op << ", operand " << t << ", " << setting.ToString();
      }
    }
  }
}

TEST(RowsTest, TheFormThatGivesRowsLeavesTheTable) {
  for (const Rule& rule : Rules()) {
    for (const Setting& setting : Settings()) {
      RuleTest test(rule, setting);
      const std::string where = absl::StrCat(rule.op, ", ", setting.ToString());
      std::vector<std::vector<float>> expected = test.Expected();
      std::vector<float> rows;
      const std::vector<std::vector<float>> made = test.Made(&rows);
      EXPECT_EQ(made[0], test.tables()[0]) << where;
      for (size_t t = 1; t < made.size(); ++t) EXPECT_EQ(made[t], expected[t]) << where;
      const std::vector<float> absent(setting.width, -0.0f);
      for (int64_t i = 0; i < setting.n; ++i) {
        const int32_t id = test.ids()[i];
        const float* row =
            IsHeld(id) ? expected[0].data() + (id - kFirst) * setting.width : absent.data();
        ASSERT_TRUE(SameBits(rows.data() + i * setting.width, row, setting.width))
            << where << ", row " << i;
      }
    }
  }
}

TEST(RowsTest, SquaresOfRowsAreThoseOfTheirSums) {
  for (const Setting& setting : Settings()) {
    std::vector<int32_t> ids = Ids(setting.n);
    std::vector<float> values = Values(setting.n * setting.width, 3);
    std::vector<float> sums(kHeld * setting.width);
    for (int64_t i = 0; i < setting.n * setting.width; ++i) {
      const int32_t id = ids[i / setting.width];
      if (IsHeld(id)) sums[(id - kFirst) * setting.width + i % setting.width] += values[i];
    }
    double expected = 0;
    for (const float sum : sums) expected += static_cast<double>(sum) * sum;
    std::vector<uint64_t> sorted = Sorted(ids);
    std::vector<float> made(1), by_one(1);
    const auto run = [&](int threads, std::vector<float>* to) {
      EXPECT_EQ(RunOp("sum_squares_sparse", "",
                      {{Middle(setting.width), nullptr},
                       Of(sorted),
                       Of(values, {setting.n, setting.width})},
                      {Of(*to, {})}, threads),
                absl::OkStatus());
    };
    {
      const ScopedIsa level(setting.isa);
      run(setting.threads, &made);
    }
    run(1, &by_one);
    EXPECT_NEAR(made[0], expected, 1e-7 * expected) << setting.ToString();
    EXPECT_EQ(made, by_one) << setting.ToString();
  }
}

TEST(RowsTest, IdsAreSortedWithTheirPlaces) {
  for (const int64_t n : {1, 511, 512, 5000, 70000}) {
    // As many digits as ids of tables of these sizes have.
    for (const int32_t limit : {2, 3000, 1 << 21, 1 << 30}) {
      for (const int threads : {1, 3}) {
        std::vector<int32_t> ids(n);
        uint32_t seed = 5;
        for (int32_t& id : ids) id = static_cast<int32_t>(Next(&seed) * 97 % ((limit + 1) / 2));
        ids.back() = limit - 1;  // alone has the highest bit
        std::vector<uint64_t> made(n);
        ASSERT_EQ(RunOp("sort_ids", "", {{Shard::Whole(DType::kI32, {n}), ids.data()}}, {Of(made)},
                        threads),
                  absl::OkStatus());
        EXPECT_EQ(made, Sorted(ids)) << n << " below " << limit << ", " << threads << " threads";
      }
    }
  }
}

TEST(RowsTest, EntriesThatNoSortGivesAreRefused) {
  std::vector<float> table = Values(kHeld, 3), values = Values(5000, 3), y(1);
  const auto message = [&](Isa isa, const Shard& shard, int64_t at, uint64_t entry) {
    const ScopedIsa level(isa);
    std::vector<uint64_t> entries = Sorted(Ids(5000));
    entries[at] = entry;
    return std::string(RunOp("sum_squares_sparse", "",
                             {{shard, table.data()}, Of(entries), Of(values, {5000, 1})},
                             {Of(y, {})}, 2)
                           .message());
  };
  // More rows than ids can name.
  Shard vast = Middle(1);
  vast.logical = {int64_t{1} << 33, 1};
  for (const Isa isa : Levels()) {
    const auto refused = [&](int64_t at, uint64_t entry) {
      return message(isa, Middle(1), at, entry);
    };
    EXPECT_EQ(refused(4999, uint64_t{kRows} << 32 | 17),
              "sum_squares_sparse: expected ids in [0, 3000), got 3000 in row 17");
    EXPECT_EQ(refused(7, ~uint64_t{0} << 32 | 17),
              "sum_squares_sparse: expected ids in [0, 3000), got -1 in row 17");
    EXPECT_EQ(message(isa, vast, 4999, ~uint64_t{0} << 32 | 17),
              "sum_squares_sparse: expected ids in [0, 8589934592), got -1 in row 17");
    EXPECT_EQ(refused(0, 5000),
              "sum_squares_sparse: expected places in [0, 5000), got 5000 in entry 0");
    EXPECT_EQ(refused(4999, uint64_t{2999} << 32 | 5001),
              "sum_squares_sparse: expected places in [0, 5000), got 5001 in entry 4999");
    EXPECT_THAT(refused(3000, 5),
                testing::HasSubstr("expected sorted ids, got id 0 of row 5 behind"));
  }
}

TEST(RowsTest, ALookupGivesTheRowsThatAShardHas) {
  for (const Setting& setting : Settings()) {
    std::vector<int32_t> ids = Ids(setting.n);
    std::vector<float> table = Values(kHeld * setting.width, 3);
    std::vector<float> made(setting.n * setting.width, 5);
    const Shape shape = {setting.n, setting.width};
    ASSERT_EQ(RunOp("embedding", "",
                    {{Middle(setting.width), table.data()},
                     {Shard::Whole(DType::kI32, {setting.n}), ids.data()}},
                    {Of(made, shape)}, setting.threads),
              absl::OkStatus());
    const std::vector<float> absent(setting.width);
    for (int64_t i = 0; i < setting.n; ++i) {
      const float* row =
          IsHeld(ids[i]) ? table.data() + (ids[i] - kFirst) * setting.width : absent.data();
      ASSERT_TRUE(SameBits(made.data() + i * setting.width, row, setting.width))
          << setting.ToString() << ", row " << i;
    }
  }
}

// Groups have as many ids each, which count from the group's first row.
TEST(RowsTest, ALookupInGroupsOfTables) {
  constexpr int64_t kGroups = 3, kOfGroup = 40, kWidth = 5;
  std::vector<float> table = Values(kGroups * 7 * kWidth, 3), made(kGroups * kOfGroup * kWidth);
  std::vector<int32_t> ids = Ids(kGroups * kOfGroup);
  for (int32_t& id : ids) id %= 7;
  ASSERT_EQ(RunOp("embedding", "",
                  {Of(table, {kGroups, 7, kWidth}),
                   {Shard::Whole(DType::kI32, {kGroups, kOfGroup}), ids.data()}},
                  {Of(made, {kGroups, kOfGroup, kWidth})}, 2),
            absl::OkStatus());
  for (int64_t i = 0; i < kGroups * kOfGroup; ++i) {
    EXPECT_TRUE(SameBits(made.data() + i * kWidth,
                         table.data() + (i / kOfGroup * 7 + ids[i]) * kWidth, kWidth))
        << "row " << i;
  }
}

TEST(RowsTest, AnIdOutsideOfTheTableIsNamedWithItsPlace) {
  for (const int32_t wrong : {-1, static_cast<int32_t>(kRows)}) {
    for (const int64_t place : {0, 15, 16, 99}) {
      std::vector<int32_t> ids = Ids(100);
      ids[place] = wrong;
      std::vector<float> table = Values(kHeld, 3), made(100);
      EXPECT_EQ(
          RunOp("embedding", "",
                {{Middle(1), table.data()}, {Shard::Whole(DType::kI32, {100}), ids.data()}},
                {Of(made, {100, 1})}, 1)
              .message(),
          absl::StrCat("embedding: expected ids in [0, 3000), got ", wrong, " in row ", place));
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
