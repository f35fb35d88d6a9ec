// Writes the seeds of the fuzz targets with the writers whose output the parsers read:
//   bazel run //framework/testing:fuzz_seeds
// Other files of the corpora, such as former findings, stay as they are.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/attributes/attributes.h"
#include "framework/base/log.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/parts.h"
#include "framework/comm/frames.h"
#include "framework/comm/host_mail.h"
#include "framework/compiler/compile.h"
#include "framework/data/encode_testing.h"
#include "framework/data/pack_testing.h"
#include "framework/data/record_io.h"
#include "framework/graph/text.h"
#include "framework/plan/text.h"
#include "framework/runtime/trace.h"
#include "framework/runtime/waits.h"
#include "framework/session/replica_digests.h"
#include "framework/testing/hand_plans.h"
#include "framework/testing/models.h"
#include "framework/wire/handshake.h"

namespace sluice {
namespace {

void Write(absl::string_view package, absl::string_view target, absl::string_view name,
           const std::string& bytes) {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  SLUICE_CHECK(workspace != nullptr) << "expected to be started by bazel run";
  const std::string dir =
      absl::StrCat(workspace, "/framework/", package, "/testdata/fuzz/", target, "_fuzz");
  std::filesystem::create_directories(dir);
  std::ofstream file(absl::StrCat(dir, "/seed_", name), std::ios::binary);
  file << bytes;
  SLUICE_CHECK(file.flush().good()) << dir;
}

void WriteMesh(absl::string_view name, absl::string_view mesh, absl::string_view annotation) {
  const auto parsed = Mesh::Parse(mesh);
  SLUICE_CHECK_OK(parsed.status());
  const Mesh stage = parsed->Stage(0);
  const auto sbp = ParseNdSbp(annotation, stage);
  SLUICE_CHECK_OK(sbp.status());
  Write("sbp", "sbp_text", name, absl::StrCat(parsed->ToString(), "\n", ToString(*sbp, stage)));
}

void WriteTexts() {
  WriteMesh("mesh", "data=2 model=2", "data:S0 model:P(sum)");
  WriteMesh("pipe", "pipe=2 a=3 b_c=2", "a:S1 b_c:B");
  Write("sbp", "sbp_text", "rule", "data=1\n...mk,kn->...mn");
  Write("sbp", "sbp_text", "rule_reduced", "data=1\nbsH,v1->b");
  Write("machine", "machine", "words",
        "flops_per_second=2e11 devices_per_host=4 host_latency_nanoseconds=2000");
  const std::vector<Attributes> attributes = {VariableAttributes{"normal", 0.5},
                                              FillAttributes{-0.25, {2, 3}, DType::kI32},
                                              MatMulAttributes{true, true},
                                              DropoutAttributes{0.1, -7},
                                              TransposeAttributes{{1, 0, 2}},
                                              SliceAttributes{1, 2, 5, 9},
                                              ReduceAttributes{Reduction::kMax, true, {0}},
                                              AdamWAttributes{0.5, 0.25, 1e-3, 0.1}};
  for (size_t i = 0; i < attributes.size(); ++i) {
    Write("attributes", "attributes", absl::StrCat(i), PrintAttributes(attributes[i]));
  }
  Write("train", "flags", "forms",
        "--layers=6\n-lr\n0.5\n--explain\n--mesh=data=2 model=2\n--noexplain\n--seed=7");
  Write("train", "flags", "help", "--explain=true\n--help\n--mesh\n");
}

void WritePlan(absl::string_view name, const plan::Plan& plan) {
  Write("plan", "plan_text", name, PrintPlan(plan));
  Write("plan", "plan_proto", name, plan.SerializeAsString());
}

void WriteHandPlans() {
  PipelineOptions small;
  small.stages = small.micro_batches = 2;
  for (const HandPlan& hand : {TensorParallel(), Accumulate(), TiedTable(), Programs(),
                               GatheredWeights(2, 2), Pipeline(small)}) {
    const auto plan = ParsePlan(hand.text, hand.name);
    SLUICE_CHECK_OK(plan.status());
    std::string name = hand.name;
    for (char& c : name) c = absl::ascii_isalnum(c) ? c : '_';
    WritePlan(name, *plan);
  }
}

void WriteCompiled() {
  MlpOptions options;
  options.batch = 2;
  options.widths = {2, 3};
  Graph graph;
  SLUICE_CHECK_OK(BuildMlp(&graph, options));
  Write("ops", "graph_text", "mlp", PrintGraph(graph));
  MlpOptions inference = options;
  inference.training = false;
  inference.dtype = DType::kBF16;
  inference.annotation = {{"model:S1", "model:S0"}};
  Graph small;
  SLUICE_CHECK_OK(BuildMlp(&small, inference));
  Write("ops", "graph_text", "inference", PrintGraph(small));
  CompileOptions compile;
  compile.mesh = *Mesh::Parse("model=2");
  compile.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"infer", &small}}, compile);
  SLUICE_CHECK_OK(plan.status());
  WritePlan("compiled", *plan);
  Write("session", "plan_run", "infer", plan->SerializeAsString());
  for (const char* mesh : {"data=1", "data=2"}) {
    CompileOptions training;
    training.mesh = *Mesh::Parse(mesh);
    training.machine = Machine::Cpu();
    const auto trains = CompilePlan({{"train", &graph}}, training);
    SLUICE_CHECK_OK(trains.status());
    Write("session", "plan_run", mesh[5] == '1' ? "train" : "train_boxed",
          trains->SerializeAsString());
  }
  compile.mesh = compile.mesh.OverRanks(2);
  compile.ranks = 2;
  const auto of_rank = CompilePlan({{"infer", &small}}, compile);
  SLUICE_CHECK_OK(of_rank.status());
  WritePlan("of_rank", *of_rank);
}

