#include "models/insightface/face_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/decode_image.h"
#include "framework/data/drawn_images.h"
#include "framework/data/packed.h"
#include "framework/data/picture_pairs.h"
#include "framework/data/text_file.h"
#include "models/insightface/characters.h"
#include "models/insightface/record_faces.h"

namespace sluice {
namespace {

constexpr int64_t kPairs = 6000;  // as LFW has
constexpr uint64_t kPairSeed = 1;
// What a character may be moved by: it stays on its picture, but for the margin.
constexpr int64_t kPadding = 2;
// Enough that no cache holds them, so few that drawing them takes no time.
constexpr int64_t kDrawn = 256;

absl::StatusOr<std::unique_ptr<Dataset>> Make(const std::string& what, LabeledImages images,
                                              const CropAndFlip& augmentation = {}) {
  ASSIGN_OR_RETURN(ImageDataset dataset,
                   ImageDataset::Create(what, std::move(images), augmentation));
  return std::make_unique<ImageDataset>(std::move(dataset));
}

absl::StatusOr<FaceData> Draw(const FaceDataOptions& options) {
  LabeledImages images =
      DrawImages(kDrawn, {options.image_size, options.image_size, options.channels},
                 std::min(options.classes, kDrawn), options.seed);
  // Of all classes, however many, some.
  for (int32_t& label : images.labels) {
    label = static_cast<int32_t>(label * (options.classes / std::min(options.classes, kDrawn)));
  }
  FaceData data;
  ASSIGN_OR_RETURN(data.app.training, Make("drawn pictures", std::move(images)));
  data.app.order = SampleOrder::kEpochs;
  data.app.lines = {absl::StrFormat("pictures   %d drawn at random", kDrawn)};
  return data;
}

absl::Status AddSet(const std::string& name, const LabeledImages& images, FaceData* data) {
  VerificationSet set;
  set.name = name;
  set.images = images;
  absl::StatusOr<std::vector<Pair>> pairs = DrawPairs(images.labels, kPairs, kPairSeed);
  RETURN_IF_ERROR(AddContext(pairs.status(), absl::StrCat("data: ", name)));
  set.pairs = *std::move(pairs);
  data->sets.push_back(std::move(set));
  return absl::OkStatus();
}

absl::StatusOr<FaceData> OpenCharacters(const std::string& folder, const FaceDataOptions& options) {
  if (options.channels != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: characters are grey: expected --channels=1, got ", options.channels));
  }
  ASSIGN_OR_RETURN(Characters drawn,
                   DrawCharacters(folder, CharacterFonts(),
                                  {.image_size = options.image_size, .classes = options.classes}));
  FaceData data;
  LabeledImages held_out = drawn.printed;
  held_out.pixels.insert(held_out.pixels.end(), drawn.handwriting.pixels.begin(),
                         drawn.handwriting.pixels.end());
  held_out.labels.insert(held_out.labels.end(), drawn.handwriting.labels.begin(),
                         drawn.handwriting.labels.end());
  RETURN_IF_ERROR(AddSet("all", held_out, &data));
  RETURN_IF_ERROR(AddSet("printed", drawn.printed, &data));
  RETURN_IF_ERROR(AddSet("handwriting", drawn.handwriting, &data));
  CropAndFlip augmentation;
  if (options.augment) augmentation = {.padding = kPadding, .seed = options.seed};
  const int64_t training = static_cast<int64_t>(drawn.training.labels.size());
  ASSIGN_OR_RETURN(data.app.training, Make(folder, std::move(drawn.training), augmentation));
  const int64_t verified = static_cast<int64_t>(held_out.labels.size());
  ASSIGN_OR_RETURN(data.app.held_out, Make(folder, std::move(held_out)));
  data.app.held_out_name = "held-out characters in held-out fonts";
  data.app.order = SampleOrder::kEpochs;
  const std::string digest = HashText(data.app.training->identity().digest);
  data.app.lines = {absl::StrFormat(
      "characters %d to learn from in %d pictures, %d held out in %d; %d blank and %d repeated "
      "glyphs left out; digest %s, %s",
      drawn.learned, training, drawn.held_out, verified, drawn.blank, drawn.repeated, digest,
      folder)};
  data.app.facts = {{"pictures", digest}};
  data.app.baseline = {"a pixel comparison", VerifyByPixels(data.sets[0]).accuracy};
  return data;
}

// A set of a file instead of those that the data has: pictures of the model's size, two a pair.
absl::Status OpenVerification(const std::string& path, const FaceDataOptions& options,
                              FaceData* data) {
  if (options.channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "verification: pictures are coloured: expected --channels=3, got ", options.channels));
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadAnyBytes(path));
  const absl::StatusOr<PicturePairs> pairs = ParsePicturePairs(bytes);
  RETURN_IF_ERROR(ExplainKind(AddContext(pairs.status(), path), path, FileKind::kUnknown,
                              "a pickle of pictures and truth values"));
  const int64_t size = options.image_size;
  VerificationSet set;
  set.name = std::filesystem::path(path).stem().string();
  set.images.shape = {size, size, 3};
  RgbImage image;
  for (size_t i = 0; i < pairs->pictures.size(); ++i) {
    const std::string what = absl::StrCat(path, ": picture ", i);
    RETURN_IF_ERROR(AddContext(DecodeImage(pairs->pictures[i], &image), what));
    if (image.size.height != size || image.size.width != size) {
      return absl::DataLossError(absl::StrCat(what, ": expected ", size, " x ", size,
                                              " as --image_size says, got ", image.size.height,
                                              " x ", image.size.width));
    }
    set.images.pixels.insert(set.images.pixels.end(), image.pixels.begin(),
                             image.pixels.begin() + size * size * 3);
    // Who it shows is said only by the pairs, which the identity of the data has in this way.
    const bool is_second_of_same = i % 2 == 1 && pairs->same[i / 2];
    set.images.labels.push_back(static_cast<int32_t>(is_second_of_same ? i - 1 : i));
  }
  int64_t same = 0;
  for (size_t i = 0; i < pairs->same.size(); ++i) {
    const int64_t first = static_cast<int64_t>(2 * i);
    set.pairs.push_back({first, first + 1, pairs->same[i]});
    same += pairs->same[i] ? 1 : 0;
  }
  const int64_t count = static_cast<int64_t>(set.pairs.size());
  if (std::min(same, count - same) < kFolds) {
    return absl::DataLossError(absl::StrCat(path, ": expected at least ", kFolds,
                                            " pairs of either kind, got ", same, " of ", count,
                                            " that show one identity"));
  }
  ASSIGN_OR_RETURN(data->app.held_out, Make(path, set.images));
  data->app.held_out_name = absl::StrCat("pairs of ", set.name);
  data->app.lines.push_back(
      absl::StrFormat("verified   on %d pairs, %d of one identity; %s", count, same, path));
  data->app.baseline = {"a pixel comparison", VerifyByPixels(set).accuracy};
  data->sets = {std::move(set)};
  return absl::OkStatus();
}

