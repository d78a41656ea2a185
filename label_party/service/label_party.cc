#include "label_party/service/label_party.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/checkpoint/release_journal.h"
#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/label_noise.h"
#include "common/crypto/secure_random.h"
#include "common/dataset/prepared_data.h"
#include "common/model/optimizer_options.h"
#include "common/model/torch_settings.h"
#include "common/monitoring/monitoring_plan.h"
#include "common/monitoring/monitoring_server.h"
#include "common/operations/operator_server.h"
#include "common/operations/party_program.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_summary.h"
#include "common/privacy_account/privacy_account.h"
#include "common/process/exit_code.h"
#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/host_port.h"
#include "common/transport/server.h"
#include "label_party/label_privacy/label_revealing_columns.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/policy/label_config.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/protection/self_test.h"
#include "label_party/service/split_training_service.h"
#include "label_party/session/label_session.h"
#include "label_party/storage/label_history.h"
#include "label_party/storage/noise_key.h"
#include "label_party/storage/run_records.h"
#include "label_party/training/training.h"

namespace splitveil {
namespace {

absl::Status OfAccount(const LabelPartyPlan& plan, const absl::Status& status) {
  return Within(plan.config_path, Within("privacy_account", status));
}

// The peer partly chooses which labels a run uses, so the account is compared with all of them.
absl::Status CheckLabels(const Dataset& data, PrivacyAccount& account) {
  std::vector<NoiseRow> examples;
  examples.reserve(data.ids().size());
  for (size_t row = 0; row < data.ids().size(); ++row) {
    examples.push_back(NoiseRow::OfId(data.ids()[row]));
  }
  std::vector<int64_t> labels(data.labels().begin(), data.labels().end());
  for (const float target : data.targets()) {
    labels.push_back(LabelNumber(data.task(), target));
  }
  absl::Status same = account.CheckLabels(examples, labels);
  data.ReleaseMemory();
  return same;
}

// Opens the account to read, or null if there is none yet; compares it with what the ledger records of these labels.
absl::StatusOr<std::unique_ptr<PrivacyAccount>> ReadAccount(const LabelPartyPlan& plan, const Dataset& data) {
  const v1::PrivacyAccount& config = plan.config.privacy_account();
  absl::StatusOr<std::unique_ptr<PrivacyAccount>> account =
      PrivacyAccount::OpenToRead(AccountOptions(config, data.task()));
  SPLITVEIL_RETURN_IF_ERROR(account.status());
  RunRow row;
  DescribeLabels(plan.config, data, *account == nullptr ? "" : (*account)->id(), row);
  const std::string& ledger_path = plan.config.party().ledger_path();
  SPLITVEIL_RETURN_IF_ERROR(CheckSameAccount(ledger_path, row, config.new_account()));
  SPLITVEIL_RETURN_IF_ERROR(
      *account == nullptr ? absl::OkStatus() : LostStarts(ledger_path, row, config.new_account(), **account).status());
  return account;
}

// The account that counts the run; null if none is configured.
absl::StatusOr<std::unique_ptr<PrivacyAccount>> OpenAccount(const LabelPartyPlan& plan, const Dataset& data) {
  if (!plan.config.has_privacy_account()) {
    return nullptr;
  }
  // Before a new one is made: it would not know of earlier runs.
  const absl::StatusOr<std::unique_ptr<PrivacyAccount>> there = ReadAccount(plan, data);
  SPLITVEIL_RETURN_IF_ERROR(OfAccount(plan, there.status()));
  RunRow row;
  DescribeLabels(plan.config, data, *there == nullptr ? "" : (*there)->id(), row);
  PrivacyAccountOptions options = AccountOptions(plan.config.privacy_account(), data.task());
  // Else the account would count what the ledger's limit refuses.
  SPLITVEIL_ASSIGN_OR_RETURN(options.max_lifetime_auc_bound, LeastLimit(plan.config.party().ledger_path(), row));
  if (options.max_lifetime_auc_bound < row.max_lifetime_auc_bound) {
    LogWarning("privacy account: by the ledger an earlier run on these labels had a max_lifetime_auc_bound of ",
               options.max_lifetime_auc_bound, ", which holds for life, and so for this run");
  }
  absl::StatusOr<std::unique_ptr<PrivacyAccount>> account = PrivacyAccount::Open(std::move(options));
  SPLITVEIL_RETURN_IF_ERROR(OfAccount(plan, account.ok() ? CheckLabels(data, **account) : account.status()));
  if ((*account)->is_new()) {
    LogWarning("privacy account: made ", plan.config.privacy_account().path(),
               ": it knows of nothing that was released before");
  }
  return account;
}

// No protection of labels hides a column that is made from them.
void WarnOfLabelRevealingColumns(const Dataset& data) {
  if (const std::string telling = DescribeLabelRevealingColumns(data); !telling.empty()) {
    LogWarning("own features: ", telling);
  }
}

// Checks that OpenAccount would succeed; writes nothing.
absl::Status CheckAccount(const LabelPartyPlan& plan, const Dataset& data) {
  if (!plan.config.has_privacy_account()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<PrivacyAccount>> account = ReadAccount(plan, data);
  absl::Status status = account.ok() && *account != nullptr ? CheckLabels(data, **account) : account.status();
  status.Update(CheckFolderOf(plan.config.privacy_account().path()));
  return OfAccount(plan, status);
}

// Checks that the ledger's earlier runs leave room for this one, which it would find itself once its peer has called.
absl::Status CheckLedger(const LabelPartyPlan& plan, const std::shared_ptr<const Dataset>& data,
                         const std::string& protection) {
  if (plan.agreement.mode() == v1::RunAgreement::PREDICT) {
    return absl::OkStatus();
  }
  std::unique_ptr<PrivacyAccount> account;
  if (plan.config.has_privacy_account()) {
    SPLITVEIL_ASSIGN_OR_RETURN(account, ReadAccount(plan, *data));
  }
  RunRow row;
  const Checkpoint* const interrupted = plan.checkpoints.interrupted.get();
  row.run_id = interrupted == nullptr ? "" : interrupted->header().run_id();  // Whose rows are there already.
  row.protection = protection;
  const RunContext run = {plan.agreement, plan.config, data, nullptr, nullptr, account == nullptr ? "" : account->id()};
  const std::string& ledger_path = plan.config.party().ledger_path();
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelRun planned, PlannedRun(run, ledger_path, std::move(row)));
  return CheckEarlierRuns(ledger_path, planned);
}

// Everything that a run begins with, except its protection.
absl::StatusOr<LabelSessionOptions> SessionOptions(const LabelPartyPlan& plan, RunStatus* status,
                                                   Dataset::Check check) {
  LabelSessionOptions options;
  options.agreement = plan.agreement;
  options.config = plan.config;
  options.ledger_path = plan.config.party().ledger_path();
  options.status = status;
  options.checkpoints = plan.checkpoints;
  options.alignments =
      AlignmentStore(plan.config.party().alignment_cache_path(),
                     absl::Hours(plan.config.party().alignment_cache_hours()), IdentitySha256(plan.identity));
  SPLITVEIL_ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> data,
                             OpenPreparedData(plan.config.party(), plan.agreement, PreparedFor::kLabelParty, check));
  options.data = std::move(data);
  // A checkpoint of different data would continue with positions of different examples.
  SPLITVEIL_RETURN_IF_ERROR(options.checkpoints.UseData(*options.data, plan.agreement));
  if (plan.config.has_attribute_attack()) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        options.known_attributes,
        Dataset::Open(plan.config.attribute_attack().auxiliary().path(), Dataset::kMaxResidentBytes, check));
    SPLITVEIL_RETURN_IF_ERROR(CheckIdForms(*options.known_attributes, plan.agreement));
  }
  return options;
}

