#include "framework/attributes/attributes.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view text, Attributes into) {
  const Attributes before = into;
  const absl::Status status = ParseAttributesInto(text, &into);
  EXPECT_FALSE(status.ok()) << text;
  EXPECT_EQ(PrintAttributes(into), PrintAttributes(before)) << "changed by a failed parse";
  return std::string(status.message());
}

TEST(Attributes, DefaultsAreLeftOut) {
  EXPECT_EQ(PrintAttributes(NoAttributes{}), "");
  EXPECT_EQ(PrintAttributes(MatMulAttributes{}), "");
  EXPECT_EQ(PrintAttributes(MatMulAttributes{false, true}), "transpose_b=true");
  EXPECT_EQ(PrintAttributes(SliceAttributes{1, 0, 4, 0}), "dim=1 end=4");
}

TEST(Attributes, EveryFieldTypeGoesThereAndBack) {
  const FillAttributes fill{-0.1, Shape{2, 3}, DType::kBF16};
  EXPECT_EQ(PrintAttributes(fill), "value=-0.1 shape=[2,3] dtype=bf16");
  const auto parsed = ParseAttributes<FillAttributes>("value=-0.1 shape=[2,3]  dtype=bf16 ");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->value, -0.1);
  EXPECT_EQ(parsed->shape, (Shape{2, 3}));
  EXPECT_EQ(parsed->dtype, DType::kBF16);

  const auto reduce = ParseAttributes<ReduceAttributes>("reduction=max mean=true dims=[0]");
  ASSERT_TRUE(reduce.ok());
  EXPECT_EQ(reduce->reduction, Reduction::kMax);
  EXPECT_TRUE(reduce->mean);
  EXPECT_EQ(PrintAttributes(*reduce), "reduction=max mean=true dims=[0]");

  const NormalizeImagesAttributes images{{0.5, -1e-3, 2}, {}};
  EXPECT_EQ(PrintAttributes(images), "mean=[0.5,-0.001,2]");
  const auto channels =
      ParseAttributes<NormalizeImagesAttributes>("mean=[] stddev=[ 0.1, 3 ,-2e-3]");
  ASSERT_TRUE(channels.ok()) << channels.status();
  EXPECT_THAT(channels->mean, ::testing::IsEmpty());
  EXPECT_THAT(channels->stddev, ::testing::ElementsAre(0.1, 3, -2e-3));
  EXPECT_THAT(ErrorOf("mean=[1,", NormalizeImagesAttributes()), HasSubstr("a number"));
  EXPECT_THAT(ErrorOf("mean=[1 2]", NormalizeImagesAttributes()), HasSubstr("expected \"]\""));

  VariableAttributes odd;
  odd.init = "two words \"and\" quotes\\ =";
  const auto back = ParseAttributes<VariableAttributes>(PrintAttributes(odd));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->init, odd.init);
}

TEST(Attributes, NumbersKeepTheirBits) {
  for (double value :
       {0.1, 1.0 / 3, 1e-8, 5e-324, -0.0, 1.7976931348623157e308, 0.1 + 0.2,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    const std::string text = PrintAttributes(ScaleAttributes{value});
    const auto back = ParseAttributes<ScaleAttributes>(text);
    ASSERT_TRUE(back.ok()) << text;
    EXPECT_EQ(std::memcmp(&back->factor, &value, sizeof(value)), 0) << text;
  }
  EXPECT_EQ(PrintAttributes(ScaleAttributes{0.1}), "factor=0.1");
  EXPECT_TRUE(std::isnan(ParseAttributes<ScaleAttributes>("factor=nan")->factor));
  EXPECT_EQ(ParseAttributes<DropoutAttributes>("key=4611686018427387903")->key,
            4611686018427387903);
}

TEST(Attributes, PresentValuesStay) {
  Attributes attributes = AdamWAttributes{0.5, 0.6, 0.7, 0.8};
  ASSERT_TRUE(ParseAttributesInto("beta2=0.99", &attributes).ok());
  EXPECT_EQ(std::get<AdamWAttributes>(attributes).beta1, 0.5);
  EXPECT_EQ(std::get<AdamWAttributes>(attributes).beta2, 0.99);
}

TEST(Attributes, ErrorsNameTheFieldAndWhatWasExpected) {
  EXPECT_THAT(ErrorOf("transpos_b=true", MatMulAttributes{}),
              HasSubstr("no attribute \"transpos_b\" here, it takes transpose_a, transpose_b; did "
                        "you mean \"transpose_b\"?"));
  EXPECT_THAT(ErrorOf("transpose_a=yes", MatMulAttributes{}),
              HasSubstr("transpose_a: attributes:1:13: expected true or false, got \"yes\""));
  EXPECT_THAT(ErrorOf("beta1=0.5 beta1=0.6", AdamWAttributes{}), HasSubstr("1:11: beta1 is given"));
  EXPECT_THAT(ErrorOf("dims=[0 mean=true", ReduceAttributes{}), HasSubstr("expected \"]\""));
  EXPECT_THAT(ErrorOf("dims=[0,]", ReduceAttributes{}), HasSubstr("an extent"));
  EXPECT_THAT(ErrorOf("reduction=mean", ReduceAttributes{}), HasSubstr("sum, max or min"));
  EXPECT_THAT(ErrorOf("dtype=f16", CastAttributes{}), HasSubstr("got \"f16\""));
  EXPECT_THAT(ErrorOf("dim=1.5", ConcatAttributes{}), HasSubstr("an integer"));
  EXPECT_THAT(ErrorOf("dim", ConcatAttributes{}), HasSubstr("expected \"=\""));
  EXPECT_THAT(ErrorOf("x=1", NoAttributes{}), HasSubstr("no attribute \"x\" here, it takes none"));
  EXPECT_THAT(ErrorOf("init=\"open", VariableAttributes{}), HasSubstr("closing quote"));
}

}  // namespace
}  // namespace sluice
