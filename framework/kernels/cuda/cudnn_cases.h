// What cuDNN is asked for: the convolutions and the attention of our models, by classes of shapes.
// For the table of what it supports (testdata/cudnn_support.txt) and the program that writes it.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_CASES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/kernels/cuda/cudnn_graph.h"

namespace sluice::cuda {

struct CudnnCase {
  std::string name;
  std::function<void(CudnnGraph&)> build;
  std::vector<cudnnBackendNumericalNote_t> without;  // engines that may not compute it
};

std::vector<CudnnCase> CudnnCases();
// Those of attention among them, forward and backward.
void AddCudnnAttentionCases(std::vector<CudnnCase>* cases);

const char* CudnnTypeName(cudnnDataType_t type);

// A card, as CudnnGraph::Engines wants it described.
struct CudnnCard {
  std::string name;
  std::string description;
};
std::vector<CudnnCard> CudnnCards();

// The whole table: the library's version, then a line for each card and case. The same each time
// for one version of the library; needs no GPU.
absl::StatusOr<std::string> CudnnSupport();

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_CASES_H_
