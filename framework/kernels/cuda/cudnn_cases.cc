#include "framework/kernels/cuda/cudnn_cases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"

namespace sluice::cuda {

const char* CudnnTypeName(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT ? "f32" : "bf16";
}

namespace {

using TensorId = CudnnGraph::TensorId;

// Of images of height and width `size`, with square windows. What the models have that is no
// product as it lies is here (bench:cudnn_shapes_test).
struct ConvolutionCase {
  const char* model;
  int64_t batch, channels, size, out, window, stride, groups;
};

constexpr ConvolutionCase kConvolutions[] = {
    {"resnet50", 32, 3, 224, 64, 7, 2, 1},          {"resnet50", 32, 64, 56, 64, 1, 1, 1},
    {"resnet50", 32, 64, 56, 64, 3, 1, 1},          {"resnet50", 32, 64, 56, 256, 1, 1, 1},
    {"resnet50", 32, 128, 56, 128, 3, 2, 1},        {"resnet50", 32, 256, 56, 512, 1, 2, 1},
    {"resnet50", 32, 256, 14, 256, 3, 1, 1},        {"resnet50", 32, 1024, 14, 2048, 1, 2, 1},
    {"resnet50", 32, 512, 7, 512, 3, 1, 1},         {"resnet50", 32, 2048, 7, 512, 1, 1, 1},
    {"resnet50", 5, 128, 28, 128, 3, 1, 1},         {"resnet50", 32, 256, 28, 256, 3, 2, 1},
    {"resnet50", 32, 512, 28, 1024, 1, 2, 1},       {"resnet50", 32, 512, 14, 512, 3, 2, 1},
    {"resnet18", 32, 64, 56, 128, 3, 2, 1},         {"resnet18", 32, 64, 56, 128, 1, 2, 1},
    {"resnet18", 32, 128, 28, 256, 3, 2, 1},        {"resnet18", 32, 128, 28, 256, 1, 2, 1},
    {"resnet18", 32, 256, 14, 512, 3, 2, 1},        {"resnet18", 32, 256, 14, 512, 1, 2, 1},
    {"resnet20", 128, 16, 32, 16, 3, 1, 1},         {"insightface", 64, 3, 112, 64, 3, 1, 1},
    {"insightface", 64, 64, 112, 64, 3, 2, 1},      {"insightface", 64, 64, 112, 64, 1, 2, 1},
    {"insightface", 64, 128, 28, 128, 3, 1, 1},     {"insightface", 64, 256, 14, 512, 3, 1, 1},
    {"insightface", 64, 512, 7, 512, 3, 1, 1},      {"insightface", 64, 64, 112, 64, 3, 1, 1},
    {"insightface", 64, 64, 56, 128, 3, 1, 1},      {"insightface", 64, 128, 28, 256, 3, 1, 1},
    {"mobilefacenet", 64, 64, 56, 64, 3, 1, 64},    {"mobilefacenet", 64, 128, 56, 128, 3, 2, 128},
    {"mobilefacenet", 64, 512, 7, 512, 7, 1, 512},  {"mobilefacenet", 64, 3, 112, 64, 3, 2, 1},
    {"mobilefacenet", 64, 128, 28, 128, 3, 1, 128}, {"mobilefacenet", 64, 256, 28, 256, 3, 2, 256},
    {"mobilefacenet", 64, 256, 14, 256, 3, 1, 256}, {"mobilefacenet", 64, 512, 14, 512, 3, 2, 512},
    {"mobilefacenet", 64, 256, 7, 256, 3, 1, 256},
};

int64_t PaddingOf(const ConvolutionCase& c) { return c.window == c.size ? 0 : c.window / 2; }

// Weights lie as [out, height, width, in], not as [height, width, in, out], which our graphs have
// and which has to be turned round first: cuDNN takes strides of the latter, too, but its answer,
// workspace included, is then the very one for the former, where other orders add the bytes of a
// transpose. So it seems not to look at them, and nobody has seen what it would compute.
void BuildConvolution(const ConvolutionCase& c, cudnnDataType_t type, ConvolutionPass pass,
                      CudnnGraph& graph) {
  const int64_t padding = PaddingOf(c), in = c.channels / c.groups, window = c.window;
  const int64_t size = (c.size + 2 * padding - window) / c.stride + 1;
  // Channels are innermost, whatever order dimensions are named in.
  const auto channels_last = [&](int64_t n, int64_t channels, int64_t side) {
    return graph.Tensor({n, channels, side, side},
                        {side * side * channels, 1, side * channels, channels}, type);
  };
  const TensorId x = channels_last(c.batch, c.channels, c.size);
  const TensorId w = channels_last(c.out, in, window);
  const TensorId y = channels_last(c.batch, c.out, size);
  graph.Convolution(pass, {{c.stride, c.stride}, {padding, padding}, {1, 1}}, x, w, y);
}

void AddConvolutions(std::vector<CudnnCase>* cases) {
  constexpr struct {
    ConvolutionPass pass;
    const char* name;
  } kPasses[] = {{ConvolutionPass::kForward, "forward"},
                 {ConvolutionPass::kInputGradient, "input_gradient"},
                 {ConvolutionPass::kWeightGradient, "weight_gradient"}};
  for (const ConvolutionCase& c : kConvolutions) {
    for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}) {
      for (const auto& pass : kPasses) {
        cases->push_back(
            {absl::StrFormat(
                 "%s conv2d %s %s n=%d c=%d size=%d out=%d window=%d stride=%d groups=%d", c.model,
                 pass.name, CudnnTypeName(type), c.batch, c.channels, c.size, c.out, c.window,
                 c.stride, c.groups),
             [=](CudnnGraph& graph) { BuildConvolution(c, type, pass.pass, graph); },
             CudnnNotesWithout(type)});
      }
    }
  }
}

}  // namespace

