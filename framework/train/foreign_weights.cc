#include "framework/train/foreign_weights.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/safetensors_shards.h"
#include "framework/data/file.h"
#include "framework/data/file_kind.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// As a shell takes it for one word.
std::string ShellWord(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_./-+=:,@%", c);
  });
  if (plain && !text.empty()) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The command that makes one safetensors file of what torch.save wrote. A state_dict may be by
// itself or, as trainers save it, under "state_dict" or "model"; tensors that share memory are
// copied, since save_file takes none.
std::string TorchConversion(const std::vector<std::string>& from, const std::string& to) {
  constexpr char kProgram[] =
      "import sys, torch; from safetensors.torch import save_file; s = {}; "
      "[s.update(torch.load(f, map_location=\"cpu\", weights_only=True)) for f in sys.argv[2:]]; "
      "s = s.get(\"state_dict\", s.get(\"model\", s)); "
      "save_file({k: v.contiguous().clone() for k, v in s.items() if torch.is_tensor(v)}, "
      "sys.argv[1])";
  std::vector<std::string> words = {ShellWord(to)};
  for (const std::string& file : from) words.push_back(ShellWord(file));
  return absl::StrCat("a Python with torch and safetensors converts it: python3 -c '", kProgram,
                      "' ", absl::StrJoin(words, " "));
}

absl::Status WrittenByTorch(const std::string& path, const std::string& name) {
  const std::string to = fs::path(path).replace_extension(".safetensors").string();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected safetensors, got ", name, "; ", TorchConversion({path}, to)));
}

constexpr char kSaveAgain[] =
    "save it as safetensors there, as save_pretrained of transformers 4.35 and later does";

// Says what makes weights of a file that cannot be read as such, after what the file is.
std::string DescribeWeights(const RecognizedFile& file, const std::string& path) {
  switch (file.kind) {
    case FileKind::kHdf5:
      return absl::StrCat(file.name, ", as TensorFlow and Keras write them; ", kSaveAgain);
    case FileKind::kGguf:
      return absl::StrCat(file.name, "; take the model that it was made of");
    case FileKind::kNpy:
      return absl::StrCat(file.name, "; ", kSaveAgain);
    default:
      return DescribeFile(file, path);
  }
}

// Servers send such a page in place of a file.
bool IsHtml(absl::string_view begin) {
  return absl::StartsWithIgnoreCase(begin, "<!doctype html") ||
         absl::StartsWithIgnoreCase(begin, "<html");
}

// Files that have weights of another framework, by how their names end.
struct NamedKind {
  absl::string_view suffix;
  const char* what;
};
constexpr NamedKind kNamedKinds[] = {{".h5", "TensorFlow's or Keras'"},
                                     {".ckpt.index", "TensorFlow's"},
                                     {".msgpack", "Flax's"},
                                     {".onnx", "ONNX's"},
                                     {".gguf", "llama.cpp's"},
                                     {".ot", "rust-bert's"}};

bool IsTorchName(absl::string_view name) {
  const bool state = absl::StartsWith(name, "optimizer") || absl::StartsWith(name, "scheduler") ||
                     absl::StartsWith(name, "rng_state") || name == "training_args.bin";
  return !state && (absl::EndsWith(name, ".pth") || absl::EndsWith(name, ".pt") ||
                    absl::EndsWith(name, ".ckpt") || absl::EndsWith(name, ".bin"));
}

// pytorch_model.bin, or a shard of it.
bool IsTheHubs(const std::string& path) {
  return absl::StartsWith(fs::path(path).filename().string(), "pytorch_model");
}

// Where there are files under the hub's names, they are the model.
void KeepTheHubs(std::vector<std::string>* torch) {
  if (std::none_of(torch->begin(), torch->end(), IsTheHubs)) return;
  torch->erase(std::remove_if(torch->begin(), torch->end(),
                              [](const std::string& path) { return !IsTheHubs(path); }),
               torch->end());
}

}  // namespace

absl::Status ExplainForeign(const std::string& path, const absl::Status& error) {
  const absl::StatusOr<RandomAccessFile> opened = RandomAccessFile::Open(path);
  if (!opened.ok()) return error;
  const absl::StatusOr<std::string> begin = ReadBegin(*opened, kRecognizedBytes);
  if (!begin.ok()) return error;
  const RecognizedFile file = RecognizeBytes(*begin);
  if (file.kind == FileKind::kTorch) return WrittenByTorch(path, file.name);
  std::string got;
  if (IsHtml(*begin)) got = "a page of HTML, as servers send in place of a file; download it again";
  if (file.certain && file.kind != FileKind::kSafetensors) got = DescribeWeights(file, path);
  if (got.empty()) return error;
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected safetensors, got ", got));
}

std::string FolderContents(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  if (names.empty()) return "an empty folder";
  if (names.size() <= kMost) return absl::StrJoin(names, ", ");
  const std::vector<std::string> some(names.begin(), names.begin() + kMost);
  return absl::StrCat(absl::StrJoin(some, ", "), " and ", names.size() - kMost, " others");
}

absl::Status NoWeightsIn(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  const std::string expected =
      absl::StrCat(folder, ": expected ", kWeightsFile, " or ", kWeightsIndexFile);
  const auto error = [&expected](const auto&... words) {
    return absl::NotFoundError(absl::StrCat(expected, ", got ", words...));
  };
  std::vector<std::string> torch, tensors;
  for (const std::string& name : names) {
    if (name == kWeightsFile || name == kWeightsIndexFile) {
      return error(name, ", a link that leads nowhere");
    }
    if (IsWeightsFile(name)) {
      return error(name, " without ", kWeightsIndexFile, ", which says what is in which shard");
    }
    if (IsTorchName(name)) torch.push_back(absl::StrCat(folder, "/", name));
    if (absl::EndsWith(name, ".safetensors")) tensors.push_back(name);
  }
  KeepTheHubs(&torch);
  const auto has = [&names](absl::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("adapter_config.json")) {
    return error(
        "an adapter of another model (adapter_config.json); merge_and_unload() of peft "
        "makes one model of both");
  }
  if (!tensors.empty()) {
    return error(absl::StrJoin(tensors, ", "), "; give the model's file that name");
  }
  if (torch.size() > 1 && !IsTheHubs(torch[0])) {
    return error(absl::StrJoin(torch, ", "),
                 " of PyTorch; --model with one of them says how it is ", "converted");
  }
  if (!torch.empty()) {
    return error(absl::StrJoin(torch, ", "), " of PyTorch; ",
                 TorchConversion(torch, absl::StrCat(folder, "/", kWeightsFile)));
  }
  for (const std::string& name : names) {
    for (const NamedKind& kind : kNamedKinds) {
      if (!absl::EndsWith(name, kind.suffix)) continue;
      return error(name, ", which is ", kind.what, "; ", kSaveAgain);
    }
  }
  return error(FolderContents(names));
}

}  // namespace sluice
