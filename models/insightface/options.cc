#include "models/insightface/options.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/insightface/presets.h"

ABSL_FLAG(std::string, network, "", "ir18, ir50, ir100 or mobilefacenet");
ABSL_FLAG(int64_t, width, 0, "channels of the first stage; later ones have multiples of it");
ABSL_FLAG(int64_t, embedding, 0, "elements of an embedding");
ABSL_FLAG(int64_t, classes, 0, "identities that are told apart while training");
ABSL_FLAG(int64_t, image_size, 0, "height and width of what the network sees: a multiple of 16");
ABSL_FLAG(int64_t, channels, 0, "1 for grey pictures, 3 for coloured ones");
ABSL_FLAG(double, margin, 0.5, "added to the angle to the label's class: ArcFace's, in radians");
ABSL_FLAG(double, additive_margin, 0, "taken from its cosine: CosFace's, some 0.4 beside margin 0");
ABSL_FLAG(double, margin_scale, 0, "what cosines are multiplied by before the softmax");
ABSL_FLAG(double, sample_rate, 1,
          "share of the classes that a step has, those of its pictures among them: partial FC");
ABSL_FLAG(int64_t, sample_groups, 1,
          "equal ranges of the classes that are sampled each for itself, a multiple of axis model");
ABSL_FLAG(double, dropout, 0, "share of what the embedding is made of that training drops");
ABSL_FLAG(int64_t, groups, 1,
          "equal ranges of the batch over which batch norm takes statistics; 1: over all of it, on "
          "all devices");
ABSL_FLAG(bool, augment, true, "move pictures at random while training");
ABSL_FLAG(bool, synthetic, false, "draw pictures at random instead of reading --data");
ABSL_FLAG(
    std::string, verification, "",
    "a verification set of InsightFace, such as lfw.bin, instead of held-out pairs of --data");
ABSL_FLAG(bool, verify, false, "verify held-out pairs with the run that --resume names, and stop");

namespace sluice {
namespace {

constexpr char kHelp[] =
    "Trains a face network as InsightFace does, on devices that this machine's cores play.\n"
    "Without flags its faces are Chinese characters in many fonts, which\n"
    "`bazel run //tools:dataset -- fetch kanji-fonts` brings.\n\n"
    "  bazel run //models/insightface:train -- --preset=ir18 --precision=bf16\n"
    "  bazel run //models/insightface:train -- --margin=0 --additive_margin=0.4\n"
    "  bazel run //models/insightface:train -- --preset=synthetic --classes=1000000 "
    "--mesh=model=4 --sample_rate=0.1 --sample_groups=8 --explain\n"
    "  bazel run //models/insightface:train -- --resume=runs/20260101-120000 --verify\n"
    "  bazel run //models/insightface:train -- --data=faces_emore --classes=85742 --channels=3 "
    "--image_size=112 --verification=faces_emore/lfw.bin\n";

constexpr char kByPreset[] = "by preset";
constexpr char kFonts[] = "kanji-fonts";

Preset FlagsOf(const FacePreset& preset) {
  const FaceConfig& c = preset.config;
  return {preset.name,
          preset.what,
          {{"data", preset.synthetic ? "" : kFonts},
           {"network", c.network},
           {"width", absl::StrCat(c.width)},
           {"embedding", absl::StrCat(c.embedding)},
           {"classes", absl::StrCat(c.classes)},
           {"image_size", absl::StrCat(c.image_size)},
           {"channels", absl::StrCat(c.channels)},
           {"margin_scale", absl::StrCat(c.margin.scale)},
           {"synthetic", preset.synthetic ? "true" : "false"},
           {"batch", absl::StrCat(c.batch)},
           {"steps", absl::StrCat(preset.steps)},
           {"lr", absl::StrCat(preset.lr)},
           {"warmup", absl::StrCat(preset.warmup)},
           {"lr_floor", "0"},
           {"optimizer", "sgd"},
           {"momentum", "0.9"},
           {"clip", "5"},
           {"weight_decay", absl::StrCat(preset.weight_decay)}}};
}

}  // namespace

AppFlags FaceFlags() {
  AppFlags flags;
  flags.help = kHelp;
  flags.data = {"data", "FOLDER", kByPreset,
                "fonts of which characters are drawn, or train.rec and train.idx of InsightFace: "
                "the folder, or the name of a data set that //tools:dataset fetched"};
  flags.model = {{"network", "NAME", kByPreset},
                 {"width", "N", kByPreset},
                 {"embedding", "N", kByPreset},
                 {"classes", "N", kByPreset},
                 {"image_size", "N", kByPreset},
                 {"channels", "N", kByPreset},
                 {"margin", "X", ""},
                 {"additive_margin", "X", ""},
                 {"margin_scale", "X", kByPreset},
                 {"sample_rate", "X", ""},
                 {"sample_groups", "N", ""},
                 {"dropout", "X", ""},
                 {"groups", "N", ""},
                 {"augment", "", ""},
                 {"synthetic", "", kByPreset}};
  flags.more = {{"Verifying", {{"verification", "FILE", ""}, {"verify", "", ""}}}};
  flags.use = "verify";
  for (const FacePreset& preset : FacePresets()) flags.presets.push_back(FlagsOf(preset));
  flags.shape = {"network",    "width",    "embedding",    "classes",
                 "image_size", "channels", "sample_groups"};
  return flags;
}

absl::StatusOr<FaceOptions> ReadFaceFlags(const AppOptions& options) {
  FaceOptions face;
  FaceConfig& config = face.config;
  config.network = absl::GetFlag(FLAGS_network);
  config.width = absl::GetFlag(FLAGS_width);
  config.embedding = absl::GetFlag(FLAGS_embedding);
  config.classes = absl::GetFlag(FLAGS_classes);
  config.image_size = absl::GetFlag(FLAGS_image_size);
  config.channels = absl::GetFlag(FLAGS_channels);
  config.margin = {absl::GetFlag(FLAGS_margin_scale), absl::GetFlag(FLAGS_margin),
                   absl::GetFlag(FLAGS_additive_margin)};
  config.sample_rate = absl::GetFlag(FLAGS_sample_rate);
  config.sample_groups = absl::GetFlag(FLAGS_sample_groups);
  config.dropout = absl::GetFlag(FLAGS_dropout);
  config.groups = absl::GetFlag(FLAGS_groups);
  config.batch = options.batch;
  config.precision = options.precision;
  RETURN_IF_ERROR(AddContext(
      CheckFace(config, options.optimizer.zero.mesh, options.session.micro_batches), "model"));
  if (config.sample_rate < 1 && HasTrustRatio(options.optimizer.kind)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sample_rate: expected 1 with --optimizer=lars and lamb, which move every class, got ",
        config.sample_rate));
  }
  face.data.image_size = config.image_size;
  face.data.channels = config.channels;
  face.data.classes = config.classes;
  face.data.augment = absl::GetFlag(FLAGS_augment);
  face.data.verification = absl::GetFlag(FLAGS_verification);
  face.data.synthetic = absl::GetFlag(FLAGS_synthetic);
  face.data.seed = options.session.seed;
  return face;
}

}  // namespace sluice
