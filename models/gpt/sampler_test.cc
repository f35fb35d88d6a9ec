#include "models/gpt/sampler.h"

#include <cmath>
#include <map>

#include "framework/testing/fake_session.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A model that is nearly sure that each token is followed by the next one, and knows a sequence by
// its sum. What decode may go on with is what was fed last.
class CountingSession : public FakeSession {
 public:
  explicit CountingSession(int64_t length) : length_(length) {}
  absl::Status Step(absl::string_view program, const Feeds& feeds) override {
    int32_t token = 0;
    const int32_t place = *feeds[1].second.tensor->data<int32_t>();
    const HostTensor& tokens = *feeds[0].second.tensor;
    if (program == "decode") {
      EXPECT_EQ(tokens.shape, (Shape{1, 1}));
      EXPECT_EQ(place, kept_);
      token = *tokens.data<int32_t>();
      ++decoded;
    } else {
      EXPECT_EQ(program, "prefill");
      EXPECT_EQ(tokens.shape, (Shape{1, length_}));
      token = tokens.data<int32_t>()[place];
      for (int64_t i = place + 1; i < length_; ++i) EXPECT_EQ(tokens.data<int32_t>()[i], 0);
      ++prefilled;
    }
    EXPECT_LT(place, length_);
    kept_ = place + 1;
    logits_ = HostTensor(DType::kF32, {1, 256});
    logits_.data<float>()[(token + 1) % 256] = 100;
    return absl::OkStatus();
  }
  absl::Status Next(Fetches* fetches) override {
    *fetches = {{"logits", logits_}};
    return absl::OkStatus();
  }
  int decoded = 0, prefilled = 0;

 private:
  const int64_t length_;
  int32_t kept_ = 0;
  HostTensor logits_;
};

// As many passes over a whole sequence as there have to be: one for a prompt, and one a token once
// the sequence is longer than the model.
TEST(SamplerTest, ReadsTheLastTokensAndGoesOn) {
  SampleOptions options;
  options.sequence_length = 6;
  options.length = 5;
  struct Case {
    std::vector<int32_t> prompt;
    int decoded, prefilled;
  };
  for (const Case& c : {Case{{9}, 5, 0}, Case{{7, 8, 9}, 3, 2}, Case{{4, 5, 6, 7, 8, 9}, 0, 5},
                        Case{{1, 1, 1, 1, 1, 7, 8, 9}, 0, 5}}) {
    CountingSession session(6);
    const auto written = SampleTokens(&session, c.prompt, options);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, (std::vector<int32_t>{10, 11, 12, 13, 14})) << c.prompt.size();
    EXPECT_EQ(session.decoded, c.decoded) << c.prompt.size();
    EXPECT_EQ(session.prefilled, c.prefilled) << c.prompt.size();
  }
  CountingSession session(6);
  EXPECT_FALSE(SampleTokens(&session, {}, options).ok());
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
