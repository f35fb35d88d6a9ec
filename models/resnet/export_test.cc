// testdata/torchvision has models of torchvision's own making, with the logits that it gives;
// bench/peers/resnet_torchvision.py wrote them. Imported they give the same logits, and exported
// again the same bytes. What befalls the folders is tested by //models/gpt:export_test.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/session/session.h"
#include "framework/testing/tensor_file.h"
#include "framework/train/variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/resnet/resnet.h"
#include "models/resnet/torchvision_layout.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTheirs[] = "models/resnet/testdata/torchvision/";

// As --optimizer=sgd without other flags.
OptimizerOptions Optimizer() {
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.9;
  return options;
}

// The model that the options of a checkpoint tell of, as the trainer takes them up.
ResNetConfig ConfigOf(const std::map<std::string, std::string>& options) {
  ResNetConfig config;
  EXPECT_TRUE(absl::SimpleAtoi(options.at("depth"), &config.depth));
  EXPECT_TRUE(absl::SimpleAtoi(options.at("width"), &config.width));
  EXPECT_TRUE(absl::SimpleAtoi(options.at("classes"), &config.classes));
  EXPECT_TRUE(absl::SimpleAtoi(options.at("channels"), &config.channels));
  EXPECT_TRUE(absl::SimpleAtob(options.at("small_images"), &config.small_images));
  if (config.channels == 1) {
    config.mean = {0.2860};
    config.stddev = {0.3530};
  }
  return config;
}

// Any bits of finite numbers: signed zeros and subnormal ones go through as well.
HostTensor RandomBits(const TensorEntry& entry, std::mt19937* random) {
  HostTensor value(entry.dtype, entry.shape);
  for (std::byte& byte : value.bytes) byte = static_cast<std::byte>((*random)());
  for (int64_t i = 0; i < entry.shape.NumElements(); ++i) {
    float& x = value.data<float>()[i];
    if (!std::isfinite(x)) x = i % 2 == 0 ? -0.0F : 1e-42F;
  }
  return value;
}

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string Import(const std::string& model, const std::string& to) {
    const auto imported = ImportTorchvision(model, folder_ + to);
    EXPECT_TRUE(imported.ok()) << imported.status();
    return imported.ok() ? imported->checkpoint : "";
  }
  // Of torchvision's ResNet-50 with some tensors changed.
  std::string ImportError(const std::function<void(Tensors*)>& change) {
    Tensors tensors = ReadTensorFile(std::string(kTheirs) + "resnet50.safetensors");
    change(&tensors);
    WriteTensorFile(folder_ + "/changed.safetensors", tensors);
    return std::string(
        ImportTorchvision(folder_ + "/changed.safetensors", folder_ + "/none").status().message());
  }
  std::string folder_;
};

class TorchvisionModelTest : public ExportTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/", GetParam());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
};

