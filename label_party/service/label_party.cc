#include "label_party/service/label_party.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/secure_random.h"
#include "common/dataset/prepared_data.h"
#include "common/model/compute_threads.h"
#include "common/model/optimizer_options.h"
#include "common/model/tensor_memory.h"
#include "common/operations/operations_service.h"
#include "common/operations/party_program.h"
#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/telemetry/log.h"
#include "common/transport/server.h"
#include "label_party/policy/label_config.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/run_budget.h"
#include "label_party/protection/self_test.h"
#include "label_party/service/split_training_service.h"
#include "label_party/session/label_session.h"

namespace splitveil {
namespace {

// A protection under a fresh secret run key.
absl::StatusOr<std::unique_ptr<GradientProtection>> NewProtection(const v1::GradientProtection& config) {
  absl::StatusOr<std::unique_ptr<SecureGaussian>> noise = SecureGaussian::Create(SecretKey::Generate());
  if (!noise.ok()) {
    return noise.status();
  }
  return GradientProtection::Create(config, *std::move(noise));
}

absl::StatusOr<std::unique_ptr<LabelSession>> NewSession(const LabelPartyPlan& plan, RunStatus* status) {
  LabelSessionOptions options;
  options.agreement = plan.agreement;
  options.config = plan.config;
  options.ledger_path = ResolvePath(plan.config_path, plan.config.party().ledger_path());
  options.status = status;
  options.checkpoints = plan.checkpoints;
  absl::StatusOr<std::unique_ptr<GradientProtection>> protection = NewProtection(plan.config.protection());
  if (!protection.ok()) {
    return protection.status();
  }
  options.protection = *std::move(protection);
  absl::StatusOr<std::shared_ptr<const Dataset>> data =
      OpenPreparedData(plan.config.party(), plan.config_path, plan.agreement);
  if (!data.ok()) {
    return data.status();
  }
  options.data = *std::move(data);
  if (absl::Status fits = options.checkpoints.UseData(*options.data); !fits.ok()) {
    return fits;
  }
  return LabelSession::Create(std::move(options));
}

}  // namespace

absl::StatusOr<LabelPartyPlan> PlanLabelParty(const std::string& agreement_path, const std::string& config_path) {
  absl::StatusOr<v1::RunAgreement> agreement = LoadAgreement(agreement_path);
  if (!agreement.ok()) {
    return agreement.status();
  }
  LabelPartyPlan plan;
  plan.agreement = *std::move(agreement);
  plan.config_path = config_path;
  if (absl::Status status = LoadTextConfig(config_path, plan.config); !status.ok()) {
    return status;
  }
  absl::StatusOr<TlsIdentity> tls = LoadPartyIdentity(plan.config.party().identity(), config_path);
  if (!tls.ok()) {
    return tls.status();
  }
  plan.identity = *std::move(tls);
  v1::ModelSpec& model = *plan.config.mutable_model();
  model.set_torchscript_path(ResolvePath(config_path, model.torchscript_path()));
  v1::PartyCommon& party = *plan.config.mutable_party();
  party.set_export_dir(ResolvePath(config_path, party.export_dir()));
  absl::Status fits = ValidateLabelConfig(plan.config, plan.agreement);
  fits.Update(ReadOptimizerOptions(plan.config.party().optimizer()).status());
  if (!fits.ok()) {
    return absl::Status(fits.code(), absl::StrCat(config_path, ": ", fits.message()));
  }
  absl::StatusOr<CheckpointPlan> checkpoints =
      PlanCheckpoints("label_party", config_path, plan.config.party(), plan.config.model(), plan.agreement);
  if (!checkpoints.ok()) {
    return checkpoints.status();
  }
  plan.checkpoints = *std::move(checkpoints);
  FillPlannedEpochs(plan.agreement.epochs(), *plan.config.mutable_protection());
  if (absl::Status status = ReleaseGate::Create(plan.config.release(), plan.config.protection()).status();
      !status.ok()) {
    return status;
  }
  if (absl::Status status = SelfTestProtection(plan.config.protection()); !status.ok()) {
    return status;
  }
  return plan;
}

absl::Status RunLabelParty(const LabelPartyPlan& plan) {
  ReuseTensorMemory();
  SetComputeThreads(plan.config.party().compute_threads());
  RunStatus status("label_party");
  const absl::StatusOr<std::unique_ptr<LabelSession>> session = NewSession(plan, &status);
  if (!session.ok()) {
    return session.status();
  }
  SplitTrainingService training(session->get());
  AlignmentService alignment(session->get());
  LeakAuditService audit(session->get());
  OperationsService operations(&status);

  const absl::StatusOr<RunningServer> running = StartServer(
      {plan.config.listen_address(), MaxMessageBytes(plan.agreement), {&training, &alignment, &audit, &operations}},
      plan.identity);
  if (!running.ok()) {
    return running.status();
  }
  LogInfo("label party listens on port ", running->port);
  const absl::Status outcome = (*session)->WaitUntilEnded(&StopRequested);
  // Answers under way may leave; a stream still open is cut off.
  running->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  if (!(*session)->completed()) {
    return outcome;
  }
  const std::string result = (*session)->result_json();
  std::cout << "RESULT " << result << std::endl;
  if (!plan.config.result_path().empty()) {
    return WriteFile(ResolvePath(plan.config_path, plan.config.result_path()), result + "\n");
  }
  return outcome;
}

}  // namespace splitveil
