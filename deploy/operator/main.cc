// splitveil: prepares data and certificates, checks configurations, asks parties, audits runs, writes reports.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/command.h"

#include "common/process/exit_code.h"
#include "common/process/version.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

std::string Overview(const std::vector<Command>& commands) {
  std::string text = "Usage: splitveil COMMAND [--flag=value ...]\n";
  for (const Command& command : commands) {
    absl::StrAppend(&text, "  ", command.name, std::string(17 - command.name.size(), ' '), command.summary, "\n");
  }
  return absl::StrCat(text, "splitveil COMMAND --help says more; splitveil --version prints the version.\n");
}

ExitCode Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

// The code that says the verdict, or kDone.
absl::StatusOr<ExitCode> Run(const Command& command, int first_flag, int argc, char** argv) {
  std::vector<FlagSpec> specs = command.flags;
  specs.push_back({"help", "", "Print this text.", /*required=*/false, /*is_switch=*/true});
  SPLITVEIL_ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(argc, argv, first_flag, specs));
  if (flags.GetSwitch("help")) {
    return Print(absl::StrCat(command.summary, "\n",
                              Flags::Help(absl::StrCat("splitveil ", command.name, " [--flag=value ...]"), specs)));
  }
  if (command.judge != nullptr) {
    return command.judge(flags);
  }
  const absl::Status done = command.run(flags);
  return done.ok() ? absl::StatusOr<ExitCode>(ExitCode::kDone) : done;
}

int Main(int argc, char** argv) {
  const std::vector<Command> commands = {
      AuditCommand(),          CertificatesCommand(), GenerateCommand(),     MarvellCommand(), PrepareCommand(),
      ReportCommand(),         StatusCommand(),       StreamCommand(),       SweepCommand(),   ValidateCommand(),
      BenchAlignmentCommand(), BenchMarvellCommand(), BenchTrainingCommand()};
  const std::string name = argc > 1 ? argv[1] : "";
  std::string program = "splitveil";
  absl::StatusOr<ExitCode> code = absl::InvalidArgumentError(absl::StrCat(
      "command line: expected a command (",
      absl::StrJoin(commands, ", ", [](std::string* out, const Command& known) { out->append(known.name); }),
      ", help), found ", name.empty() ? "none" : absl::StrCat("\"", name, "\"")));
  if (name == "help" || name == "--help" || name == "--version") {
    code = Print(name == "--version" ? absl::StrCat("splitveil ", Version(), "\n") : Overview(commands));
  }
  const std::string two_words = argc > 2 ? absl::StrCat(name, " ", argv[2]) : "";
  for (const Command& command : commands) {
    if (command.name == name || command.name == two_words) {
      absl::StrAppend(&program, " ", command.name);
      code = Run(command, /*first_flag=*/command.name == name ? 2 : 3, argc, argv);
    }
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code.ok()) {
    code = absl::InternalError("standard output: cannot be written");
  }
  return code.ok() ? static_cast<int>(*code) : Exit(program.c_str(), code.status());
}

}  // namespace
}  // namespace splitveil

int main(int argc, char** argv) { return splitveil::Main(argc, argv); }
