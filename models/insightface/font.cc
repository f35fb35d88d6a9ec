#include "models/insightface/font.h"

#include <ft2build.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include FT_FREETYPE_H
#include FT_BBOX_H
#include FT_OUTLINE_H

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr char32_t kFirst = 0x4e00, kLast = 0x9fff;
// FreeType counts pixels in 64ths, and factors in 65536ths.
constexpr double kPixel = 64, kOne = 65536;

std::string Reason(FT_Error error) {
  const char* text = FT_Error_String(error);  // null where FreeType was built without its texts
  return text != nullptr ? text : absl::StrCat("error ", error);
}

}  // namespace

struct Font::Face {
  std::string path;
  FT_Library library = nullptr;
  FT_Face face = nullptr;

  ~Face() {
    if (face != nullptr) FT_Done_Face(face);
    if (library != nullptr) FT_Done_FreeType(library);
  }
};

Font::Font(std::unique_ptr<Face> face) : face_(std::move(face)) {}
Font::Font(Font&&) noexcept = default;
Font::~Font() = default;

absl::StatusOr<Font> Font::Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("font ", path, ": expected a file, got none"));
  }
  auto face = std::make_unique<Face>();
  face->path = path;
  FT_Error failed = FT_Init_FreeType(&face->library);
  if (failed == 0) failed = FT_New_Face(face->library, path.c_str(), 0, &face->face);
  if (failed == 0) failed = FT_Select_Charmap(face->face, FT_ENCODING_UNICODE);
  if (failed == 0 && !FT_IS_SCALABLE(face->face)) failed = FT_Err_Unknown_File_Format;
  if (failed == 0) return Font(std::move(face));
  return absl::DataLossError(absl::StrCat(
      "font ", path,
      ": expected a font of outlines with Unicode's characters, got: ", Reason(failed)));
}

std::vector<char32_t> Font::Characters() const {
  std::vector<char32_t> characters;
  FT_UInt glyph = FT_Get_Char_Index(face_->face, kFirst);
  if (glyph != 0) characters.push_back(kFirst);
  FT_ULong at = kFirst;
  for (at = FT_Get_Next_Char(face_->face, at, &glyph); glyph != 0 && at <= kLast;
       at = FT_Get_Next_Char(face_->face, at, &glyph)) {
    characters.push_back(static_cast<char32_t>(at));
  }
  return characters;
}

absl::StatusOr<bool> Font::Draw(char32_t character, int64_t size, uint8_t* pixels) {
  std::fill_n(pixels, size * size, uint8_t{0});
  // Hints and bitmaps are made for a size on a screen; the outline alone is the design.
  FT_Error failed = FT_Load_Char(face_->face, character,
                                 FT_LOAD_NO_SCALE | FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP);
  FT_Outline* outline = &face_->face->glyph->outline;
  FT_BBox box = {};
  if (failed == 0) failed = FT_Outline_Get_BBox(outline, &box);
  const double longer = static_cast<double>(std::max(box.xMax - box.xMin, box.yMax - box.yMin));
  if (failed == 0 && longer == 0) return false;
  if (failed == 0) {
    const double ink = static_cast<double>(size - 2 * std::max<int64_t>(size / 16, 1));
    const FT_Fixed factor = std::lround(ink * kPixel * kOne / longer);
    const FT_Matrix matrix = {factor, 0, 0, factor};
    FT_Outline_Transform(outline, &matrix);
    failed = FT_Outline_Get_BBox(outline, &box);
  }
  if (failed == 0) {
    const FT_Pos side = static_cast<FT_Pos>(size * kPixel);
    FT_Outline_Translate(outline, (side - box.xMin - box.xMax) / 2,
                         (side - box.yMin - box.yMax) / 2);
    FT_Bitmap bitmap = {};
    bitmap.rows = bitmap.width = static_cast<unsigned int>(size);
    bitmap.pitch = static_cast<int>(size);
    bitmap.buffer = pixels;
    bitmap.num_grays = 256;
    bitmap.pixel_mode = FT_PIXEL_MODE_GRAY;
    failed = FT_Outline_Get_Bitmap(face_->library, outline, &bitmap);
  }
  if (failed != 0) {
    return absl::DataLossError(absl::StrFormat("font %s: U+%04X cannot be drawn: %s", face_->path,
                                               static_cast<uint32_t>(character), Reason(failed)));
  }
  return std::any_of(pixels, pixels + size * size, [](uint8_t pixel) { return pixel != 0; });
}

}  // namespace sluice
