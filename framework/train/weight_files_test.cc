#include "framework/train/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Tensors of one element by name.
using Values = std::map<std::string, float>;

class WeightFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/weight_files_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string WriteTensors(const std::string& name, const Values& values) {
    std::vector<TensorEntry> entries;
    for (const auto& [tensor, value] : values) entries.push_back({tensor, DType::kF32, {1}});
    const auto source = [&values](const TensorEntry& entry) {
      HostTensor tensor(DType::kF32, {1});
      tensor.data<float>()[0] = values.at(entry.name);
      return tensor;
    };
    const std::string path = absl::StrCat(folder_, "/", name);
    EXPECT_EQ(WriteSafetensors(path, entries, {}, source), absl::OkStatus());
    return path;
  }
  static Values ValuesOf(const WeightFiles& files) {
    Values values;
    for (const StoredTensor& tensor : files.tensors()) {
      const auto value = files.ReadAsF32(tensor.name);
      EXPECT_TRUE(value.ok()) << value.status();
      if (value.ok()) values[tensor.name] = value->data<float>()[0];
    }
    return values;
  }
  static std::string Error(const std::string& model) {
    return std::string(WeightFiles::Open(model).status().message());
  }
  // Opens a file of these tensors and unwraps their names.
  absl::StatusOr<WeightFiles> Unwrapped(const Values& values,
                                        const std::vector<std::string>& known) {
    auto files = WeightFiles::Open(WriteTensors("one.safetensors", values));
    if (!files.ok()) return files;
    const absl::Status status = files->Unwrap(known);
    if (!status.ok()) return status;
    return files;
  }
  std::string folder_;
};

TEST_F(WeightFilesTest, AFileAFolderAndShardsHoldTheSame) {
  const Values all = {{"a", 1}, {"b", 2}, {"c", 3}};
  const std::string file = WriteTensors(kWeightsFile, all);
  EXPECT_EQ(ValuesOf(*WeightFiles::Open(file)), all);
  EXPECT_EQ(ValuesOf(*WeightFiles::Open(folder_)), all);
  WriteTensors("x-1.safetensors", {{"a", 4}, {"c", 6}});
  WriteTensors("x-2.safetensors", {{"b", 5}});
  const std::string index = Write(
      kWeightsIndexFile,
      R"({"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors", "c": "x-1.safetensors"}})");
  // transformers takes the one file where there are both.
  EXPECT_EQ(ValuesOf(*WeightFiles::Open(folder_)), all);
  const Values sharded = {{"a", 4}, {"b", 5}, {"c", 6}};
  EXPECT_EQ(ValuesOf(*WeightFiles::Open(index)), sharded);
  fs::remove(file);
  const auto files = WeightFiles::Open(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(ValuesOf(*files), sharded);
  EXPECT_EQ(files->path(), index);
  EXPECT_EQ(files->Where("b"), folder_ + "/x-2.safetensors: b");
}

TEST_F(WeightFilesTest, AShardThatIsMissingOrAnotherIsNamed) {
  Write(kWeightsIndexFile, R"({"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}})");
  WriteTensors("x-1.safetensors", {{"a", 1}});
  EXPECT_EQ(Error(folder_), folder_ + "/x-2.safetensors: expected a shard, as " +
                                "model.safetensors.index.json names it beside 1 others, got none");
  WriteTensors("x-2.safetensors", {{"c", 1}});
  EXPECT_EQ(Error(folder_), folder_ + "/x-2.safetensors: expected a tensor b, as " +
                                "model.safetensors.index.json says, got 1 others");
  WriteTensors("x-2.safetensors", {{"a", 2}, {"b", 1}});
  EXPECT_EQ(Error(folder_), folder_ + "/x-2.safetensors: expected one tensor a, got a and " +
                                folder_ + "/x-1.safetensors: a");
  Write("x-2.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n");
  EXPECT_EQ(Error(folder_), folder_ + "/x-2.safetensors: expected safetensors, got a Git LFS " +
                                "pointer instead of the file itself; git lfs pull fetches it");
}

