#include "framework/session/replica_digests.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/hash.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

constexpr size_t kMostShown = 80;  // of a line that is none

// Reads HashText alone: the error about a digest writes it as it was told.
std::optional<uint64_t> ReadHash(absl::string_view text) {
  uint64_t hash = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, hash, 16);
  if (error != std::errc() || read != end || HashText(hash) != text) return std::nullopt;
  return hash;
}

std::optional<ReplicaDigest> ReadLine(absl::string_view line, size_t variables) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, '\t');
  if (words.size() != 4) return std::nullopt;
  ReplicaDigest replica;
  const std::optional<uint64_t> digest = ReadHash(words[2]);
  if (!absl::SimpleAtoi(words[0], &replica.variable) || replica.variable < 0 ||
      static_cast<size_t>(replica.variable) >= variables || !digest.has_value() ||
      !absl::SimpleAtoi(words[3], &replica.device) || replica.device < 0) {
    return std::nullopt;
  }
  replica.box = std::string(words[1]);
  replica.digest = *digest;
  return replica;
}

}  // namespace

std::string ReplicaLine(const ReplicaDigest& replica) {
  return absl::StrCat(replica.variable, "\t", replica.box, "\t", HashText(replica.digest), "\t",
                      replica.device, "\n");
}

absl::Status CompareReplicas(absl::Span<const std::string> texts,
                             absl::Span<const absl::string_view> variables) {
  std::map<std::pair<int32_t, std::string>, ReplicaDigest> first;  // by variable and box
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    for (const absl::string_view line : absl::StrSplit(texts[rank], '\n', absl::SkipEmpty())) {
      const std::optional<ReplicaDigest> replica = ReadLine(line, variables.size());
      if (!replica.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("replicas: expected of rank ", rank,
                         " a shard's variable, box, digest and device, got ",
                         Quoted(line.substr(0, kMostShown))));
      }
      const auto [known, fresh] =
          first.emplace(std::pair(replica->variable, replica->box), *replica);
      if (fresh || known->second.digest == replica->digest) continue;
      return absl::DataLossError(absl::StrCat("variable ", variables[replica->variable],
                                              ": replicas differ: device ", known->second.device,
                                              " has ", HashText(known->second.digest), ", device ",
                                              replica->device, " has ", HashText(replica->digest)));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
