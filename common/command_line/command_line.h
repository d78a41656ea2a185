// The command line of a program: its flags or its commands, their help and their errors.
#ifndef SPLITVEIL_COMMON_COMMAND_LINE_COMMAND_LINE_H_
#define SPLITVEIL_COMMON_COMMAND_LINE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/process/exit_code.h"

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

// What it does, usage, commands by group, flags by group as --name=TYPE with range and default, and the footer: an
// example. At most 100 columns.
class CommandHelp : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// What a flag's value may be: `app.add_option("--jobs", jobs, "...")->check(IntegerIn(0, 1024))`. Each refuses with
// "expected ..., found ..." and describes itself in the help.
//
// A decimal integer in [min, max], without zeros in front. Every integer flag needs it: CLI11 alone reads "010" as 8.
CLI::Validator IntegerIn(int64_t min, int64_t max = std::numeric_limits<int64_t>::max());
// A finite decimal number in [min, max].
CLI::Validator NumberIn(double min, double max);
// One of `words`, at least two, as they are spelled.
CLI::Validator OneOf(const std::vector<std::string>& words);
// What `check` accepts, or `word` as it is spelled.
CLI::Validator OrWord(const CLI::Validator& check, const std::string& word);

// What a program or one of its commands says about itself.
struct CommandText {
  std::string name;        // Of a command one word or two: "report", "bench alignment".
  std::string summary;     // One sentence.
  std::string example;     // A whole command line.
  std::string group = "";  // Of a command: the heading that the overview puts it under.
};

// What a program or a command does once its flags are read. It prints its result on standard output and returns its
// error; a result that is a verdict is told by the exit code.
using CommandAction = std::function<absl::StatusOr<ExitCode>()>;

// A program of flags only, or one with commands. Flags are CLI11's options, bound to variables of the caller:
//
//   CommandLine line({"splitveil", "...", "splitveil report --help"});
//   const auto flags = std::make_shared<ReportFlags>();
//   CLI::App& report = line.AddCommand({"report", ...}, [flags] { return Report(*flags); });
//   report.add_option("--out", flags->out, "HTML file to write.")->type_name("FILE")->required();
//
// Every command has --help, the program --version. A flag stands as --name=value or --name value; a list may be given
// several times. Defaults are shown as they are when the flag is added. Not thread-safe.
class CommandLine {
 public:
  // A program with commands has no `action`.
  explicit CommandLine(const CommandText& program, CommandAction action = nullptr);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // To add flags of the program itself. Valid as long as this.
  CLI::App& program() { return app_; }
  // To add flags of the new command. Valid as long as this. Names must differ.
  CLI::App& AddCommand(const CommandText& text, CommandAction action);

  // The whole of main: reads the words, prints help or version or does what the command does, and returns the exit code
  // (exit_code.h). Errors are one line on standard error; those of the command line exit with 2 and say what is known.
  int Main(int argc, char** argv);

 private:
  // Reads the words and does what they ask for. Errors: InvalidArgument of the command line; those of the action;
  // Internal where standard output cannot be written.
  absl::StatusOr<ExitCode> Run(int argc, char** argv);
  absl::Status Explain(const CLI::ParseError& error) const;

  CLI::App app_;
  std::map<const CLI::App*, CommandAction> actions_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_COMMAND_LINE_COMMAND_LINE_H_