// DistributedDataParallel, torch.compile, FSDP and trainers put these before and between names.
TEST_F(WeightFilesTest, NamesAreThoseOfTheModel) {
  const std::vector<std::string> known = {"net.table.weight", "table.weight"};
  const Values plain = {{"table.weight", 1}, {"h.0.up.bias", 2}};
  EXPECT_EQ(ValuesOf(*Unwrapped(plain, known)), plain);
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod.",
                                   "_orig_mod.module.", "model.module.", "student.model."}) {
    const auto files =
        Unwrapped({{prefix + "table.weight", 1}, {prefix + "h.0.up.bias", 2}}, known);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(ValuesOf(*files), plain) << prefix;
    EXPECT_EQ(files->Where("h.0.up.bias"),
              absl::StrCat(folder_, "/one.safetensors: ", prefix, "h.0.up.bias"));
  }
  EXPECT_EQ(
      ValuesOf(*Unwrapped(
          {{"table.weight", 1}, {"h.0._orig_mod._checkpoint_wrapped_module.up.bias", 2}}, known)),
      plain);
  // A prefix that the model itself has stays, also where only a part of the model has it.
  EXPECT_EQ(ValuesOf(*Unwrapped({{"module.net.table.weight", 1}, {"module.head", 2}}, known)),
            (Values{{"net.table.weight", 1}, {"head", 2}}));
  EXPECT_EQ(Unwrapped({{"model.table.weight", 1}}, known)->FullName("norm"), "model.norm");
}

TEST_F(WeightFilesTest, NamesOfNoModelOrOfTwoAreRefused) {
  const auto error = [this](const Values& values) {
    return std::string(Unwrapped(values, {"table.weight"}).status().message());
  };
  EXPECT_THAT(error({{"model.embed.weight", 1}, {"lm_head.weight", 2}, {"retable.weight", 3}}),
              EndsWith("one.safetensors: expected a tensor table.weight, got 3 others such as "
                       "lm_head.weight, model.embed.weight, retable.weight"));
  EXPECT_THAT(error({{"teacher.table.weight", 1}, {"student.table.weight", 2}}),
              EndsWith("expected one model, got several: table.weight is there under \"student.\" "
                       "and \"teacher.\""));
  EXPECT_THAT(error({{"module.a", 1}, {"a", 2}, {"table.weight", 3}}),
              AllOf(HasSubstr("expected one tensor a, got "), HasSubstr("module.a")));
  EXPECT_THAT(error({{"m.table.weight", 1}, {"m.a", 2}, {"a", 3}}),
              HasSubstr("expected one tensor a, got "));
}

// The first bytes of files as their writers wrote them.
TEST_F(WeightFilesTest, OtherFilesAreNamedWithWhatConvertsThem) {
  const std::string zip("PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\n\0\x18\0", 30);
  const std::string pickle(
      "\x80\x02\x8a\nl\xfc\x9c"
      "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
      20);
  for (const std::string& torch : {zip + "z/data.pklFB\x14", pickle}) {
    const std::string path = Write("it's.pth", torch);
    EXPECT_THAT(
        Error(path),
        AllOf(StartsWith(path + ": expected safetensors, got what torch.save wrote; a Python "
                                "with torch and safetensors converts it: python3 -c 'import "
                                "sys, torch; from safetensors.torch import save_file; "),
              EndsWith(absl::StrCat("' '", folder_, "/it'\\''s.safetensors' '", folder_,
                                    "/it'\\''s.pth'"))));
  }
  for (const auto& [bytes, what] : std::map<std::string, std::string>{
           {zip + "z/mimetype", "a Zip archive; unpack it with unzip "},
           {std::string("\x89HDF\r\n\x1a\n\0", 9), "an HDF5 file, as TensorFlow and Keras"},
           {std::string("GGUF\x03\0\0\0", 8), "a GGUF file of llama.cpp"},
           {"\x93NUMPY\x01", "a NumPy array; save it as safetensors there"},
           {"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"},
           {std::string("\x1f\x8b\x08\0", 4), "gzip compressed data; unpack it with gunzip "},
           {std::string("BZh91AY&SY\x10\x69\x62\xf5\0\0\x03", 17), "bzip2 compressed data"},
           {std::string("\xfd"
                        "7zXZ\0\0\x04",
                        8),
            "XZ compressed data"},
           {"PAR1" + std::string(20, '\0') + "PAR1", "Apache Parquet"},
           {std::string("t\0w\0o\0 \0w\0o\0r\0d\0s\0", 18), "text in UTF-16LE"},
           {std::string("\x80\x04\x95\x06\0\0\0\0\0\0\0]\x94K\x01"
                        "a.",
                        17),
            "a pickle of Python"},
           {"<!doctype html>", "a page of HTML"},
           {"<html lang=en>", "a page of HTML"}}) {
    EXPECT_THAT(Error(Write("other", bytes)),
                HasSubstr(absl::StrCat("/other: expected safetensors, got ", what)));
  }
  EXPECT_THAT(Error(Write("other", "")), HasSubstr("/other: expected at least 8 bytes, got 0"));
  // What a damaged file of safetensors is, its reader says.
  EXPECT_THAT(Error(Write("other", std::string("\x09\0\0\0\0\0\0\0{\"a\": 1 ", 17))),
              Not(HasSubstr("expected safetensors, got")));
  EXPECT_THAT(Error(folder_ + "/none"), HasSubstr("/none: cannot open"));
}

