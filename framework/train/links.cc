#include "framework/train/links.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/train/link_probe.h"

namespace sluice {
namespace {

constexpr absl::string_view kHosts = "hosts=", kMeasure = "measure\n";

std::vector<std::string> KeysOfLinks() {
  std::vector<std::string> keys = {"devices_per_host"};
  for (int k = 0; k < kLinkKinds; ++k) {
    const absl::string_view name = LinkKindName(static_cast<LinkKind>(k));
    keys.push_back(absl::StrCat(name, "_latency_nanoseconds"));
    keys.push_back(absl::StrCat(name, "_bytes_per_second"));
  }
  return keys;
}

absl::StatusOr<std::vector<int32_t>> ParseHosts(absl::string_view text, int32_t ranks) {
  std::vector<int32_t> hosts;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    int32_t host = 0;
    if (absl::SimpleAtoi(word, &host)) hosts.push_back(host);
  }
  if (static_cast<int32_t>(hosts.size()) == ranks) return hosts;
  return absl::InvalidArgumentError(absl::StrCat(
      "hosts of the job: expected ", ranks, " numbers, got ", hosts.size(), " in \"", text, "\""));
}

absl::Status ReadLinksFile(const std::string& path, Machine* machine) {
  constexpr int64_t kMostBytes = 1 << 16;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMostBytes));
  return AddContext(ReadLinks(text, machine), path);
}

// What the first rank says: hosts, then that links are measured or what they cost.
absl::StatusOr<std::string> FirstWord(const Job& job, absl::string_view wish,
                                      const std::string& resumed, Machine machine) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> hosts, job.SeeHosts());
  const std::string said = absl::StrCat(kHosts, absl::StrJoin(hosts, " "), "\n");
  const std::string recorded = absl::StrCat(resumed, "/", kLinksFile);
  std::error_code error;
  if ((wish == kDefaultLinks || wish == kMeasureLinks) && !resumed.empty() &&
      std::filesystem::exists(recorded, error)) {
    RETURN_IF_ERROR(ReadLinksFile(recorded, &machine));
  } else if (wish == kMeasureLinks) {
    return absl::StrCat(said, kMeasure);
  }
  return absl::StrCat(said, LinksFileText(machine));
}

}  // namespace

std::string LinksFileText(const Machine& machine) {
  std::string text;
  for (int k = 0; k < kLinkKinds; ++k) {
    const absl::string_view name = LinkKindName(static_cast<LinkKind>(k));
    absl::StrAppendFormat(&text, "%s_latency_nanoseconds=%d\n%s_bytes_per_second=%.17g\n", name,
                          machine.links[k].latency_nanoseconds, name,
                          machine.links[k].bytes_per_second);
  }
  return text;
}

absl::Status ReadLinks(absl::string_view text, Machine* machine) {
  const std::vector<std::string> keys = KeysOfLinks();
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const absl::string_view key = word.substr(0, word.find('='));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("links: expected key=value with a key of ",
                                                   absl::StrJoin(keys, ", "), "; got \"", word,
                                                   "\""));
  }
  Machine plain = *machine;
  plain.kernels.clear();
  ASSIGN_OR_RETURN(plain, Machine::Parse(absl::StrCat(plain.ToString(), " ", text)));
  machine->links = plain.links;
  machine->devices_per_host = plain.devices_per_host;
  return absl::OkStatus();
}

absl::Status ReadLinksWish(const std::string& wish, Machine* machine) {
  if (wish == kDefaultLinks || wish == kMeasureLinks) return absl::OkStatus();
  return AddContext(ReadLinksFile(wish, machine), "--links");
}

absl::Status AgreeOnLinks(Job* job, absl::string_view wish, const std::string& resumed,
                          Machine* machine) {
  if (job->ranks() == 1) return absl::OkStatus();
  absl::StatusOr<std::string> mine = "";
  if (job->is_first()) mine = FirstWord(*job, wish, resumed, *machine);
  ASSIGN_OR_RETURN(const std::string said,
                   job->Share(mine, "said who shares a host and what links cost"));
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(said, absl::MaxSplits('\n', 1));
  ASSIGN_OR_RETURN(machine->host_of_rank,
                   ParseHosts(absl::StripPrefix(words.first, kHosts), job->ranks()));
  const std::string warning = WarnOfScatteredHosts(*machine);
  if (job->is_first() && !warning.empty()) SLUICE_LOG(WARNING) << warning;
  if (words.second != kMeasure) return ReadLinks(words.second, machine);
  // Who cannot measure has lost the other rank, and so does that one.
  ASSIGN_OR_RETURN(machine->links, job->MeasureLinks(machine->host_of_rank, machine->links));
  ASSIGN_OR_RETURN(const std::string measured,
                   job->Share(LinksFileText(*machine), "said what it measured of links"));
  return ReadLinks(measured, machine);
}

std::string DescribeLinks(const Machine& machine) {
  std::vector<std::string> links;
  for (const LinkKind kind : {LinkKind::kHost, LinkKind::kNetwork}) {
    if (!ProbePair(machine.host_of_rank, kind)) continue;
    const Link& link = machine.link(kind);
    links.push_back(absl::StrFormat("%s %.6g us, %.6g GB/s", LinkKindName(kind),
                                    static_cast<double>(link.latency_nanoseconds) / 1e3,
                                    link.bytes_per_second / 1e9));
  }
  return absl::StrJoin(links, "; ");
}

std::string WarnOfScatteredHosts(const Machine& machine) {
  // Hosts are numbered by their first ranks, so that ranks which follow each other are sorted.
  const std::vector<int32_t>& hosts = machine.host_of_rank;
  if (std::is_sorted(hosts.begin(), hosts.end())) return "";
  return absl::StrCat("ranks of one host do not follow each other (hosts of ranks ",
                      absl::StrJoin(hosts, " "),
                      "): neighbours in --mesh talk over the network, and sums cannot be made on a "
                      "host first. Launch host by host: srun --distribution=block, mpirun --map-by "
                      "slot");
}

}  // namespace sluice