std::vector<CudnnCard> CudnnCards() {
  // As data sheets have it. What a card says of itself, by the same attribute, should take its
  // place as soon as there is one to ask.
  constexpr char kCommon[] =
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"driverVer":13000,)"
      R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"pciDeviceId":0,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"cudaDeviceId":0,)";
  return {{"h100", absl::StrCat("{", kCommon,
                                R"("deviceVer":900,"multiProcessorCount":132,)"
                                R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
                                R"("l2CacheSize":52428800,"maxSharedMemoryPerBlockOptin":232448,)"
                                R"("maxSharedMemoryPerSM":233472,"totalGlobalMem":85014347776,)"
                                R"("deviceName":"NVIDIA H100 80GB HBM3"})")},
          {"a100", absl::StrCat("{", kCommon,
                                R"("deviceVer":800,"multiProcessorCount":108,)"
                                R"("smClockRateKHz":1410000,"memClockRateKHz":1593000,)"
                                R"("l2CacheSize":41943040,"maxSharedMemoryPerBlockOptin":166912,)"
                                R"("maxSharedMemoryPerSM":167936,"totalGlobalMem":85014347776,)"
                                R"("deviceName":"NVIDIA A100-SXM4-80GB"})")}};
}

std::vector<CudnnCase> CudnnCases() {
  std::vector<CudnnCase> cases;
  AddConvolutions(&cases);
  AddCudnnAttentionCases(&cases);
  return cases;
}

absl::StatusOr<std::string> CudnnSupport() {
  RETURN_IF_ERROR(CudnnBackend::OpenDriverOrStandIn());
  ASSIGN_OR_RETURN(const CudnnBackend* backend, CudnnBackend::Load());
  std::string table = absl::StrCat("version ", backend->version, "\n");
  const std::vector<CudnnCase> cases = CudnnCases();
  for (const CudnnCard& card : CudnnCards()) {
    for (const CudnnCase& each : cases) {
      CudnnGraph graph(*backend);
      each.build(graph);
      const auto engines = graph.Engines({nullptr, card.description}, each.without);
      absl::StrAppend(&table, card.name, " ", each.name, ": ");
      if (engines.ok()) {
        int64_t least = engines->front().workspace;
        for (const CudnnEngine& engine : *engines) least = std::min(least, engine.workspace);
        absl::StrAppend(&table, "ways ", engines->size(), ", first engine ", engines->front().index,
                        " workspace ", engines->front().workspace, ", least workspace ", least,
                        "\n");
      } else if (absl::IsUnimplemented(engines.status())) {
        absl::StrAppend(&table, "no\n");
      } else {
        return AddContext(engines.status(), each.name);
      }
    }
  }
  return table;
}

}  // namespace sluice::cuda
