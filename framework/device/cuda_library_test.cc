#include "framework/device/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// cuda_library_fake.cc is built into each, with the version that the name says.
constexpr char kRight[] = "framework/device/fake_13_1_0";
constexpr char kOld[] = "framework/device/fake_11_8_3";
constexpr char kFailing[] = "framework/device/fake_failing";
constexpr char kFile[] = "libsluice_fake.so.13";

CudaLibrarySpec Fake() {
  CudaLibrarySpec spec;
  spec.name = "Fake";
  spec.file = kFile;
  spec.major = 13;
  spec.version_function = "fakeGetVersion";
  spec.remedy = "install the fake";
  return spec;
}

fs::path EmptyFolder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string Message(const CudaLibrarySpec& spec, const std::vector<std::string>& directories,
                    absl::StatusCode code) {
  const auto library = CudaLibrary::Open(spec, directories);
  EXPECT_EQ(library.status().code(), code) << library.status();
  EXPECT_THAT(std::string(library.status().message()), Not(HasSubstr("\n")));
  return std::string(library.status().message());
}

TEST(CudaLibraryTest, IsTakenFromTheFirstDirectoryThatHasIt) {
  const auto library = CudaLibrary::Open(Fake(), {EmptyFolder("empty").string(), kRight, kOld});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->version(), 130100);
  EXPECT_EQ(library->description(), std::string("Fake 13.1.0 in ") + kRight + "/" + kFile);
  const auto twice = library->Function<int (*)(int)>("fakeDouble");
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ((*twice)(21), 42);
}

TEST(CudaLibraryTest, TheLoaderComesBeforeTheDirectories) {
  // What a process has open, the loader knows by its SONAME.
  constexpr char kKnown[] = "libsluice_known.so.13";
  const std::string path = std::string("framework/device/fake_known/") + kKnown;
  ASSERT_NE(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  const fs::path folder = EmptyFolder("later");
  fs::copy(std::string(kOld) + "/" + kFile, folder / kKnown);
  CudaLibrarySpec spec = Fake();
  spec.file = kKnown;
  const auto library = CudaLibrary::Open(spec, {folder.string()});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->description(), "Fake 13.2.0 in " + path);
}

TEST(CudaLibraryTest, OneThatIsNowhereNamesThePlacesAndTheRemedy) {
  EXPECT_EQ(Message(Fake(), {"/nowhere/a", "/nowhere/b"}, absl::StatusCode::kNotFound),
            "Fake: no libsluice_fake.so.13 where the loader looks (LD_LIBRARY_PATH, ldconfig) nor "
            "in /nowhere/a, /nowhere/b; install the fake");
  EXPECT_EQ(Message(Fake(), {}, absl::StatusCode::kNotFound),
            "Fake: no libsluice_fake.so.13 where the loader looks (LD_LIBRARY_PATH, ldconfig); "
            "install the fake");
}

TEST(CudaLibraryTest, AFileThatIsNoLibraryIsToldOfAndPassedOver) {
  const fs::path folder = EmptyFolder("damaged");
  std::ofstream(folder / kFile) << "not a library";
  EXPECT_THAT(Message(Fake(), {folder.string()}, absl::StatusCode::kNotFound),
              HasSubstr((folder / kFile).string() + ": file too short"));
  EXPECT_TRUE(CudaLibrary::Open(Fake(), {folder.string(), kRight}).ok());
}

TEST(CudaLibraryTest, AnotherMajorVersionIsRefused) {
  EXPECT_EQ(Message(Fake(), {kOld}, absl::StatusCode::kFailedPrecondition),
            "Fake 11.8.3 in framework/device/fake_11_8_3/libsluice_fake.so.13: expected version 13,"
            " got 11.8.3; install the fake");
}

TEST(CudaLibraryTest, VersionsBeforeTenThousandHaveTenMinorOnes) {
  CudaLibrarySpec spec = Fake();
  EXPECT_THAT(Message(spec, {kFailing}, absl::StatusCode::kFailedPrecondition),
              HasSubstr("got 8.9.2"));
  spec.major = 8;
  EXPECT_TRUE(CudaLibrary::Open(spec, {kFailing}).ok());
}

TEST(CudaLibraryTest, AVersionMayBeWrittenToAnArgument) {
  CudaLibrarySpec spec = Fake();
  spec.version_function = "fakeWriteVersion";
  spec.version_by_argument = true;
  const auto library = CudaLibrary::Open(spec, {kRight});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->version(), 130100);
  EXPECT_THAT(Message(spec, {kFailing}, absl::StatusCode::kFailedPrecondition),
              HasSubstr("fakeWriteVersion failed with 3"));
}

