#include "framework/checkpoint/manifest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/checkpoint/json.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "sluice checkpoint 1";
constexpr char kFormatOfParts[] = "sluice checkpoint 2";
constexpr char kFormatOfPart[] = "sluice checkpoint 2, a part";

std::string TextOf(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

// The digest of a manifest without its own field "digest".
std::string DigestOf(const Json& manifest) {
  Json rest = manifest;
  rest.erase("digest");
  return HashText(StableHash(TextOf(rest)));
}

absl::StatusOr<Json> ParseObject(absl::string_view text, absl::string_view file) {
  RETURN_IF_ERROR(CheckJsonObject(text, file));
  return Json::parse(text.begin(), text.end());
}

bool ParseTensors(const Json& tensors, Manifest* manifest) {
  if (!tensors.is_object()) return false;
  for (auto item = tensors.begin(); item != tensors.end(); ++item) {
    const Json& value = item.value();
    if (!value.is_object() || !value.contains("type") || !value["type"].is_string() ||
        !value.contains("digest") || !value["digest"].is_string()) {
      return false;
    }
    manifest->types[item.key()] = value["type"].get<std::string>();
    manifest->digests[item.key()] = value["digest"].get<std::string>();
  }
  return true;
}

// A field that is a whole number of at most `most`.
template <typename T>
bool ParseWhole(const Json& json, const char* key, uint64_t most, T* value) {
  if (!json.contains(key) || !json[key].is_number_unsigned()) return false;
  const uint64_t number = json[key].get<uint64_t>();
  *value = static_cast<T>(number);
  return number <= most;
}

// What stands at a key, or nothing that is a text.
std::string TextAt(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string()
             ? json[key].get<std::string>()
             : "";
}

absl::StatusOr<StoredBox> ParseStoredBox(const Json& json, const TensorEntry& tensor,
                                         const Manifest& manifest) {
  StoredBox stored;
  ASSIGN_OR_RETURN(stored.box, ParseBox(TextAt(json, "box")));
  stored.digest = TextAt(json, "digest");
  if (!IsInside(stored.box, tensor.shape) || Volume(stored.box) == 0) {
    return absl::DataLossError(absl::StrCat("expected a box with elements inside ",
                                            tensor.shape.ToString(), ", got ",
                                            BoxToString(stored.box)));
  }
  if (stored.digest.empty() || !ParseWhole(json, "part", INT32_MAX, &stored.part) ||
      stored.part >= manifest.parts || stored.part != manifest.part.value_or(stored.part)) {
    return absl::DataLossError(absl::StrCat("box ", BoxToString(stored.box),
                                            ": expected its digest and its part, of ",
                                            manifest.parts, ", got ", json.dump().substr(0, 120)));
  }
  return stored;
}

absl::Status ParseTensorOfParts(const std::string& name, const Json& value, Manifest* manifest) {
  const std::string type = TextAt(value, "type");
  ASSIGN_OR_RETURN(const TensorEntry tensor, ParseType(name, type));
  if (!value.contains("boxes") || !value["boxes"].is_array()) {
    return absl::DataLossError("expected boxes, got none");
  }
  manifest->types[name] = type;
  std::vector<StoredBox>& boxes = manifest->boxes[name];
  for (const Json& box : value["boxes"]) {
    ASSIGN_OR_RETURN(StoredBox stored, ParseStoredBox(box, tensor, *manifest));
    boxes.push_back(std::move(stored));
  }
  return absl::OkStatus();
}

absl::Status ParseParts(const Json& json, Manifest* manifest) {
  if (!ParseWhole(json, "parts", INT32_MAX, &manifest->parts) || manifest->parts == 0 ||
      (manifest->part && (!ParseWhole(json, "part", INT32_MAX, &*manifest->part) ||
                          *manifest->part >= manifest->parts))) {
    return absl::DataLossError("expected a number of parts and one below it");
  }
  if (!json.contains("tensors") || !json["tensors"].is_object()) {
    return absl::DataLossError("expected tensors, got none");
  }
  const Json& tensors = json["tensors"];
  for (auto item = tensors.begin(); item != tensors.end(); ++item) {
    const absl::Status status = ParseTensorOfParts(item.key(), item.value(), manifest);
    if (!status.ok()) {
      return absl::DataLossError(absl::StrCat("tensor ", item.key(), ": ", status.message()));
    }
  }
  return manifest->part ? absl::OkStatus() : CheckCover(*manifest);
}

bool ParseOptions(const Json& options, CheckpointMeta* meta) {
  if (!options.is_object()) return false;
  for (auto item = options.begin(); item != options.end(); ++item) {
    if (!item.value().is_string()) return false;
    meta->options[item.key()] = item.value().get<std::string>();
  }
  return true;
}

// Manifests of before it was recorded have none.
bool ParseData(const Json& json, CheckpointMeta* meta) {
  if (!json.contains("data")) return true;
  const Json& data = json["data"];
  if (!data.is_object()) return false;
  for (auto item = data.begin(); item != data.end(); ++item) {
    DataRecord& record = meta->data[item.key()];
    if (!item.value().is_object() || !ParseWhole(item.value(), "bytes", INT64_MAX, &record.bytes) ||
        !item.value().contains("digest") || !item.value()["digest"].is_string()) {
      return false;
    }
    record.digest = item.value()["digest"].get<std::string>();
  }
  return true;
}

bool ParseEvaluation(const Json& json, CheckpointMeta* meta) {
  if (!json.contains("evaluation")) return true;
  const Json& evaluation = json["evaluation"];
  if (!evaluation.is_object()) return false;
  for (auto item = evaluation.begin(); item != evaluation.end(); ++item) {
    if (!item.value().is_number()) return false;
    meta->evaluation[item.key()] = item.value().get<double>();
  }
  return true;
}

}  // namespace