// The source of the noise on gradients: under the key beside the checkpoint, so that steps which are repeated after a
// crash repeat their noise; without a checkpoint under a fresh one.
// `continues`: an interrupted run may resume, so its key must be there.
absl::StatusOr<std::unique_ptr<SecureGaussian>> OpenNoise(const LabelPartyPlan& plan, bool continues) {
  if (plan.checkpoints.path.empty()) {
    return SecureGaussian::Create(SecretKey::Generate());
  }
  SPLITVEIL_ASSIGN_OR_RETURN(SecretKey key, OpenNoiseKey(NoiseKeyPath(plan.checkpoints.path), continues));
  return SecureGaussian::Create(std::move(key), SecureGaussian::KeyLife::kManyRuns);
}

// Checked before the run: a run without a place for its result would be wasted.
absl::Status CheckResultPath(const char* field, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  return folder.empty() || std::filesystem::is_directory(folder, ignored)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat(field, ": ", path, ": its folder does not exist: create it first"));
}

// How long answers under way may take, on a busy machine: a peer that gets none waits for an outage to end.
constexpr absl::Duration kAnswerLimit = absl::Seconds(5);

// A peer that lost the connection at the very end, when all is done and recorded here, may ask again for the answer to
// its Close: for as long as it retries, counted from when it notices the loss, for which keepalive may take this long.
constexpr absl::Duration kNoticeLimit = absl::Minutes(1);

