#include "framework/comm/frames.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/wire/bytes.h"

namespace sluice {
namespace {

constexpr int32_t kMostDims = 32;
constexpr size_t kLeastPieceBytes = 8 + 1;  // of a piece without dimensions
constexpr size_t kVerbsRegionBytes = 8 + 8 + 4;
constexpr uint32_t kMostOf24Bits = (1u << 24) - 1;
constexpr uint8_t kMostMtu = 5;

void WriteEdge(const Edge& edge, ByteWriter* writer) {
  writer->Fixed(edge.program);
  writer->Fixed(edge.source_device);
  writer->Fixed(edge.source);
  writer->Fixed(edge.reader_device);
  writer->Fixed(edge.reader);
}

Edge ReadEdge(ByteReader* reader) {
  Edge edge;
  edge.program = reader->Fixed<int32_t>();
  edge.source_device = reader->Fixed<int32_t>();
  edge.source = reader->Fixed<int32_t>();
  edge.reader_device = reader->Fixed<int32_t>();
  edge.reader = reader->Fixed<int32_t>();
  return edge;
}

// Of tokens there are many, and they have no texts: they are sent without.
bool IsOfToken(WireMessage::Kind kind) {
  return kind == WireMessage::Kind::kToken || kind == WireMessage::Kind::kPulled;
}

bool HasPull(FrameType type) {
  return type == FrameType::kPull || type == FrameType::kPullAgain || type == FrameType::kBytes;
}

void WriteMessage(const Frame& frame, std::string* to) {
  ByteWriter writer(to);
  const WireMessage& message = frame.message;
  writer.Fixed(static_cast<uint8_t>(message.kind));
  writer.Fixed(static_cast<uint8_t>(message.failed));
  writer.Fixed(message.sequence);
  WriteEdge(message.edge, &writer);
  if (IsOfToken(message.kind)) {
    writer.Fixed(message.worker);
    writer.Fixed(frame.pull);
    writer.Fixed(frame.place.memory);
    if (frame.place.memory >= 0) {
      writer.Fixed(frame.place.offset);
      writer.Fixed(frame.place.bytes);
    }
    to->append(reinterpret_cast<const char*>(frame.along.data()), frame.along.size());
    return;
  }
  writer.Fixed(static_cast<uint8_t>(message.asker));
  writer.Fixed(message.number);
  writer.Fixed(message.code);
  writer.Text(message.text);
  writer.Text(message.edges);
}

absl::Status ReadMessage(absl::Span<const std::byte> bytes, Frame* frame) {
  ByteReader reader(bytes);
  WireMessage& message = frame->message;
  const auto kind = reader.Fixed<uint8_t>();
  if (kind > static_cast<uint8_t>(WireMessage::Kind::kClock)) {
    return absl::InvalidArgumentError(absl::StrCat("a message of unknown kind ", kind));
  }
  message.kind = static_cast<WireMessage::Kind>(kind);
  const auto failed = reader.Fixed<uint8_t>();
  if (failed > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("whether a message has failed: expected 0 or 1, got ", failed));
  }
  message.failed = failed == 1;
  message.sequence = reader.Fixed<int64_t>();
  message.edge = ReadEdge(&reader);
  if (IsOfToken(message.kind)) {
    message.worker = reader.Fixed<int32_t>();
    frame->pull = reader.Fixed<int32_t>();
    frame->place.memory = reader.Fixed<int32_t>();
    const bool lies = frame->place.memory >= 0;
    if (lies) {
      frame->place.offset = reader.Fixed<uint64_t>();
      frame->place.bytes = reader.Fixed<uint64_t>();
    }
    frame->along = bytes.last(reader.left());
    const bool comes = !frame->along.empty();
    if (reader.ok() && ((comes && lies) || ((comes || lies) && frame->pull < 0))) {
      return absl::InvalidArgumentError("bytes with a token that are no pull's, or are two");
    }
    // A frame has one form.
    if (reader.ok() && frame->place.memory < -1) {
      return absl::InvalidArgumentError(
          absl::StrCat("bytes in memory ", frame->place.memory, " of a rank"));
    }
  } else {
    const auto asker = reader.Fixed<uint8_t>();
    if (asker >= kAskers) {
      return absl::InvalidArgumentError(
          absl::StrCat("who asks: expected one of ", kAskers, ", got ", asker));
    }
    message.asker = static_cast<Asker>(asker);
    message.number = reader.Fixed<int64_t>();
    message.code = reader.Fixed<int32_t>();
    message.text = reader.Text();
    message.edges = reader.Text();
    if (reader.ok() && reader.left() > 0) {
      return absl::InvalidArgumentError(absl::StrCat(reader.left(), " bytes behind a message"));
    }
    if (message.code < 0 || message.code > 16) {
      return absl::InvalidArgumentError(absl::StrCat("a message with status ", message.code));
    }
  }
  if (reader.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("a message that is cut short");
}

void WriteRequest(const PullRequest& request, std::string* to) {
  ByteWriter writer(to);
  WriteEdge(request.edge, &writer);
  writer.Fixed(request.element_bytes);
  writer.Fixed(request.bytes);
  writer.Fixed(request.worker);
  writer.Fixed(static_cast<uint32_t>(request.pieces.size()));
  for (const PullRequest::Piece& piece : request.pieces) {
    writer.Fixed(piece.offset);
    writer.Fixed(static_cast<uint8_t>(piece.extent.size()));
    for (const int64_t extent : piece.extent) writer.Fixed(extent);
    for (const int64_t stride : piece.strides) writer.Fixed(stride);
  }
}

absl::Status ReadRequest(ByteReader* reader, PullRequest* request) {
  request->edge = ReadEdge(reader);
  request->element_bytes = reader->Fixed<int32_t>();
  request->bytes = reader->Fixed<int64_t>();
  request->worker = reader->Fixed<int32_t>();
  const auto pieces = reader->Fixed<uint32_t>();
  // Room for all of them at once, as one that grows has up to twice as much.
  if (pieces > reader->left() / kLeastPieceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(pieces, " pieces in ", reader->left(), " bytes"));
  }
  request->pieces.reserve(pieces);
  for (uint32_t p = 0; p < pieces && reader->ok(); ++p) {
    PullRequest::Piece& piece = request->pieces.emplace_back();
    piece.offset = reader->Fixed<int64_t>();
    const auto dims = reader->Fixed<uint8_t>();
    if (dims > kMostDims) {
      return absl::InvalidArgumentError(
          absl::StrCat("a piece of at most ", kMostDims, " dimensions, got ", dims));
    }
    piece.extent.resize(dims);
    piece.strides.resize(dims);
    for (int64_t& extent : piece.extent) extent = reader->Fixed<int64_t>();
    for (int64_t& stride : piece.strides) stride = reader->Fixed<int64_t>();
  }
  return absl::OkStatus();
}

absl::Status ReadBytes(ByteReader* reader, Frame* frame) {
  frame->bytes = reader->Fixed<int64_t>();
  const auto code = reader->Fixed<int32_t>();
  const std::string text = reader->Text();
  if (code < 0 || code > 16 || frame->bytes < 0 || (code != 0 && frame->bytes > 0) ||
      (code == 0 && !text.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("an answer of ", frame->bytes, " bytes and status ", code));
  }
  if (code != 0) frame->status = absl::Status(static_cast<absl::StatusCode>(code), text);
  return absl::OkStatus();
}

void WriteVerbs(const Frame& frame, ByteWriter* writer) {
  const VerbsAddress& address = frame.verbs;
  writer->Fixed(address.queue_pair);
  writer->Fixed(address.packet);
  for (const uint8_t byte : address.gid) writer->Fixed(byte);
  writer->Fixed(address.lid);
  writer->Fixed(address.mtu);
  writer->Fixed(address.reads);
  writer->Fixed(static_cast<uint32_t>(frame.regions.size()));
  for (const VerbsRegion& region : frame.regions) {
    writer->Fixed(region.address);
    writer->Fixed(region.bytes);
    writer->Fixed(region.key);
  }
}

absl::Status ReadVerbs(ByteReader* reader, Frame* frame) {
  VerbsAddress& address = frame->verbs;
  address.queue_pair = reader->Fixed<uint32_t>();
  address.packet = reader->Fixed<uint32_t>();
  for (uint8_t& byte : address.gid) byte = reader->Fixed<uint8_t>();
  address.lid = reader->Fixed<uint16_t>();
  address.mtu = reader->Fixed<uint8_t>();
  address.reads = reader->Fixed<uint8_t>();
  const auto regions = reader->Fixed<uint32_t>();
  if (!reader->ok()) return absl::OkStatus();  // which the caller finds
  const uint32_t highest = std::max(address.queue_pair, address.packet);
  if (highest > kMostOf24Bits || address.mtu < 1 || address.mtu > kMostMtu) {
    return absl::InvalidArgumentError(absl::StrCat("an RDMA address with queue pair ",
                                                   address.queue_pair, ", packet ", address.packet,
                                                   ", MTU ", address.mtu));
  }
  if (regions > kMostVerbsRegions || reader->left() != regions * kVerbsRegionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(regions, " RDMA regions in ", reader->left(), " bytes"));
  }
  frame->regions.resize(regions);
  for (VerbsRegion& region : frame->regions) {
    region.address = reader->Fixed<uint64_t>();
    region.bytes = reader->Fixed<uint64_t>();
    region.key = reader->Fixed<uint32_t>();
  }
  return absl::OkStatus();
}

}  // namespace

