#include "framework/device/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The directory around the one of a program on PATH, /usr for /usr/bin/python3; empty if there is
// none. Links are followed, since a toolkit's nvcc is often linked into /usr/bin.
fs::path PrefixOfProgram(const ReadEnvironment& environment, const char* program) {
  const char* const path = environment("PATH");
  if (path == nullptr) return {};
  std::error_code error;
  for (const absl::string_view directory : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    const fs::path found = fs::canonical(fs::path(std::string(directory)) / program, error);
    if (!error) return found.parent_path().parent_path();
  }
  return {};
}

fs::path FromVariable(const ReadEnvironment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

class Directories {
 public:
  void Add(const fs::path& directory) {
    std::error_code error;
    if (!fs::is_directory(directory, error)) return;
    // lib64 is often a link to lib: the same directory is named once.
    const fs::path real = fs::canonical(directory, error);
    if (error || std::find(real_.begin(), real_.end(), real) != real_.end()) return;
    real_.push_back(real);
    found_.push_back(directory.string());
  }

  void AddToolkit(const fs::path& root) {
    if (root.empty()) return;
    for (const char* place : {"lib64", "targets/x86_64-linux/lib", "lib"}) Add(root / place);
  }

  // prefix/lib/python3.11/site-packages/nvidia/cublas/lib and its like; Debian has dist-packages.
  void AddPython(const fs::path& prefix) {
    if (prefix.empty()) return;
    for (const fs::path& python : Below(prefix / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : Below(python / packages / "nvidia", "")) {
          Add(package / "lib");
        }
      }
    }
  }

  std::vector<std::string> Take() { return std::move(found_); }

 private:
  // What lies in a directory and begins so, in order.
  static std::vector<fs::path> Below(const fs::path& directory, const std::string& beginning) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (absl::StartsWith(name, beginning)) found.push_back(entry->path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::vector<std::string> found_;
  std::vector<fs::path> real_;
};

// 130100 is 13.1.0, 91900 is 9.19.0. Before 10000 were ten minor versions a major one: 8902 is
// 8.9.2.
std::string VersionText(int64_t version) {
  const int64_t majors = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / majors, ".", version % majors / 100, ".", version % 100);
}

int64_t MajorOf(int64_t version) { return version / (version < 10000 ? 1000 : 10000); }

// Where the loader has it from.
std::string PathOf(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return fallback;
  return map->l_name;
}

std::vector<std::string> OfEnvironment() {
  return CudaLibraryDirectories([](const char* name) { return std::getenv(name); });
}

absl::StatusOr<const CudaLibrary*> Share(const absl::StatusOr<CudaLibrary>& library) {
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace

std::vector<std::string> CudaLibraryDirectories(const ReadEnvironment& environment) {
  Directories directories;
  directories.AddToolkit(FromVariable(environment, "CUDA_HOME"));
  directories.AddToolkit(FromVariable(environment, "CUDA_PATH"));
  directories.AddToolkit(PrefixOfProgram(environment, "nvcc"));
  directories.AddToolkit("/usr/local/cuda");
  // A virtual environment's python is a link to the system's, whose prefix is another.
  directories.AddPython(FromVariable(environment, "SLUICE_PYTHON").parent_path().parent_path());
  directories.AddPython(FromVariable(environment, "VIRTUAL_ENV"));
  directories.AddPython(FromVariable(environment, "CONDA_PREFIX"));
  directories.AddPython(PrefixOfProgram(environment, "python3"));
  return directories.Take();
}

CudaLibrary::CudaLibrary(std::string name, std::string path, void* handle)
    : name_(std::move(name)), path_(std::move(path)), handle_(handle) {}

absl::StatusOr<CudaLibrary> CudaLibrary::Open(const CudaLibrarySpec& spec,
                                              const std::vector<std::string>& directories) {
  // It stays open: its threads, and what it registers with the driver, outlive whoever asked.
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  std::string tried = spec.file;
  void* handle = dlopen(tried.c_str(), kMode);
  std::string refusal;  // of a file that is there
  for (size_t i = 0; handle == nullptr && i < directories.size(); ++i) {
    tried = absl::StrCat(directories[i], "/", spec.file);
    std::error_code error;
    if (!fs::exists(tried, error)) continue;
    handle = dlopen(tried.c_str(), kMode);
    if (handle == nullptr) absl::StrAppend(&refusal, "; ", dlerror());
  }
  if (handle == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        spec.name, ": no ", spec.file, " where the loader looks (LD_LIBRARY_PATH, ldconfig)",
        directories.empty() ? "" : " nor in ", absl::StrJoin(directories, ", "), refusal, "; ",
        spec.remedy));
  }
  CudaLibrary library(spec.name, PathOf(handle, tried), handle);
  RETURN_IF_ERROR(library.CheckVersion(spec));
  RETURN_IF_ERROR(library.CheckParts(spec));
  return library;
}

