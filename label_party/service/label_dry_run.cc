#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "common/crypto/label_noise.h"
#include "common/dataset/features.h"
#include "common/matrix/matrix.h"
#include "common/operations/dry_run.h"
#include "common/privacy_account/privacy_account.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/label_revealing_columns.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/policy/label_config.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/protection/self_test.h"
#include "label_party/service/label_party.h"
#include "label_party/top/top_model.h"
#include "label_party/training/training.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

constexpr char kPolicy[] = "release policy";

// mu^2 of the draw of each epoch that releases gradients; empty for other methods. An account counts the flips of
// label_dp as the noise that they are made of (NoisedLabels), and so does the gate of a run that has one.
absl::StatusOr<std::vector<double>> SumKlOfDraws(const v1::LabelPartyConfig& config,
                                                 const v1::GradientProtection& protection, const Task& task) {
  std::vector<double> each;
  if (!protection.has_gaussian_label_dp() && !(protection.has_label_dp() && config.has_privacy_account())) {
    return each;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> planned, PlannedReleases(protection, task));
  const double sensitivity = LabelSensitivity(LabelKindOf(task));
  for (const NoiseReleases& release : planned) {
    const double sigma = std::ldexp(static_cast<double>(release.sigma_units), -kLabelGridBits);
    each.insert(each.end(), release.draws, std::pow(sensitivity / sigma, 2));
  }
  return each;
}

void CheckPolicy(const v1::LabelPartyConfig& config, const v1::GradientProtection& protection,
                 const v1::RunAgreement& agreement, const Task& task, DryRun& dry_run) {
  const absl::StatusOr<std::vector<double>> draws = SumKlOfDraws(config, protection, task);
  if (!draws.ok()) {
    dry_run.Check(kPolicy, draws.status());
    return;
  }
  const absl::StatusOr<PolicyOutlook> outlook = ForeseePolicy(config.release(), protection, agreement.epochs(), *draws);
  // A run that would freeze or raise its noise may be wanted; one that would halt is a mistake.
  if (!outlook.ok() || outlook->action == v1::RELEASE) {
    dry_run.Check(kPolicy, outlook.status(), outlook.ok() ? outlook->text : "");
  } else if (outlook->action == v1::HALT) {
    dry_run.Problem(kPolicy, outlook->text);
  } else {
    dry_run.Warn(kPolicy, outlook->text);
  }
}

// The debit of a run that shares all of this party's training examples: no run counts more.
absl::StatusOr<ForeseenDebit> Foresee(const v1::LabelPartyConfig& config, const v1::GradientProtection& protection,
                                      const v1::RunAgreement& agreement, const Dataset& data) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> planned, PlannedReleases(protection, data.task()));
  const SplitRule split(agreement);
  std::vector<NoiseRow> examples;
  for (uint32_t row = 0; row < data.ids().size(); ++row) {
    // Only labels of training examples are ever noised, and so counted.
    if (split.PartOf(data, row) == SplitPart::kTraining) {
      examples.push_back(NoiseRow::OfId(data.ids()[row]));
    }
  }
  const v1::PrivacyAccount& account = config.privacy_account();
  const LabelKind kind = LabelKindOf(data.task());
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::unique_ptr<PrivacyAccount> there,
      PrivacyAccount::OpenToRead({account.path(), account.label_set(), account.max_lifetime_auc_bound(), kind}));
  return there != nullptr ? there->Foresee(examples, planned)
                          : PrivacyAccount::ForeseeNew(kind, static_cast<int64_t>(examples.size()), planned);
}

// Trains this party's half for about a second on activations of zeros, to estimate the run's time and memory.
void ExpectRunOf(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement, const Dataset& data,
                 DryRun& dry_run) {
  std::vector<uint32_t> rows(static_cast<size_t>(std::min<int64_t>(agreement.batch_size(), data.rows())));
  std::iota(rows.begin(), rows.end(), 0);
  const Matrix activations(static_cast<int64_t>(rows.size()), agreement.cut_width());
  // Labels of zero: the time of a step does not depend on them, and nothing about the real ones is computed.
  const std::vector<float> labels(rows.size());
  const FeatureBatch own = data.Gather(rows);
  std::unique_ptr<TopModel> model;
  DryRunExpectation(
      agreement, data,
      [&]() -> absl::Status {
        if (model == nullptr) {
          SPLITVEIL_ASSIGN_OR_RETURN(model, TopModel::Create(TopOptions(agreement, config, data)));
        }
        SPLITVEIL_RETURN_IF_ERROR(model->ForwardBackward(activations, own, labels, {}).status());
        return model->Update();
      },
      dry_run);
}

// Checks that need agreement, configuration and data together.
void CheckTogether(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config, DryRun& dry_run) {
  dry_run.Check("fits agreement", ValidateLabelConfig(config, agreement), "model, audit and protection");
  v1::GradientProtection protection = config.protection();
  // As the run itself does: shares of a run budget depend on the number of epochs.
  FillPlannedEpochs(agreement.epochs(), protection);
  dry_run.Check("protection", SelfTestProtection(protection), "proved on a synthetic batch");
  const std::shared_ptr<const Dataset> data = DryRunData(config.party(), agreement, PreparedFor::kLabelParty, dry_run);
  if (data == nullptr) {
    return;
  }
  CheckPolicy(config, protection, agreement, data->task(), dry_run);
  if (config.has_privacy_account()) {
    DryRunAccount(Foresee(config, protection, agreement, *data), config.privacy_account().max_lifetime_auc_bound(),
                  dry_run);
  }
  if (const std::string telling = DescribeLabelRevealingColumns(*data); !telling.empty()) {
    dry_run.Warn("own features", telling);
  }
  ExpectRunOf(config, agreement, *data, dry_run);
}

}  // namespace

DryRun DryRunLabelParty(const std::string& agreement_path, const std::string& config_path) {
  return DryRunParty<v1::LabelPartyConfig>(agreement_path, config_path, CheckTogether, [&]() -> absl::Status {
    SPLITVEIL_ASSIGN_OR_RETURN(const LabelPartyPlan plan, PlanLabelParty(agreement_path, config_path));
    return CheckLabelParty(plan);
  });
}

}  // namespace splitveil
