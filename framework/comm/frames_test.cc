#include "framework/comm/frames.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string Written(const Frame& frame) {
  std::string bytes;
  WriteFrame(frame, &bytes);
  return bytes;
}

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

absl::StatusOr<Frame> Read(const std::string& written) {
  const absl::StatusOr<size_t> size = ReadFrameHead(Bytes(written));
  if (!size.ok()) return size.status();
  return ReadFrame(Bytes(written).subspan(kFrameHeadBytes, *size));
}

Frame Pull(std::vector<PullRequest::Piece> pieces) {
  Frame frame;
  frame.type = FrameType::kPull;
  frame.pull = 3;
  frame.sequence = 7;
  frame.request.edge = {1, 2, 3, 4, 5};
  frame.request.element_bytes = 4;
  frame.request.bytes = 100;
  frame.request.pieces = std::move(pieces);
  return frame;
}

TEST(FramesTest, APullReadsAsItWasWritten) {
  const std::string written = Written(Pull({{8, {2, 3}, {10, 1}}, {0, {}, {}}, {5, {9}, {2}}}));
  const absl::StatusOr<Frame> read = Read(written);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->request.edge, (Edge{1, 2, 3, 4, 5}));
  EXPECT_EQ(read->request.pieces[0].strides, (std::vector<int64_t>{10, 1}));
  EXPECT_EQ(read->request.sequence, 7);
  EXPECT_EQ(Written(*read), written);
}

Frame Verbs() {
  Frame frame;
  frame.type = FrameType::kVerbs;
  frame.verbs = {.queue_pair = 0xabcdef, .packet = 0x123456, .gid = {1, 2, 3}, .lid = 7, .mtu = 5};
  frame.verbs.reads = 16;
  frame.regions = {{0x7f0000000000, 1 << 20, 0x576}, {8, 9, 10}};
  return frame;
}

TEST(FramesTest, AnRdmaAddressReadsAsItWasWritten) {
  const absl::StatusOr<Frame> read = Read(Written(Verbs()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->verbs, Verbs().verbs);
  EXPECT_EQ(read->regions, Verbs().regions);
}

TEST(FramesTest, AnRdmaAddressThatIsNoneIsRefused) {
  Frame frame = Verbs();
  frame.verbs.queue_pair = 1 << 24;
  EXPECT_THAT(Read(Written(frame)).status().message(), HasSubstr("queue pair 16777216"));
  frame = Verbs();
  frame.verbs.packet = 1 << 24;
  EXPECT_THAT(Read(Written(frame)).status().message(), HasSubstr("packet 16777216"));
  for (const uint8_t mtu : {0, 6}) {
    frame = Verbs();
    frame.verbs.mtu = mtu;
    EXPECT_FALSE(Read(Written(frame)).ok()) << mtu;
  }
  frame = Verbs();
  frame.regions.resize(kMostVerbsRegions + 1);
  EXPECT_THAT(Read(Written(frame)).status().message(), HasSubstr("4097 RDMA regions"));
}

TEST(FramesTest, AFrameThatIsCutShortAnywhereOrTooLongIsRefused) {
  Frame message;
  message.type = FrameType::kMessage;
  message.message.text = "text";
  message.message.edges = "edges";
  Frame refusal;
  refusal.type = FrameType::kBytes;
  refusal.status = absl::InternalError("no such register");
  for (const Frame& frame :
       {Pull({{8, {2, 3}, {10, 1}}, {0, {}, {}}}), message, refusal, Verbs(), Frame()}) {
    const std::string written = Written(frame).substr(kFrameHeadBytes);
    EXPECT_TRUE(ReadFrame(Bytes(written)).ok());
    for (size_t size = 0; size < written.size(); ++size) {
      EXPECT_FALSE(ReadFrame(Bytes(written).first(size)).ok()) << size;
    }
    EXPECT_FALSE(ReadFrame(Bytes(written + "x")).ok());
  }
}

// What is read has one form: there are no two frames that are read alike.
TEST(FramesTest, AFormThatIsNeverWrittenIsRefused) {
  Frame token;
  token.type = FrameType::kMessage;
  token.message.kind = WireMessage::Kind::kToken;
  token.message.failed = true;
  std::string written = Written(token);
  ASSERT_TRUE(Read(written).ok());
  written[kFrameHeadBytes + 2] = 2;
  EXPECT_THAT(Read(written).status().message(), HasSubstr("has failed"));
  Frame left;
  left.type = FrameType::kMessage;
  left.message.kind = WireMessage::Kind::kLeft;
  left.message.asker = Asker::kSaver;
  written = Written(left);
  ASSERT_TRUE(Read(written).ok());
  EXPECT_EQ(Read(written)->message.asker, Asker::kSaver);
  ++written[written.find('\1', kFrameHeadBytes + 3)];  // the first behind type, kind and failed
  EXPECT_THAT(Read(written).status().message(), HasSubstr("who asks: expected one of 2, got 2"));
  Frame refusal;
  refusal.type = FrameType::kBytes;
  refusal.status = absl::InternalError("why");
  written = Written(refusal);
  ASSERT_TRUE(Read(written).ok());
  written[kBytesFrameBytes - 8] = 0;  // the code of OK, and yet a text
  EXPECT_THAT(Read(written).status().message(), HasSubstr("status 0"));
}

TEST(FramesTest, ATokenSaysWhereItsSlotLies) {
  Frame token;
  token.type = FrameType::kMessage;
  token.message.kind = WireMessage::Kind::kToken;
  token.pull = 4;
  token.place = {2, uint64_t{1} << 40, 300};
  const std::string written = Written(token);
  const absl::StatusOr<Frame> read = Read(written);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->place.memory, 2);
  EXPECT_EQ(read->place.offset, uint64_t{1} << 40);
  EXPECT_EQ(read->place.bytes, 300);
  EXPECT_EQ(Written(*read), written);
  token.pull = -1;
  EXPECT_THAT(Read(Written(token)).status().message(), HasSubstr("no pull's"));
  token.pull = 4;
  const std::vector<std::byte> along(3);
  token.along = absl::MakeSpan(along);
  EXPECT_THAT(Read(Written(token)).status().message(), HasSubstr("are two"));
  token.place.memory = -2;
  EXPECT_THAT(Read(Written(token)).status().message(), HasSubstr("memory -2"));
}

