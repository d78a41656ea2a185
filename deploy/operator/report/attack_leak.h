// All that was recorded of one attack: its batches and its epochs, joined.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_ATTACK_LEAK_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_ATTACK_LEAK_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

namespace splitveil {

// One attack at one layer as one observer scored it. Borrows from the records, which must outlive it.
struct AttackLeak {
  std::string layer, attack, observer;
  const LeakSeries* series = nullptr;       // Null, or without steps: no batch was scored.
  std::vector<const EpochLeakRow*> epochs;  // Ascending; with a finite AUC only.

  bool has_batches() const { return series != nullptr && series->summary.steps > 0; }
  // The leak it is ranked by: over the last epoch, else the mean over the batches; 0 where nothing was measured.
  double strength() const;
  // The leak that the page's verdict counts: the larger of the batches' 95% quantile and that over the last epoch.
  double exposure() const;
};

// Once-a-run attacks that use labels the adversary was given, and so say nothing of the gradients' leak by themselves.
bool UsesGivenLabels(const std::string& attack);

// Of all parties, the label party's rows where both have them. The cut layer first; in a layer the strongest first, but
// last those that use given labels, and the audit's own scores of an attack that the adversary scored too.
std::vector<AttackLeak> AttackLeaks(const RunRecords& run);

// Attacks at a layer that the page draws.
struct ChartedLayer {
  std::string layer;
  std::vector<std::string> attacks;
};

// The cut layer and up to three others. Of a single run up to five attacks at each, of several the two that read most
// on average; attacks beyond their bound come first.
std::vector<ChartedLayer> ChooseCharts(const std::vector<std::vector<AttackLeak>>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_ATTACK_LEAK_H_