TEST(CudaLibraryTest, AFunctionThatIsNotThereIsNamed) {
  CudaLibrarySpec spec = Fake();
  const auto library = CudaLibrary::Open(spec, {kRight});
  ASSERT_TRUE(library.ok()) << library.status();
  const auto missing = library->Function<void (*)()>("fakeTriple");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(HasSubstr("Fake 13.1.0 in framework/device/fake_13_1_0/"),
                    HasSubstr("it has no function fakeTriple")));
  spec.version_function = "fakeVersion";
  EXPECT_THAT(Message(spec, {kRight}, absl::StatusCode::kNotFound),
              HasSubstr("it has no function fakeVersion"));
}

TEST(CudaLibraryTest, PartsMustLieBesideIt) {
  const fs::path folder = EmptyFolder("parts");
  fs::copy(std::string(kRight) + "/" + kFile, folder / kFile);
  CudaLibrarySpec spec = Fake();
  spec.parts = {"libfake_graph.so.13"};
  EXPECT_THAT(Message(spec, {folder.string()}, absl::StatusCode::kFailedPrecondition),
              HasSubstr("its part libfake_graph.so.13 is not beside it; install the fake"));
  std::ofstream(folder / "libfake_graph.so.13") << "opened by the library itself, not by us";
  EXPECT_TRUE(CudaLibrary::Open(spec, {folder.string()}).ok());
}

class CudaLibraryDirectoriesTest : public testing::Test {
 protected:
  std::string Folder(const std::string& name) {
    fs::create_directories(root_ / name);
    return (root_ / name).string();
  }
  // Without what this machine has at /usr/local/cuda, which nobody can move.
  std::vector<std::string> Directories() {
    std::vector<std::string> all = CudaLibraryDirectories([&](const char* name) {
      const auto found = environment_.find(name);
      return found == environment_.end() ? nullptr : found->second.c_str();
    });
    std::erase_if(all, [&](const std::string& each) { return each.rfind("/usr/local/", 0) == 0; });
    return all;
  }

  const fs::path root_ = EmptyFolder("root");
  std::map<std::string, std::string> environment_;
};

TEST_F(CudaLibraryDirectoriesTest, NothingSetIsNothingFound) {
  EXPECT_THAT(Directories(), ElementsAre());
}

TEST_F(CudaLibraryDirectoriesTest, ToolkitsInOrderAndInBothLayouts) {
  const std::string home = Folder("home/lib64");
  const std::string path = Folder("path/targets/x86_64-linux/lib");
  const std::string beside = Folder("beside/lib64");
  std::ofstream(fs::path(Folder("beside/bin")) / "nvcc") << "";
  fs::create_symlink(root_ / "beside/bin", root_ / "bin");
  environment_["CUDA_PATH"] = (root_ / "path").string();
  environment_["CUDA_HOME"] = (root_ / "home").string();
  environment_["PATH"] = "/nowhere:" + (root_ / "bin").string();
  EXPECT_THAT(Directories(), ElementsAre(home, path, beside));
  // lib64 is often a link to lib, and nvcc's place is often CUDA_HOME.
  fs::create_symlink(root_ / "home/lib64", root_ / "home/lib");
  environment_["CUDA_PATH"] = environment_["CUDA_HOME"];
  EXPECT_THAT(Directories(), ElementsAre(home, beside));
}

TEST_F(CudaLibraryDirectoriesTest, PackagesOfAPython) {
  const std::string cudnn = Folder("venv/lib/python3.11/site-packages/nvidia/cudnn/lib");
  const std::string cublas = Folder("venv/lib/python3.11/site-packages/nvidia/cu13/lib");
  Folder("venv/lib/python3.11/site-packages/nvidia/headers_only/include");
  const std::string debian = Folder("usr/lib/python3/dist-packages/nvidia/nccl/lib");
  const std::string given = Folder("given/lib/python3.12/site-packages/nvidia/nccl/lib");
  const std::string toolkit = Folder("toolkit/lib64");
  std::ofstream(fs::path(Folder("usr/bin")) / "python3") << "";
  environment_["PATH"] = (root_ / "usr/bin").string();
  environment_["VIRTUAL_ENV"] = (root_ / "venv").string();
  environment_["SLUICE_PYTHON"] = (root_ / "given/bin/python3").string();
  environment_["CUDA_HOME"] = (root_ / "toolkit").string();
  EXPECT_THAT(Directories(), ElementsAre(toolkit, given, cublas, cudnn, debian));
}

}  // namespace
}  // namespace sluice