absl::Status CheckCover(const Manifest& manifest) {
  for (const auto& [name, boxes] : manifest.boxes) {
    ASSIGN_OR_RETURN(const TensorEntry tensor, ParseType(name, manifest.types.at(name)));
    RETURN_IF_ERROR(CheckCover(tensor, boxes, manifest.parts));
  }
  return absl::OkStatus();
}

std::string PrintManifest(const Manifest& manifest) {
  const bool whole = manifest.parts == 0;
  Json tensors = Json::object();
  for (const auto& type : manifest.types) {
    Json& tensor = tensors[type.first] = {{"type", type.second}};
    if (whole) {
      tensor["digest"] = manifest.digests.at(type.first);
      continue;
    }
    Json boxes = Json::array();
    for (const StoredBox& stored : manifest.boxes.at(type.first)) {
      boxes.push_back(
          {{"part", stored.part}, {"box", BoxToString(stored.box)}, {"digest", stored.digest}});
    }
    tensor["boxes"] = std::move(boxes);
  }
  const CheckpointMeta& meta = manifest.meta;
  Json json = {{"format", whole           ? kFormat
                          : manifest.part ? kFormatOfPart
                                          : kFormatOfParts},
               {"step", meta.step},
               {"seed", meta.seed},
               {"samples", meta.samples},
               {"options", meta.options},
               {"tensors", std::move(tensors)}};
  if (!whole) json["parts"] = manifest.parts;
  if (manifest.part) json["part"] = *manifest.part;
  for (const auto& data : meta.data) {
    json["data"][data.first] = {{"bytes", data.second.bytes}, {"digest", data.second.digest}};
  }
  if (!meta.evaluation.empty()) json["evaluation"] = meta.evaluation;
  const absl::StatusOr<std::string> sealed = SealManifest(TextOf(json), "manifest");
  SLUICE_CHECK_OK(sealed.status());
  return *sealed;
}

absl::StatusOr<std::string> SealManifest(absl::string_view text, absl::string_view file) {
  // From the text, not from what was printed to it, so that the digest is of what a reader will
  // see.
  ASSIGN_OR_RETURN(Json manifest, ParseObject(text, file));
  manifest["digest"] = DigestOf(manifest);
  return TextOf(manifest) + "\n";
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text, absl::string_view file) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text, file));
  const std::string format = TextAt(json, "format");
  if (format != kFormat && format != kFormatOfParts && format != kFormatOfPart) {
    return absl::DataLossError(
        absl::StrCat(file, ": expected format \"", kFormat, "\" or \"", kFormatOfParts, "\", got ",
                     json.contains("format") ? json["format"].dump().substr(0, 40) : "none"));
  }
  const std::string digest = DigestOf(json);
  if (!json.contains("digest") || json["digest"] != digest) {
    return absl::DataLossError(
        absl::StrCat(file, ": damaged: expected digest ", digest, ", got ",
                     json.contains("digest") ? json["digest"].dump().substr(0, 40) : "none"));
  }
  Manifest manifest;
  manifest.digest = digest;
  CheckpointMeta& meta = manifest.meta;
  if (!ParseWhole(json, "step", INT64_MAX, &meta.step) ||
      !ParseWhole(json, "seed", UINT64_MAX, &meta.seed) ||
      !ParseWhole(json, "samples", INT64_MAX, &meta.samples) || !json.contains("options") ||
      !ParseOptions(json["options"], &meta) || !json.contains("tensors") ||
      (format == kFormat && !ParseTensors(json["tensors"], &manifest)) || !ParseData(json, &meta) ||
      !ParseEvaluation(json, &meta)) {
    return absl::DataLossError(absl::StrCat(
        file, ": expected step, seed, samples, options, tensors and perhaps data and evaluation"));
  }
  if (format == kFormatOfPart) manifest.part = 0;
  if (format != kFormat) {
    const absl::Status status = ParseParts(json, &manifest);
    if (!status.ok()) return AddContext(status, file);
  }
  return manifest;
}

}  // namespace sluice
