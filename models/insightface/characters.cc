#include "models/insightface/characters.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "framework/base/hash.h"
#include "framework/base/parallel_for.h"
#include "framework/base/status.h"
#include "framework/tensor/random.h"
#include "models/insightface/font.h"

namespace sluice {
namespace {

constexpr uint64_t kSplitSeed = 1;
constexpr int64_t kSplitKey = 0x63686172;

// One that cannot be found is told with what brings it.
absl::StatusOr<Font> OpenFont(const std::string& folder, const FontFile& font) {
  absl::StatusOr<Font> opened = Font::Open(absl::StrCat(folder, "/", font.name));
  if (!absl::IsNotFound(opened.status())) return opened;
  return absl::NotFoundError(absl::StrCat("data: ", opened.status().message(),
                                          "; bazel run //tools:dataset -- fetch kanji-fonts "
                                          "brings the fonts"));
}

absl::StatusOr<std::vector<char32_t>> CharactersOfAll(const std::string& folder,
                                                      const std::vector<FontFile>& fonts) {
  std::vector<std::vector<char32_t>> of_font(fonts.size());
  RETURN_IF_ERROR(ParallelFor(fonts.size(), UsableCores(), [&](size_t i) -> absl::Status {
    ASSIGN_OR_RETURN(const Font font, OpenFont(folder, fonts[i]));
    of_font[i] = font.Characters();
    return absl::OkStatus();
  }));
  std::vector<char32_t> all = of_font.empty() ? std::vector<char32_t>() : of_font[0];
  for (const std::vector<char32_t>& characters : of_font) {
    std::vector<char32_t> both;
    std::set_intersection(all.begin(), all.end(), characters.begin(), characters.end(),
                          std::back_inserter(both));
    all = std::move(both);
  }
  return all;
}

// In an order that is drawn, the same for all runs.
void Shuffle(std::vector<char32_t>* characters) {
  const auto draw = [](char32_t c) {
    return RandomWord(kSplitSeed, kSplitKey, 0, static_cast<int64_t>(c));
  };
  std::sort(characters->begin(), characters->end(),
            [&](char32_t a, char32_t b) { return std::pair(draw(a), a) < std::pair(draw(b), b); });
}

struct Drawn {
  std::vector<uint8_t> pixels;
  std::vector<bool> ink;
};

absl::StatusOr<Drawn> DrawAll(Font font, const std::vector<char32_t>& characters, int64_t size) {
  Drawn drawn;
  drawn.pixels.resize(characters.size() * static_cast<size_t>(size * size));
  for (size_t i = 0; i < characters.size(); ++i) {
    ASSIGN_OR_RETURN(const bool ink,
                     font.Draw(characters[i], size, drawn.pixels.data() + i * size * size));
    drawn.ink.push_back(ink);
  }
  return drawn;
}

// Adds a font's pictures, the class of each being its place in the list of characters. Two fonts
// that share a glyph give one picture of it.
void Append(const Drawn& drawn, std::vector<std::set<uint64_t>>* seen, LabeledImages* images,
            Characters* counted) {
  const size_t size = static_cast<size_t>(images->shape.NumElements());
  for (size_t i = 0; i < drawn.ink.size(); ++i) {
    const uint8_t* picture = drawn.pixels.data() + i * size;
    if (!drawn.ink[i]) {
      ++counted->blank;
    } else if (!(*seen)[i].insert(StableHash(picture, size)).second) {
      ++counted->repeated;
    } else {
      images->pixels.insert(images->pixels.end(), picture, picture + size);
      images->labels.push_back(static_cast<int32_t>(i));
    }
  }
}

absl::Status CheckCounts(size_t characters, const CharacterOptions& options) {
  const int64_t found = static_cast<int64_t>(characters);
  const int64_t needed = options.held_out + std::max<int64_t>(options.classes, 2);
  if (found >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data: expected ", needed - options.held_out, " characters to learn and ",
                   options.held_out, " to hold out, got ", found, " that all fonts have"));
}

}  // namespace

const std::vector<FontFile>& CharacterFonts() {
  using enum FontFile::Use;
  static const auto* fonts =
      new std::vector<FontFile>{{"ipag.ttf"},
                                {"ipam.ttf"},
                                {"VL-Gothic-Regular.ttf"},
                                {"mona.ttf"},
                                {"MTLc3m.ttf"},  // the two of Motoya are alike, and on one side
                                {"MTLmr3m.ttf"},
                                {"migu-1c-bold.ttf"},
                                {"ume-tgo4.ttf"},
                                {"BIZUDGothic-Regular.ttf"},
                                {"wqy-zenhei.ttc"},
                                {"kouzan-mouhitsu.ttf"},
                                {"KouzanBrushFontSousyo.ttf"},
                                {"aoyagi-soseki.ttf"},
                                {"setofont.ttf"},
                                {"Stick-Regular.ttf"},
                                {"RampartOne-Regular.ttf"},
                                {"DotGothic16-Regular.ttf"},
                                {"misaki_gothic.ttf"},
                                {"KanjiStrokeOrders_v4.003.ttf"},
                                {"BIZUDMincho-Regular.ttf", kHeldOutPrinted},
                                {"ume-tmo3.ttf", kHeldOutPrinted},
                                {"komatuna.ttf", kHeldOutPrinted},
                                {"wqy-microhei.ttc", kHeldOutPrinted},
                                {"kouzan-mouhitsu-gyosho.ttf", kHeldOutHandwriting},
                                {"YuseiMagic-Regular.ttf", kHeldOutHandwriting},
                                {"kiloji.ttf", kHeldOutHandwriting}};
  return *fonts;
}

absl::StatusOr<Characters> DrawCharacters(const std::string& folder,
                                          const std::vector<FontFile>& fonts,
                                          const CharacterOptions& options) {
  ASSIGN_OR_RETURN(std::vector<char32_t> all, CharactersOfAll(folder, fonts));
  RETURN_IF_ERROR(CheckCounts(all.size(), options));
  Shuffle(&all);
  const std::vector<char32_t> held_out(all.begin(), all.begin() + options.held_out);
  std::vector<char32_t> learned(all.begin() + options.held_out, all.end());
  if (options.classes > 0) learned.resize(options.classes);

  std::vector<Drawn> drawn(fonts.size());
  RETURN_IF_ERROR(ParallelFor(fonts.size(), UsableCores(), [&](size_t i) -> absl::Status {
    ASSIGN_OR_RETURN(Font font, OpenFont(folder, fonts[i]));
    const bool training = fonts[i].use == FontFile::kTraining;
    ASSIGN_OR_RETURN(drawn[i],
                     DrawAll(std::move(font), training ? learned : held_out, options.image_size));
    return absl::OkStatus();
  }));
  Characters characters;
  characters.learned = static_cast<int64_t>(learned.size());
  characters.held_out = static_cast<int64_t>(held_out.size());
  LabeledImages* const of_use[] = {&characters.training, &characters.printed,
                                   &characters.handwriting};
  for (LabeledImages* images : of_use) images->shape = {options.image_size, options.image_size, 1};
  std::vector<std::set<uint64_t>> seen[3];
  seen[FontFile::kTraining].resize(learned.size());
  seen[FontFile::kHeldOutPrinted].resize(held_out.size());
  seen[FontFile::kHeldOutHandwriting].resize(held_out.size());
  for (size_t i = 0; i < fonts.size(); ++i) {
    Append(drawn[i], &seen[fonts[i].use], of_use[fonts[i].use], &characters);
    drawn[i] = {};  // memory for the next
  }
  return characters;
}

}  // namespace sluice
