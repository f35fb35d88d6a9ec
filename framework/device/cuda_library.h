// NVIDIA's libraries, opened by name when they are first asked for: linked, cuBLASLt, cuDNN and
// NCCL cost every start of every program 50 ms and 214 MB. Any thread.
//
//   ASSIGN_OR_RETURN(const CudaLibrary* library, CudaLibrary::CublasLt());
//   ASSIGN_OR_RETURN(const auto matmul,
//                    library->Function<decltype(&cublasLtMatmul)>("cublasLtMatmul"));
#ifndef SLUICE_FRAMEWORK_DEVICE_CUDA_LIBRARY_H_
#define SLUICE_FRAMEWORK_DEVICE_CUDA_LIBRARY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// What is looked for.
struct CudaLibrarySpec {
  std::string name;   // for people: "cuDNN"
  std::string file;   // its SONAME
  int64_t major = 0;  // of the version that our calls are written for
  // Gives its version: `size_t f()`, or `int f(int*)` where the version is written to an argument.
  std::string version_function;
  bool version_by_argument = false;
  // Files that it opens itself when it needs them, from the directory that it lies in.
  std::vector<std::string> parts;
  std::string remedy;  // what to install, for errors
};

// The shape of getenv.
using ReadEnvironment = std::function<const char*(const char*)>;

// Directories where libraries may be, beside those that the loader knows, first to last: of the
// toolkit at $CUDA_HOME, at $CUDA_PATH, around the nvcc on PATH, at /usr/local/cuda; then of the
// packages nvidia-* of a Python: $SLUICE_PYTHON, that of $VIRTUAL_ENV, of $CONDA_PREFIX, and the
// python3 on PATH. Only those that exist.
std::vector<std::string> CudaLibraryDirectories(const ReadEnvironment& environment);

class CudaLibrary {
 public:
  // Opened by the first who asks, and the same for all; they stay open.
  static absl::StatusOr<const CudaLibrary*> CublasLt();
  static absl::StatusOr<const CudaLibrary*> Cudnn();
  static absl::StatusOr<const CudaLibrary*> Nccl();

  // Asks the loader first, then the directories in order. NotFound names the file, where it was
  // looked for, and the remedy; FailedPrecondition the version that was found and the one expected,
  // or the part that is missing.
  static absl::StatusOr<CudaLibrary> Open(const CudaLibrarySpec& spec,
                                          const std::vector<std::string>& directories);

  // A pointer to a function, by its name. NotFound names the library's version and place.
  template <typename Pointer>
  absl::StatusOr<Pointer> Function(const char* name) const {
    void* const found = Find(name);
    if (found == nullptr) return Missing(name);
    return reinterpret_cast<Pointer>(found);
  }

  // As its version function gives it: 91900 is 9.19.0.
  int64_t version() const { return version_; }
  // "cuDNN 9.19.0 in /usr/local/cuda/lib64/libcudnn.so.9"
  std::string description() const;

 private:
  CudaLibrary(std::string name, std::string path, void* handle);
  void* Find(const char* name) const;
  absl::Status Missing(const char* name) const;
  absl::Status CheckVersion(const CudaLibrarySpec& spec);
  absl::Status CheckParts(const CudaLibrarySpec& spec) const;

  std::string name_;
  std::string path_;
  void* handle_;
  int64_t version_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CUDA_LIBRARY_H_
