// The Chinese characters of a font file as pictures. FreeType stays inside. One thread a Font;
// several Fonts, one thread each, are fine.
#ifndef SLUICE_MODELS_INSIGHTFACE_FONT_H_
#define SLUICE_MODELS_INSIGHTFACE_FONT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

class Font {
 public:
  // Of a collection the first font. NotFound, DataLoss: the path, and what FreeType says.
  static absl::StatusOr<Font> Open(const std::string& path);
  Font(Font&&) noexcept;
  ~Font();

  // Its CJK unified ideographs (U+4E00 to U+9FFF), ascending. That it names one does not mean that
  // it has a picture of it.
  std::vector<char32_t> Characters() const;

  // Ink 255 on 0, [size, size], as large as fits between margins of a sixteenth and in the middle:
  // where a font places a character, and how large, is no part of what it looks like. False: there
  // is no ink.
  absl::StatusOr<bool> Draw(char32_t character, int64_t size, uint8_t* pixels);

 private:
  struct Face;
  explicit Font(std::unique_ptr<Face> face);
  std::unique_ptr<Face> face_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_FONT_H_