TEST_P(TorchvisionModelTest, ImportedGivesTheLogitsOfTorchvision) {
  const std::string theirs = absl::StrCat(kTheirs, GetParam());
  const auto checkpoint = Checkpoint::Load(Import(theirs + ".safetensors", "/checkpoints"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const Tensors recorded = ReadTensorFile(theirs + "_logits.safetensors");
  const HostTensor &images = recorded.at("images"), &expected = recorded.at("logits");
  ResNetConfig config = ConfigOf(checkpoint->meta().options);
  EXPECT_EQ(absl::StrCat("resnet", config.depth), GetParam());
  config.batch = images.shape[0];
  config.image_size = images.shape[1];
  Graph train, logits;
  ASSERT_EQ(BuildResNetTrain(config, Optimizer(), &train), absl::OkStatus());
  ASSERT_EQ(BuildResNetLogits(config, &logits), absl::OkStatus());
  const std::vector<ProgramGraph> programs = {{"train", &train}, {"logits", &logits}};
  const auto session = Session::Start(programs, SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  // As the trainer resumes: nothing is missing, and nothing is left over.
  ASSERT_EQ(LoadVariables(*checkpoint, session->get()), absl::OkStatus());
  ASSERT_EQ((*session)->Step("logits", {{"images", &images}}), absl::OkStatus());
  const auto fetches = (*session)->Next();
  ASSERT_TRUE(fetches.ok()) << fetches.status();
  const HostTensor& got = fetches->at("logits");
  ASSERT_EQ(got.shape, expected.shape);
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < got.shape.NumElements(); ++i) {
    const double value = expected.data<float>()[i];
    largest = std::max(largest, std::fabs(value));
    difference = std::max(difference, std::fabs(got.data<float>()[i] - value));
  }
  RecordProperty("difference", absl::StrCat(difference / largest));
  EXPECT_GT(largest, 0.5);
  EXPECT_LE(difference, 1e-5 * largest);
}

TEST_P(TorchvisionModelTest, ThereAndBackIsBitwise) {
  const std::string theirs = absl::StrCat(kTheirs, GetParam(), ".safetensors");
  const std::string imported = Import(theirs, "/checkpoints");
  ASSERT_EQ(ExportTorchvision(imported, folder_ + "/ours").status(), absl::OkStatus());
  // What torch counts is i64, which is not read: nothing else of theirs is missing.
  ExpectSameTensors(ReadTensorFile(folder_ + "/ours/model.safetensors"), ReadTensorFile(theirs));
  const std::string again = Import(folder_ + "/ours", "/again");
  ExpectSameTensors(ReadTensorFile(again + "/tensors.safetensors"),
                    ReadTensorFile(imported + "/tensors.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(, TorchvisionModelTest, ::testing::Values("resnet18", "resnet50"),
                         [](const auto& named) { return std::string(named.param); });

struct Variant {
  int64_t depth, channels;
  bool small_images;
};

class EveryModelTest : public ExportTest, public ::testing::WithParamInterface<Variant> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/every");
    fs::remove_all(folder_);
  }
};

// From our side: whatever has been trained here comes back as it was, its state but zeros.
TEST_P(EveryModelTest, ThereAndBackIsBitwise) {
  ResNetConfig config;
  config.depth = GetParam().depth;
  config.width = 2;
  config.classes = 7;
  config.channels = GetParam().channels;
  config.small_images = GetParam().small_images;
  config.mean.resize(config.channels, 0.5);
  config.stddev.resize(config.channels, 0.5);
  config.image_size = 64;
  Graph train;
  ASSERT_EQ(BuildResNetTrain(config, Optimizer(), &train), absl::OkStatus());
  std::vector<TensorEntry> entries;
  for (const NodeId id : train.variables()) {
    const Tensor variable = train.FindVariable(train.node(id).name);
    entries.push_back({train.node(id).name, variable.dtype(), variable.shape()});
  }
  std::mt19937 random(1);
  const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    return RandomBits(entry, &random);
  };
  CheckpointMeta meta;
  meta.step = 12;
  const auto saved = SaveCheckpoint(folder_ + "/trained", meta, entries, source);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(ExportTorchvision(*saved, folder_ + "/tv").status(), absl::OkStatus());
  const auto imported = ImportTorchvision(folder_ + "/tv", folder_ + "/imported");
  ASSERT_TRUE(imported.ok()) << imported.status();
  Tensors expected = ReadTensorFile(*saved + "/tensors.safetensors");
  int states = 0;
  for (auto& [name, value] : expected) {
    if (!absl::EndsWith(name, ".momentum")) continue;
    value = HostTensor(value.dtype, value.shape);
    ++states;
  }
  EXPECT_GT(states, 60);
  ExpectSameTensors(ReadTensorFile(imported->checkpoint + "/tensors.safetensors"), expected);
  const ResNetConfig found = ConfigOf(Checkpoint::Load(imported->checkpoint)->meta().options);
  EXPECT_EQ(found.depth, config.depth);
  EXPECT_EQ(found.width, config.width);
  EXPECT_EQ(found.classes, config.classes);
  EXPECT_EQ(found.channels, config.channels);
  EXPECT_EQ(found.small_images, config.small_images);
}

INSTANTIATE_TEST_SUITE_P(, EveryModelTest,
                         ::testing::Values(Variant{18, 1, true}, Variant{18, 3, false},
                                           Variant{34, 3, true}, Variant{50, 1, false},
                                           Variant{50, 3, true}, Variant{101, 1, true}),
                         [](const auto& named) {
                           const Variant& v = named.param;
                           return absl::StrCat("Depth", v.depth, v.channels == 1 ? "Grey" : "Color",
                                               v.small_images ? "Small" : "Large");
                         });

TEST_F(ExportTest, ModelsThatThisOneCannotBeAreRefused) {
  const std::string at = folder_ + "/changed.safetensors: ";
  EXPECT_THAT(ImportError([](Tensors* t) { t->erase("layer2.1.bn2.weight"); }),
              StartsWith(at + "expected a tensor layer2.1.bn2.weight, got "));
  EXPECT_EQ(ImportError([](Tensors* t) { t->erase("conv1.weight"); }),
            at + "expected a tensor conv1.weight");
  EXPECT_THAT(ImportError([](Tensors* t) { t->erase("layer3.0.downsample.0.weight"); }),
              StartsWith(at + "expected a tensor layer3.0.downsample.0.weight, got "));
  EXPECT_THAT(ImportError([](Tensors* t) {
                *t = {{"resnet.embedder.embedder.convolution.weight", (*t)["conv1.weight"]}};
              }),
              StartsWith(at + "expected a tensor layer1.0.conv1.weight, got 1 others such as "
                              "resnet.embedder.embedder.convolution.weight"));
  EXPECT_EQ(ImportError([](Tensors* t) { (*t)["layer1.0.se.fc1.weight"] = (*t)["fc.bias"]; }),
            at + "layer1.0.se.fc1.weight is not torchvision's ResNet-50's");
  EXPECT_EQ(ImportError([](Tensors* t) {
              (*t)["layer1.0.conv2.weight"] = HostTensor(DType::kF32, {4, 4, 3, 3});
            }),
            at + "layer1.0.conv2.weight: expected F32, F16 or BF16 [2,2,3,3], got F32 [4,4,3,3]");
  EXPECT_EQ(
      ImportError([](Tensors* t) { (*t)["layer3.6.bn1.bias"] = (*t)["layer3.5.bn1.bias"]; }),
      at + "expected the blocks of ResNet-18, 34, 50 or 101, got 3, 4, 7, 3 bottlenecks in its "
           "stages");
  EXPECT_EQ(ImportError([](Tensors* t) {
              (*t)["conv1.weight"] = HostTensor(DType::kF32, {2, 3, 5, 5});
            }),
            at + "conv1.weight: expected a kernel of 3x3 or 7x7, got a height of 5");
  EXPECT_EQ(ImportError([](Tensors* t) {
              (*t)["conv1.weight"] = HostTensor(DType::kF32, {2, 3, 7});
            }),
            at + "conv1.weight: expected 4 dimensions, got [2,3,7]");
  // A size without bytes is a size that a file may claim.
  const int64_t many = int64_t{1} << 40;
  EXPECT_EQ(ImportError([&](Tensors* t) {
              (*t)["conv1.weight"] = HostTensor(DType::kF32, {0, many, 7, 7});
            }),
            at + "width: expected 1 to 65536, got 0");
  EXPECT_THAT(std::string(ImportTorchvision(folder_, folder_ + "/none").status().message()),
              HasSubstr(": expected model.safetensors or model.safetensors.index.json, got "));
}

// As DistributedDataParallel, torch.compile and trainers name them.
TEST_F(ExportTest, WrappedNamesAreTheSameModel) {
  const std::string theirs = std::string(kTheirs) + "resnet18.safetensors";
  const Tensors expected = ReadTensorFile(Import(theirs, "/plain") + "/tensors.safetensors");
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module.model."}) {
    Tensors wrapped;
    for (const auto& [name, tensor] : ReadTensorFile(theirs)) wrapped[prefix + name] = tensor;
    WriteTensorFile(folder_ + "/wrapped.safetensors", wrapped);
    ExpectSameTensors(ReadTensorFile(Import(folder_ + "/wrapped.safetensors", "/wrapped") +
                                     "/tensors.safetensors"),
                      expected);
  }
}

