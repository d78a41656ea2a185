#include "common/command_line/command_line.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "common/naming/nearest_name.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kColumns = 100;

// Two columns, the right one wrapped.
using Rows = std::vector<std::pair<std::string, std::string>>;

// `width`: of the left column, at least as wide as each row needs.
void AppendRows(const Rows& rows, size_t width, std::string& text) {
  const size_t indent = width + 4;
  for (const auto& [left, right] : rows) {
    std::string line = absl::StrCat("  ", left, std::string(width - left.size() + 1, ' '));
    for (const absl::string_view word : absl::StrSplit(right, ' ', absl::SkipEmpty())) {
      if (line.size() + 1 + word.size() > kColumns && line.size() > indent) {
        absl::StrAppend(&text, line, "\n");
        line = std::string(indent - 1, ' ');
      }
      absl::StrAppend(&line, " ", word);
    }
    absl::StrAppend(&text, line, "\n");
  }
}

// Rows under headings, in the order of their first rows.
using Groups = std::vector<std::pair<std::string, Rows>>;

Rows& RowsOf(const std::string& group, Groups& groups) {
  for (auto& [heading, rows] : groups) {
    if (heading == group) {
      return rows;
    }
  }
  return groups.emplace_back(group, Rows()).second;
}

void AppendGroups(const Groups& groups, std::string& text) {
  size_t width = 0;
  for (const auto& [heading, rows] : groups) {
    for (const auto& [left, right] : rows) {
      width = std::max(width, left.size());
    }
  }
  for (const auto& [heading, rows] : groups) {
    absl::StrAppend(&text, "\n", heading, ":\n");
    AppendRows(rows, width, text);
  }
}

bool IsSwitch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// CLI11 appends the descriptions of the checks to the type: "N:1 to 1024". One type has a colon of its own.
std::pair<std::string, std::string> TypeAndRange(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (absl::StartsWith(type, "HOST:PORT")) {
    return {type, ""};
  }
  return absl::StrSplit(type, absl::MaxSplits(':', 1));
}

std::string Left(const CLI::Option& option) {
  const std::string name = option.get_name(false, true);
  return IsSwitch(option) ? name : absl::StrCat(name, "=", TypeAndRange(option).first);
}

std::string Right(const CLI::Option& option) {
  std::vector<std::string> notes;
  // Whatever a user must know before typing stands in the help: required, range, default.
  if (option.get_required()) {
    notes.push_back("required");
  }
  // A list has no single range or default to show.
  if (IsList(option)) {
    notes.push_back("may be given several times");
  } else if (!IsSwitch(option)) {
    if (const std::string range = TypeAndRange(option).second; !range.empty()) {
      notes.push_back(range);
    }
    if (!option.get_required() && !option.get_default_str().empty()) {
      notes.push_back(absl::StrCat("default: ", option.get_default_str()));
    }
  }
  return absl::StrCat(option.get_description(),
                      notes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(notes, "; "), ")"));
}

// The name of a command below `app`, as one types it after the call of `app`.
std::string NameBelow(const CLI::App& command, const CLI::App& app) {
  return CallOf(command).substr(CallOf(app).size() + 1);
}

std::string Refusal(const std::string& expected, const std::string& found) {
  return absl::StrCat("expected ", expected, ", found \"", found, "\"");
}

absl::Status UsageError(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("command line: ", problem));
}

void Describe(const CommandText& text, CLI::App& app) {
  app.description(text.summary);
  app.footer(absl::StrCat("Example:\n  ", text.example));
}

// The command that the words chose, as far as they were read.
const CLI::App& Chosen(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : Chosen(*chosen.front());
}

std::vector<std::string> KnownFlags(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : OptionsOf(app)) {
    known.push_back(option->get_name(false, true));
  }
  return known;
}

