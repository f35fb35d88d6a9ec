// Checkpoints of several parts: any layout is read out of any other, and what is not whole is told.
#include "framework/checkpoint/parts.h"

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/checkpoint/box_copy.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<TensorEntry>& Tensors() {
  static const auto& tensors = *new std::vector<TensorEntry>{{"up", DType::kF32, Shape{5, 6}},
                                                             {"up.m", DType::kF64, Shape{5, 6}},
                                                             {"count", DType::kI32, Shape{}},
                                                             {"none", DType::kF32, Shape{0, 3}}};
  return tensors;
}

// The element at a place is its number in the tensor.
HostTensor ValueOf(const TensorEntry& tensor, const Box& box) {
  HostTensor value(tensor.dtype, ShapeOf(box));
  int64_t next = 0;
  ForEachRow(WholeBox(tensor.shape), box, [&](int64_t offset, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      StoreElement(tensor.dtype, value.bytes.data(), next++, static_cast<double>(offset + i));
    }
  });
  return value;
}

absl::StatusOr<HostTensor> Source(const BoxEntry& entry) {
  for (const TensorEntry& tensor : Tensors()) {
    if (tensor.name == entry.tensor) return ValueOf(tensor, entry.box);
  }
  return absl::NotFoundError(entry.tensor);
}

CheckpointMeta Meta(int64_t step = 7) { return {step, 3, step * 8, {{"lr", "0.1"}}}; }

using Parts = std::vector<std::vector<BoxEntry>>;

// Three parts: rows of `up`, a cross of `up.m`.
Parts ThreeParts() {
  return {{{"up", {{0, 2}, {0, 6}}}, {"up.m", {{0, 2}, {0, 4}}}, {"count", {}}},
          {{"up", {{2, 4}, {0, 6}}}, {"up.m", {{0, 2}, {4, 6}}}, {"up.m", {{2, 5}, {0, 4}}}},
          {{"up", {{4, 5}, {0, 6}}}, {"up.m", {{2, 5}, {4, 6}}}, {"none", {{0, 0}, {0, 3}}}}};
}

class PartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_EQ(RemoveTree(dir_), absl::OkStatus());
  }
  // All but the commit; `wrong` may change the state that a part is written of.
  void Write(const Parts& parts, const std::function<void(int, CheckpointMeta*)>& wrong = nullptr) {
    ASSERT_EQ(BeginCheckpoint(dir_, Meta()), absl::OkStatus());
    for (size_t p = 0; p < parts.size(); ++p) {
      CheckpointMeta meta = Meta();
      if (wrong) wrong(static_cast<int>(p), &meta);
      const CheckpointPart part{static_cast<int32_t>(p), static_cast<int32_t>(parts.size())};
      ASSERT_EQ(WriteCheckpointPart(dir_, meta, part, Tensors(), parts[p], Source),
                absl::OkStatus());
    }
  }
  absl::StatusOr<std::string> Save(const Parts& parts) {
    Write(parts);
    return CommitCheckpoint(dir_, Meta(), static_cast<int32_t>(parts.size()));
  }
  // The error of a commit, which leaves nothing.
  std::string ErrorOf(int32_t parts) {
    const auto path = CommitCheckpoint(dir_, Meta(), parts);
    EXPECT_FALSE(path.ok());
    EXPECT_THAT(*ListDirectory(dir_), ElementsAre());
    return std::string(path.status().message());
  }
  std::string Unfinished(const std::string& file) { return dir_ + "/step-000007.tmp/" + file; }
  std::string dir_;
};

