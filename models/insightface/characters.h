// Chinese characters as identities, and their designs in fonts as photographs of them. Characters
// and fonts are held out both, so that what is verified has been seen in no way. Drawn once, by as
// many threads as there are cores.
#ifndef SLUICE_MODELS_INSIGHTFACE_CHARACTERS_H_
#define SLUICE_MODELS_INSIGHTFACE_CHARACTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/image_dataset.h"

namespace sluice {

struct FontFile {
  enum Use : uint8_t { kTraining, kHeldOutPrinted, kHeldOutHandwriting };
  std::string name;
  Use use = kTraining;
};
// Of //tools:dataset's kanji-fonts one file a design: the package has some under several names, in
// several weights and widths.
const std::vector<FontFile>& CharacterFonts();

struct CharacterOptions {
  int64_t image_size = 32;
  int64_t held_out = 1000;  // characters
  int64_t classes = 0;      // characters to learn from; 0: all that are not held out
};

struct Characters {
  LabeledImages training;              // labels count from 0
  LabeledImages printed, handwriting;  // of held-out characters in held-out fonts
  int64_t learned = 0, held_out = 0;   // characters
  int64_t blank = 0, repeated = 0;     // pictures that were left out: no ink; another font's
};

// Of characters that all fonts have. Which are held out is drawn by a fixed seed: results of two
// runs can be compared. NotFound: the folder or a font is not there, and the command that fetches
// them.
absl::StatusOr<Characters> DrawCharacters(const std::string& folder,
                                          const std::vector<FontFile>& fonts,
                                          const CharacterOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_CHARACTERS_H_