// Faces of InsightFace's own format.
absl::StatusOr<FaceData> OpenRecords(const std::string& path, const FaceDataOptions& options) {
  if (options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: records are coloured: expected --channels=3, got ", options.channels));
  }
  FaceData data;
  ASSIGN_OR_RETURN(data.app.training, RecordFaces::Open(path, {.image_size = options.image_size,
                                                               .classes = options.classes,
                                                               .flip = options.augment,
                                                               .seed = options.seed,
                                                               .stop = options.stop}));
  data.app.order = SampleOrder::kEpochs;
  const std::string digest = HashText(data.app.training->identity().digest);
  data.app.lines = {absl::StrFormat("faces      %d in records, none held out; digest %s, %s",
                                    data.app.training->num_samples(), digest, path)};
  data.app.facts = {{"pictures", digest}};
  return data;
}

// Which pictures the pairs show, each once, and the pairs by their places among these.
struct Shown {
  std::vector<int64_t> samples;
  std::vector<Pair> pairs;
};
Shown ShownBy(absl::Span<const Pair> pairs) {
  Shown shown;
  std::map<int64_t, int64_t> places;
  const auto place = [&](int64_t sample) {
    const auto [at, added] = places.emplace(sample, static_cast<int64_t>(shown.samples.size()));
    if (added) shown.samples.push_back(sample);
    return at->second;
  };
  for (const Pair& pair : pairs) {
    const int64_t a = place(pair.a);
    shown.pairs.push_back({a, place(pair.b), pair.same});
  }
  return shown;
}

}  // namespace

