#include "common/command_line/command_help.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace splitveil {
namespace {

constexpr size_t kColumns = 100;

// Two columns, the right one wrapped.
using Rows = std::vector<std::pair<std::string, std::string>>;

size_t LeftWidth(const Rows& rows) {
  size_t width = 0;
  for (const auto& row : rows) {
    width = std::max(width, row.first.size());
  }
  return width;
}

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

bool IsSwitch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// CLI11 appends the descriptions of the checks to the type: "N:1 to 1024".
std::pair<std::string, std::string> TypeAndRange(const CLI::Option& option) {
  return absl::StrSplit(option.get_type_name(), absl::MaxSplits(':', 1));
}

std::string Left(const CLI::Option& option) {
  const std::string name = option.get_name(false, true);
  return IsSwitch(option) ? name : absl::StrCat(name, "=", TypeAndRange(option).first);
}

std::string Right(const CLI::Option& option) {
  std::vector<std::string> notes;
  if (option.get_required()) {
    notes.push_back("required");
  }
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
  std::vector<std::pair<std::string, Rows>> groups;
  for (const CLI::App* command : commands) {
    if (groups.empty() || groups.back().first != command->get_group()) {
      groups.emplace_back(command->get_group(), Rows());
    }
    groups.back().second.emplace_back(NameBelow(*command, *app), command->get_description());
  }
  size_t width = 0;
  for (const auto& group : groups) {
    width = std::max(width, LeftWidth(group.second));
  }
  for (const auto& [group, rows] : groups) {
    absl::StrAppend(&text, "\n", group, ":\n");
    AppendRows(rows, width, text);
  }
  Rows flags;
  for (const CLI::Option* option : OptionsOf(*app)) {
    flags.emplace_back(Left(*option), Right(*option));
  }
  absl::StrAppend(&text, "\nFlags:\n");
  AppendRows(flags, LeftWidth(flags), text);
  return absl::StrCat(text, "\n", app->get_footer(), "\n");
}

}  // namespace splitveil