// The commands that may stand where an unknown word stands.
std::vector<std::string> KnownWords(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::App* command : CommandsBelow(app)) {
    const std::vector<std::string> call = absl::StrSplit(CallOf(*command), absl::MaxSplits(' ', 1));
    known.push_back(call.back());  // Without the program's name.
  }
  return known;
}

absl::Status UnknownWord(const CLI::App& app, const std::string& word) {
  const bool has_commands = !app.get_subcommands([](const CLI::App*) { return true; }).empty();
  const bool commands = has_commands && !(IsCommand(app) && absl::StartsWith(word, "--"));
  const std::vector<std::string> known = commands ? KnownWords(app) : KnownFlags(app);
  const std::string whole = app.get_parent() != nullptr && commands ? absl::StrCat(app.get_name(), " ", word) : word;
  const absl::string_view name =
      commands ? absl::string_view(whole) : absl::string_view(whole).substr(0, whole.find('='));
  // Most unknown words are typing errors, and the answer to those is one word.
  const std::string nearest = NearestName(name, known);
  return UsageError(absl::StrCat("expected ", commands ? "a command" : absl::StrCat("a flag of ", CallOf(app)), " (",
                                 absl::StrJoin(known, ", "), "), found ",
                                 word.empty() && commands ? "none" : absl::StrCat("\"", whole, "\""),
                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

// What CLI11 lets pass or says less clearly: a value that is the next flag, a flag given twice, a switch's value.
absl::Status CheckOption(const CLI::Option& option) {
  const std::string name = option.get_name(false, true);
  const std::vector<std::string>& values = option.results();
  if (option.get_items_expected_max() == 0) {  // A switch.
    for (const std::string& value : values) {
      if (value != "true" && value != "false") {
        return UsageError(absl::StrCat(name, ": expected true or false, found \"", value, "\""));
      }
    }
    return absl::OkStatus();
  }
  for (const std::string& value : values) {
    if (absl::StartsWith(value, "--")) {
      return UsageError(absl::StrCat(name, ": expected a value, found \"", value, "\""));
    }
  }
  if (option.get_items_expected_max() == 1 && values.size() > 1) {
    return UsageError(absl::StrCat(name, ": expected one value, found ", values.size(), ": \"",
                                   absl::StrJoin(values, "\", \""), "\""));
  }
  return absl::OkStatus();
}

// What is wrong with the words of the chosen command, as they were read; OK where nothing is.
absl::Status CheckWords(const CLI::App& app) {
  if (const std::vector<std::string> unknown = app.remaining(); !unknown.empty()) {
    return UnknownWord(app, unknown.front());
  }
  for (const CLI::Option* option : app.get_options()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckOption(*option));
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? absl::OkStatus() : CheckWords(*chosen.front());
}

// CLI11 would read the word after "--out=" as its value.
absl::Status RefuseEmptyValues(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view word = argv[i];
    if (absl::StartsWith(word, "--") && word.size() > 3 && word.find('=') == word.size() - 1) {
      return UsageError(absl::StrCat(word.substr(0, word.size() - 1), ": expected a value, found none"));
    }
  }
  return absl::OkStatus();
}

// CLI11 takes a list's value "[a,b]" apart, unless each value has to name its flag; a file may be called that.
void TakeValuesAsTheyAre(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* each) { return IsList(*each); })) {
    option->allow_extra_args(false);
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    TakeValuesAsTheyAre(*command);
  }
}

// The words with every value of a list behind its flag: "--file=a --file=b" for "--file a b".
std::vector<std::string> NamingFlags(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* app = &program;
  std::vector<std::string> named;
  std::string list;  // The flag whose values are being read.
  for (const std::string& word : words) {
    const bool is_flag = absl::StartsWith(word, "--");
    if (!is_flag && !list.empty()) {
      if (named.back() == list) {
        named.pop_back();
      }
      named.push_back(absl::StrCat(list, "=", word));
      continue;
    }
    named.push_back(word);
    const CLI::Option* option = is_flag ? app->get_option_no_throw(word) : nullptr;
    list = option != nullptr && IsList(*option) ? word : "";
    for (const CLI::App* command :
         app->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; })) {
      app = command;
    }
  }
  return named;
}