// The length of a header may be any number: 640 begins with the bytes of a pickle.
TEST_F(WeightFilesTest, ASafetensorsFileMayBeginAsOtherFilesDo) {
  const std::string header = R"({"":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const Values values = {{std::string(640 - header.size(), 'a'), 1}};
  const std::string path = WriteTensors(kWeightsFile, values);
  ASSERT_EQ((*ReadText(path, 1000)).substr(0, 2), "\x80\x02");
  const auto files = WeightFiles::Open(path);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(ValuesOf(*files), values);
}

TEST_F(WeightFilesTest, AFolderWithoutWeightsSaysWhatItHas) {
  const std::string expected =
      folder_ + ": expected model.safetensors or model.safetensors.index.json, got ";
  EXPECT_EQ(Error(folder_), expected + "an empty folder");
  Write("config.json", "{}");
  Write("vocab.txt", "");
  EXPECT_EQ(Error(folder_), expected + "config.json, vocab.txt");
  for (int i = 0; i < 70; ++i) Write(absl::StrCat("text", i), "");
  EXPECT_EQ(Error(folder_), expected +
                                "config.json, text0, text1, text10, text11, text12, text13, "
                                "text14 and 64 others");
  for (int i = 0; i < 70; ++i) fs::remove(absl::StrCat(folder_, "/text", i));
  const auto with = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) Write(name, "");
    const std::string error = Error(folder_);
    for (const std::string& name : names) fs::remove(absl::StrCat(folder_, "/", name));
    EXPECT_THAT(error, StartsWith(expected));
    return error.substr(std::min(expected.size(), error.size()));
  };
  EXPECT_THAT(with({"tf_model.h5"}), StartsWith("tf_model.h5, which is TensorFlow's or Keras'; "));
  EXPECT_THAT(with({"bert_model.ckpt.index", "bert_model.ckpt.meta"}),
              StartsWith("bert_model.ckpt.index, which is TensorFlow's; "));
  EXPECT_EQ(with({"weights.safetensors"}), "weights.safetensors; give the model's file that name");
  EXPECT_THAT(with({"adapter_config.json", "adapter_model.safetensors"}),
              StartsWith("an adapter of another model (adapter_config.json)"));
  EXPECT_EQ(
      with({"model-00001-of-00002.safetensors"}),
      "model-00001-of-00002.safetensors without model.safetensors.index.json, which says what "
      "is in which shard");
  const std::string bin = folder_ + "/pytorch_model.bin";
  EXPECT_THAT(
      with({"pytorch_model.bin", "training_args.bin", "optimizer.pt", "other.pth"}),
      AllOf(StartsWith(bin + " of PyTorch; a Python with torch and safetensors converts it: "),
            EndsWith(absl::StrCat("' ", folder_, "/model.safetensors ", bin))));
  EXPECT_THAT(
      with({"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"}),
      EndsWith(absl::StrCat("/model.safetensors ", folder_, "/pytorch_model-00001-of-00002.bin ",
                            folder_, "/pytorch_model-00002-of-00002.bin")));
  EXPECT_THAT(with({"a.pth", "b.pth"}), HasSubstr("--model with one of them"));
  fs::create_symlink("nowhere", folder_ + "/model.safetensors");
  EXPECT_EQ(Error(folder_), expected + "model.safetensors, a link that leads nowhere");
}

}  // namespace
}  // namespace sluice