void WriteReplicas() {
  const std::string mine = ReplicaLine({0, "[0:2]", 7, 0}) + ReplicaLine({1, "[0:2, 0:3]", 8, 0});
  const absl::string_view between("\0", 1);
  Write("session", "replica_digests", "same", absl::StrCat(mine, between, mine));
  Write("session", "replica_digests", "torn",
        absl::StrCat(mine, between, ReplicaLine({1, "[0:2, 0:3]", 9, 1})));
}

std::string Read(const std::string& path) {
  const auto text = ReadText(path, 1 << 20);
  SLUICE_CHECK_OK(text.status());
  return *text;
}

void WriteCheckpoint() {
  const std::string dir = (std::filesystem::temp_directory_path() / "sluice_fuzz_seeds").string();
  CheckpointMeta meta;
  meta.step = 7;
  meta.seed = 1;
  meta.samples = 56;
  meta.options = {{"mesh", "data=2"}, {"lr", "0.001"}};
  const auto zeros = [](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    return HostTensor(entry.dtype, entry.shape);
  };
  const auto path = SaveCheckpoint(
      dir, meta, {{"w", DType::kF32, {2, 3}}, {"b/m", DType::kBF16, {3}}, {"n", DType::kI32, {}}},
      zeros);
  SLUICE_CHECK_OK(path.status());
  Write("checkpoint", "manifest", "saved", Read(*path + "/manifest.json"));
  Write("checkpoint", "safetensors", "saved", Read(*path + "/tensors.safetensors"));
  const std::vector<TensorEntry> parted = {{"w", DType::kF32, {2, 3}}, {"n", DType::kI32, {}}};
  SLUICE_CHECK_OK(BeginCheckpoint(dir, meta));
  for (int32_t part = 0; part < 2; ++part) {
    std::vector<BoxEntry> boxes = {{"w", {{part, part + 1}, {0, 3}}}};
    if (part == 0) boxes.push_back({"n", {}});
    SLUICE_CHECK_OK(WriteCheckpointPart(
        dir, meta, {part, 2}, parted, boxes,
        [](const BoxEntry& entry) -> absl::StatusOr<HostTensor> {
          return HostTensor(entry.tensor == "n" ? DType::kI32 : DType::kF32, ShapeOf(entry.box));
        }));
  }
  Write("checkpoint", "manifest", "part", Read(*path + ".tmp/manifest-00001-of-00002.json"));
  SLUICE_CHECK_OK(CommitCheckpoint(dir, meta, 2).status());
  Write("checkpoint", "manifest", "parts", Read(*path + "/manifest.json"));
  const std::string file = dir + "/metadata";
  SLUICE_CHECK_OK(WriteSafetensors(file, {{"x", DType::kF64, {0, 4}}}, {{"a", "b"}}, zeros));
  Write("checkpoint", "safetensors", "metadata", Read(file));
  SLUICE_CHECK_OK(RemoveTree(dir));
}

void WriteIdx() {
  const std::string labels({0, 0, 8, 1, 0, 0, 0, 5, 0, 1, 2, 3, 9});
  const std::string images({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6});
  Write("data", "idx", "labels", labels);
  Write("data", "idx", "images", images);
  Write("data", "idx", "packed", Gzipped(images));
  Write("data", "idx", "two_members", Gzipped(labels.substr(0, 6)) + Gzipped(labels.substr(6)));
  Write("data", "idx", "bomb", Gzipped(labels + std::string(100000, '\0')));
  Write("data", "idx", "large_header", std::string({0, 0, 8, 8}) + std::string(32, '\xff'));
}

