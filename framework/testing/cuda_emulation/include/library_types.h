// Types of elements in the toolkit's libraries, with its names and numbers.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_LIBRARY_TYPES_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_LIBRARY_TYPES_H_

typedef enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_8I = 3,
  CUDA_R_32I = 10,
  CUDA_R_16BF = 14,
} cudaDataType;

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_LIBRARY_TYPES_H_