TEST_F(PartsTest, EveryBoxIsReadOutOfThreeParts) {
  const auto path = Save(ThreeParts());
  ASSERT_EQ(path.status(), absl::OkStatus());
  EXPECT_EQ(*path, dir_ + "/step-000007");
  EXPECT_THAT(*ListDirectory(dir_), ElementsAre("step-000007"));
  EXPECT_THAT(
      *ListDirectory(*path),
      ElementsAre("manifest.json", "tensors-00001-of-00003.safetensors",
                  "tensors-00002-of-00003.safetensors", "tensors-00003-of-00003.safetensors"));
  const auto checkpoint = Checkpoint::Load(*path);
  ASSERT_EQ(checkpoint.status(), absl::OkStatus());
  EXPECT_EQ(checkpoint->Verify(), absl::OkStatus());
  EXPECT_EQ(checkpoint->meta().options, Meta().options);
  EXPECT_EQ(checkpoint->tensors().size(), Tensors().size());
  int boxes = 0;
  for (const TensorEntry& tensor : Tensors()) {
    EXPECT_EQ(checkpoint->Read(tensor.name)->bytes, ValueOf(tensor, WholeBox(tensor.shape)).bytes);
    if (tensor.shape.rank() == 0) continue;
    for (int64_t a = 0; a <= tensor.shape[0]; ++a) {
      for (int64_t b = a; b <= tensor.shape[0]; ++b) {
        for (int64_t c = 0; c <= tensor.shape[1]; ++c) {
          for (int64_t d = c; d <= tensor.shape[1]; ++d, ++boxes) {
            const Box box = {{a, b}, {c, d}};
            const auto got = checkpoint->ReadBox(tensor.name, box);
            ASSERT_EQ(got.status(), absl::OkStatus());
            ASSERT_EQ(got->bytes, ValueOf(tensor, box).bytes)
                << tensor.name << " " << BoxToString(box);
          }
        }
      }
    }
  }
  EXPECT_GT(boxes, 1000);
  EXPECT_THAT(std::string(checkpoint->ReadBox("up", {{0, 6}, {0, 6}}).status().message()),
              HasSubstr("tensor up: expected a box inside [5,6], got [0:6,0:6]"));
  EXPECT_FALSE(checkpoint->ReadBox("up", {{0, 5}}).ok());
  EXPECT_EQ(checkpoint->ReadBox("down", {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PartsTest, TakesThePlaceOfAnOlderOneOfOneFile) {
  const auto source = [](const TensorEntry& e) { return HostTensor(e.dtype, e.shape); };
  ASSERT_TRUE(SaveCheckpoint(dir_, Meta(), Tensors(), source).ok());
  // Boxes of a checkpoint of one file, too.
  EXPECT_EQ(Checkpoint::Load(dir_ + "/step-000007")->ReadBox("up", {{1, 3}, {2, 3}})->shape,
            (Shape{2, 1}));
  const auto path = Save(ThreeParts());
  ASSERT_EQ(path.status(), absl::OkStatus());
  EXPECT_THAT(*ListDirectory(dir_), ElementsAre("step-000007"));
  EXPECT_EQ(Checkpoint::Load(*path)->Read("up")->data<float>()[29], 29.0f);
}

TEST_F(PartsTest, AMissingPart) {
  Write(ThreeParts());
  ASSERT_EQ(RemoveTree(Unfinished("manifest-00002-of-00003.json")), absl::OkStatus());
  EXPECT_THAT(ErrorOf(3), HasSubstr("step-000007.tmp: part 2 of 3 is missing: expected "
                                    "manifest-00002-of-00003.json, got none"));
  Write(ThreeParts());
  EXPECT_THAT(ErrorOf(4), HasSubstr("part 1 of 4 is missing"));
  Write(ThreeParts());
  ASSERT_EQ(RemoveTree(Unfinished("tensors-00003-of-00003.safetensors")), absl::OkStatus());
  EXPECT_THAT(ErrorOf(3), HasSubstr("tensors-00003-of-00003.safetensors: cannot open"));
}

TEST_F(PartsTest, ABoxThatIsMissing) {
  Parts parts = ThreeParts();
  parts[1].erase(parts[1].begin() + 2);
  Write(parts);
  EXPECT_THAT(ErrorOf(3), HasSubstr("tensor up.m: expected each element of f64[5,6] once, got "
                                    "[2,0] 0 times"));
}

TEST_F(PartsTest, ABoxThatIsThereTwice) {
  Parts parts = ThreeParts();
  parts[2].push_back({"up", {{1, 2}, {2, 4}}});
  Write(parts);
  EXPECT_THAT(ErrorOf(3),
              HasSubstr("tensor up: expected each element of f32[5,6] once, got [1,2] 2 times, in "
                        "[0:2,0:6] of tensors-00001-of-00003.safetensors and [1:2,2:4] of "
                        "tensors-00003-of-00003.safetensors"));
}

TEST_F(PartsTest, PartsOfAnotherStep) {
  for (const auto& [change, message] :
       std::vector<std::pair<std::function<void(CheckpointMeta*)>, std::string>>{
           {[](CheckpointMeta* meta) { meta->samples = 57; }, "samples: expected 56, got 57"},
           {[](CheckpointMeta* meta) { meta->options["lr"] = "0.2"; },
            "option lr: expected 0.1, got 0.2"},
           {[](CheckpointMeta* meta) { meta->options["mesh"] = "data=2"; },
            "option mesh: expected none, got data=2"},
           {[](CheckpointMeta* meta) {
              meta->data["training"] = {5, "aa"};
            },
            "data training: expected none, got 5 bytes of digest aa"}}) {
    Write(ThreeParts(), [&](int part, CheckpointMeta* meta) {
      if (part == 2) change(meta);
    });
    EXPECT_THAT(ErrorOf(3),
                HasSubstr("manifest-00003-of-00003.json: of another state: " + message));
  }
  // Under a wrong name: what it says counts.
  Write(ThreeParts());
  ASSERT_EQ(Rename(Unfinished("manifest-00001-of-00003.json"),
                   Unfinished("manifest-00002-of-00003.json")),
            absl::OkStatus());
  ASSERT_TRUE(std::ofstream(Unfinished("manifest-00001-of-00003.json"))
              << *ReadText(Unfinished("manifest-00003-of-00003.json"), 1 << 20));
  EXPECT_THAT(ErrorOf(3), HasSubstr("expected part 1 of 3, got part 3 of 3"));
}

TEST_F(PartsTest, PartsOfOtherTensors) {
  Write(ThreeParts());
  std::vector<TensorEntry> tensors = Tensors();
  tensors[2].dtype = DType::kF32;
  ASSERT_EQ(WriteCheckpointPart(dir_, Meta(), {1, 3}, tensors, ThreeParts()[1], Source),
            absl::OkStatus());
  EXPECT_THAT(ErrorOf(3), HasSubstr("manifest-00002-of-00003.json: of other tensors than the first "
                                    "part: count: expected i32[], got f32[]"));
}

TEST_F(PartsTest, APartRefusesWhatItCannotWrite) {
  ASSERT_EQ(BeginCheckpoint(dir_, Meta()), absl::OkStatus());
  const auto error = [&](const BoxEntry& box) {
    return std::string(
        WriteCheckpointPart(dir_, Meta(), {0, 1}, Tensors(), {box}, Source).message());
  };
  EXPECT_THAT(error({"up", {{0, 6}, {0, 6}}}),
              HasSubstr("tensor up: expected a box inside f32[5,6], got [0:6,0:6]"));
  EXPECT_THAT(error({"down", {}}), HasSubstr("tensor down: expected a box inside a tensor of the"));
  EXPECT_FALSE(WriteCheckpointPart(dir_, Meta(), {1, 1}, Tensors(), {}, Source).ok());
  EXPECT_FALSE(CommitCheckpoint(dir_, Meta(), 0).ok());
}

TEST_F(PartsTest, TellsEveryFlippedByteAndNamesFileAndTensor) {
  const std::string path = *Save(ThreeParts());
  const std::string file = path + "/tensors-00002-of-00003.safetensors";
  const std::string good = *ReadText(file, 1 << 20);
  const auto loads = [&] {
    const auto checkpoint = Checkpoint::Load(path);
    return checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
  };
  for (const std::string& damaged : {file, path + "/manifest.json"}) {
    const std::string bytes = *ReadText(damaged, 1 << 20);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string bad = bytes;
      bad[i] ^= 4;
      std::ofstream(damaged, std::ios::binary) << bad;
      const absl::Status status = loads();
      EXPECT_FALSE(status.ok()) << damaged << " byte " << i;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
    std::ofstream(damaged, std::ios::binary) << bytes;
    EXPECT_EQ(loads(), absl::OkStatus());
  }
  std::string bad = good;
  bad.back() ^= 1;
  std::ofstream(file, std::ios::binary) << bad;
  EXPECT_THAT(std::string(loads().message()),
              AllOf(HasSubstr("tensors-00002-of-00003.safetensors: tensor up.m, box [2:5,0:4], is "
                              "damaged: expected digest "),
                    HasSubstr(", got ")));
  // Of who does not need it, nothing is asked.
  const auto checkpoint = Checkpoint::Load(path);
  EXPECT_TRUE(checkpoint->ReadBox("up.m", {{0, 2}, {0, 6}}).ok());
  EXPECT_FALSE(checkpoint->ReadBox("up.m", {{0, 3}, {0, 1}}).ok());
  EXPECT_EQ(checkpoint->VerifyBoxes("up.m", {{{0, 2}, {0, 6}}, {{4, 5}, {4, 6}}}),
            absl::OkStatus());
  EXPECT_FALSE(checkpoint->VerifyBoxes("up.m", {{{0, 2}, {0, 6}}, {{4, 5}, {3, 6}}}).ok());
}

TEST(StoredBoxesTest, TextsOfBoxes) {
  for (const Box& box : {Box{}, Box{{0, 4}}, Box{{0, 0}, {3, 1 << 20}}}) {
    EXPECT_EQ(*ParseBox(BoxToString(box)), box);
  }
  for (const char* text : {"", "[", "[]]", "[1]", "[:]", "[0:4", "[0:4,]", "[00:4]", "[ 0:4]",
                           "[0:4:5]", "[0:99999999999999999999]", "0:4"}) {
    EXPECT_FALSE(ParseBox(text).ok()) << text;
  }
  EXPECT_FALSE(ParseType("w", "f32[4194305,4194305,211106198978564]").ok());
  EXPECT_FALSE(ParseType("w", "f32").ok());
  EXPECT_EQ(ParseType("w", "i32[]")->dtype, DType::kI32);
}

// How often each element is held, counted one by one.
bool HoldsEachOnce(const Shape& shape, const std::vector<StoredBox>& boxes) {
  std::vector<int> times(shape.NumElements());
  for (const StoredBox& stored : boxes) {
    ForEachRow(WholeBox(shape), stored.box, [&](int64_t offset, int64_t length) {
      for (int64_t i = 0; i < length; ++i) ++times[offset + i];
    });
  }
  return std::all_of(times.begin(), times.end(), [](int n) { return n == 1; });
}

TEST(StoredBoxesTest, CoverIsJudgedAsByCounting) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int sound = 0, bad = 0;
  for (int round = 0; round < 4000; ++round) {
    const Shape shape{2 + draw(3), 2 + draw(3), 1 + draw(3)};
    // Cuts again and again, in places that have nothing to do with each other.
    std::vector<StoredBox> boxes = {{0, WholeBox(shape), ""}};
    for (int64_t cuts = draw(8); cuts > 0; --cuts) {
      const int64_t b = draw(static_cast<int64_t>(boxes.size())), d = draw(3);
      if (boxes[b].box[d].size() < 2) continue;
      StoredBox rest = boxes[b];
      rest.box[d].begin += 1 + draw(rest.box[d].size() - 1);
      boxes[b].box[d].end = rest.box[d].begin;
      boxes.push_back(rest);
    }
    const int64_t at = draw(static_cast<int64_t>(boxes.size()));
    switch (draw(4)) {
      case 0:
        boxes.erase(boxes.begin() + at);
        break;
      case 1:
        boxes.push_back(boxes[at]);
        break;
      case 2: {  // moved, or made larger or smaller
        Range& range = boxes[at].box[draw(3)];
        (draw(2) == 0 ? range.begin : range.end) += draw(3) - 1;
        if (range.begin >= range.end || !IsInside(boxes[at].box, shape)) continue;
        break;
      }
      default:
        break;
    }
    const bool once = HoldsEachOnce(shape, boxes);
    ++(once ? sound : bad);
    ASSERT_EQ(CheckCover(TensorEntry{"w", DType::kF32, shape}, boxes, 1).ok(), once) << round;
  }
  EXPECT_GT(sound, 500);
  EXPECT_GT(bad, 500);
}

// A file from anywhere may have many boxes, which overlap as they like.
TEST(StoredBoxesTest, ManyBoxesTakeNoLong) {
  constexpr int64_t kBoxes = 200'000;
  std::vector<StoredBox> boxes;
  for (int64_t i = 0; i < kBoxes; ++i) boxes.push_back({0, {{i, i + 1}, {0, 2}}, ""});
  const TensorEntry tensor{"w", DType::kF32, Shape{kBoxes, 2}};
  EXPECT_EQ(CheckCover(tensor, boxes, 1), absl::OkStatus());
  for (int64_t i = 0; i < kBoxes; ++i) boxes[i].box = {{i / 2, kBoxes}, {i % 2, 2}};
  EXPECT_FALSE(CheckCover(tensor, boxes, 1).ok());
  boxes.assign(1, {0, Box(7, Range{0, 1}), ""});
  EXPECT_THAT(
      std::string(CheckCover({"w", DType::kF32, Shape{2, 2, 2, 2, 2, 2, 2}}, boxes, 1).message()),
      HasSubstr("tensor w: expected boxes cut along 6 dimensions at most, got 7"));
}

TEST(BoxCopyTest, PiecesOfAnySizeGiveTheSame) {
  const Shape shape{4, 3, 5};
  const TensorEntry tensor{"w", DType::kBF16, shape};
  const Box from = {{1, 4}, {0, 3}, {0, 4}};
  for (const Box& to : {Box{{0, 2}, {1, 3}, {2, 5}}, Box{{1, 3}, {0, 3}, {0, 4}}, from}) {
    const HostTensor stored = ValueOf(tensor, from);
    std::vector<std::byte> expected(Volume(to) * 2);
    BoxCopy(from, to, 2, expected.data()).Add(stored.bytes);
    for (size_t piece = 1; piece < stored.bytes.size(); ++piece) {
      std::vector<std::byte> got(expected.size());
      BoxCopy copy(from, to, 2, got.data());
      for (size_t at = 0; at < stored.bytes.size(); at += piece) {
        copy.Add(absl::MakeConstSpan(stored.bytes).subspan(at, piece));
      }
      ASSERT_EQ(got, expected) << BoxToString(to) << ", pieces of " << piece;
    }
  }
}

TEST(ManifestTest, RefusesPartsThatAreNoneThoughTheSealIsWhole) {
  Manifest manifest;
  manifest.meta = Meta();
  manifest.parts = 2;
  manifest.types = {{"w", "f32[4,2]"}};
  manifest.boxes = {{"w", {{0, {{0, 2}, {0, 2}}, "aa"}, {1, {{2, 4}, {0, 2}}, "bb"}}}};
  const std::string good = PrintManifest(manifest);
  ASSERT_EQ(ParseManifest(good, "m").status(), absl::OkStatus());
  EXPECT_EQ(PrintManifest(*ParseManifest(good, "m")), good);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return std::string(ParseManifest(*SealManifest(text, "m"), "m").status().message());
  };
  EXPECT_THAT(error("[2:4,0:2]", "[2:5,0:2]"),
              HasSubstr("m: tensor w: expected a box with elements inside [4,2], got [2:5,0:2]"));
  EXPECT_THAT(error("[2:4,0:2]", "[2:2,0:2]"), HasSubstr("expected a box with elements inside"));
  EXPECT_THAT(error("[2:4,0:2]", "[2:4]"), HasSubstr("expected a box with elements inside"));
  EXPECT_THAT(error("[2:4,0:2]", "[3:4,0:2]"), HasSubstr("got [2,0] 0 times"));
  EXPECT_THAT(error("[2:4,0:2]", "[1:4,0:2]"), HasSubstr("got [1,0] 2 times"));
  EXPECT_THAT(error("[2:4,0:2]", "2"), HasSubstr("m: tensor w: box: expected ranges"));
  EXPECT_THAT(error("\"part\": 1", "\"part\": 2"), HasSubstr("its digest and its part, of 2"));
  EXPECT_THAT(error("\"digest\": \"bb\"", "\"digest\": 5"), HasSubstr("its digest and its part"));
  EXPECT_THAT(error("\"parts\": 2", "\"parts\": 0"), HasSubstr("a number of parts"));
  EXPECT_THAT(error("\"parts\": 2", "\"parts\": -2"), HasSubstr("a number of parts"));
  EXPECT_THAT(error("\"boxes\"", "\"box\""), HasSubstr("expected boxes, got none"));
  EXPECT_THAT(error("f32[4,2]", "f31[4,2]"), HasSubstr("m: tensor w: "));
  EXPECT_THAT(error("f32[4,2]", "f32[4,9223372036854775807]"), HasSubstr("less than 2^63"));
}

}  // namespace
}  // namespace sluice
