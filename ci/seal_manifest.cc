// Seals a manifest.json that was changed by hand, as someone would who gives a checkpoint away: for
// hostile.py, which then shows what a sealed checkpoint can and cannot do.
#include <cstdio>
#include <string>

#include "framework/base/process.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/manifest.h"

namespace sluice {
namespace {

absl::Status Seal(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, 1 << 30));
  ASSIGN_OR_RETURN(const std::string sealed, SealManifest(text, path));
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(path));
  RETURN_IF_ERROR(writer.Append(sealed));
  return writer.Close();
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: seal_manifest FILE\n");
    return 2;
  }
  const absl::Status status = Seal(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "seal_manifest: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunProcess("seal_manifest", [&] { return sluice::Main(argc, argv); });
}
