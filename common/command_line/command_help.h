// The text of --help.
#ifndef SPLITVEIL_COMMON_COMMAND_LINE_COMMAND_HELP_H_
#define SPLITVEIL_COMMON_COMMAND_LINE_COMMAND_HELP_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace splitveil {

// Whether the words that call it do something by themselves: not "bench", which only gathers "bench alignment" and
// others; but "certificates", which has commands below it, too.
bool IsCommand(const CLI::App& app);

// All commands below, in the order they were added.
std::vector<const CLI::App*> CommandsBelow(const CLI::App& app);

// The options of `app` in the order they were added, but --version and --help last: the least a reader wants to know.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& app);

// Whether the option may be given several times.
bool IsList(const CLI::Option& option);

// The words that call it: "splitveil agreement show".
std::string CallOf(const CLI::App& app);

// What it does, usage, commands by group, flags as --name=TYPE with range and default, and the footer: an example. At
// most 100 columns.
class CommandHelp : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_COMMAND_LINE_COMMAND_HELP_H_