// timm's folders say which architecture they are of; some others have the same tensors.
TEST_F(ExportTest, TheArchitectureOfAFolderIsBelieved) {
  fs::copy(std::string(kTheirs) + "resnet18.safetensors", folder_ + "/model.safetensors");
  const auto error_of = [&](const std::string& config) {
    auto file = FileWriter::Create(folder_ + "/config.json");
    EXPECT_TRUE(file.ok() && file->Append(config).ok() && file->Close().ok());
    return std::string(ImportTorchvision(folder_, folder_ + "/run").status().message());
  };
  EXPECT_EQ(error_of(R"({"architecture": "resnet18", "num_classes": 1000})"), "");
  EXPECT_EQ(error_of("{}"), "");
  EXPECT_THAT(error_of(R"({"architecture": "resnetblur18"})"),
              EndsWith("/config.json: architecture: expected \"resnet18\", got \"resnetblur18\""));
}

TEST_F(ExportTest, CheckpointsOfOtherModelsAreRefused) {
  const std::vector<TensorEntry> entries = {{"embedding/table", DType::kF32, {4, 2}}};
  const auto source = [](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    return HostTensor(entry.dtype, entry.shape);
  };
  const auto saved = SaveCheckpoint(folder_, {}, entries, source);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(ExportTorchvision(*saved, folder_ + "/tv").status().message(),
            *saved + ": expected a tensor stem/conv/weight");
}

}  // namespace
}  // namespace sluice
