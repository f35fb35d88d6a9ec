#include "framework/testing/cuda_emulation/cudnn_pattern.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sluice::cuda_emulation {
namespace {

// A word an operation.
std::string WordOf(const CudnnOperation& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return "matmul";
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return "reshape";
    case CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR:
      return "draw";
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return operation.reduction == CUDNN_REDUCE_TENSOR_MAX ? "max" : "sum";
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      break;
    default:
      return "?";
  }
  switch (operation.mode) {
    case CUDNN_POINTWISE_ADD:
      return "add";
    case CUDNN_POINTWISE_SUB:
      return "sub";
    case CUDNN_POINTWISE_MUL:
      return "mul";
    case CUDNN_POINTWISE_DIV:
      return "div";
    case CUDNN_POINTWISE_EXP:
      return "exp";
    case CUDNN_POINTWISE_LOG:
      return "log";
    case CUDNN_POINTWISE_GEN_INDEX:
      return absl::StrCat("index", operation.axis);
    case CUDNN_POINTWISE_CMP_GE:
      return "ge";
    case CUDNN_POINTWISE_BINARY_SELECT:
      return "select";
  }
  return "?";
}

std::string WordsOf(const CudnnProgram& program) {
  std::string words;
  for (const CudnnOperation& operation : program) absl::StrAppend(&words, WordOf(operation), " ");
  return words;
}

// What the words have to be.
std::string ExpectedWords(const AttentionPattern& a) {
  const bool drops = a.dropout != AttentionDropout::kNone;
  const bool draws = a.dropout == AttentionDropout::kDraws;
  const std::string scores = absl::StrCat("matmul mul ", a.causal ? "" : "add ");
  const std::string causal = a.causal ? "index2 index3 ge select " : "";
  if (a.forward) {
    return absl::StrCat(draws ? "draw " : "", scores, causal, "max sub exp sum log add div ",
                        drops ? "mul mul " : "", "matmul ");
  }
  return absl::StrCat(draws ? "draw " : "", "mul sum mul ", scores, "sub ", causal, "exp ",
                      drops ? "mul mul " : "", "reshape matmul matmul ", drops ? "mul " : "",
                      "sub mul ", drops ? "mul " : "", "mul reshape matmul reshape matmul ");
}

}  // namespace

std::optional<AttentionPattern> FindAttention(const CudnnProgram& program) {
  const std::string words = WordsOf(program);
  const auto has = [&](const char* word) { return words.find(word) != std::string::npos; };
  const auto product =
      std::find_if(program.begin(), program.end(), [](const CudnnOperation& operation) {
        return operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
      });
  if (product == program.end() || product->inputs[0].dims.size() != 4) return std::nullopt;
  const CudnnTensor& q = product->inputs[0];
  const CudnnTensor& scores = product->output;
  AttentionPattern a;
  a.forward = has("log");
  a.causal = has("ge");
  a.type = q.type;
  a.batch = q.dims[0];
  a.heads = q.dims[1];
  a.time = q.dims[2];
  a.size = q.dims[3];
  if (has("draw")) a.dropout = AttentionDropout::kDraws;
  // A mask lies in memory and is as large as the scores, which it is multiplied with.
  for (const CudnnOperation& operation : program) {
    if (operation.mode != CUDNN_POINTWISE_MUL || operation.inputs.size() != 2) continue;
    const CudnnTensor& mask = operation.inputs[1];
    if (operation.inputs[0].is_virtual && !mask.is_virtual && !mask.by_value &&
        mask.dims == scores.dims) {
      a.dropout = AttentionDropout::kMask;
    }
  }
  if (words != ExpectedWords(a)) return std::nullopt;
  return a;
}

int DeviceVersionIn(const std::string& description) {
  constexpr char kKey[] = "\"deviceVer\":";
  const size_t at = description.find(kKey);
  if (at == std::string::npos) return 0;
  const size_t begin = at + sizeof kKey - 1;
  int version = 0;
  const bool read = absl::SimpleAtoi(
      description.substr(begin, description.find_first_of(",}", begin) - begin), &version);
  return read ? version : 0;
}

}  // namespace sluice::cuda_emulation
