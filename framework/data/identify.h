// Identifies data by a digest of its bytes. Two ranks, or a run and its continuation, read the same
// data if their identities are equal. This is the one rule for data that a run does not read as a
// whole when it begins; data that is read into memory is digested there.
#ifndef SLUICE_FRAMEWORK_DATA_IDENTIFY_H_
#define SLUICE_FRAMEWORK_DATA_IDENTIFY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"

namespace sluice {

// Larger data is identified by a sample of it, of about so many bytes. This keeps a start short:
// 90,000 files of 9.2 GB took 14 seconds on two cores and a virtual disk, and the sample of them,
// which has at most 4,096 places, 0.05 seconds.
inline constexpr int64_t kMostIdentifiedBytes = int64_t{8} << 30;
inline constexpr int64_t kSampledBytes = int64_t{256} << 20;

struct IdentifyOptions {
  Stop stop = {};
  int64_t most_bytes = kMostIdentifiedBytes;
  int64_t sampled_bytes = kSampledBytes;
  double log_after_seconds = 5;  // then a line of progress is logged, and one every ten seconds
};

// Data as a sequence of parts: files, or records of a file. Where they are stored is no part of it.
struct DataParts {
  std::string what;            // for people: "pictures to learn from"
  std::vector<int64_t> sizes;  // of each part, in bytes
  // Reads a range of a part. Called by several threads at once. Bytes that cannot be read are named
  // in a warning and count as such: whoever needs them later decides whether that is an error.
  std::function<absl::Status(int64_t part, int64_t offset, int64_t size, char* to)> read;
  // How many bytes one can read in the time that a part takes besides: to open a file, for example.
  int64_t cost_of_part = 0;
  uint64_t meaning = 0;  // a digest of what is not in the bytes, such as the labels of files
};

// Cancelled soon after options.stop says so; there are no other errors. The identity does not
// depend on the number of threads. A sample is blocks that are spread evenly over all bytes, and
// the size of every part.
absl::StatusOr<DataIdentity> Identify(const DataParts& parts, const IdentifyOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_IDENTIFY_H_