// The command that gathers those whose first word is `name`; made where there is none yet.
CLI::App& FamilyOf(const std::string& name, CLI::App& app) {
  for (CLI::App* family : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (family->get_name() == name) {
      return *family;
    }
  }
  CLI::App* family = app.add_subcommand(name, absl::StrCat("The commands of ", CallOf(app), " ", name, "."));
  family->footer(absl::StrCat(CallOf(*family), " COMMAND --help explains a command."));
  family->require_subcommand(1);
  return *family;
}

ExitCode Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

}  // namespace

bool IsCommand(const CLI::App& app) { return app.get_require_subcommand_min() == 0; }

bool IsList(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

std::vector<const CLI::App*> CommandsBelow(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::vector<const CLI::App*> below = CommandsBelow(*child);
    if (below.empty() || IsCommand(*child)) {
      commands.push_back(child);
    }
    commands.insert(commands.end(), below.begin(), below.end());
  }
  return commands;
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  // Every command has these two: they stand after its own flags.
  for (const CLI::Option* last :
       {static_cast<const CLI::Option*>(app.get_version_ptr()), static_cast<const CLI::Option*>(app.get_help_ptr())}) {
    std::stable_partition(options.begin(), options.end(), [last](const CLI::Option* option) { return option != last; });
  }
  return options;
}

std::string CallOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : absl::StrCat(CallOf(*app.get_parent()), " ", app.get_name());
}

std::string CommandHelp::make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode /*mode*/) const {
  const std::vector<const CLI::App*> commands = CommandsBelow(*app);
  std::string text = absl::StrCat(app->get_description(), "\n\nUsage: ", CallOf(*app),
                                  commands.empty() ? "" : " COMMAND", " [--flag=value ...]\n");
  Groups of_commands, of_flags;
  for (const CLI::App* command : commands) {
    RowsOf(command->get_group(), of_commands).emplace_back(NameBelow(*command, *app), command->get_description());
  }
  for (const CLI::Option* option : OptionsOf(*app)) {
    // CLI11's own name of the group of an option that has none.
    const std::string group = absl::EqualsIgnoreCase(option->get_group(), "Options") ? "Flags" : option->get_group();
    RowsOf(group, of_flags).emplace_back(Left(*option), Right(*option));
  }
  AppendGroups(of_commands, text);
  AppendGroups(of_flags, text);
  return absl::StrCat(text, "\n", app->get_footer(), "\n");
}

CLI::Validator IntegerIn(int64_t min, int64_t max) {
  const std::string range =
      max == std::numeric_limits<int64_t>::max() ? absl::StrCat("at least ", min) : absl::StrCat(min, " to ", max);
  return CLI::Validator(
      [min, max, range](std::string& value) -> std::string {
        int64_t number = 0;
        const bool decimal = absl::SimpleAtoi(value, &number) && value == absl::StrCat(number);
        return decimal && number >= min && number <= max ? "" : Refusal(absl::StrCat("an integer, ", range), value);
      },
      range);
}

CLI::Validator NumberIn(double min, double max) {
  // 1000000 is how people write it, not 1e+06.
  const auto text = [](double bound) {
    const bool whole = bound == std::floor(bound) && std::abs(bound) < 1e15;
    return whole ? absl::StrCat(static_cast<int64_t>(bound)) : absl::StrCat(bound);
  };
  const std::string range = absl::StrCat(text(min), " to ", text(max));
  return CLI::Validator(
      [min, max, range](std::string& value) -> std::string {
        double number = 0;
        const bool fits = absl::SimpleAtod(value, &number) && std::isfinite(number) && number >= min && number <= max;
        return fits ? "" : Refusal(absl::StrCat("a number, ", range), value);
      },
      range);
}

