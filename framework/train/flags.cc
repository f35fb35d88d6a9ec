#include "framework/train/flags.h"

#include <algorithm>
#include <cstdint>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/log.h"
#include "framework/base/process.h"
#include "framework/base/status.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

absl::CommandLineFlag* Find(const FlagEntry& entry) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(entry.name);
  SLUICE_CHECK(flag != nullptr) << "no flag " << entry.name << " is linked in";
  return flag;
}

const FlagEntry* FindEntry(absl::Span<const FlagGroup> groups, absl::string_view name) {
  for (const FlagGroup& group : groups) {
    for (const FlagEntry& entry : group.flags) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

absl::Status Unknown(absl::Span<const FlagGroup> groups, absl::string_view name) {
  std::vector<std::string> names = {"--help"};
  for (const FlagGroup& group : groups) {
    for (const FlagEntry& entry : group.flags) names.push_back("--" + entry.name);
  }
  const std::string flag = absl::StrCat("--", name), near = NearestName(flag, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag ", flag, near.empty() ? "; --help lists all" : "; did you mean " + near + "?"));
}

absl::string_view Expected(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<int64_t>() || flag.IsOfType<int32_t>()) return "a whole number";
  if (flag.IsOfType<uint64_t>()) return "a whole number, not negative";
  if (flag.IsOfType<double>()) return "a number";
  if (flag.IsOfType<bool>()) return "true or false";
  return "another value";
}

absl::Status Set(absl::CommandLineFlag* flag, absl::string_view value) {
  std::string error;
  if (flag->ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag->Name(), ": expected ", Expected(*flag), ", got \"", value, "\""));
}

// Appends `text` in lines of at most `width` columns, all but the first indented.
void Wrap(absl::string_view text, size_t indent, size_t width, std::string* to) {
  size_t column = indent;
  bool first = true;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!first && column + 1 + word.size() > width) {
      absl::StrAppend(to, "\n", std::string(indent, ' '));
      column = indent;
    } else if (!first) {
      absl::StrAppend(to, " ");
      ++column;
    }
    absl::StrAppend(to, word);
    column += word.size();
    first = false;
  }
  absl::StrAppend(to, "\n");
}

// A shell leaves "~/" as it is behind "--out=".
std::string InHome(absl::string_view path) {
  const std::string home = HomeFolder();
  if (home.empty() || (path != "~" && !absl::StartsWith(path, "~/"))) return std::string(path);
  return absl::StrCat(home, path.substr(1));
}

}  // namespace

bool IsPath(const FlagEntry& entry) {
  return entry.value == "PATH" || entry.value == "FILE" || entry.value == "DIR" ||
         entry.value == "FOLDER";
}

std::set<std::string> WithoutPaths(absl::Span<const FlagGroup> groups,
                                   std::set<std::string> names) {
  for (const FlagGroup& group : groups) {
    for (const FlagEntry& entry : group.flags) {
      if (IsPath(entry)) names.erase(entry.name);
    }
  }
  return names;
}

absl::Status ParseFlags(absl::Span<const FlagGroup> groups,
                        const std::vector<std::string>& arguments, ParsedFlags* parsed) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "-") || argument.empty() || argument == "-") {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a flag such as --steps=100, got \"", arguments[i], "\""));
    }
    absl::ConsumePrefix(&argument, "-");
    const size_t equals = argument.find('=');
    const bool has_value = equals != absl::string_view::npos;
    absl::string_view name = argument.substr(0, equals);
    absl::string_view value = has_value ? argument.substr(equals + 1) : absl::string_view();
    if ((name == "help" || name == "h") && !has_value) {
      parsed->help = true;
      continue;
    }
    const FlagEntry* entry = FindEntry(groups, name);
    bool negated = false;
    if (entry == nullptr && !has_value && absl::ConsumePrefix(&name, "no")) {
      entry = FindEntry(groups, name);
      negated = entry != nullptr && Find(*entry)->IsOfType<bool>();
      if (!negated) return Unknown(groups, absl::StrCat("no", name));
    }
    if (entry == nullptr) return Unknown(groups, name);
    absl::CommandLineFlag* flag = Find(*entry);
    if (!has_value && flag->IsOfType<bool>()) {
      value = negated ? "false" : "true";
    } else if (!has_value) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, ": expected a value, got none"));
      }
      value = arguments[i];
    }
    RETURN_IF_ERROR(Set(flag, IsPath(*entry) ? InHome(value) : std::string(value)));
    parsed->given.insert(entry->name);
  }
  return absl::OkStatus();
}

std::string FlagsHelp(absl::string_view introduction, absl::Span<const FlagGroup> groups) {
  constexpr size_t kIndent = 26, kWidth = 96;
  std::string out = absl::StrCat(introduction, "\n");
  for (const FlagGroup& group : groups) {
    absl::StrAppend(&out, "\n", group.title, "\n");
    for (const FlagEntry& entry : group.flags) {
      const absl::CommandLineFlag* flag = Find(entry);
      std::string left =
          absl::StrCat("  --", entry.name, entry.value.empty() ? "" : "=", entry.value);
      const bool fits = left.size() < kIndent;
      absl::StrAppend(&out, left, fits ? "" : "\n",
                      std::string(fits ? kIndent - left.size() : kIndent, ' '));
      const std::string own = flag->DefaultValue();
      const std::string& shown = entry.default_text.empty() ? own : entry.default_text;
      const bool silent = shown.empty() || flag->IsOfType<bool>();
      const std::string help = entry.help.empty() ? flag->Help() : entry.help;
      Wrap(absl::StrCat(help, silent ? "" : absl::StrCat(" [", shown, "]")), kIndent, kWidth, &out);
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> FlagValues(absl::Span<const FlagGroup> groups,
                                                            const std::set<std::string>& recorded) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const FlagGroup& group : groups) {
    for (const FlagEntry& entry : group.flags) {
      if (recorded.count(entry.name) > 0) {
        values.emplace_back(entry.name, Find(entry)->CurrentValue());
      }
    }
  }
  return values;
}

absl::Status RestoreFlags(absl::Span<const FlagGroup> groups, const std::set<std::string>& recorded,
                          const std::map<std::string, std::string>& values, ParsedFlags* parsed) {
  for (const auto& flag : values) {
    const FlagEntry* entry = FindEntry(groups, flag.first);
    if (entry == nullptr) return Unknown(groups, flag.first);
    if (recorded.count(entry->name) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", entry->name, ": expected on the command line alone, got \"",
                       flag.second, "\" from the checkpoint, which no run of this program wrote"));
    }
    if (!parsed->given.insert(entry->name).second) continue;
    RETURN_IF_ERROR(Set(Find(*entry), flag.second));
  }
  return absl::OkStatus();
}

}  // namespace sluice