absl::Status CudaLibrary::CheckVersion(const CudaLibrarySpec& spec) {
  const char* const name = spec.version_function.c_str();
  if (spec.version_by_argument) {
    int version = 0;
    ASSIGN_OR_RETURN(const auto function, Function<int (*)(int*)>(name));
    if (const int error = function(&version); error != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(description(), ": ", name, " failed with ", error));
    }
    version_ = version;
  } else {
    ASSIGN_OR_RETURN(const auto function, Function<size_t (*)()>(name));
    version_ = static_cast<int64_t>(function());
  }
  if (MajorOf(version_) == spec.major) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(description(), ": expected version ",
                                                    spec.major, ", got ", VersionText(version_),
                                                    "; ", spec.remedy));
}

absl::Status CudaLibrary::CheckParts(const CudaLibrarySpec& spec) const {
  const fs::path directory = fs::path(path_).parent_path();
  for (const std::string& part : spec.parts) {
    std::error_code error;
    if (fs::exists(directory / part, error)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(description(), ": its part ", part, " is not beside it; ", spec.remedy));
  }
  return absl::OkStatus();
}

void* CudaLibrary::Find(const char* name) const { return dlsym(handle_, name); }

absl::Status CudaLibrary::Missing(const char* name) const {
  return absl::NotFoundError(absl::StrCat(description(), ": it has no function ", name));
}

std::string CudaLibrary::description() const {
  return absl::StrCat(name_, version_ == 0 ? "" : " ", version_ == 0 ? "" : VersionText(version_),
                      " in ", path_);
}

absl::StatusOr<const CudaLibrary*> CudaLibrary::CublasLt() {
  static const absl::StatusOr<CudaLibrary> library = [] {
    CudaLibrarySpec spec;
    spec.name = "cuBLASLt";
    spec.file = "libcublasLt.so.13";
    spec.major = 13;
    spec.version_function = "cublasLtGetVersion";
    spec.remedy =
        "install the CUDA toolkit 13, set CUDA_HOME to where it is, or pip install "
        "nvidia-cublas for the python3 on PATH";
    return Open(spec, OfEnvironment());
  }();
  return Share(library);
}

absl::StatusOr<const CudaLibrary*> CudaLibrary::Cudnn() {
  static const absl::StatusOr<CudaLibrary> library = [] {
    CudaLibrarySpec spec;
    spec.name = "cuDNN";
    spec.file = "libcudnn.so.9";
    spec.major = 9;
    spec.version_function = "cudnnGetVersion";
    spec.parts = {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_heuristic.so.9",
                  "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9"};
    spec.remedy =
        "install cuDNN 9 for CUDA 13 (Debian package libcudnn9-cuda-13 of NVIDIA), or "
        "pip install nvidia-cudnn-cu13 for the python3 on PATH";
    return Open(spec, OfEnvironment());
  }();
  return Share(library);
}

absl::StatusOr<const CudaLibrary*> CudaLibrary::Nccl() {
  static const absl::StatusOr<CudaLibrary> library = [] {
    CudaLibrarySpec spec;
    spec.name = "NCCL";
    spec.file = "libnccl.so.2";
    spec.major = 2;
    spec.version_function = "ncclGetVersion";
    spec.version_by_argument = true;
    spec.remedy =
        "install NCCL 2 for CUDA 13 (Debian package libnccl2 of NVIDIA), or pip install "
        "nvidia-nccl-cu13 for the python3 on PATH";
    return Open(spec, OfEnvironment());
  }();
  return Share(library);
}

}  // namespace sluice