int64_t MemoryOf(const std::vector<PullRequest::Piece>& pieces) {
  auto bytes = static_cast<int64_t>(pieces.capacity() * sizeof(PullRequest::Piece));
  for (const PullRequest::Piece& piece : pieces) {
    bytes += static_cast<int64_t>((piece.extent.capacity() + piece.strides.capacity()) * 8);
  }
  return bytes;
}

// Who sends little cannot make its reader take much: frames_fuzz looks at every allocation.
TEST(FramesTest, TakesAtMostEightTimesItsMemory) {
  for (const size_t dims : {0, 1, 3, 32}) {
    const std::vector<int64_t> numbers(dims, 1);
    const std::string written = Written(
        Pull(std::vector<PullRequest::Piece>(1025, PullRequest::Piece{0, numbers, numbers})));
    const absl::StatusOr<Frame> read = Read(written);
    ASSERT_TRUE(read.ok());
    EXPECT_LE(MemoryOf(read->request.pieces), 8 * static_cast<int64_t>(written.size())) << dims;
  }
  // A number of pieces is not believed before there is room for so many.
  std::string many = Written(Pull({}));
  const uint32_t count = UINT32_MAX;
  many.replace(many.size() - 4, 4, reinterpret_cast<const char*>(&count), 4);
  EXPECT_THAT(Read(many).status().message(), HasSubstr("4294967295 pieces in 0 bytes"));
}

TEST(FramesTest, HeadsOfAnySize) {
  const auto head = [](uint32_t size) {
    return ReadFrameHead({reinterpret_cast<const std::byte*>(&size), sizeof(size)});
  };
  EXPECT_EQ(*head(1), 1);
  EXPECT_EQ(*head(kMostFrameBytes), kMostFrameBytes);
  for (const uint32_t size :
       {uint32_t{0}, static_cast<uint32_t>(kMostFrameBytes) + 1, UINT32_MAX}) {
    EXPECT_TRUE(absl::IsInvalidArgument(head(size).status())) << size;
  }
}

}  // namespace
}  // namespace sluice
