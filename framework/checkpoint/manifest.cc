#include "framework/checkpoint/manifest.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "sluice checkpoint 1";
// Copying and printing JSON recurse, so that a file of brackets alone would overflow the stack.
constexpr int kMostLevels = 16;

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
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kMostLevels;
    return !deep;  // what is not kept is not built
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  // The parser takes a NUL for the end of the text.
  if (deep || json.is_discarded() || !json.is_object() || absl::StrContains(text, '\0')) {
    return absl::DataLossError(absl::StrCat(file, ": expected a JSON object, got ", text.size(),
                                            " bytes that do not parse"));
  }
  return json;
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

bool ParseOptions(const Json& options, CheckpointMeta* meta) {
  if (!options.is_object()) return false;
  for (auto item = options.begin(); item != options.end(); ++item) {
    if (!item.value().is_string()) return false;
    meta->options[item.key()] = item.value().get<std::string>();
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

}  // namespace

std::string PrintManifest(const Manifest& manifest) {
  Json tensors = Json::object();
  for (const auto& type : manifest.types) {
    tensors[type.first] = {{"type", type.second}, {"digest", manifest.digests.at(type.first)}};
  }
  const CheckpointMeta& meta = manifest.meta;
  Json json = {{"format", kFormat},       {"step", meta.step},       {"seed", meta.seed},
               {"samples", meta.samples}, {"options", meta.options}, {"tensors", tensors}};
  for (const auto& data : meta.data) {
    json["data"][data.first] = {{"bytes", data.second.bytes}, {"digest", data.second.digest}};
  }
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
  if (!json.contains("format") || json["format"] != kFormat) {
    return absl::DataLossError(
        absl::StrCat(file, ": expected format \"", kFormat, "\", got ",
                     json.contains("format") ? json["format"].dump().substr(0, 40) : "none"));
  }
  const std::string digest = DigestOf(json);
  if (!json.contains("digest") || json["digest"] != digest) {
    return absl::DataLossError(
        absl::StrCat(file, ": damaged: expected digest ", digest, ", got ",
                     json.contains("digest") ? json["digest"].dump().substr(0, 40) : "none"));
  }
  Manifest manifest;
  CheckpointMeta& meta = manifest.meta;
  if (!ParseWhole(json, "step", INT64_MAX, &meta.step) ||
      !ParseWhole(json, "seed", UINT64_MAX, &meta.seed) ||
      !ParseWhole(json, "samples", INT64_MAX, &meta.samples) || !json.contains("options") ||
      !ParseOptions(json["options"], &meta) || !json.contains("tensors") ||
      !ParseTensors(json["tensors"], &manifest) || !ParseData(json, &meta)) {
    return absl::DataLossError(
        absl::StrCat(file, ": expected step, seed, samples, options, tensors and perhaps data"));
  }
  return manifest;
}

}  // namespace sluice
