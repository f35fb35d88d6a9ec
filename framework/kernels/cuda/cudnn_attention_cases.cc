#include "absl/strings/str_format.h"
#include "framework/kernels/cuda/cudnn_attention_graph.h"
#include "framework/kernels/cuda/cudnn_cases.h"

namespace sluice::cuda {
namespace {

struct AttentionCase {
  const char* model;
  int64_t batch, heads, time, size;
  bool causal;
  int64_t row_heads = 0;
};

constexpr AttentionCase kAttentions[] = {
    {"gpt2_124m", 8, 12, 1024, 64, true},
    {"gpt2_350m", 8, 16, 1024, 64, true},
    {"gpt2_xl", 2, 25, 1024, 64, true},
    {"gpt_tiny", 4, 4, 100, 32, true},
    // Parts of what is made by parts: some samples, and some heads of a long one.
    {"gpt2_124m", 2, 12, 1024, 64, true},
    {"gpt2_xl", 1, 25, 1024, 64, true},
    {"gpt2_350m", 2, 16, 1024, 64, true},
    {"gpt_2_of_16_heads", 1, 2, 4096, 64, true, 16},
    {"bert_base", 16, 12, 512, 64, false},
    {"bert_base", 32, 12, 128, 64, false},
};

}  // namespace

void AddCudnnAttentionCases(std::vector<CudnnCase>* cases) {
  constexpr struct {
    CudnnDropout dropout;
    const char* name;
  } kDropouts[] = {{CudnnDropout::kNone, "none"},
                   {CudnnDropout::kMask, "mask"},
                   {CudnnDropout::kDraws, "draws"}};
  for (const AttentionCase& c : kAttentions) {
    for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}) {
      for (const auto& dropout : kDropouts) {
        for (const bool forward : {true, false}) {
          cases->push_back(
              {absl::StrFormat("%s attention %s %s %s dropout=%s batch=%d heads=%d time=%d size=%d",
                               c.model, forward ? "forward" : "backward", CudnnTypeName(type),
                               c.causal ? "causal" : "padded", dropout.name, c.batch, c.heads,
                               c.time, c.size),
               [=](CudnnGraph& graph) {
                 CudnnAttentionGraph attention(
                     {c.batch, c.heads, c.time, c.size, c.causal, type, dropout.dropout,
                      /*scale=*/0.125f, /*keep=*/0.9f, c.row_heads},
                     &graph);
                 forward ? attention.Forward() : attention.Backward();
               },
               CudnnNotesWithout(type)});
        }
      }
    }
  }
}

}  // namespace sluice::cuda
