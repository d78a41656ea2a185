// The commands of `splitveil`. Each function adds one command, with its flags, to the tool's command line; a command is
// implemented in the folder of its name, `audit` in `report`, which writes its page, and `baseline` in `tune`, which
// tries it first.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_COMMANDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_COMMANDS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

#include "common/command_line/command_line.h"

namespace splitveil {

// Before a run: data, certificates, the agreement.
void AddInitCommand(CommandLine& line);
void AddGenerateCommand(CommandLine& line);
void AddPrepareCommand(CommandLine& line);
void AddCertificatesCommand(CommandLine& line);

// `splitveil certificates authority | request | sign | self_signed | show`: certificates of parties that never hold
// each other's keys. Call it after AddCertificatesCommand, whose subcommands they are.
void AddOwnCertificateCommands(CommandLine& line);

// `splitveil agreement show | accept`. `splitveil init` or a person writes the agreement that they accept.
void AddAgreementCommands(CommandLine& line);
void AddBaselineCommand(CommandLine& line);
void AddValidateCommand(CommandLine& line);
void AddPlanCommand(CommandLine& line);
void AddMarvellCommand(CommandLine& line);

// Runs, and what they need from a trained model.
void AddAlignCommand(CommandLine& line);
void AddStatusCommand(CommandLine& line);
void AddTransformCommand(CommandLine& line);
void AddPredictCommand(CommandLine& line);
void AddScoreCommand(CommandLine& line);
void AddSweepCommand(CommandLine& line);
void AddStreamCommand(CommandLine& line);
void AddTuneCommand(CommandLine& line);

// After a run: what its ledgers say.
void AddReportCommand(CommandLine& line);
void AddAuditCommand(CommandLine& line);

// A flag of `command` that takes a value: "--out=DIR" is the flag --out, whose value --help shows as DIR. `value` is
// its default until the command line is read.
template <typename Value>
CLI::Option* AddValue(CLI::App& command, absl::string_view flag, Value& value, const std::string& help) {
  const size_t end = flag.find('=');
  return command.add_option(std::string(flag.substr(0, end)), value, help)
      ->type_name(std::string(flag.substr(end + 1)));
}

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_COMMANDS_H_
