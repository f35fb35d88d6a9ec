#include "models/gpt/options.h"

#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/gpt/presets.h"

ABSL_FLAG(int64_t, layers, 0, "transformer blocks");
ABSL_FLAG(int64_t, hidden, 0, "width of the model; a multiple of heads");
ABSL_FLAG(int64_t, heads, 0, "attention heads");
ABSL_FLAG(int64_t, sequence_length, 0, "tokens that the model sees at once");
ABSL_FLAG(int64_t, vocabulary, 0, "tokens that the model knows; 256 are bytes, GPT-2 has 50257");
ABSL_FLAG(std::string, tokenizer, "",
          "a folder with GPT-2's byte pairs, encoder.json and vocab.bpe (or vocab.json and "
          "merges.txt, or tokenizer.json), which text is made into; a run keeps them");
ABSL_FLAG(bool, raw_bytes, false,
          "learn the bytes of all files of --data as they are, also of those that are no text; "
          "what gzip or zstd has packed is unpacked all the same");
ABSL_FLAG(double, dropout, 0, "share of activations set to zero while training");
ABSL_FLAG(double, attention_dropout, 0, "share of attention's weights set to zero while training");
ABSL_FLAG(
    std::string, attention_draws, "ours",
    "who draws which weights those are: ours, the same on every device and layout; library, a "
    "CUDA device's cuDNN, sooner and with less memory, in bf16 alone");
ABSL_FLAG(bool, sequence_split, false,
          "split what blocks add up over the mesh's axis model along the sequence, so that its "
          "devices share norms and dropout instead of each doing all");
ABSL_FLAG(bool, sample, false, "write text with the run that --resume names, and stop");
ABSL_FLAG(std::string, prompt, "\n",
          "what the text begins with; without a tokenizer numbers of tokens, by default the last");
ABSL_FLAG(int64_t, sample_length, 300, "tokens to write; 0 writes none");
ABSL_FLAG(double, temperature, 0.8,
          "0 always takes the likeliest token, 1 draws as the model believes");

namespace sluice {
namespace {

constexpr char kHelp[] =
    "Trains a GPT on text, as bytes or byte pairs, on devices that this machine's cores play.\n"
    "Without flags it learns this repository's own sources and then writes some.\n\n"
    "  bazel run //models/gpt:train -- --data=book.txt --steps=500\n"
    "  bazel run //models/gpt:train -- --data=enwik8.gz --tokenizer=gpt2-bpe --vocabulary=50257\n"
    "  bazel run //models/gpt:train -- --mesh=\"data=2 model=2 pipe=2\" --micro_batches=2\n"
    "  bazel run //models/gpt:train -- --resume=runs/20260101-120000 --sample --prompt=\"int \"\n";

constexpr char kByPreset[] = "by preset";

Preset FlagsOf(const GptPreset& preset) {
  const GptConfig& c = preset.config;
  return {preset.name,
          preset.what,
          {{"layers", absl::StrCat(c.layers)},
           {"hidden", absl::StrCat(c.hidden)},
           {"heads", absl::StrCat(c.heads)},
           {"sequence_length", absl::StrCat(c.sequence_length)},
           {"vocabulary", absl::StrCat(c.vocabulary)},
           {"dropout", absl::StrCat(c.dropout)},
           {"batch", absl::StrCat(c.batch)},
           {"steps", absl::StrCat(preset.steps)},
           {"lr", absl::StrCat(preset.lr)},
           {"warmup", absl::StrCat(preset.warmup)}}};
}

// Whether the library draws.
absl::StatusOr<bool> ReadDraws(const AppOptions& options) {
  const std::string draws = absl::GetFlag(FLAGS_attention_draws);
  if (draws != "ours" && draws != "library") {
    return absl::InvalidArgumentError(
        absl::StrCat("--attention_draws: expected ours or library, got \"", draws, "\""));
  }
  const bool library = draws == "library";
  if (library && options.precision.compute != DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("--attention_draws=library: expected --precision=bf16, got ",
                     DTypeName(options.precision.compute)));
  }
  return library;
}

absl::StatusOr<std::vector<int32_t>> ReadPrompt(const Tokenizer& tokenizer) {
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  auto tokens = tokenizer.Encode(prompt);
  if (!tokens.ok()) return AddContext(tokens.status(), "--prompt");
  if (!tokens->empty()) return tokens;
  if (prompt.empty()) {
    return absl::InvalidArgumentError("--prompt: expected at least one byte, got none");
  }
  // Of GPT-2 the last token is the end of a text, which another one follows.
  return std::vector<int32_t>{static_cast<int32_t>(tokenizer.size() - 1)};
}

}  // namespace

