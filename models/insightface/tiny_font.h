// A font file of a few characters made of rectangles: what FreeType needs of TrueType, and no more.
// For tests of this package.
#ifndef SLUICE_MODELS_INSIGHTFACE_TINY_FONT_H_
#define SLUICE_MODELS_INSIGHTFACE_TINY_FONT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice {

// In units of which 1000 are the font's size; y upwards.
struct Rectangle {
  int16_t left = 0, bottom = 0, right = 0, top = 0;
};
// Of a character without rectangles the font has a blank glyph.
using Glyphs = std::map<char32_t, std::vector<Rectangle>>;

// The bytes of the file. Characters are below U+FFFF.
std::string TinyFont(const Glyphs& glyphs);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_TINY_FONT_H_