absl::StatusOr<FaceData> OpenFaceData(const std::string& data, const FaceDataOptions& options) {
  const auto open = [&] {
    if (options.synthetic) return Draw(options);
    const std::string records = data + "/train.rec";
    std::error_code error;
    if (std::filesystem::exists(records, error)) return OpenRecords(records, options);
    return OpenCharacters(data, options);
  };
  ASSIGN_OR_RETURN(FaceData opened, open());
  if (!options.verification.empty()) {
    RETURN_IF_ERROR(OpenVerification(options.verification, options, &opened));
  }
  return opened;
}

absl::StatusOr<Verification> VerifyBy(Session* session, const VerificationSet& set,
                                      const EvaluationOptions& options) {
  const Shown shown = ShownBy(SpreadPairs(set.pairs, options.most_samples));
  const auto pairs = static_cast<int64_t>(shown.pairs.size());
  const int64_t count = static_cast<int64_t>(shown.samples.size()), batch = options.batch;
  const int64_t size = set.images.shape.NumElements();
  Shape shape = {batch};
  for (int d = 0; d < set.images.shape.rank(); ++d) shape.Append(set.images.shape[d]);
  HostTensor images(DType::kU8, shape);
  const auto begin = [&](int64_t step) {
    for (int64_t i = 0; i < batch; ++i) {
      // The last batch is filled up with a picture that is not asked for.
      const int64_t at = std::min(step * batch + i, count - 1);
      std::memcpy(images.bytes.data() + i * size,
                  set.images.pixels.data() + shown.samples[at] * size, size);
    }
    return session->Step("embed", {{"images", &images}});
  };
  std::vector<float> rows;
  int64_t width = 0;
  const auto take = [&](int64_t step, const Fetches& fetches) -> absl::Status {
    const int64_t done = std::min(count, (step + 1) * batch);
    if (options.progress) options.progress(done * pairs / count, pairs);
    if (fetches.empty()) return absl::OkStatus();  // of several ranks the first has the results
    const HostTensor& embeddings = fetches.at("embeddings");
    width = embeddings.shape[1];
    for (int64_t i = 0; i < (done - step * batch) * width; ++i) {
      const double value = LoadElement(embeddings.dtype, embeddings.bytes.data(), i);
      if (!std::isfinite(value)) {
        return absl::OutOfRangeError(absl::StrCat(
            "the embedding of picture ", shown.samples[step * batch + i / width], " of ", set.name,
            ": expected finite values, got ", value, "; a lower --lr may help"));
      }
      rows.push_back(static_cast<float>(value));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(RunPipelined(session, (count + batch - 1) / batch, options.stop, begin, take));
  if (rows.empty()) return Verification();
  return Verify(shown.pairs, CosinesOf(shown.pairs, rows, width));
}

Verification VerifyByPixels(const VerificationSet& set) {
  const std::vector<float> rows(set.images.pixels.begin(), set.images.pixels.end());
  return Verify(set.pairs, CosinesOf(set.pairs, rows, set.images.shape.NumElements()));
}

}  // namespace sluice