void WriteFrame(const Frame& frame, std::string* to) {
  const size_t begin = to->size();
  ByteWriter writer(to);
  writer.Fixed(uint32_t{0});  // the size, once it is known
  writer.Fixed(static_cast<uint8_t>(frame.type));
  switch (frame.type) {
    case FrameType::kMessage:
      WriteMessage(frame, to);
      break;
    case FrameType::kPull:
    case FrameType::kPullAgain:
    case FrameType::kBytes:
      writer.Fixed(frame.pull);
      writer.Fixed(frame.sequence);
      if (frame.type == FrameType::kPull) WriteRequest(frame.request, to);
      if (frame.type != FrameType::kBytes) break;
      writer.Fixed(frame.bytes);
      writer.Fixed(static_cast<int32_t>(frame.status.code()));
      writer.Text(frame.status.message());
      break;
    case FrameType::kMark:
    case FrameType::kMail:
      writer.Fixed(frame.mark.process);
      writer.Fixed(frame.mark.file);
      writer.Fixed(frame.mark.bytes);
      for (const std::byte byte : frame.mark.mark) writer.Fixed(static_cast<uint8_t>(byte));
      if (frame.type == FrameType::kMail) writer.Fixed(frame.offset);
      break;
    case FrameType::kVerbs:
      WriteVerbs(frame, &writer);
      break;
    case FrameType::kBeat:
    case FrameType::kCanRead:
    case FrameType::kConnected:
    case FrameType::kReadsMail:
      break;
  }
  const auto size = static_cast<uint32_t>(to->size() - begin - kFrameHeadBytes);
  std::memcpy(to->data() + begin, &size, sizeof(size));
}

