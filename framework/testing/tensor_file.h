// Files of tensors in tests: read and written whole, compared bit for bit.
#ifndef SLUICE_FRAMEWORK_TESTING_TENSOR_FILE_H_
#define SLUICE_FRAMEWORK_TESTING_TENSOR_FILE_H_

#include <map>
#include <string>

#include "framework/tensor/array.h"

namespace sluice {

using Tensors = std::map<std::string, HostTensor>;

// The tensors of a safetensors file by name; what cannot be read fails the test and is left out.
Tensors ReadTensorFile(const std::string& path);
void WriteTensorFile(const std::string& path, const Tensors& tensors);
void ExpectSameTensors(const Tensors& got, const Tensors& expected);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_TENSOR_FILE_H_
