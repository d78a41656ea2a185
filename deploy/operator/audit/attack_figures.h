// The leak figures of a run that a policy can limit, one an attack.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_ATTACK_FIGURES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_ATTACK_FIGURES_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

namespace splitveil {

// A figure of one attack at one layer as one observer scored it; NaN: not measured.
struct LimitedFigure {
  std::string layer, attack, observer;  // No observer: agreed on, and recorded by nobody.
  double value = 0;                     // What is held to the limit.
  int64_t epoch = -1;                   // Of a figure over an epoch; -1 of others.
  // What was measured, where `value` is the far end of its 95% interval; NaN of others.
  double measured = std::numeric_limits<double>::quiet_NaN();
};

// To three digits as everywhere; to more where three could not be told from the limit.
std::string AgainstLimit(double value, double limit);

// "Gradient length (norm) at the cut layer, scored by the label party, after epoch 5".
std::string DescribePlace(const LimitedFigure& figure);

// The summary's `field` over the batches. Agreed attacks that score batches and were not
// recorded come with NaN.
std::vector<LimitedFigure> FiguresOverBatches(const PartyRecords& party, double LeakSummary::*field);

// Share of the steps whose gradients left that have an AUC; agreed attacks as above.
std::vector<LimitedFigure> AuditedShares(const PartyRecords& party);

using EpochFigure = std::function<double(const EpochLeakRow&)>;

// `value` of each attack's last row, with what was measured. NaN where gradients left in later epochs, unless the
// attack runs once a run. `measured` may be empty.
std::vector<LimitedFigure> FiguresAfterLastEpoch(const PartyRecords& party, const EpochFigure& value,
                                                 const EpochFigure& measured = {});

// `figures`, and with NaN what the run's agreement names and is not among them. `batches_only`: but for attacks that
// accumulate over the epochs or run once.
std::vector<LimitedFigure> WithAgreedAttacks(std::vector<LimitedFigure> figures, const PartyRecords& party,
                                             bool batches_only);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_ATTACK_FIGURES_H_