absl::StatusOr<size_t> ReadFrameHead(absl::Span<const std::byte> head) {
  const size_t size = ByteReader(head).Fixed<uint32_t>();
  if (size >= 1 && size <= kMostFrameBytes) return size;
  return absl::InvalidArgumentError(
      absl::StrCat("a frame of 1 to ", kMostFrameBytes, " bytes, got ", size));
}

absl::StatusOr<Frame> ReadFrame(absl::Span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Frame frame;
  const auto type = reader.Fixed<uint8_t>();
  if (type < static_cast<uint8_t>(FrameType::kMessage) ||
      type > static_cast<uint8_t>(FrameType::kReadsMail)) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of unknown type ", type));
  }
  frame.type = static_cast<FrameType>(type);
  if (frame.type == FrameType::kMessage) {
    RETURN_IF_ERROR(ReadMessage(bytes.subspan(1), &frame));
    return frame;
  }
  if (frame.type == FrameType::kMark || frame.type == FrameType::kMail) {
    frame.mark.process = reader.Fixed<int32_t>();
    frame.mark.file = reader.Fixed<int32_t>();
    frame.mark.bytes = reader.Fixed<int64_t>();
    for (std::byte& byte : frame.mark.mark) byte = std::byte{reader.Fixed<uint8_t>()};
    if (frame.type == FrameType::kMail) frame.offset = reader.Fixed<uint64_t>();
  } else if (frame.type == FrameType::kVerbs) {
    RETURN_IF_ERROR(ReadVerbs(&reader, &frame));
  } else if (HasPull(frame.type)) {
    frame.pull = reader.Fixed<int32_t>();
    frame.sequence = reader.Fixed<int64_t>();
  }
  if (frame.type == FrameType::kPull) RETURN_IF_ERROR(ReadRequest(&reader, &frame.request));
  if (frame.type == FrameType::kBytes) RETURN_IF_ERROR(ReadBytes(&reader, &frame));
  frame.request.sequence = frame.sequence;
  if (reader.ok() && reader.left() == 0) return frame;
  return absl::InvalidArgumentError(absl::StrCat(
      "a frame of type ", type, reader.ok() ? " that is too long" : " that is cut short"));
}

}  // namespace sluice
