#include "common/operations/party_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/command_line/command_line.h"
#include "common/config/text_config.h"
#include "common/ledger/schema.h"
#include "common/process/runtime.h"
#include "common/process/tune_runtime.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

// Checks that the folder is there or could be made; makes none.
absl::Status CheckExportDir(const std::string& path) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  std::error_code ignored;
  // The nearest folder that exists decides whether the missing ones could be made.
  std::filesystem::path there = std::filesystem::absolute(path, ignored).lexically_normal();
  while (!std::filesystem::exists(there, ignored) && there.has_relative_path()) {
    there = there.parent_path();
  }
  const bool is_folder = std::filesystem::is_directory(there, ignored);
  if (is_folder && access(there.c_str(), W_OK | X_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("party.export_dir: expected a folder, or a place for one, found ",
                                                 path, ": ", std::strerror(is_folder ? errno : ENOTDIR)));
}

bool IsEveryAddress(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// Each address may be free by itself, but two servers cannot listen at the same one.
absl::Status CheckApart(const std::string& monitoring, const std::string& party) {
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort page, ParseHostPort("party.monitoring.listen_address", monitoring));
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort peer, ParseHostPort("listen_address", party));
  // Every address includes each single one.
  const bool meet = page.host == peer.host || IsEveryAddress(page.host) || IsEveryAddress(peer.host);
  return page.port == 0 || page.port != peer.port || !meet
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("party.monitoring.listen_address: expected a different address than the party's own "
                                "listen_address \"",
                                party, "\", found \"", monitoring, "\": give one of them another port"));
}

// One file; does nothing if there is none of this name.
void KeepFileForOwnerAlone(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0 || (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0) {
    return;
  }
  const std::string mode = absl::StrFormat("%04o", facts.st_mode & 07777);
  // Only the owner may change a mode; another user's file is reported, since the run would leak through it.
  if (facts.st_uid == geteuid() && chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0) {
    LogWarning(path, ": now readable by its owner only (0600); its mode was ", mode, ", so others may have read it");
  } else {
    LogWarning(path, ": users other than its owner may read it (mode ", mode, "): let its owner chmod it to 600");
  }
}

bool IsCheckpoint(const google::protobuf::FieldDescriptor& field) {
  return field.containing_type() == v1::PartyCommon::descriptor() &&
         (field.number() == v1::PartyCommon::kInitialCheckpointFieldNumber ||
          field.number() == v1::PartyCommon::kCheckpointPathFieldNumber);
}

// Earlier checkpoints beside this one: CHECKPOINT.1 and so on. Not the noise key, which is refused if others may have
// read it.
void KeepOlderForOwnerAlone(const std::string& checkpoint) {
  const std::filesystem::path path(checkpoint);
  const std::string prefix = absl::StrCat(path.filename().string(), ".");
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path.has_parent_path() ? path.parent_path() : ".", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    absl::string_view suffix = name;
    if (absl::ConsumePrefix(&suffix, prefix) && !suffix.empty() &&
        std::all_of(suffix.begin(), suffix.end(), absl::ascii_isdigit)) {
      KeepFileForOwnerAlone(entry->path().string());
    }
  }
}

}  // namespace

namespace {

// For what runs until it is told to stop.
void PrepareToRun() {
  WarnIfSlowBlas();
  HandleStopSignals();
  HandleReloadSignal();
}

// `argv` begins with "serve".
int RunServeProgram(const PartyProgram& program, int argc, char** argv) {
  std::string config;
  const std::string name = absl::StrCat(program.name, " serve");
  CommandLine line({name, program.serve_summary, absl::StrCat(name, " --config=", program.serve_config)},
                   [&]() -> absl::StatusOr<ExitCode> {
                     PrepareToRun();
                     SPLITVEIL_RETURN_IF_ERROR(program.serve(config));
                     return ExitCode::kDone;
                   });
  line.program().add_option("--config", config, "What to serve, where and to whom.")->type_name("FILE")->required();
  return line.Main(argc, argv);
}

}  // namespace

int RunPartyProgram(const PartyProgram& program, int argc, char** argv) {
  // Before any thread exists: these settings are read once.
  TuneRuntime();
  RequireTls13();
  if (argc > 1 && argv[1] == absl::string_view("serve")) {
    return RunServeProgram(program, argc - 1, argv + 1);
  }
  std::string agreement, config;
  PartyFlags flags;
  bool dry_run = false;
  const auto run = [&]() -> absl::StatusOr<ExitCode> {
    if (dry_run) {
      const DryRun found = program.dry_run(agreement, config);
      std::printf("%s", found.Text().c_str());
      SPLITVEIL_RETURN_IF_ERROR(found.status());
      return ExitCode::kDone;
    }
    // A check ends by itself; a run must be stoppable at any moment without losing its ledger.
    if (!flags.check_only) {
      PrepareToRun();
    }
    SPLITVEIL_RETURN_IF_ERROR(program.run(agreement, config, flags));
    return ExitCode::kDone;
  };
  CommandLine line({program.name, program.summary,
                    absl::StrCat(program.name, " --agreement=run.textproto --config=", program.name, ".textproto")},
                   run);
  CLI::App& app = line.program();
  app.add_option("--agreement", agreement, "The run agreement, the same file at both parties.")
      ->type_name("FILE")
      ->required();
  app.add_option("--config", config, "This party's private configuration.")->type_name("FILE")->required();
  app.add_flag(
      "--check", flags.check_only,
      "Open everything that the run would open, without a peer and without writing anything, then exit. Ends at "
      "the first problem.");
  app.add_flag(
      "--dry_run", dry_run,
      "As --check, but list every problem and everything that is ok, with the memory and the time to expect, then "
      "exit.");
  app.add_flag("--verbose", flags.verbose_summary, "Print the whole summary at the end, attack by attack.");
  return line.Main(argc, argv);
}

absl::Status CheckLedgerOf(const v1::PartyCommon& party, const std::string& config_path) {
  return Within(config_path, Within("party.ledger_path", CheckLedgerPath(party.ledger_path())));
}

absl::Status CheckPlaces(const v1::PartyCommon& party, const std::string& listen_address,
                         const std::string& config_path) {
  SPLITVEIL_RETURN_IF_ERROR(CheckLedgerOf(party, config_path));
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, CheckExportDir(party.export_dir())));
  if (party.has_monitoring()) {
    SPLITVEIL_RETURN_IF_ERROR(Within(config_path, CheckApart(party.monitoring().listen_address(), listen_address)));
    SPLITVEIL_RETURN_IF_ERROR(
        Within(config_path, CheckFree("party.monitoring.listen_address", party.monitoring().listen_address())));
  }
  return Within(config_path, CheckFree("listen_address", listen_address));
}

void KeepForOwnerAlone(const google::protobuf::Message& config) {
  for (const ConfigPath& path : ListPaths(config)) {
    if (!IsOwnerOnly(path)) {
      continue;
    }
    KeepFileForOwnerAlone(path.path);
    if (IsCheckpoint(*path.field)) {
      KeepOlderForOwnerAlone(path.path);
    }
  }
}

}  // namespace splitveil
