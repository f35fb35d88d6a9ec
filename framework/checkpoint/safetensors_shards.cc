#include "framework/checkpoint/safetensors_shards.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/checkpoint/json.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

// Takes decimal digits from the front; false if there are none.
bool ConsumeDigits(absl::string_view* text) {
  const auto end = std::find_if_not(text->begin(), text->end(), absl::ascii_isdigit);
  const bool any = end != text->begin();
  text->remove_prefix(end - text->begin());
  return any;
}

// A file in the index's own folder: the index may come from anywhere, and is not to name others.
bool IsPlainName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\0');
}

}  // namespace

std::string ShardFile(int64_t shard, int64_t shards) {
  return absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, shards);
}

bool IsWeightsFile(absl::string_view name) {
  if (name == kWeightsFile || name == kWeightsIndexFile) return true;
  return absl::ConsumePrefix(&name, "model-") && ConsumeDigits(&name) &&
         absl::ConsumePrefix(&name, "-of-") && ConsumeDigits(&name) && name == ".safetensors";
}

absl::StatusOr<std::map<std::string, std::string>> ParseShardIndex(absl::string_view text,
                                                                   absl::string_view file) {
  RETURN_IF_ERROR(CheckJsonObject(text, file));
  const Json json = Json::parse(text.begin(), text.end());
  const auto error = [file](const auto&... words) {
    return absl::DataLossError(absl::StrCat(file, ": ", words...));
  };
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) {
    return error("expected an object weight_map, of tensors and their files, got ",
                 map == json.end() ? "none" : map->dump().substr(0, 60));
  }
  std::map<std::string, std::string> result;
  for (const auto& [tensor, name] : map->items()) {
    if (!name.is_string() || !IsPlainName(name.get_ref<const std::string&>())) {
      return error("weight_map: ", tensor, ": expected the name of a file beside this one, got ",
                   name.dump().substr(0, 60));
    }
    result[tensor] = name.get<std::string>();
  }
  if (result.empty()) return error("weight_map: expected tensors, got none");
  return result;
}

std::string PrintShardIndex(const std::map<std::string, std::string>& file_of_tensor,
                            int64_t parameters, int64_t bytes) {
  const Json json = {{"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
                     {"weight_map", file_of_tensor}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<Range> CutIntoShards(absl::Span<const TensorEntry> tensors, int64_t most_bytes) {
  std::vector<Range> shards;
  int64_t room = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(tensors.size()); ++i) {
    const int64_t bytes = BytesOf(tensors[i]);
    if (shards.empty() || bytes > room) {
      shards.push_back({i, i});
      room = most_bytes;
    }
    shards.back().end = i + 1;
    room -= bytes;
  }
  return shards;
}

int64_t BytesOf(const TensorEntry& tensor) {
  return tensor.shape.NumElements() * static_cast<int64_t>(SizeOf(tensor.dtype));
}

}  // namespace sluice
