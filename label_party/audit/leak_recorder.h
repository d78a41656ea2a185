// Judges scores with the labels and keeps what they showed: in the ledger, and for the end of the run.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_RECORDER_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_RECORDER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "label_party/audit/epoch_pool.h"
#include "label_party/audit/label_side_audit.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// (layer, attack) -> leak AUC over the steps, by one observer.
using BatchLeaks = std::map<std::pair<std::string, std::string>, StepSeries>;
// (layer, attack) -> figures over one epoch.
using EpochLeaks = std::map<std::pair<std::string, std::string>, EpochLeakRow>;

// Who scored.
enum class Observer { kLabelParty, kNonLabelParty };

// One attack's scores of a batch.
struct ObservedScores {
  Observer observer = Observer::kLabelParty;
  std::string layer;
  AttackVariant attack;
  absl::Span<const float> scores;  // [batch]; borrowed for the call.
};

// Records in the ledger every batch's leak AUC, the figures over the examples of each epoch, and a "bound_exceeded"
// event the first time that an attack of the label party's own exceeds over an epoch what the noise allows two Gaussian
// classes: then the bounds do not hold for these gradients. Not thread-safe.
class LeakRecorder {
 public:
  // `ledger`: not owned; must outlive this.
  explicit LeakRecorder(Ledger* ledger) : ledger_(ledger) {}

  // The batch's leak AUC, recorded; nullopt where it has one class, of which nothing is recorded. Errors: of LeakAuc
  // and the ledger.
  absl::StatusOr<std::optional<double>> RecordBatch(const ObservedScores& observed, const ReleasedBatch& batch);

  // Counts the batch's scores in the figures of the observer's epoch.
  void Pool(const ObservedScores& observed, const ReleasedBatch& batch);
  bool has_pooled(Observer observer) const;
  // Figures of everything pooled since the last call for this observer; `bounds`: what the noise of that epoch allows.
  absl::Status RecordEpoch(Observer observer, uint32_t epoch, const EpochBounds& bounds);

  // The figures of an attack of the non-label party's that ran once, after `epoch`. scores, labels: [examples].
  absl::Status RecordRun(AttackVariant attack, uint32_t epoch, absl::Span<const float> scores,
                         absl::Span<const uint8_t> labels);

  // What the non-label party's scores showed or what the label party's own attacks did, whichever is the stronger leak:
  // submitted scores may be made of anything, and must not hide what was measured here.
  BatchLeaks series() const { return Merged(&Figures::series); }
  // The latest epoch's row of each layer and attack, by the same rule.
  EpochLeaks epoch_leaks() const { return Merged(&Figures::epoch_leaks); }
  // How often an own attack exceeded over an epoch what the noise allows.
  int64_t bound_exceeded() const { return bound_exceeded_; }
  // Own attacks on the latest batch: "norm 0.54 cosine 0.68 at cut"; empty before the first.
  std::string latest() const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(figures_, bound_exceeded_, attacks_beyond_);
  }

  // One observer's figures.
  struct Figures {
    EpochPool pool;
    BatchLeaks series;
    EpochLeaks epoch_leaks;

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(pool, series, epoch_leaks);
    }
  };

  absl::Status Record(Observer observer, EpochLeakRow row);
  template <typename Leaks>
  Leaks Merged(Leaks Figures::*leaks) const;

  Ledger* const ledger_;
  std::map<Observer, Figures> figures_;
  int64_t bound_exceeded_ = 0;
  std::set<std::pair<std::string, std::string>> attacks_beyond_;  // Layers and attacks that exceeded a bound.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_RECORDER_H_