// Two pairs, as Python 2 and Python 3 write them.
void WritePairs() {
  const std::string strings = absl::HexStringToBytes(
      "80025d7100285503616263710155026465710254020000006667710355007104655d7105288889658671062e");
  const std::string bytes = absl::HexStringToBytes(
      "80049521000000000000005d942843036f6e6594430374776f944302787894430094655d942888896586942e");
  Write("data", "picture_pairs", "strings", strings);
  Write("data", "picture_pairs", "bytes", bytes);
  Write("data", "picture_pairs", "object", std::string("\x80\x02", 2) + "cos\nsystem\n");
}

void WriteRecordSeeds() {
  // The first byte says how: 2 is with commas and quotes, 1 is as click logs are.
  Write("data", "delimited_text", "quotes",
        "\x02"
        "carrier,note\r\nUA,\"late, \"\"very\"\"\"\n\nAA,\"two\nlines\"\n");
  Write("data", "delimited_text", "log",
        "\x01"
        "1\t5\t68fd1e64\n0\t\t\n");
  Write("data", "record_io", "picture", RecordBytes({{3}, 7, 0, "abc"}));
  Write("data", "record_io", "labels", RecordBytes({{3, 5}, 0, 0, ""}));
  Write("data", "record_io", "magic",
        RecordBytes({{3},
                     7,
                     0,
                     "\n#\xd7\xce"
                     "abc"}));
}

void WritePictures() {
  constexpr int kSide = 12;
  const auto pixels = [](int components) {
    std::vector<uint8_t> values;
    for (int i = 0; i < kSide * kSide * components; ++i) {
      values.push_back(static_cast<uint8_t>(3 * i));
    }
    return values;
  };
  const auto jpeg = [&](absl::string_view name, const JpegOptions& options) {
    Write("data", "decode_image", absl::StrCat("jpeg_", name),
          EncodeJpeg(pixels(options.components), kSide, kSide, options));
  };
  jpeg("rgb", {});
  jpeg("gray", {.components = 1});
  jpeg("cmyk", {.components = 4});
  jpeg("progressive", {.progressive = true});
  const auto png = [&](absl::string_view name, int components, const PngOptions& options) {
    Write("data", "decode_image", absl::StrCat("png_", name),
          EncodePng(pixels(components), kSide, kSide, options));
  };
  png("rgb", 3, {});
  png("gray", 1, {.color_type = 0});
  png("alpha", 4, {.color_type = 6, .interlaced = true});
  png("wide", 6, {.bits = 16});
}

std::string BytesOf(const Frame& frame) {
  std::string bytes;
  WriteFrame(frame, &bytes);
  return bytes;
}

// One of each type.
std::vector<std::pair<std::string, Frame>> Frames() {
  static const std::vector<std::byte> along(16, std::byte{7});
  Frame token, place, hello, pull, again, bytes, mark, mail, refusal, verbs;
  token.type = hello.type = FrameType::kMessage;
  token.message.kind = WireMessage::Kind::kToken;
  token.message.edge = {0, 0, 1, 1, 1};
  token.pull = 1;
  token.along = absl::MakeSpan(along);
  hello.message.kind = WireMessage::Kind::kHello;
  hello.message.text = "layout 17\n";
  hello.message.edges = "reads 0 1\n";
  pull.type = FrameType::kPull;
  pull.pull = 2;
  pull.request.edge = {0, 0, 1, 1, 2};
  pull.request.element_bytes = 4;
  pull.request.bytes = 4 + 24 + 32;
  pull.request.pieces = {{8, {}, {}}, {0, {2, 3}, {10, 1}}, {16, {2, 2, 2}, {40, 20, 3}}};
  again.type = FrameType::kPullAgain;
  again.pull = 2;
  again.sequence = 1;
  bytes.type = refusal.type = FrameType::kBytes;
  bytes.pull = refusal.pull = 1;
  bytes.bytes = 16;
  refusal.status = absl::InternalError("no such register");
  place = token;
  place.along = {};
  place.place = {0, 64, 16};
  mark.type = FrameType::kMark;
  mark.mark = {0, 3, 4096, {}};  // there is no such process
  mail = mark;
  mail.type = FrameType::kMail;
  mail.offset = 64;
  verbs.type = FrameType::kVerbs;
  verbs.verbs = {.queue_pair = 17, .packet = 5, .gid = {}, .lid = 0, .mtu = 3, .reads = 16};
  verbs.regions = {{4096, 1 << 20, 0x576}};
  return {{"token", token},     {"hello", hello}, {"pull", pull},  {"again", again},
          {"bytes", bytes},     {"beat", {}},     {"mark", mark},  {"mail", mail},
          {"refusal", refusal}, {"place", place}, {"verbs", verbs}};
}

