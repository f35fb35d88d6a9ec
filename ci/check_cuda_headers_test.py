import unittest

from ci import check_cuda_headers

_HEADER = """
// enum cudaOld { cudaRemoved = 3 };
enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1,  // a comment, with cudaComma
                 cudaErrorNotReady = 600 };
typedef enum {
  CUBLAS_STATUS_SUCCESS = 0, /* cudaNothing, */
  CUBLAS_STATUS_NOT_INITIALIZED,
} cublasStatus_t;
enum class Ours { kFirst };
constexpr unsigned int cudaStreamNonBlocking = 1;
constexpr int kPrivate = 2;
#define CUDART_VERSION 13000
#define CUDA_GUARD_H_
enum cudaForward;
struct cudaDeviceProp { int major; };
"""


class CheckCudaHeadersTest(unittest.TestCase):

    def test_names_with_numbers_are_found(self):
        self.assertEqual(check_cuda_headers.names_in(_HEADER), [
            "CUBLAS_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_SUCCESS", "CUDART_VERSION", "cudaErrorInvalidValue",
            "cudaErrorNotReady", "cudaStreamNonBlocking", "cudaSuccess"])

    def test_the_program_prints_each(self):
        self.assertEqual(check_cuda_headers.program(["cuda_runtime.h"], ["cudaSuccess"]),
                         '#include <cuda_runtime.h>\n#include <cstdio>\nint main() {\n'
                         '  std::printf("cudaSuccess %lld\\n", static_cast<long long>(cudaSuccess));\n}\n')


if __name__ == "__main__":
    unittest.main()
