#include "models/gpt/sampler.h"

#include <cmath>
#include <map>

#include "framework/testing/fake_session.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A model that is nearly sure that each byte is followed by the next one.
class CountingSession : public FakeSession {
 public:
  explicit CountingSession(int64_t length) : length_(length) {}
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    EXPECT_EQ(program, "sample");
    const HostTensor& tokens = *feeds[0].second.tensor;
    EXPECT_EQ(tokens.shape, (Shape{1, length_}));
    logits_ = HostTensor(DType::kF32, {1, length_, 256});
    for (int64_t i = 0; i < length_; ++i) {
      logits_.data<float>()[i * 256 + (tokens.data<int32_t>()[i] + 1) % 256] = 100;
    }
    return absl::OkStatus();
  }
  absl::Status Next(Fetches* fetches) override {
    *fetches = {{"logits", logits_}};
    return absl::OkStatus();
  }

 private:
  int64_t length_;
  HostTensor logits_;
};

TEST(SamplerTest, ReadsTheLastBytesAndGoesOn) {
  CountingSession session(4);
  SampleOptions options;
  options.sequence_length = 4;
  options.length = 6;
  for (const char* prompt : {"c", "abc", "zabc", "xyzabc"}) {  // shorter and longer than the model
    options.prompt = prompt;
    EXPECT_EQ(*SampleText(&session, options), "defghi") << prompt;
  }
  options.prompt = "";
  EXPECT_FALSE(SampleText(&session, options).ok());
}

TEST(SamplerTest, DrawsFollowTheDistribution) {
  const std::vector<double> logits = {0, std::log(3.0), -1e9, std::log(4.0)};
  auto count = [&](double temperature, int top) {
    std::map<int, int> counts;
    for (int i = 0; i < 800; ++i) ++counts[DrawToken(logits, temperature, top, (i + 0.5) / 800)];
    return counts;
  };
  EXPECT_EQ(count(1, 0), (std::map<int, int>{{0, 100}, {1, 300}, {3, 400}}));
  EXPECT_EQ(count(0.5, 2), (std::map<int, int>{{1, 288}, {3, 512}}));  // squares: 9 to 16
  EXPECT_EQ(count(0, 0), (std::map<int, int>{{3, 800}}));
}

}  // namespace
}  // namespace sluice
