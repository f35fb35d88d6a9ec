// Text to train on, as bytes: a file or a folder is read whole, and a fixed part of it is held out.
// What is held out depends only on paths and bytes, never on order of discovery. One thread.
#ifndef SLUICE_FRAMEWORK_DATA_TEXT_CORPUS_H_
#define SLUICE_FRAMEWORK_DATA_TEXT_CORPUS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"

namespace sluice {

struct TextCorpus {
  std::string training, held_out;  // files one after the other, in order of their paths
  int64_t training_files = 0, held_out_files = 0;
  uint64_t digest = 0;  // of every path and byte
};

// A file of a corpus; its path is relative to the folder, so that a moved folder stays the same.
struct TextFile {
  std::string path, bytes;
};

// Every tenth file by hash of its path is held out. Where that would leave a side empty, as with a
// single file, it is the last tenth of all bytes.
TextCorpus SplitCorpus(std::vector<TextFile> files);

// Whether a folder below the one that is read is left out, such as that of a run.
using SkipFolder = std::function<bool(const std::string& path)>;

struct TextCorpusOptions {
  SkipFolder skip = {};
  // Takes the bytes of files that are no text, too, and keeps byte order marks. Otherwise such a
  // file is an error.
  bool any_bytes = false;
  std::string advice = {};  // ends that error, if it is given
};

// `path` is a file, or a folder of which every regular file is read; hidden files and folders are
// left out, and folders that `skip` names, if it is set. Each file is read as ReadTextFile of
// text_file.h does: what gzip or zstd has packed is unpacked. A link that leads nowhere or in a
// circle is left out with a warning that names it. Errors: not found, not readable, a file that is
// no text, no text at all, more than there is memory for.
absl::StatusOr<TextCorpus> ReadTextCorpus(const std::string& path,
                                          const TextCorpusOptions& options = {});

// Files packed into one: for each a line "path bytes" and then as many bytes.
absl::StatusOr<TextCorpus> ReadPackedCorpus(const std::string& path);

// Loss of `held_out`, in nats a byte, under a model of byte pairs counted in `training`, with one
// added to each count: what any trained model must beat.
double BigramLoss(absl::string_view training, absl::string_view held_out);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TEXT_CORPUS_H_