AppFlags GptFlags() {
  AppFlags flags;
  flags.help = kHelp;
  flags.data = {
      "data", "PATH", "the sources of this repository",
      "text to learn from, packed by gzip or zstd or not: a file, a folder of which all "
      "files are read, or the name of a data set that //tools:dataset fetched; or tokens: "
      "a file .bin of nanoGPT, llm.c or Megatron, or .npy of NumPy, or a folder of such "
      "files whose names say what they are for, ..train.bin or ..train_000001.bin, and "
      "..val.bin"};
  flags.model = {{"layers", "N", kByPreset},     {"hidden", "N", kByPreset},
                 {"heads", "N", kByPreset},      {"sequence_length", "N", kByPreset},
                 {"vocabulary", "N", kByPreset}, {"tokenizer", "FOLDER", ""},
                 {"raw_bytes", "", ""},          {"dropout", "X", kByPreset},
                 {"attention_dropout", "X", ""}, {"attention_draws", "WHO", ""},
                 {"sequence_split", "", ""}};
  flags.more = {{"Writing text",
                 {{"sample", "", ""},
                  {"prompt", "TEXT", "an end of line"},
                  {"sample_length", "N", ""},
                  {"temperature", "X", ""}}}};
  for (const GptPreset& preset : GptPresets()) flags.presets.push_back(FlagsOf(preset));
  // A checkpoint names no file that this process reads: a run has its tokenizer in its folder.
  flags.not_recorded = {"tokenizer"};
  flags.shape = {"layers", "hidden", "heads", "sequence_length", "vocabulary"};
  flags.meaning = {"heads"};
  flags.use = "sample";
  return flags;
}

absl::StatusOr<GptOptions> ReadGptFlags(const AppOptions& options) {
  GptOptions gpt;
  gpt.config.layers = absl::GetFlag(FLAGS_layers);
  gpt.config.hidden = absl::GetFlag(FLAGS_hidden);
  gpt.config.heads = absl::GetFlag(FLAGS_heads);
  gpt.config.sequence_length = absl::GetFlag(FLAGS_sequence_length);
  gpt.config.vocabulary = absl::GetFlag(FLAGS_vocabulary);
  gpt.config.dropout = absl::GetFlag(FLAGS_dropout);
  gpt.config.attention_dropout = absl::GetFlag(FLAGS_attention_dropout);
  ASSIGN_OR_RETURN(gpt.config.library_draws, ReadDraws(options));
  gpt.config.sequence_split = absl::GetFlag(FLAGS_sequence_split);
  gpt.config.batch = options.batch;
  gpt.config.precision = options.precision;
  RETURN_IF_ERROR(AddContext(CheckGpt(gpt.config, options.stages), "model"));
  RETURN_IF_ERROR(CheckFlag("sample_length", absl::GetFlag(FLAGS_sample_length), 0, 1e9));
  RETURN_IF_ERROR(CheckFlag("temperature", absl::GetFlag(FLAGS_temperature), 0, 100));
  ASSIGN_OR_RETURN(gpt.tokenizer,
                   FindTokenizer(options, absl::GetFlag(FLAGS_tokenizer), gpt.config.vocabulary));
  ASSIGN_OR_RETURN(gpt.prompt, ReadPrompt(gpt.tokenizer.tokenizer));
  gpt.raw_bytes = absl::GetFlag(FLAGS_raw_bytes);
  gpt.sample.length = absl::GetFlag(FLAGS_sample_length);
  gpt.sample.temperature = absl::GetFlag(FLAGS_temperature);
  gpt.sample.seed = options.session.seed;
  gpt.sample.sequence_length = gpt.config.sequence_length;
  gpt.sample.vocabulary = gpt.tokenizer.tokenizer.size();
  return gpt;
}

}  // namespace sluice
