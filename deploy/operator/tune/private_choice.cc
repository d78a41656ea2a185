#include "deploy/operator/tune/private_choice.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "absl/status/status.h"

#include "common/crypto/secure_random.h"
#include "common/dataset/dataset.h"
#include "common/dataset/prepared_data.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_privacy.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/storage/label_history.h"

namespace splitveil {
namespace {

constexpr double kConfiguredFavour = 4;
// So many strengths in steps of the grid, one of them at random: that a run has the same one would be chance.
constexpr size_t kChoiceStrengths = 1024;

absl::StatusOr<double> MuOf(const std::vector<NoiseReleases>& releases) {
  std::vector<uint32_t> sigmas;
  for (const NoiseReleases& of : releases) {
    sigmas.insert(sigmas.end(), of.draws, of.sigma_units);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy privacy, LabelPrivacy::OfReleases(LabelKind::kBinary, sigmas));
  return privacy.mu();
}

// As the label party before a run: the account may be another one than the ledger's, or an older copy, which would
// count less than was released; and a limit that an earlier run has promised holds for life.
absl::Status AskLedger(PrivateChoice& choice) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PrivacyAccount> there, PrivacyAccount::OpenToRead(choice.account));
  choice.labels_of.account = there == nullptr ? "" : there->id();
  SPLITVEIL_RETURN_IF_ERROR(CheckSameAccount(choice.ledger_path, choice.labels_of, choice.new_account));
  SPLITVEIL_RETURN_IF_ERROR(
      there == nullptr ? absl::OkStatus()
                       : LostStarts(choice.ledger_path, choice.labels_of, choice.new_account, *there).status());
  SPLITVEIL_ASSIGN_OR_RETURN(choice.account.max_lifetime_auc_bound, LeastLimit(choice.ledger_path, choice.labels_of));
  return absl::OkStatus();
}

// Uniform in [0, 1).
double SecureUniform() {
  uint64_t bits = 0;
  FillSecureRandom(absl::MakeSpan(reinterpret_cast<uint8_t*>(&bits), sizeof(bits)));
  return std::ldexp(static_cast<double>(bits >> 11), -53);
}

}  // namespace

std::vector<double> ChoiceProbabilities(absl::Span<const std::optional<double>> aucs, int64_t positives,
                                        int64_t negatives, double epsilon) {
  const double pairs = static_cast<double>(positives) * static_cast<double>(negatives);
  const double examples = static_cast<double>(positives + negatives);
  std::vector<double> weights(aucs.size(), -HUGE_VAL);
  for (size_t t = 0; t < aucs.size(); ++t) {
    if (aucs[t].has_value()) {
      // The AUC is written in decimals; what it counts is whole and half pairs.
      weights[t] = epsilon * (std::round(2 * *aucs[t] * pairs) / 2 - pairs / 2) / examples;
      weights[t] +=
          t == 0 ? std::log(kConfiguredFavour * std::max<double>(1, static_cast<double>(aucs.size()) - 1)) : 0;
    }
  }
  const double largest = weights.empty() ? -HUGE_VAL : *std::max_element(weights.begin(), weights.end());
  if (!std::isfinite(largest)) {
    return {};
  }
  for (double& weight : weights) {
    weight = std::exp(weight - largest);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

double EpsilonWithin(double mu) { return std::log(NormalCdf(mu / 2) / NormalCdf(-mu / 2)); }

absl::StatusOr<PrivateChoice> PlanPrivateChoice(const LocalRun& run, const std::string& ledger_path) {
  if (!run.label_config.has_privacy_account()) {
    return absl::InvalidArgumentError(
        "privacy_account: expected one beside protection.label_dp, so that all trials train on the same noised labels, "
        "found none");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data,
                             OpenPreparedData(run.label_config.party(), run.agreement, PreparedFor::kLabelParty));
  if (data->task().kind != Task::Kind::kBinary) {
    return absl::InvalidArgumentError(
        "expected labels of two classes: of others, splitveil tune cannot count what its choice tells; search without "
        "the protection, and keep to yourself what was chosen");
  }
  v1::GradientProtection protection = run.label_config.protection();
  FillPlannedEpochs(run.agreement.epochs(), protection);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> releases, PlannedReleases(protection, data->task()));
  PrivateChoice choice;
  choice.account = AccountOptions(run.label_config.privacy_account(), data->task());
  choice.ledger_path = ledger_path;
  choice.new_account = run.label_config.privacy_account().new_account();
  DescribeLabels(run.label_config, *data, /*account_id=*/"", choice.labels_of);
  SPLITVEIL_RETURN_IF_ERROR(Within("privacy_account", AskLedger(choice)));
  SPLITVEIL_ASSIGN_OR_RETURN(choice.mu, MuOf(releases));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<uint32_t> rows, SharedRows(run, *data, SplitPart::kValidation));
  for (const uint32_t row : rows) {
    choice.examples.push_back(NoiseRow::OfId(data->ids()[row]));
    choice.labels.push_back(data->labels()[row]);
  }
  return choice;
}

absl::StatusOr<size_t> ChoosePrivately(PrivateChoice choice, absl::Span<const std::optional<double>> aucs) {
  // Again: the trials may have taken days.
  SPLITVEIL_RETURN_IF_ERROR(Within("privacy_account", AskLedger(choice)));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PrivacyAccount> account, PrivacyAccount::Open(choice.account));
  SPLITVEIL_ASSIGN_OR_RETURN(const uint32_t units, SigmaUnits(1 / choice.mu));
  NoiseReleases counted;
  do {  // No more than mu, and none that the examples have, which would count nothing.
    counted.sigma_units = units + 1 + static_cast<uint32_t>(SecureIndex(kChoiceStrengths));
    SPLITVEIL_ASSIGN_OR_RETURN(const ForeseenDebit debit, account->Foresee(choice.examples, {counted}));
    if (debit.releases == static_cast<int64_t>(choice.examples.size())) {
      break;
    }
  } while (true);
  const double mu = std::ldexp(1.0, kLabelGridBits) / counted.sigma_units;
  const auto positives = std::count(choice.labels.begin(), choice.labels.end(), 1);
  const std::vector<double> probabilities =
      ChoiceProbabilities(aucs, positives, static_cast<int64_t>(choice.labels.size()) - positives, EpsilonWithin(mu));
  if (probabilities.empty()) {
    return absl::InvalidArgumentError("no trial has an AUC of the validation part");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy lifetime, account->Debit(choice.examples, choice.labels, {counted}));
  SPLITVEIL_RETURN_IF_ERROR(
      account->RememberStart(absl::StrCat("choice ", counted.sigma_units), lifetime.mu() * lifetime.mu()).status());
  double left = SecureUniform();
  for (size_t t = 0; t < probabilities.size(); ++t) {
    left -= probabilities[t];
    if (left < 0) {
      return t;
    }
  }
  return 0;  // Where the sum is rounded below 1.
}

}  // namespace splitveil
