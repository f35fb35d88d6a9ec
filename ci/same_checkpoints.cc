// Whether two checkpoints hold the same tensors, bit by bit, however many ranks wrote them: for
// rdma_vm.py, where nothing but the programs of a test is at hand.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/process.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"

namespace sluice {
namespace {

absl::Status Compare(const std::string& expected, const std::string& got) {
  ASSIGN_OR_RETURN(const Checkpoint one, Checkpoint::Load(expected));
  ASSIGN_OR_RETURN(const Checkpoint other, Checkpoint::Load(got));
  if (one.tensors().size() != other.tensors().size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected ", one.tensors().size(), " tensors, got ", other.tensors().size()));
  }
  for (const TensorEntry& tensor : one.tensors()) {
    ASSIGN_OR_RETURN(const auto x, one.Read(tensor.name));
    ASSIGN_OR_RETURN(const auto y, other.Read(tensor.name));
    if (x.bytes != y.bytes) {
      return absl::FailedPreconditionError(absl::StrCat(tensor.name, " has other bits"));
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: same_checkpoints EXPECTED GOT\n");
    return 2;
  }
  const absl::Status status = Compare(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s and %s: %s\n", argv[1], argv[2], std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunProcess("same_checkpoints", [&] { return sluice::Main(argc, argv); });
}
