// Says what a file of data holds, or writes it in another format: what `inspect` and `convert` of
// //tools:dataset do.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/tools/convert.h"
#include "framework/tools/file_format.h"
#include "framework/tools/inspect.h"
#include "framework/train/command.h"

ABSL_FLAG(std::string, in, "", "the file");
ABSL_FLAG(std::string, out, "", "where it is written in another format; none: it is shown");
ABSL_FLAG(std::string, format, "", "of --in, where its name does not say it");
ABSL_FLAG(std::string, to, "", "of --out, where its name does not say it");
ABSL_FLAG(int64_t, labels, 1, "of a sample of HugeCTR's Raw format");
ABSL_FLAG(int64_t, numbers, 13, "of the same");
ABSL_FLAG(int64_t, keys, 26, "of the same");
ABSL_FLAG(bool, integers, false, "labels and numbers of the same are u32, not f32");

namespace sluice {
namespace {

absl::Status Run() {
  const RawColumns columns = {.labels = absl::GetFlag(FLAGS_labels),
                              .numbers = absl::GetFlag(FLAGS_numbers),
                              .keys = absl::GetFlag(FLAGS_keys),
                              .floats = !absl::GetFlag(FLAGS_integers)};
  const std::string in = absl::GetFlag(FLAGS_in), out = absl::GetFlag(FLAGS_out);
  ASSIGN_OR_RETURN(const FileFormat format, FormatOfFile(in, absl::GetFlag(FLAGS_format)));
  if (out.empty()) {
    ASSIGN_OR_RETURN(const std::string lines, InspectFile(in, format, columns));
    absl::PrintF("%s", lines);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const FileFormat to, FormatOfNewFile(out, absl::GetFlag(FLAGS_to)));
  ASSIGN_OR_RETURN(const std::string line, ConvertFile({in, format}, {out, to}, columns));
  absl::PrintF("%s\n", line);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"dataset",
                             "Says what a file of data holds, or writes it in another format.\n",
                             {{"Flags",
                               {{"in", "FILE", ""},
                                {"out", "FILE", ""},
                                {"format", "NAME", ""},
                                {"to", "NAME", ""},
                                {"labels", "N", ""},
                                {"numbers", "N", ""},
                                {"keys", "N", ""},
                                {"integers", "", ""}}}},
                             {"in"},
                             sluice::Run},
                            argc, argv);
}
