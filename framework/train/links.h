// What boxing between the processes of a job is priced by, on all ranks alike: which ranks share a
// host, and what the links cost, by default, by a file or as measured when the job starts.
#ifndef SLUICE_FRAMEWORK_TRAIN_LINKS_H_
#define SLUICE_FRAMEWORK_TRAIN_LINKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/machine/machine.h"
#include "framework/train/job.h"

namespace sluice {

inline constexpr absl::string_view kDefaultLinks = "default", kMeasureLinks = "measure";
// In a run's folder: what was measured, in the form of a file of links.
inline constexpr absl::string_view kLinksFile = "links.txt";

// "host_latency_nanoseconds=20000" and the like, a line each, of all links.
std::string LinksFileText(const Machine& machine);
// Sets what the text says of links and of devices_per_host; all else stays. InvalidArgument: a word
// that is of neither, or no number.
absl::Status ReadLinks(absl::string_view text, Machine* machine);
// What --links says: nothing of the default and where links are measured, else a file, which is
// read. Errors name it.
absl::Status ReadLinksWish(const std::string& wish, Machine* machine);

// All ranks call it first of all, before the job's net is asked for. The first one decides for all:
// it sees where the others are; the links of an earlier run are those of its folder `resumed`,
// where they stand there and `wish` names no file; else they are measured, where it says so, or
// those of its machine. Sets host_of_rank and links of the machine.
absl::Status AgreeOnLinks(Job* job, absl::string_view wish, const std::string& resumed,
                          Machine* machine);

// Of those that the job has, for people: "host 10 us, 5 GB/s; network 30 us, 1 GB/s".
std::string DescribeLinks(const Machine& machine);

// For people, where ranks of a host do not follow each other, as launchers that deal ranks to hosts
// in turn have it: what it costs and how to ask for another order. Else empty.
std::string WarnOfScatteredHosts(const Machine& machine);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_LINKS_H_
