#include "models/bert/vocabulary_file.h"

#include <filesystem>

namespace sluice {

std::string VocabularyOfRun(const std::string& checkpoint) {
  // <run>/checkpoints/step-<n>
  const auto path = std::filesystem::path(checkpoint).lexically_normal();
  return (path.parent_path().parent_path() / kVocabularyFile).string();
}

}  // namespace sluice
