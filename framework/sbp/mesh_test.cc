#include "framework/sbp/mesh.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

Mesh Parsed(const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *mesh;
}

TEST(Mesh, LastAxisIsInnermost) {
  const Mesh mesh = Parsed(" data=2  model=3\tpipe=2 ");
  EXPECT_EQ(mesh.ToString(), "data=2 model=3 pipe=2");
  EXPECT_EQ(Parsed(mesh.ToString()), mesh);
  EXPECT_EQ(mesh.num_devices(), 12);
  EXPECT_EQ(mesh.devices()[7], (DeviceId{0, 7}));
  EXPECT_EQ(mesh.Coordinates(7), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(mesh.axes()[0].kind, AxisKind::kSpace);
  EXPECT_EQ(mesh.axes()[2].kind, AxisKind::kStage);
  EXPECT_EQ(mesh.FindAxis("model"), 1);
  EXPECT_EQ(mesh.FindAxis("expert"), -1);
  EXPECT_EQ(mesh.AxisSize("model"), 3);
  EXPECT_EQ(mesh.AxisSize("expert"), 1);
}

TEST(Mesh, OneDevice) {
  const Mesh mesh = Parsed("data=1");
  EXPECT_EQ(mesh.num_devices(), 1);
  EXPECT_EQ(mesh.num_stages(), 1);
  EXPECT_EQ(mesh.Stage(0), mesh);
}

TEST(Mesh, AStageIsASubMeshWithoutThatAxis) {
  const Mesh mesh = Parsed("data=2 pipe=2 model=2");
  EXPECT_EQ(mesh.num_stages(), 2);
  const Mesh stage = mesh.Stage(1);
  EXPECT_EQ(stage.ToString(), "data=2 model=2");
  EXPECT_EQ(stage.devices(), (std::vector<DeviceId>{{0, 2}, {0, 3}, {0, 6}, {0, 7}}));
  const Mesh only = Parsed("pipe=3").Stage(2);
  EXPECT_TRUE(only.axes().empty());
  EXPECT_EQ(only.devices(), (std::vector<DeviceId>{{0, 2}}));
  EXPECT_TRUE(only.Coordinates(0).empty());
}

TEST(Mesh, KindsOfDevicesTakeTurns) {
  const Mesh cuda = Parsed("data=2 pipe=2 @cuda");
  EXPECT_EQ(cuda.ToString(), "data=2 pipe=2 @cuda");
  EXPECT_EQ(cuda.devices()[3], (DeviceId{0, 3, DeviceKind::kCuda}));
  EXPECT_EQ(ToString(cuda.devices()[3]), "0:cuda3");
  EXPECT_FALSE(cuda == Parsed("data=2 pipe=2"));
  EXPECT_NE(cuda.devices_hash(), Parsed("data=2 pipe=2").devices_hash());
  const Mesh mixed = Parsed("data=2 pipe=2 @cpu,async");
  EXPECT_EQ(mixed.ToString(), "data=2 pipe=2 @cpu,async");
  EXPECT_EQ(mixed.Stage(0).ToString(), "data=2");
  EXPECT_EQ(mixed.Stage(1).ToString(), "data=2 @async");
  EXPECT_EQ(Parsed("data=2 @cpu").ToString(), "data=2");
}

TEST(Mesh, ErrorsNameTheWord) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "data=1"},
      {"  ", "data=1"},
      {"data", "\"data\""},
      {"data=", "axis data"},
      {"=2", "\"=2\""},
      {"2data=2", "\"2data=2\""},
      {"data=2,model=2", "\"data=2,model=2\""},
      {"data=0", "got \"0\""},
      {"data=-2", "got \"-2\""},
      {"data=2.5", "got \"2.5\""},
      {"data=2x", "got \"2x\""},
      {"data=99999999999999999999", "axis data"},
      {"data=2 data=2", "axis data stands twice"},
      {"data=2 micro=4", "--micro_batches=4"},
      {"data=2 @", "\"@\""},
      {"data=2 @gpu", "\"@gpu\""},
      {"data=2 @cpu,", "\"@cpu,\""},
      {"@cpu data=2", "\"data=2\""},
      {"@cpu", "data=1"},
      {"data=1024 model=1025", "at most 1048576"},
      {"data=4611686018427387904 model=4", "at most 1048576"},
  };
  for (const auto& [text, named] : cases) {
    const absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
    ASSERT_FALSE(mesh.ok()) << text;
    EXPECT_EQ(mesh.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(mesh.status().message()).find(named), std::string::npos) << mesh.status();
  }
  EXPECT_TRUE(Mesh::Parse("data=1024 model=1024").ok());
}

TEST(MeshTest, DevicesAreDealtOutToRanksInOrder) {
  const Mesh mesh = *Mesh::Parse("data=3 model=2");
  std::vector<std::string> names;
  const Mesh four = mesh.OverRanks(4);
  for (DeviceId id : four.devices()) names.push_back(ToString(id));
  EXPECT_EQ(names, (std::vector<std::string>{"0:0", "0:1", "1:0", "1:1", "2:0", "3:0"}));
  EXPECT_EQ(mesh.OverRanks(1), mesh);
  // Ranks beyond the last device have none.
  EXPECT_EQ(mesh.OverRanks(8).devices().back(), (DeviceId{5, 0}));
}

}  // namespace
}  // namespace sluice
