#include "models/insightface/tiny_font.h"

#include <utility>

namespace sluice {
namespace {

constexpr int kUnits = 1000;

// Numbers of a font file are big-endian.
void Put(std::string* to, int bytes, int64_t value) {
  for (int i = bytes - 1; i >= 0; --i) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}
void Put16(std::string* to, std::initializer_list<int64_t> values) {
  for (const int64_t value : values) Put(to, 2, value);
}

std::string Glyph(const std::vector<Rectangle>& rectangles) {
  std::string glyph;
  if (rectangles.empty()) return glyph;
  Put16(&glyph, {static_cast<int64_t>(rectangles.size()), 0, 0, kUnits, kUnits});
  for (size_t i = 0; i < rectangles.size(); ++i) Put(&glyph, 2, static_cast<int64_t>(4 * i + 3));
  Put(&glyph, 2, 0);                            // no instructions
  glyph.append(rectangles.size() * 4, '\x01');  // points on the curve, in 16 bits
  std::string x, y;
  int64_t at_x = 0, at_y = 0;
  for (const Rectangle& r : rectangles) {
    const int64_t corners[][2] = {
        {r.left, r.bottom}, {r.left, r.top}, {r.right, r.top}, {r.right, r.bottom}};
    for (const auto& [corner_x, corner_y] : corners) {
      Put(&x, 2, corner_x - std::exchange(at_x, corner_x));
      Put(&y, 2, corner_y - std::exchange(at_y, corner_y));
    }
  }
  glyph += x + y;
  if (glyph.size() % 2 != 0) glyph.push_back('\0');
  return glyph;
}

// A segment a character, and the one that ends the table (format 4).
std::string CharacterMap(const Glyphs& glyphs) {
  const int64_t segments = static_cast<int64_t>(glyphs.size()) + 1;
  std::string ends, starts, deltas, table;
  int64_t glyph = 1;
  for (const auto& [character, rectangles] : glyphs) {
    Put(&ends, 2, character);
    Put(&starts, 2, character);
    Put(&deltas, 2, glyph++ - static_cast<int64_t>(character));
  }
  Put(&ends, 2, 0xffff);
  Put(&starts, 2, 0xffff);
  Put(&deltas, 2, 1);
  Put16(&table, {0, 1, 3, 1});  // one table: Windows, Unicode
  Put(&table, 4, 12);
  Put16(&table, {4, 16 + 8 * segments, 0, 2 * segments, 0, 0, 0});
  table += ends;
  Put(&table, 2, 0);
  table += starts + deltas + std::string(2 * segments, '\0');
  return table;
}

}  // namespace

std::string TinyFont(const Glyphs& glyphs) {
  const int64_t count = static_cast<int64_t>(glyphs.size()) + 1;
  std::string head, hhea, maxp, hmtx, loca, glyf;
  Put16(&head, {1, 0, 1, 0, 0, 0});
  Put(&head, 4, 0x5f0f3cf5);
  Put16(&head, {0, kUnits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kUnits, kUnits, 0, 8, 2, 1, 0});
  Put16(&hhea, {1, 0, kUnits, 0, 0, kUnits, 0, 0, kUnits, 1, 0, 0, 0, 0, 0, 0, 0, 1});
  Put16(&maxp, {1, 0, count, 64, 16, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0});
  Put16(&hmtx, {kUnits, 0});
  for (int64_t i = 1; i < count; ++i) Put(&hmtx, 2, 0);
  Put(&loca, 4, 0);
  Put(&loca, 4, 0);  // the glyph of what is missing is empty
  for (const auto& [character, rectangles] : glyphs) {
    glyf += Glyph(rectangles);
    Put(&loca, 4, static_cast<int64_t>(glyf.size()));
  }
  if (glyf.empty()) glyf.assign(4, '\0');
  const std::pair<const char*, const std::string*> tables[] = {{"glyf", &glyf}, {"head", &head},
                                                               {"hhea", &hhea}, {"hmtx", &hmtx},
                                                               {"loca", &loca}, {"maxp", &maxp}};
  const std::string characters = CharacterMap(glyphs);
  std::string directory, bodies;
  Put(&directory, 4, 0x00010000);
  Put16(&directory, {7, 64, 2, 48});
  const auto add = [&](const char* tag, const std::string& body) {
    directory += tag;
    Put(&directory, 4, 0);  // the sum of it, which nobody checks
    Put(&directory, 4, static_cast<int64_t>(12 + 7 * 16 + bodies.size()));
    Put(&directory, 4, static_cast<int64_t>(body.size()));
    bodies += body + std::string((4 - body.size() % 4) % 4, '\0');
  };
  add("cmap", characters);
  for (const auto& [tag, body] : tables) add(tag, *body);
  return directory + bodies;
}

}  // namespace sluice
