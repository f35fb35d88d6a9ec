// A front end for absl flags of a program that people start by hand: groups of flags in order, help
// that a newcomer understands, and errors of one line that name the nearest flag. The flags stand
// in the program; this reads and prints them. Called by main, before other threads start.
#ifndef SLUICE_FRAMEWORK_TRAIN_FLAGS_H_
#define SLUICE_FRAMEWORK_TRAIN_FLAGS_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

struct FlagEntry {
  std::string name;
  std::string value;         // what stands for the value in help: "N", "PATH"; "" for a switch
  std::string default_text;  // what help says of the default, if not the flag's own
  std::string help = {};     // what help says of the flag, if not the flag's own
};

// Whether the value is the path of a file or a folder, by what stands for it in help.
bool IsPath(const FlagEntry& entry);

struct FlagGroup {
  std::string title;
  std::vector<FlagEntry> flags;
};

// Returns those of `names` whose values are no paths.
std::set<std::string> WithoutPaths(absl::Span<const FlagGroup> groups, std::set<std::string> names);

struct ParsedFlags {
  bool help = false;            // --help or -h stood somewhere
  std::set<std::string> given;  // names of the flags that stood on the command line
};

// Reads --name=value, --name value, --name and --noname of switches, also with one dash, into the
// flags of `groups`. `arguments` are without the program's name. A path that begins with "~/" is
// one in the user's home, as shells have it where a word begins with it. Errors are of one line.
absl::Status ParseFlags(absl::Span<const FlagGroup> groups,
                        const std::vector<std::string>& arguments, ParsedFlags* parsed);

// Introduction, then every group with its flags, their help and defaults, 96 columns wide.
std::string FlagsHelp(absl::string_view introduction, absl::Span<const FlagGroup> groups);

// Name and present value of every flag that is `recorded`, in order.
std::vector<std::pair<std::string, std::string>> FlagValues(absl::Span<const FlagGroup> groups,
                                                            const std::set<std::string>& recorded);
// Gives flags that are not in parsed->given the values that an earlier run has, and adds them to
// it. A flag that no group has is an error, and so is one that no run records: `values` may come
// from anywhere, and would else name the files that this run writes.
absl::Status RestoreFlags(absl::Span<const FlagGroup> groups, const std::set<std::string>& recorded,
                          const std::map<std::string, std::string>& values, ParsedFlags* parsed);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_FLAGS_H_
