// Names of functions of this program, for reports.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_SYMBOLS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_SYMBOLS_H_

#include <string>

namespace sluice::cuda_emulation {

// "SoftmaxRows<float>", without namespaces, parameters and result; "?" if it is not known. Kernels
// are static functions, which dladdr() does not know, so the program's own file is read.
std::string FunctionName(const void* function);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_SYMBOLS_H_
