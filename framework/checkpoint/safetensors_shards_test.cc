#include "framework/checkpoint/safetensors_shards.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// As save_pretrained of transformers 5.24.0 writes it, but that this one has fewer tensors.
constexpr absl::string_view kTheirs = R"({
  "metadata": {
    "total_parameters": 3792,
    "total_size": 15168
  },
  "weight_map": {
    "transformer.wpe.weight": "model-00002-of-00002.safetensors",
    "transformer.wte.weight": "model-00001-of-00002.safetensors"
  }
}
)";

TEST(SafetensorsShardsTest, ReadsAndWritesTheIndexOfTransformers) {
  const auto files = ParseShardIndex(kTheirs, "index");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files,
              ElementsAre(Pair("transformer.wpe.weight", "model-00002-of-00002.safetensors"),
                          Pair("transformer.wte.weight", "model-00001-of-00002.safetensors")));
  EXPECT_EQ(PrintShardIndex(*files, 3792, 15168), kTheirs);
}

TEST(SafetensorsShardsTest, AnIndexThatIsNoneIsRefused) {
  const auto error = [](absl::string_view text) {
    return std::string(ParseShardIndex(text, "dir/index").status().message());
  };
  EXPECT_THAT(error("{"), HasSubstr("dir/index: expected a JSON object"));
  EXPECT_EQ(error("{}"),
            "dir/index: expected an object weight_map, of tensors and their files, got none");
  EXPECT_THAT(error(R"({"weight_map": ["a"]})"), HasSubstr("files, got [\"a\"]"));
  EXPECT_EQ(error(R"({"weight_map": {}})"), "dir/index: weight_map: expected tensors, got none");
  // It may come from anywhere, and is not to have other files read.
  for (const char* bad :
       {"1", "\"\"", "\"..\"", "\"../a\"", "\"/etc/passwd\"", "\"a/b\"", "null", "\"a\\u0000b\""}) {
    EXPECT_EQ(
        error(absl::StrCat(R"({"weight_map": {"wte": )", bad, "}}")),
        absl::StrCat("dir/index: weight_map: wte: expected the name of a file beside this one, "
                     "got ",
                     bad));
  }
}

TEST(SafetensorsShardsTest, ShardsHoldAsMuchAsFitsAndAtLeastOneTensor) {
  const auto of = [](int64_t elements) {
    return TensorEntry{absl::StrCat("t", elements), DType::kF32, {elements}};
  };
  const std::vector<TensorEntry> tensors = {of(10), of(5), of(1), of(40), of(0), of(3)};
  EXPECT_THAT(CutIntoShards(tensors, 60),
              ElementsAre(Range{0, 2}, Range{2, 3}, Range{3, 4}, Range{4, 6}));
  EXPECT_THAT(CutIntoShards(tensors, 64), ElementsAre(Range{0, 3}, Range{3, 4}, Range{4, 6}));
  EXPECT_THAT(CutIntoShards(tensors, 236), ElementsAre(Range{0, 6}));
  EXPECT_THAT(CutIntoShards(tensors, 235), ElementsAre(Range{0, 5}, Range{5, 6}));
}

TEST(SafetensorsShardsTest, NamesAreThoseOfTheHub) {
  EXPECT_EQ(ShardFile(0, 3), "model-00001-of-00003.safetensors");
  EXPECT_EQ(ShardFile(122, 123456), "model-00123-of-123456.safetensors");
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "model-00001-of-00003.safetensors"}) {
    EXPECT_TRUE(IsWeightsFile(name)) << name;
  }
  for (const char* name : {"config.json", "model-of-00003.safetensors",
                           "model-1-of-2.safetensors.tmp", "model-00001-of-00003",
                           "my-model-00001-of-00003.safetensors", "model-1-of-x.safetensors"}) {
    EXPECT_FALSE(IsWeightsFile(name)) << name;
  }
}

}  // namespace
}  // namespace sluice
