#include "framework/checkpoint/folder.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr int64_t kManifestLimit = 100'000'000;

using Types = std::map<std::string, std::string>;  // by name in a file

// What the file of each part should have.
std::vector<Types> TypesByFile(const Manifest& manifest) {
  if (manifest.parts == 0) return {manifest.types};
  std::vector<Types> types(manifest.parts);
  for (const auto& [name, boxes] : manifest.boxes) {
    const std::string& type = manifest.types.at(name);
    const std::string dtype = type.substr(0, type.find('['));
    for (const StoredBox& stored : boxes) {
      types[stored.part][StoredName(name, stored.box)] =
          absl::StrCat(dtype, ShapeOf(stored.box).ToString());
    }
  }
  return types;
}

absl::Status CheckTypes(const std::string& path, const Types& types,
                        const SafetensorsReader& file) {
  for (const TensorEntry& entry : file.entries()) {
    const auto type = types.find(entry.name);
    const std::string got = PrintType(entry.dtype, entry.shape);
    if (type == types.end() || type->second != got) {
      return absl::DataLossError(absl::StrCat(
          path, ": tensor ", entry.name, ": expected ",
          type == types.end() ? "none, by the manifest" : type->second, ", got ", got));
    }
  }
  const size_t stored = file.stored().size();
  if (types.size() != stored || file.entries().size() != stored) {
    return absl::DataLossError(absl::StrCat(path, ": expected ", types.size(),
                                            " tensors of f32, f64, bf16 or i32, got ", stored,
                                            ", and ", file.entries().size(), " of these"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> CheckpointPath(const std::string& dir, const CheckpointMeta& meta) {
  if (meta.step < 0 || meta.samples < 0) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint: step ", meta.step, ", samples ",
                                                   meta.samples, ": expected none below 0"));
  }
  return absl::StrCat(dir, "/step-", absl::StrFormat("%06d", meta.step));
}

std::string PartManifest(int32_t part, int32_t parts) {
  return absl::StrFormat("manifest-%05d-of-%05d.json", int64_t{part} + 1, parts);
}

absl::StatusOr<Manifest> ReadManifest(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(file, kManifestLimit));
  return ParseManifest(text, file);
}

absl::Status WriteManifest(const std::string& file, const Manifest& manifest, FileFaults* faults) {
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(file, faults));
  RETURN_IF_ERROR(writer.Append(PrintManifest(manifest)));
  return writer.Close();
}

absl::StatusOr<std::vector<SafetensorsReader>> OpenTensors(const std::string& path,
                                                           const Manifest& manifest) {
  std::vector<SafetensorsReader> files;
  // They are opened before anything of their number is made: it may be any in a file from anywhere.
  for (int32_t part = 0; part == 0 || part < manifest.parts; ++part) {
    const std::string file = absl::StrCat(path, "/", TensorsFile(part, manifest.parts));
    ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(file));
    files.push_back(std::move(reader));
  }
  const std::vector<Types> types = TypesByFile(manifest);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string where =
        manifest.parts == 0
            ? path
            : absl::StrCat(path, "/", TensorsFile(static_cast<int32_t>(i), manifest.parts));
    RETURN_IF_ERROR(CheckTypes(where, types[i], files[i]));
  }
  return files;
}

absl::Status BeginFolder(const std::string& path, FileFaults* faults) {
  RETURN_IF_ERROR(RemoveTree(path + kUnfinished, faults));
  const absl::Status status = CreateDirectories(path + kUnfinished, faults);
  if (!status.ok()) RemoveTree(path + kUnfinished, faults).IgnoreError();
  return status;
}

absl::Status CommitFolder(const std::string& path, FileFaults* faults) {
  const std::string unfinished = path + kUnfinished;
  const absl::Status status = ReplaceDirectory(unfinished, path, faults);
  if (!status.ok()) {
    RemoveTree(unfinished, faults).IgnoreError();  // the first error is the one to tell
    return status;
  }
  // Where this fails, nobody knows which of two of this step a crash would leave: both stay.
  RETURN_IF_ERROR(SyncDirectory(path.substr(0, path.rfind('/')), faults));
  RemoveTree(unfinished, faults).IgnoreError();  // the older one of this step; pruning tries again
  return absl::OkStatus();
}

}  // namespace sluice
