// A file of data in another format that holds the same. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_TOOLS_CONVERT_H_
#define SLUICE_FRAMEWORK_TOOLS_CONVERT_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/data/hugectr_raw.h"
#include "framework/tools/file_format.h"

namespace sluice {

struct FileOf {
  std::string path;
  FileFormat format;
};

// TFRecord, OFRecord and RecordIO, of any features between the first two, else of pictures with
// labels, and to these from a folder of class folders; .npy, .npz and IDX; CSV, TSV and HugeCTR's
// Raw, whose tables are labels, numbers and keys of up to eight hexadecimal digits, as Criteo's log
// is; the formats of tokens. The file is written beside its place and put there when it is whole.
// Says in a line what was written. InvalidArgument: formats that hold other things, values that the
// other cannot hold. A last record that is cut short is an error, too: nothing is left out.
absl::StatusOr<std::string> ConvertFile(const FileOf& in, const FileOf& out,
                                        const RawColumns& columns);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TOOLS_CONVERT_H_
