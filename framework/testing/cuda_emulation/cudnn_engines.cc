#include "framework/testing/cuda_emulation/cudnn_engines.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "framework/testing/cuda_emulation/cudnn_pattern.h"
#include "framework/testing/cuda_emulation/cudnn_program.h"

namespace sluice::cuda_emulation {
namespace {

constexpr char kSupport[] =
#include "framework/testing/cuda_emulation/cudnn_support.inc"
    ;

// A line of the table: none are `ways` 0.
struct Answer {
  int64_t ways = 0, engine = 0, workspace = 0, least = 0;
};

// By card and case, without the model that has the case.
const std::map<std::string, Answer, std::less<>>& Answers() {
  static const auto& answers = *[] {
    auto* const read = new std::map<std::string, Answer, std::less<>>();
    for (const absl::string_view line : absl::StrSplit(kSupport, '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, ": ");
      const std::vector<absl::string_view> words = absl::StrSplit(parts.first, ' ');
      if (words.size() < 3) continue;
      std::string key(words[0]);
      for (size_t i = 2; i < words.size(); ++i) absl::StrAppend(&key, " ", words[i]);
      // ways 3, first engine 2 workspace 122065680, least workspace 0
      std::vector<int64_t> numbers;
      for (const absl::string_view word : absl::StrSplit(parts.second, absl::ByAnyChar(" ,"))) {
        int64_t number = 0;
        if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
      }
      Answer& answer = (*read)[key];
      if (numbers.size() == 4) answer = {numbers[0], numbers[1], numbers[2], numbers[3]};
    }
    return read;
  }();
  return answers;
}

const char* CardOf(int capability) {
  return capability >= 90 ? "h100" : capability >= 80 ? "a100" : nullptr;
}

const char* NameOf(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT ? "f32" : "bf16"; }

// Dense, with channels innermost; dimensions are named as [n, channels, height, width].
bool HasChannelsLast(const CudnnTensor& x) {
  const std::vector<int64_t>& d = x.dims;
  return x.strides == std::vector<int64_t>{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
}

CudnnRefusal AnswerConvolution(const CudnnOperation& c, const char* card, Answer* answer) {
  const CudnnTensor &x = c.x(), &w = c.w(), &y = c.y();
  // The library answers for other weights as if they lay so, and nobody has seen what it computes.
  for (const CudnnTensor* tensor : {&x, &w, &y}) {
    if (!HasChannelsLast(*tensor)) {
      return {CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "the emulation wants channels innermost"};
    }
  }
  if (x.type != w.type || x.type != y.type ||
      (x.type != CUDNN_DATA_FLOAT && x.type != CUDNN_DATA_BFLOAT16)) {
    return {CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "f32 throughout, or bf16 throughout"};
  }
  if (w.dims[0] % c.groups() != 0) {
    return {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "outputs that groups do not divide"};
  }
  if (c.alpha != 1 || c.beta != 0) {
    return {CUDNN_STATUS_NOT_SUPPORTED, "the emulation has alpha 1 and beta 0"};
  }
  const bool forward = c.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool of_x = c.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const int64_t pad = c.before[0];
  const bool square = x.dims[2] == x.dims[3] && w.dims[2] == w.dims[3] &&
                      c.stride[0] == c.stride[1] && c.dilation[0] == 1 && c.dilation[1] == 1 &&
                      c.before == c.after && c.before[1] == pad;
  if (square && pad == (w.dims[2] == x.dims[2] ? 0 : w.dims[2] / 2)) {
    const auto found = Answers().find(absl::StrFormat(
        "%s conv2d %s %s n=%d c=%d size=%d out=%d window=%d stride=%d groups=%d", card,
        forward ? "forward"
        : of_x  ? "input_gradient"
                : "weight_gradient",
        NameOf(x.type), x.dims[0], x.dims[1], x.dims[2], w.dims[0], w.dims[2], c.stride[0],
        c.groups()));
    if (found != Answers().end()) {
      *answer = found->second;
      return {};
    }
  }
  // f32 wants room for images with channels outermost, bf16 for channels rounded up to eight.
  const bool f32 = x.type == CUDNN_DATA_FLOAT;
  if (f32) {
    *answer = {2, 70, forward || of_x ? 4 * (x.Elements() + y.Elements()) + 16 : 80, 0};
  } else {
    const int64_t pixels = x.dims[0] * x.dims[2] * x.dims[3];
    *answer = {3, 62, x.dims[1] % 8 == 0 ? 131 : 2 * pixels * ((x.dims[1] + 7) / 8 * 8) + 131, 0};
  }
  return {};
}

CudnnRefusal AnswerAttention(const AttentionPattern& a, const char* card, Answer* answer) {
  const auto found = Answers().find(absl::StrFormat(
      "%s attention %s %s %s dropout=%s batch=%d heads=%d time=%d size=%d", card,
      a.forward ? "forward" : "backward", NameOf(a.type), a.causal ? "causal" : "padded",
      a.dropout == AttentionDropout::kNone   ? "none"
      : a.dropout == AttentionDropout::kMask ? "mask"
                                             : "draws",
      a.batch, a.heads, a.time, a.size));
  if (found != Answers().end()) {
    *answer = found->second;
    return {};
  }
  if (a.type != CUDNN_DATA_BFLOAT16) return {};
  // documented: heads of a multiple of eight, at most 128 where there is no Hopper.
  if (a.size % 8 != 0 || a.size > (card[0] == 'h' ? 256 : 128)) {
    return {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "hidden_dim should be multiple of 8"};
  }
  // The backward has the scores of whole tiles of 128, in bf16.
  const int64_t tiles = (a.time + 127) / 128 * 128;
  const int64_t scores = 2 * a.batch * a.heads * tiles * tiles;
  *answer = a.forward ? Answer{2, 2, 256, 0} : Answer{2, 6, scores + 256, scores + 128};
  return {};
}

std::optional<int> CapabilityOf(const CudnnDescriptorData& heuristic,
                                const CudnnDescriptorData& graph) {
  const auto device = heuristic.Descriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (device != nullptr) {
    const std::vector<char> text = device->Values<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    const int version = DeviceVersionIn(std::string(text.begin(), text.end()));
    if (version > 0) return version / 10;
    return std::nullopt;
  }
  const auto handle = graph.Value<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, nullptr);
  if (handle == nullptr) return std::nullopt;
  return CapabilityOfCudnnHandle(handle);
}

}  // namespace

CudnnRefusal ChooseCudnnEngines(const CudnnDescriptorData& heuristic,
                                std::vector<CudnnEngineChoice>* choices) {
  const auto graph = heuristic.Descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const std::optional<int> capability = CapabilityOf(heuristic, *graph);
  if (!capability.has_value()) return {CUDNN_STATUS_BAD_PARAM, "of which device is not said"};
  const char* const card = CardOf(*capability);
  if (card == nullptr) return {CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "a card before A100"};
  const CudnnProgram program = ProgramOf(*graph);
  Answer answer;
  CudnnRefusal refusal;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  if (program.size() == 1 && program[0].IsConvolution()) {
    refusal = AnswerConvolution(program[0], card, &answer);
    type = program[0].x().type;
  } else if (const auto attention = FindAttention(program); attention.has_value()) {
    refusal = AnswerAttention(*attention, card, &answer);
    type = attention->type;
  } else {
    refusal = {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "neither a convolution nor attention"};
  }
  if (refusal.refused()) return refusal;
  const bool f32 = type == CUDNN_DATA_FLOAT;
  if (heuristic.Value(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A) == CUDNN_HEUR_MODE_A) {
    choices->push_back(
        {3,
         0,
         {f32 ? CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS : CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
          CUDNN_NUMERICAL_NOTE_TENSOR_CORE}});
  }
  for (int64_t way = 0; way < answer.ways; ++way) {
    CudnnEngineChoice choice = {
        answer.engine + way, way == 0 ? answer.workspace : answer.least, {}};
    if (!f32) choice.notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    choices->push_back(std::move(choice));
  }
  return {};
}

}  // namespace sluice::cuda_emulation