// `halted`: a peer that computes a step asks when it has finished it.
absl::Duration FarewellLimit(const v1::Deadlines& deadlines, bool halted) {
  if (halted) {
    return absl::Seconds(deadlines.step_seconds());
  }
  // A peer that does not come back says at once, on the connection that it has, that it has heard of the end.
  return deadlines.max_outage_seconds() == 0 ? kAnswerLimit
                                             : absl::Seconds(deadlines.max_outage_seconds()) + kNoticeLimit;
}

std::string DetailsPath(const LabelPartyPlan& plan) {
  const std::string& ledger_path = plan.config.party().ledger_path();
  return plan.agreement.mode() == v1::RunAgreement::PREDICT ? PredictionPath(ledger_path) : ResultPath(ledger_path);
}

std::string ResultLine(const RunFigures& figures) { return absl::StrCat("RESULT ", ResultJson(figures)); }

// Writes every figure to a file, and a result to result_path, too, if it is set. Of a run that is complete the end is
// kept whether or not it has a result: by whether this process goes on after a kill, the peer would know.
absl::Status KeepFigures(const LabelPartyPlan& plan, const RunFigures& figures, bool complete) {
  const std::string json = FullResultJson(figures) + "\n";
  absl::Status status = WriteFile(DetailsPath(plan), json, kOwnerOnly);
  if (!complete) {
    return status;
  }
  const bool has_result = figures.ended == "completed";
  if (const std::string& path = plan.config.result_path(); has_result && !path.empty()) {
    status.Update(WriteFile(path, json, kOwnerOnly));
  }
  status.Update(KeepUntoldEnd(plan.config.party().ledger_path(), plan.agreement,
                              {figures.run_id, has_result ? ResultLine(figures) : ""}));
  return status;
}

// The end that an earlier process could not report any more, of a run that the peer cannot take up again.
std::optional<UntoldEnd> FindFinalEnd(const LabelPartyPlan& plan) {
  std::optional<UntoldEnd> end = FindUntoldEnd(plan.config.party().ledger_path(), plan.agreement);
  if (!end.has_value() || plan.config.party().restart() || plan.checkpoints.path.empty()) {
    return plan.config.party().restart() ? std::nullopt : end;
  }
  // A run that its journal still keeps open is taken up again rather than reported as ended.
  const auto journal = ReleaseJournal::Read(ReleaseJournal::PathOf(plan.checkpoints.path, end->run_id));
  const bool may_go_on = journal.ok() ? !journal->settled : !absl::IsNotFound(journal.status());
  return may_go_on ? std::nullopt : end;
}

// The expected peer was silent, but somebody came.
absl::Status WithTurnedAway(const absl::Status& outcome, const TlsIdentity& identity, int64_t turned_away) {
  // TLS fails before any message: without this line the operator would only read that nobody came.
  if (!absl::IsUnavailable(outcome) || turned_away == 0) {
    return outcome;
  }
  return absl::UnavailableError(absl::StrCat(
      outcome.message(), "; ", turned_away, " connections failed before they showed the certificate of ",
      identity.peer_name, ": check that its certificate comes from the authority in ", identity.authority_path,
      ", has that name and has not expired. The log of ", identity.peer_name, " has the reason"));
}

// A table for the person on standard error and, if the run is complete and kept, the RESULT line.
void TellResult(const LabelPartyPlan& plan, const LabelSession& session, const absl::Status& outcome) {
  const std::optional<RunFigures> figures = session.figures();
  if (!figures.has_value()) {
    return;  // Training never began.
  }
  PrintRunSummary(*figures, DetailsPath(plan), plan.verbose_summary);
  if (const absl::Status verdict = session.own_verdict(); outcome.ok() && !verdict.ok()) {
    // The exit code stays 0: a supervisor that restarts on others would open the port again, and tell the peer, which
    // chose the shared examples, that their labels are all alike.
    LogError("no result: ", verdict.message());
  } else if (outcome.ok()) {
    std::cout << ResultLine(*figures) << std::endl;
  }
}

