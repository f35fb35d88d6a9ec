// Text that is written with keys and values kept from step to step is the text that a whole forward
// pass for each token writes, on any mesh, as long as it fits the model and behind that.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/session/session.h"
#include "framework/tensor/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/gpt/sampler.h"

namespace sluice {
namespace {

constexpr int64_t kLength = 12;

// Uneven for the meshes below: 61 tokens, 4 heads on 3 devices.
GptConfig Small() {
  return {.vocabulary = 61,
          .sequence_length = kLength,
          .layers = 4,
          .heads = 4,
          .hidden = 24,
          .batch = 4,
          .dropout = 0};
}

struct Programs {
  Graph train, eval, decode, prefill;
  std::vector<ProgramGraph> of_training, all;
};

std::unique_ptr<Programs> BuildPrograms(const GptConfig& config) {
  auto made = std::make_unique<Programs>();
  EXPECT_EQ(BuildGptTrain(config, OptimizerOptions(), &made->train), absl::OkStatus());
  EXPECT_EQ(BuildGptEval(config, &made->eval), absl::OkStatus());
  EXPECT_EQ(BuildGptDecode(config, &made->decode), absl::OkStatus());
  EXPECT_EQ(BuildGptPrefill(config, &made->prefill), absl::OkStatus());
  made->of_training = {{"train", &made->train}, {"eval", &made->eval}};
  made->all = made->of_training;
  made->all.push_back({"decode", &made->decode});
  made->all.push_back({"prefill", &made->prefill});
  return made;
}

// Weights as they begin hardly tell one place from another: every key is seen alike. So they are
// drawn anew, larger, and biases too.
std::unique_ptr<Session> StartOn(const std::string& mesh, const GptConfig& config,
                                 int64_t micro_batches = 1) {
  const auto programs = BuildPrograms(config);
  SessionOptions options;
  options.mesh = mesh;
  options.micro_batches = micro_batches;
  auto session = Session::Start(programs->all, options);
  EXPECT_EQ(session.status(), absl::OkStatus()) << mesh;
  if (!session.ok()) return nullptr;
  for (const VariableInfo& variable : (*session)->variables()) {
    const bool norm = absl::StrContains(variable.name, "norm");
    if (norm || absl::EndsWith(variable.name, ".m") || absl::EndsWith(variable.name, ".v")) {
      continue;
    }
    HostTensor value(variable.dtype, variable.shape);
    const int64_t key = RandomKey(variable.name);
    for (int64_t i = 0; i < variable.shape.NumElements(); ++i) {
      value.data<float>()[i] = static_cast<float>(0.4 * RandomNormal(1, key, i));
    }
    EXPECT_EQ((*session)->Write(variable.name, value), absl::OkStatus());
  }
  return *std::move(session);
}

absl::StatusOr<std::vector<double>> RowOf(Session* session) {
  ASSIGN_OR_RETURN(const Fetches fetches, session->Next());
  const HostTensor& logits = fetches.at("logits");
  EXPECT_EQ(logits.shape, (Shape{1, Small().vocabulary}));
  return std::vector<double>(logits.data<float>(),
                             logits.data<float>() + logits.shape.NumElements());
}

// Of a whole forward pass over the end of a sequence.
absl::StatusOr<std::vector<double>> WholeLogits(Session* session,
                                                const std::vector<int32_t>& sequence) {
  HostTensor tokens(DType::kI32, {1, kLength}), last(DType::kI32, {1});
  const int64_t size = static_cast<int64_t>(sequence.size()), seen = std::min(size, kLength);
  // What stands behind the last token is of no effect: there is something.
  for (int64_t i = 0; i < kLength; ++i) {
    tokens.data<int32_t>()[i] = i < seen ? sequence[size - seen + i] : 60;
  }
  last.data<int32_t>()[0] = static_cast<int32_t>(seen - 1);
  RETURN_IF_ERROR(session->Step("prefill", {{"tokens", &tokens}, {"last", &last}}));
  return RowOf(session);
}

// After each token of a sequence, by decode.
std::vector<std::vector<double>> DecodedLogits(Session* session,
                                               const std::vector<int32_t>& sequence) {
  std::vector<std::vector<double>> rows;
  HostTensor token(DType::kI32, {1, 1}), position(DType::kI32, {1});
  for (size_t i = 0; i < sequence.size(); ++i) {
    token.data<int32_t>()[0] = sequence[i];
    position.data<int32_t>()[0] = static_cast<int32_t>(i);
    EXPECT_EQ(session->Step("decode", {{"token", &token}, {"position", &position}}),
              absl::OkStatus());
    const auto row = RowOf(session);
    EXPECT_EQ(row.status(), absl::OkStatus());
    rows.push_back(row.ok() ? *row : std::vector<double>(Small().vocabulary));
  }
  return rows;
}

// Of the largest that is wanted.
double DifferenceOf(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = 0, difference = 0;
  for (size_t t = 0; t < want.size(); ++t) {
    largest = std::max(largest, std::fabs(want[t]));
    difference = std::max(difference, std::fabs(got[t] - want[t]));
  }
  EXPECT_GT(largest, 0.5);
  return difference / largest;
}

// Without caches: each token by a whole pass.
std::vector<int32_t> WrittenByWholePasses(Session* session, std::vector<int32_t> sequence,
                                          const SampleOptions& options) {
  const size_t prompt = sequence.size();
  for (int64_t i = 0; i < options.length; ++i) {
    const auto logits = WholeLogits(session, sequence);
    EXPECT_EQ(logits.status(), absl::OkStatus());
    if (!logits.ok()) break;
    const double uniform = RandomWord(options.seed, RandomKey("draw"), 0, i) / 4294967296.0;
    sequence.push_back(DrawToken(*logits, options.temperature, options.top, uniform));
  }
  return {sequence.begin() + static_cast<int64_t>(prompt), sequence.end()};
}

SampleOptions Options(double temperature, uint64_t seed) {
  SampleOptions options;
  options.length = 2 * kLength;
  options.temperature = temperature;
  options.seed = seed;
  options.sequence_length = kLength;
  return options;
}

std::vector<int32_t> Prompt(int64_t size) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < size; ++i) prompt.push_back(static_cast<int32_t>(i * 17 % 61));
  return prompt;
}

class DecodeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DecodeTest, WritesWhatWholePassesWrite) {
  const auto alone = StartOn("data=1", Small()), session = StartOn(GetParam(), Small());
  ASSERT_TRUE(alone && session);
  // Of one token, of some, as long as the model, longer; text goes past its length.
  for (const int64_t size : {int64_t{1}, int64_t{5}, kLength, kLength + 3}) {
    for (const double temperature : {0.0, 0.8}) {
      for (const uint64_t seed : {1, 2}) {
        const SampleOptions options = Options(temperature, seed);
        const auto written = SampleTokens(session.get(), Prompt(size), options);
        ASSERT_TRUE(written.ok()) << written.status();
        EXPECT_EQ(*written, WrittenByWholePasses(alone.get(), Prompt(size), options))
            << "prompt of " << size << ", temperature " << temperature << ", seed " << seed;
      }
    }
  }
}

TEST_P(DecodeTest, LogitsAreThoseOfWholePasses) {
  const auto alone = StartOn("data=1", Small()), session = StartOn(GetParam(), Small());
  ASSERT_TRUE(alone && session);
  const std::vector<int32_t> sequence = Prompt(kLength);
  const auto decoded = DecodedLogits(session.get(), sequence);
  for (int64_t i = 0; i < kLength; ++i) {
    const auto want = WholeLogits(alone.get(), {sequence.begin(), sequence.begin() + i + 1});
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_LE(DifferenceOf(decoded[i], *want), 2e-5) << "place " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, DecodeTest,
                         ::testing::Values("data=1", "data=2", "model=2", "model=3", "pipe=2",
                                           "data=2 model=2 pipe=2", "model=2 @async"));

// In bf16 what a step keeps has been rounded as what a whole pass makes of it.
TEST(DecodePrecisionTest, LogitsInBf16AreThoseOfWholePasses) {
  GptConfig config = Small();
  config.precision.compute = DType::kBF16;
  const auto session = StartOn("model=2", config);
  ASSERT_TRUE(session);
  const std::vector<int32_t> sequence = Prompt(kLength);
  const auto decoded = DecodedLogits(session.get(), sequence);
  for (int64_t i = 0; i < kLength; ++i) {
    const auto want = WholeLogits(session.get(), {sequence.begin(), sequence.begin() + i + 1});
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_LE(DifferenceOf(decoded[i], *want), 0.03) << "place " << i;
  }
}

// A step of another program in between ends what decode could go on with, and not what it begins.
TEST(DecodeCacheTest, TextBeginsAnewAfterOtherPrograms) {
  const auto session = StartOn("data=2", Small(), /*micro_batches=*/2);
  ASSERT_TRUE(session);
  const SampleOptions options = Options(0.8, 3);
  const auto before = SampleTokens(session.get(), Prompt(4), options);
  HostTensor tokens(DType::kI32, {4, kLength});
  std::fill_n(tokens.data<int32_t>(), tokens.shape.NumElements(), 7);
  HostTensor weights(DType::kF32, {4, kLength});
  ASSERT_EQ(
      session->Step("eval", {{"tokens", &tokens}, {"labels", &tokens}, {"weights", &weights}}),
      absl::OkStatus());
  ASSERT_TRUE(session->Next().ok());
  const auto after = SampleTokens(session.get(), Prompt(4), options);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(*after, *before);
}

// Caches are no variables, so no checkpoint has them, and they lie where training has activations.
TEST(DecodeCacheTest, TrainingPaysNothingForCaches) {
  GptConfig config = Small();
  const auto programs = BuildPrograms(config);
  for (const char* mesh : {"data=1", "data=2 model=2", "pipe=2"}) {
    CompileOptions options;
    options.mesh = *Mesh::Parse(mesh);
    const auto without = CompilePlan(programs->of_training, options);
    const auto with = CompilePlan(programs->all, options);
    ASSERT_TRUE(without.ok() && with.ok()) << without.status() << with.status();
    ASSERT_EQ(with->variables_size(), without->variables_size());
    for (int d = 0; d < with->devices_size(); ++d) {
      EXPECT_EQ(with->devices(d).variable_bytes(), without->devices(d).variable_bytes());
      EXPECT_EQ(with->devices(d).memory_bytes(), without->devices(d).memory_bytes()) << mesh;
    }
    int64_t caches = 0;
    for (const plan::Register& reg : with->programs(2).registers()) {
      if (!absl::EndsWith(reg.name(), "/keys") && !absl::EndsWith(reg.name(), "/values")) continue;
      EXPECT_GE(reg.slot_offsets(0), with->devices(reg.device()).variable_bytes());
      ++caches;
    }
    EXPECT_GE(caches, 2 * config.layers);
  }
  const auto session = StartOn("data=1", config);
  for (const VariableInfo& variable : session->variables()) {
    EXPECT_FALSE(absl::EndsWith(variable.name, "/keys")) << variable.name;
  }
  EXPECT_TRUE(absl::IsNotFound(session->Read("h0/attn/keys").status()));
}

TEST(DecodeCacheTest, APlaceBehindTheModelIsRefused) {
  const auto session = StartOn("data=1", Small());
  HostTensor token(DType::kI32, {1, 1}), position(DType::kI32, {1});
  position.data<int32_t>()[0] = kLength;
  absl::Status status = session->Step("decode", {{"token", &token}, {"position", &position}});
  if (status.ok()) status = session->Next().status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
}

}  // namespace
}  // namespace sluice
