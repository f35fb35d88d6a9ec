// Byte pairs as folders of Hugging Face's hub have them: vocab.json and merges.txt, or one
// tokenizer.json; or as OpenAI published them, encoder.json and vocab.bpe, which is also how runs
// keep them. Files of a tokenizer that treats text in another way are refused. A folder that has
// two forms must say the same in both. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_HUB_BYTE_PAIRS_H_
#define SLUICE_FRAMEWORK_TRAIN_HUB_BYTE_PAIRS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "framework/data/byte_pair.h"

namespace sluice {

constexpr char kEncoderFile[] = "encoder.json", kMergesFile[] = "vocab.bpe";

struct HubBytePairs {
  BytePair pairs;
  std::string where;                         // the file, or the first of two, that has them
  std::map<std::string, std::string> files;  // as a run keeps them, by name
};

// Returns whether a folder has byte pairs, or a tokenizer.json that may be of some.
bool HasBytePairs(const std::string& folder);
// Reads those of a folder or of a tokenizer.json. NotFound: there are none.
absl::StatusOr<HubBytePairs> ReadBytePairs(const std::string& path);
// The files of byte pairs under the hub's names, made of those that a run keeps.
std::map<std::string, std::string> BytePairHubFiles(const HubBytePairs& pairs);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_HUB_BYTE_PAIRS_H_