// Null: the party is not monitored. `plan` learns the port, so that it stays the same.
absl::StatusOr<std::unique_ptr<MonitoringServer>> StartMonitoring(LabelPartyPlan& plan, const RunStatus& status,
                                                                  LabelSession& session) {
  if (!plan.monitoring.has_value()) {
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<MonitoringServer>> server =
      MonitoringServer::Start(*plan.monitoring, &status,
                              {{"halt", [&session] { return session.Halt(); }},
                               {"raise_noise", [&session] { return session.RaiseNoise(); }},
                               {"lower_disclosure", [&session] { return session.LowerDisclosure(); }}});
  if (server.ok()) {
    plan.monitoring->listen_address = WithPort(plan.monitoring->listen_address, (*server)->port());
  }
  return server;
}

// What a peer that was restarted may still ask of this process.
struct RetryLimits {
  bool new_runs = true;  // Before anything is released.
  int alignments = kMostAlignments;

  void TakeOff(const LabelSession& session) {
    alignments =
        std::min(alignments - 1, session.alignments_left());  // At least one: a peer could open runs without aligning.
    new_runs = new_runs && alignments > 0 && !session.may_have_released();
  }
};

// Serves one run, or as much of it as the peer's process sees: Aborted if a different run takes its place. `plan`
// learns the port, so that it stays the same.
absl::Status ServeRun(LabelPartyPlan& plan, RetryLimits& allowed) {
  RunStatus status("label_party");
  SPLITVEIL_ASSIGN_OR_RETURN(LabelSessionOptions options, SessionOptions(plan, &status, Dataset::Check::kRemembered));
  // Limits that outlive this session: the peer decides how often a session is replaced.
  options.only_continues = !allowed.new_runs;
  options.alignments_left = allowed.alignments;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<PrivacyAccount> account, OpenAccount(plan, *options.data));
  options.account_id = account == nullptr ? "" : account->id();
  WarnOfLabelRevealingColumns(*options.data);
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SecureGaussian> noise,
                             OpenNoise(plan, !options.checkpoints.unfinished.empty()));
  SPLITVEIL_ASSIGN_OR_RETURN(options.protection, MakeProtection(plan.config.protection(), std::move(noise),
                                                                std::move(account), options.data->task()));
  options.keep_report = [&plan](const RunFigures& figures, bool complete) {
    return KeepFigures(plan, figures, complete);
  };
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LabelSession> session, LabelSession::Create(std::move(options)));
  // Services before the server: they must outlive every call that it still has.
  SplitTrainingService training(session.get());
  AlignmentService alignment(session.get());
  LeakAuditService audit(session.get());
  AttributeAuditService attribute_audit(session.get());
  OperationsService operations(&status);

  SPLITVEIL_ASSIGN_OR_RETURN(const OperatorServer operator_server,
                             StartOperatorServer(StatusSocketPath(plan.config.party()), &operations));
  SPLITVEIL_ASSIGN_OR_RETURN(const RunningServer running,
                             StartServer({plan.config.listen_address(),
                                          MaxMessageBytes(plan.agreement),
                                          {&training, &alignment, &audit, &attribute_audit}},
                                         plan.identity));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<MonitoringServer> monitoring,
                             StartMonitoring(plan, status, *session));
  LogInfo("label party listens on port ", running.port);
  plan.config.set_listen_address(WithPort(plan.config.listen_address(), running.port));
  absl::Status outcome = session->WaitUntilEnded(&StopRequested);
  // Before the farewell: what this session may have released limits what the next one may do.
  allowed.TakeOff(*session);
  if (!session->opened()) {
    outcome = WithTurnedAway(outcome, plan.identity, running.listener->turned_away());
  }
  if (!session->peer_started_again()) {
    TellResult(plan, *session, outcome);
  }
  session->AwaitFarewell(FarewellLimit(plan.agreement.deadlines(), IsHalt(outcome)), &StopRequested);
  training.EndStreams();
  session->AwaitEndTold(kAnswerLimit);
  // Answers under way may still be sent; a stream still open is cut off.
  running.server->Shutdown(GrpcDeadline(SteadyAfter(kAnswerLimit)));
  return session->peer_started_again() ? PeerStartedAgain("the non-label party") : outcome;
}

}  // namespace