CLI::Validator OneOf(const std::vector<std::string>& words) {
  const std::string choice = absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "), " or ", words.back());
  return CLI::Validator(
      [words, choice](std::string& value) -> std::string {
        // Exactly as written: an enum that is guessed from a prefix changes when a word is added.
        if (absl::c_linear_search(words, value)) {
          return "";
        }
        const std::string nearest = NearestName(value, words);
        return absl::StrCat(Refusal(choice, value),
                            nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"));
      },
      choice);
}

CLI::Validator OrWord(const CLI::Validator& check, const std::string& word) {
  const std::string range = absl::StrCat(check.get_description(), " or ", word);
  return CLI::Validator(
      [check, word, range](std::string& value) -> std::string {
        return value == word || check(value).empty() ? "" : Refusal(range, value);
      },
      range);
}

CommandLine::CommandLine(const CommandText& program, CommandAction action) {
  app_.name(program.name);
  Describe(program, app_);
  app_.formatter(std::make_shared<CommandHelp>());
  app_.set_help_flag("--help", "Print this text.");
  app_.set_version_flag("--version", absl::StrCat(program.name, " ", Version()), "Print the version.");
  // So that the help shows defaults as the program has them, and cannot differ.
  app_.option_defaults()->always_capture_default();
  if (action != nullptr) {
    actions_[&app_] = std::move(action);
  } else {
    app_.require_subcommand(1);
  }
}

CLI::App& CommandLine::AddCommand(const CommandText& text, CommandAction action) {
  const std::vector<std::string> words = absl::StrSplit(text.name, ' ');
  CLI::App& parent = words.size() == 2 ? FamilyOf(words.front(), app_) : app_;
  CLI::App* command = parent.add_subcommand(words.back());
  command->group(text.group);
  Describe(text, *command);
  actions_[command] = std::move(action);
  return *command;
}

absl::Status CommandLine::Explain(const CLI::ParseError& error) const {
  // Our checks first: their words name the flag and what to type.
  SPLITVEIL_RETURN_IF_ERROR(CheckWords(app_));
  const CLI::App& chosen = Chosen(app_);
  if (!IsCommand(chosen)) {
    return UnknownWord(chosen, "");
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (const CLI::Option* option : chosen.get_options()) {
      if (option->get_required() && option->count() == 0) {
        return UsageError(absl::StrCat("expected ", option->get_name(false, true), ", found none; ", CallOf(chosen),
                                       " --help explains every flag"));
      }
    }
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {  // The last word lacks a value.
    return UsageError(absl::StrCat(std::string(error.what()).substr(0, std::strcspn(error.what(), ":")),
                                   ": expected a value, found none"));
  }
  return UsageError(error.what());
}

absl::StatusOr<ExitCode> CommandLine::Run(int argc, char** argv) {
  SPLITVEIL_RETURN_IF_ERROR(RefuseEmptyValues(argc, argv));
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {  // "help report" is "report --help".
    words.erase(words.begin());
    words.push_back("--help");
  }
  TakeValuesAsTheyAre(app_);
  words = NamingFlags(app_, words);
  std::vector<std::string> backwards(words.rbegin(), words.rend());  // As CLI11 takes them.
  try {
    app_.parse(std::move(backwards));
  } catch (const CLI::CallForHelp&) {
    return Print(app_.help());
  } catch (const CLI::CallForVersion& version) {
    return Print(absl::StrCat(version.what(), "\n"));
  } catch (const CLI::ParseError& error) {
    return Explain(error);
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckWords(app_));
  return actions_.at(&Chosen(app_))();
}

int CommandLine::Main(int argc, char** argv) {
  absl::StatusOr<ExitCode> code = Run(argc, argv);
  // A full disk behind `> file` must not look like success.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code.ok()) {
    code = absl::InternalError("standard output: cannot be written");
  }
  return code.ok() ? static_cast<int>(*code) : Exit(CallOf(Chosen(app_)).c_str(), code.status());
}

}  // namespace splitveil
