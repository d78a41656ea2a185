// A choice among trials by the true labels of the validation part, with noise that the privacy account counts.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_TUNE_PRIVATE_CHOICE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_TUNE_PRIVATE_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "deploy/operator/local_run/local_run.h"

#include "common/crypto/label_noise.h"
#include "common/ledger/ledger_rows.h"
#include "common/privacy_account/privacy_account.h"

namespace splitveil {

// The exponential mechanism (McSherry and Talwar, FOCS 2007): the probability of trial t is in proportion to e^(epsilon
// q_t), q = (AUC - 1/2) P N / (P + N) of P positive and N negative examples. That is the sum, over the positive ones,
// of (rank - mean rank) / (P + N), ties in the middle. So another label of one example moves each q by less than 1/2,
// and any two of them apart by less than 1: the choice is epsilon-differentially private in each label (Durfee and
// Rogers, NeurIPS 2019, lemma 3.2). Trial 0 has 4 (trials - 1) times its weight: where nothing is better, it is chosen
// four times of five. 0 for a trial without an AUC; empty where none has one.
std::vector<double> ChoiceProbabilities(absl::Span<const std::optional<double>> aucs, int64_t positives,
                                        int64_t negatives, double epsilon);

// The epsilon that is no more than mu-GDP allows: log(Phi(mu / 2) / Phi(-mu / 2)). The trade-off of an epsilon-private
// mechanism has a corner where both errors are 1 / (1 + e^epsilon); G_mu passes through it, and is convex, so that it
// lies below everywhere (Dong, Roth and Su 2022, definitions 2.3 and 2.6).
double EpsilonWithin(double mu);

// Every trial trains on the same noised labels, those of the run's own release, and a choice is made once. What it
// tells of a label of the validation part is at most what the run tells of a label that it trains on, and no example is
// in both parts: the account, which counts by example, bounds all of it together by what it says after the run alone.
struct PrivateChoice {
  PrivacyAccountOptions account;
  std::vector<NoiseRow> examples;  // Of the validation part,
  std::vector<int64_t> labels;     // 0 or 1 each.
  double mu = 0;                   // Of the run.
  // What the label party's own ledger is asked about, as before a run. The choice itself is in no ledger.
  std::string ledger_path;
  RunRow labels_of;
  bool new_account = false;
};

// Of trials like `run`, whose labels are protected by gaussian_label_dp or label_dp. Errors: InvalidArgument without a
// privacy account, with labels that are not of two classes, or where the ledger at `ledger_path`, the label party's
// own, says that the account is another one or an older copy (CheckSameAccount, LostStarts); those of OpenPreparedData.
absl::StatusOr<PrivateChoice> PlanPrivateChoice(const LocalRun& run, const std::string& ledger_path);

// Counts the choice, as one release of noised labels at a strength that no other has, then draws it. The least limit
// that the ledger's runs have promised holds (LeastLimit). Errors: InvalidArgument if no trial has an AUC, or as
// PlanPrivateChoice of the ledger; those of PrivacyAccount::Open and Debit.
absl::StatusOr<size_t> ChoosePrivately(PrivateChoice choice, absl::Span<const std::optional<double>> aucs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_TUNE_PRIVATE_CHOICE_H_