absl::StatusOr<LabelPartyPlan> PlanLabelParty(const std::string& agreement_path, const std::string& config_path) {
  SPLITVEIL_ASSIGN_OR_RETURN(v1::RunAgreement agreement, LoadAgreement(agreement_path));
  LabelPartyPlan plan;
  plan.agreement = std::move(agreement);
  plan.config_path = config_path;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, plan.config));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.identity, LoadPartyIdentity(plan.config.party().identity()));
  absl::Status fits = ValidateLabelConfig(plan.config, plan.agreement);
  // All checks of the configuration file report the first error, with the file name once.
  fits.Update(ReadOptimizerOptions(plan.config.party().optimizer()).status());
  fits.Update(ParseHostPort("listen_address", plan.config.listen_address()).status());
  fits.Update(CheckResultPath("result_path", plan.config.result_path()));
  fits.Update(CheckResultPath("predictions_path", plan.config.predictions_path()));
  FillPlannedEpochs(plan.agreement.epochs(), *plan.config.mutable_protection());
  fits.Update(ReleaseGate::Create(plan.config.release(), plan.config.protection()).status());
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, fits));
  SPLITVEIL_RETURN_IF_ERROR(CheckLedgerOf(plan.config.party(), config_path));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.monitoring, PlanMonitoring(plan.config.party(), config_path, plan.identity));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.checkpoints,
                             PlanCheckpoints("label_party", plan.config.party(), plan.config.model(), plan.agreement));
  // Fail closed: a protection that does not do what it promises must not see a single label.
  SPLITVEIL_RETURN_IF_ERROR(SelfTestProtection(plan.config.protection()));
  return plan;
}

absl::Status CheckLabelParty(const LabelPartyPlan& plan) {
  LabelPartyPlan without_export = plan;  // The session would make the folder.
  without_export.config.mutable_party()->clear_export_dir();
  RunStatus status("label_party");
  SPLITVEIL_ASSIGN_OR_RETURN(LabelSessionOptions options,
                             SessionOptions(without_export, &status, Dataset::Check::kWhole));
  SPLITVEIL_RETURN_IF_ERROR(CheckAccount(plan, *options.data));
  SPLITVEIL_RETURN_IF_ERROR(CheckNoiseKey(NoiseKeyPath(plan.checkpoints.path)));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SecureGaussian> noise, SecureGaussian::Create(SecretKey::Generate()));
  SPLITVEIL_ASSIGN_OR_RETURN(options.protection,
                             MakeProtection(plan.config.protection(), std::move(noise), nullptr, options.data->task()));
  SPLITVEIL_RETURN_IF_ERROR(CheckLedger(plan, options.data, options.protection.gradients->name()));
  // A run makes its model only after both parties have aligned: too late to find that it does not fit.
  SPLITVEIL_RETURN_IF_ERROR(TopModel::Create(TopOptions(options.agreement, options.config, *options.data)).status());
  SPLITVEIL_RETURN_IF_ERROR(LabelSession::Create(std::move(options)).status());
  return CheckPlaces(plan.config.party(), plan.config.listen_address(), plan.config_path);
}

absl::Status RunLabelParty(const LabelPartyPlan& plan) {
  ReuseTensorMemory();
  SetComputeThreads(plan.config.party().compute_threads());
  KeepForOwnerAlone(plan.config);
  LogInfo("agreement fingerprint ", AgreementFingerprint(plan.agreement));
  if (const std::optional<UntoldEnd> end = FindFinalEnd(plan); end.has_value()) {
    TellOf(*end, plan.config.party().ledger_path());
    return absl::OkStatus();
  }
  // The peer may still take that run up, to hear how it ended.
  const std::optional<UntoldEnd> earlier =
      plan.config.party().restart() ? std::nullopt : FindUntoldEnd(plan.config.party().ledger_path(), plan.agreement);
  LabelPartyPlan part = plan;
  RetryLimits allowed;
  while (true) {
    ForgetUntoldEnd(plan.config.party().ledger_path());
    absl::Status outcome = ServeRun(part, allowed);
    if (!absl::IsAborted(outcome)) {
      ForgetUntoldEnd(plan.config.party().ledger_path());
      // Nobody came: the peer had already heard of the earlier end, so only this side has to report it.
      if (absl::IsUnavailable(outcome) && earlier.has_value()) {
        TellOf(*earlier, plan.config.party().ledger_path());
        return absl::OkStatus();
      }
      return outcome;
    }
    LogInfo(outcome.message());
    part.config.mutable_party()->clear_restart();  // It has restarted, and now continues that run.
    SPLITVEIL_ASSIGN_OR_RETURN(
        part.checkpoints, PlanCheckpoints("label_party", part.config.party(), plan.config.model(), plan.agreement));
  }
}

}  // namespace splitveil
