#include "common/process/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kSwitchOn[] = "true";
constexpr char kSwitchOff[] = "false";

// "--rows=VALUE", or "--force" for a switch.
std::string Spelling(const FlagSpec& spec) { return absl::StrCat("--", spec.name, spec.is_switch ? "" : "=VALUE"); }

absl::Status UsageError(absl::string_view problem, const std::vector<FlagSpec>& specs) {
  const std::string known =
      absl::StrJoin(specs, " ", [](std::string* out, const FlagSpec& spec) { absl::StrAppend(out, Spelling(spec)); });
  return absl::InvalidArgumentError(
      absl::StrCat("command line: ", problem, "; expected ", known.empty() ? "no arguments" : known));
}

// One command-line word taken apart.
struct Word {
  absl::string_view name;
  absl::string_view value;
  bool has_value = false;
};

absl::StatusOr<Word> Split(absl::string_view word, const std::vector<FlagSpec>& specs) {
  if (!absl::StartsWith(word, "--") || word.size() == 2) {
    return UsageError(absl::StrCat("found \"", word, "\", which is not a flag"), specs);
  }
  const absl::string_view body = word.substr(2);
  const size_t equals = body.find('=');
  if (equals == absl::string_view::npos) {
    return Word{body, "", false};
  }
  return Word{body.substr(0, equals), body.substr(equals + 1), true};
}

// The value `word` gives the flag `spec`.
absl::StatusOr<std::string> ValueOf(const Word& word, const FlagSpec& spec, const std::vector<FlagSpec>& specs) {
  if (spec.is_switch && !word.has_value) {
    return kSwitchOn;
  }
  if (word.value.empty()) {
    return UsageError(absl::StrCat("--", spec.name, " has no value"), specs);
  }
  if (spec.is_switch && word.value != kSwitchOn && word.value != kSwitchOff) {
    return UsageError(absl::StrCat("--", spec.name, ": expected true or false, found \"", word.value, "\""), specs);
  }
  return std::string(word.value);
}

bool IsInformational(const std::string& name) { return name == "help" || name == "version"; }

template <typename Map>
const typename Map::mapped_type& Require(const Map& map, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end()) {
    std::fprintf(stderr, "flag --%s is read but not declared\n", name.c_str());
    std::abort();
  }
  return found->second;
}

}  // namespace

absl::StatusOr<Flags> Flags::Parse(int argc, char** argv, int first, const std::vector<FlagSpec>& specs) {
  Flags flags;
  for (const FlagSpec& spec : specs) {
    flags.values_[spec.name] = spec.is_switch && spec.default_value.empty() ? kSwitchOff : spec.default_value;
    if (spec.is_list) {
      flags.lists_[spec.name] = {};
    }
  }
  std::set<std::string> given;
  bool informational = false;
  for (int i = first; i < argc; ++i) {
    SPLITVEIL_ASSIGN_OR_RETURN(const Word word, Split(argv[i], specs));
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const FlagSpec& candidate) { return candidate.name == word.name; });
    if (spec == specs.end()) {
      return UsageError(absl::StrCat("--", word.name, " is not a flag of this program"), specs);
    }
    SPLITVEIL_ASSIGN_OR_RETURN(std::string value, ValueOf(word, *spec, specs));
    if (!given.insert(spec->name).second && !spec->is_list) {
      return UsageError(absl::StrCat("--", spec->name, " is given twice"), specs);
    }
    informational |= spec->is_switch && IsInformational(spec->name) && value == kSwitchOn;
    if (spec->is_list) {
      flags.lists_[spec->name].push_back(value);
    }
    flags.values_[spec->name] = std::move(value);
  }
  for (const FlagSpec& spec : specs) {
    if (spec.required && !informational && given.count(spec.name) == 0) {
      return UsageError(absl::StrCat("--", spec.name, " is missing"), specs);
    }
  }
  return flags;
}

const std::string& Flags::Get(const std::string& name) const { return Require(values_, name); }

const std::vector<std::string>& Flags::GetList(const std::string& name) const { return Require(lists_, name); }

bool Flags::GetSwitch(const std::string& name) const { return Get(name) == kSwitchOn; }

absl::StatusOr<int64_t> Flags::GetInt(const std::string& name, int64_t min, int64_t max) const {
  int64_t number = 0;
  if (!absl::SimpleAtoi(Get(name), &number) || number < min || number > max) {
    return absl::InvalidArgumentError(absl::StrCat("command line: --", name, ": expected an integer in [", min, ", ",
                                                   max, "], found \"", Get(name), "\""));
  }
  return number;
}

absl::StatusOr<double> Flags::GetDouble(const std::string& name, double min, double max) const {
  double number = 0;
  if (!absl::SimpleAtod(Get(name), &number) || !std::isfinite(number) || number < min || number > max) {
    return absl::InvalidArgumentError(absl::StrCat("command line: --", name, ": expected a number in [", min, ", ", max,
                                                   "], found \"", Get(name), "\""));
  }
  return number;
}

std::string Flags::Help(const std::string& usage, const std::vector<FlagSpec>& specs) {
  size_t width = 0;
  for (const FlagSpec& spec : specs) {
    width = std::max(width, Spelling(spec).size());
  }
  std::string text = absl::StrCat("Usage: ", usage, "\n");
  for (const FlagSpec& spec : specs) {
    const std::string spelling = Spelling(spec);
    absl::StrAppend(&text, "  ", spelling, std::string(width - spelling.size() + 2, ' '), spec.help);
    if (spec.required) {
      absl::StrAppend(&text, " (required)");
    } else if (!spec.default_value.empty()) {
      absl::StrAppend(&text, " (default: ", spec.default_value, ")");
    }
    if (spec.is_list) {
      absl::StrAppend(&text, " (may be given several times)");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace splitveil
