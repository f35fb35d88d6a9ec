// Makes files of tokens of text.

#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
#include "framework/train/hub_byte_pairs.h"
#include "models/gpt/tokenize.h"
#include "models/gpt/tokenizer.h"

ABSL_FLAG(std::string, data, "", "text, packed by gzip or zstd or not: a file or a folder");
ABSL_FLAG(std::string, tokenizer, "",
          "folder with encoder.json and vocab.bpe, vocab.json and merges.txt, or tokenizer.json");
ABSL_FLAG(std::string, format, "nanogpt", "nanogpt, llm.c or megatron");
ABSL_FLAG(std::string, out, "", "folder for train.bin and val.bin");

namespace sluice {
namespace {

const char kHelp[] =
    "Makes files of tokens of text, for the trainer's --data and for other frameworks.\n\n"
    "  bazel run //models/gpt:tokenize -- --data=enwik8.gz --tokenizer=gpt2-bpe --out=enwik8-gpt2\n"
    "  bazel run //models/gpt:train -- --data=enwik8-gpt2 --tokenizer=gpt2-bpe "
    "--vocabulary=50257\n";

absl::Status Run() {
  ASSIGN_OR_RETURN(const TokenFormat format, ParseTokenFormat(absl::GetFlag(FLAGS_format)));
  ASSIGN_OR_RETURN(HubBytePairs read, ReadBytePairs(absl::GetFlag(FLAGS_tokenizer)));
  const std::string out = absl::GetFlag(FLAGS_out);
  ASSIGN_OR_RETURN(
      const TokenizedText made,
      WriteTokensOf(absl::GetFlag(FLAGS_data), Tokenizer(std::move(read.pairs)), format, out));
  absl::PrintF("%s: %d tokens to learn from, %d held out, of %d bytes; %.1f MB/s\n", out,
               made.training, made.held_out, made.bytes,
               static_cast<double>(made.bytes) / 1e6 / made.seconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"tokenize",
                             sluice::kHelp,
                             {{"Flags",
                               {{"data", "PATH", ""},
                                {"tokenizer", "FOLDER", ""},
                                {"format", "NAME", ""},
                                {"out", "FOLDER", ""}}}},
                             {"data", "tokenizer", "out"},
                             sluice::Run},
                            argc, argv);
}