void WriteWaits() {
  RankWaits waits;
  waits.rank = 1;
  waits.host = "node1";
  waits.process = 4242;
  waits.begun = 3;
  StreamWait runs, waits_for_rank;
  runs.stream = "compute";
  runs.op = "h0/up (matmul)";
  runs.runs = true;
  waits_for_rank.stream = "net";
  waits_for_rank.what = "waits for h0/x";
  waits_for_rank.peer = 0;
  waits.streams = {runs, waits_for_rank};
  waits.loads = {{2, 0.75}};
  Write("runtime", "waits", "two", WaitsToBytes(waits));
  Write("runtime", "trace_part", "two",
        PartToBytes({"{\"ph\":\"M\",\"pid\":1},\n{\"ts\":0.5}", "\"rank 1\":{\"clock\":null}"}));
  // Which rank it is, and that it hears all that others say where nobody lies.
  Write("runtime", "rank_messages", "first", std::string(1, '\0') + std::string(300, '\xff'));
  Write("runtime", "rank_messages", "other", std::string(1, '\1') + std::string(300, '\xff'));
}

// Of tcp_net_fuzz: bytes of the peer on a connection.
std::string Said(char channel, const std::string& bytes) {
  return std::string{channel, static_cast<char>(bytes.size())} + bytes;
}

void WriteWire() {
  std::string all, talk;
  for (const auto& [name, frame] : Frames()) {
    const std::string bytes = BytesOf(frame);
    Write("comm", "frames", name, bytes);
    all += bytes;
    const bool on_bytes = frame.type == FrameType::kBytes;
    const std::string registers = on_bytes && frame.status.ok() ? std::string(16, 'x') : "";
    const std::string said = Said(on_bytes ? 1 : 0, bytes + registers);
    Write("comm", "tcp_net", name, said);
    const bool ends = name == "refusal" || name == "place";  // of a memory that is not read
    if (!ends) talk += said;
    if (name == "place") {
      const Letter letter = LetterOf(frame);
      Write("comm", "host_mail", name,
            std::string(reinterpret_cast<const char*>(&letter), sizeof(letter)));
    }
    if (name == "pull") {
      Write("comm", "pieces", name, std::string("\0\2", 2) + bytes.substr(kFrameHeadBytes));
    }
  }
  Write("comm", "frames", "all", all);
  Frame pieces = Frames()[2].second;
  pieces.request.pieces.assign(70, {8, {}, {}});
  pieces.request.bytes = 70 * 4;
  Write("comm", "frames", "pieces", BytesOf(pieces));
  // Then this rank pulls again, and sends tokens of edges that the peer has asked for.
  Write("comm", "tcp_net", "all", talk + std::string("\4\1\6\x09\6\x0a\0", 7) + talk);
  const Hello hello = MakeHello({1, 4, 0, 2});
  const std::string text(reinterpret_cast<const char*>(hello.data()), hello.size());
  Write("wire", "handshake", "good", text + "\2" + std::string(kAddedBytes + kAnswerBytes, '\0'));
  Write("wire", "handshake", "all",
        text + std::string("\0", 1) + text + "\1" + std::string(kAnswerBytes, 'a') + "\2" +
            std::string(kAddedBytes, 'b') + std::string(kAnswerBytes, '\1') + "\3\4\5" +
            MakeVerdict(absl::OkStatus(), ""));
  // Records, changes of them, and how they come; see records_fuzz.cc.
  const auto write = [](absl::string_view name, std::initializer_list<uint8_t> bytes) {
    Write("wire", "records", name, std::string(bytes.begin(), bytes.end()));
  };
  write("honest", {3, 16, 0, 0, 255, 255, 255, 5, 0, 1, 0, 100, 0, 32, 0});
  write("changed", {2, 16, 0, 0, 40, 0, 0, 1, 1, 0, 9, 0, 1, 255, 255, 0, 1});
  write("lost", {3, 16, 0, 0, 40, 0, 0, 8, 0, 0, 1, 1, 1, 10, 0, 0, 1});
  write("repeated", {1, 16, 0, 0, 1, 0, 2, 10, 0, 0, 1});
  write("swapped", {2, 16, 0, 0, 16, 0, 0, 1, 0, 3, 10, 0, 0, 1});
  write("cut", {2, 16, 0, 0, 16, 0, 0, 2, 1, 4, 20, 0, 0, 5, 3, 255, 255, 255, 10, 0, 0, 1});
}

}  // namespace
}  // namespace sluice

int main() {
  sluice::WriteTexts();
  sluice::WriteHandPlans();
  sluice::WriteCompiled();
  sluice::WriteCheckpoint();
  sluice::WriteIdx();
  sluice::WritePairs();
  sluice::WriteRecordSeeds();
  sluice::WritePictures();
  sluice::WriteWire();
  sluice::WriteWaits();
  sluice::WriteReplicas();
  return 0;
}
