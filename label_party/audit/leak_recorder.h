// What the attacks showed, in the ledger and for the end of the run: per batch, and over all examples of an epoch.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_RECORDER_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_RECORDER_H_

#include <array>
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
#include "common/leakage/example_sample.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "label_party/audit/label_side_audit.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// Two bounds on a leak AUC; NaN if there is none.
struct AucBounds {
  double gaussian = 0;  // GaussianAucBound: exact for Gaussian classes.
  double theorem1 = 0;  // AucBound.
};

// Not thread-safe.
class EpochBounds {
 public:
  // Takes up one release. sum_kl: its divergence, NaN if the method states none (then nothing is bounded);
  // accumulated_sum_kl: the largest sum over the releases of one example so far. `of_labels`: the divergence belongs to
  // noised labels, not to gradients. It then bounds what releases add to an adversary's other knowledge, so it holds
  // only for attacks that take the prediction out.
  void Add(double sum_kl, double accumulated_sum_kl, bool of_labels = false);

  // Bounds for an attack at the cut layer: the means of the steps' bounds, or for a cumulative attack the bounds of all
  // releases so far together. NaN for any other layer, whose gradients also depend on the non-label party's own
  // features, for attacks that take more than gradients, and before the first release.
  AucBounds For(const std::string& layer, v1::Attack attack) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(steps_, of_labels_, gaussian_sum_, theorem1_sum_, accumulated_sum_kl_);
  }

  int64_t steps_ = 0;
  bool of_labels_ = false;
  double gaussian_sum_ = 0, theorem1_sum_ = 0;
  double accumulated_sum_kl_ = 0;
};

// Not thread-safe.
class EpochPool {
 public:
  // Takes up the finite scores of `rows` of a batch. Scores of attacks that are not cumulative
  // are standardised first: an adversary that knows no more than the batch cannot tell batches apart by their scale.
  // Log ratios given all that is behind a release stay as they are.
  void Add(const std::string& layer, AttackVariant attack, std::vector<float> scores, absl::Span<const uint8_t> labels,
           absl::Span<const uint32_t> rows);

  // Figures of everything taken up since the last call, as rows of the ledger without their observer; series with one
  // class have NaN figures.
  std::vector<EpochLeakRow> Finish(uint32_t epoch, const EpochBounds& bounds);

  bool empty() const { return series_.empty(); }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(series_);
  }

  struct Series {
    std::vector<float> scores;
    std::vector<uint8_t> labels;

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(scores, labels);
    }
  };
  std::map<std::pair<std::string, AttackVariant>, Series> series_;
};

// One row of figures. `gaussian_auc_bound` and `auc_bound`: what the noise allows; NaN if that is no bound for the
// attack.
EpochLeakRow MeasureEpochLeak(absl::Span<const float> scores, absl::Span<const uint8_t> labels);

// Not thread-safe.
class ClassHistograms {
 public:
  static constexpr int64_t kBins = 40;

  // Takes up one release: norms of the clean and the released rows, and, if the batch has a hint row, their cosines
  // with its clean gradient. `own`: what the attacks have already scored of it. Counts the examples of `sample`.
  void Add(const ReleasedBatch& batch, const ReleaseEvidence& evidence, absl::Span<const BatchScores> own,
           const ExampleSample& sample);

  // The histograms of everything taken up since the last call, empty bins left out. Bins divide [-1, 1] for cosines;
  // for norms [0, q] with q the 99.5% quantile over both classes, and the last bin takes what lies above.
  std::vector<DistributionRow> Finish(uint32_t epoch);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(values_);
  }

  // Values of the two classes.
  using Values = std::array<std::vector<float>, 2>;
  void AddScores(const std::string& quantity, absl::Span<const float> scores, const ReleasedBatch& batch,
                 absl::Span<const uint32_t> rows);

  std::map<std::string, Values> values_;  // By quantity, as DistributionRow names it.
};

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
  // `own_sample`: over which examples the label party's own attacks are measured, and which they remember. The scores
  // that the peer submits are measured over the first ones (ExampleSample), which are those that its attacks remember.
  LeakRecorder(Ledger* ledger, const ExampleSample& own_sample)
      : ledger_(ledger), own_sample_(own_sample), submitted_sample_(own_sample.examples()) {}

  const ExampleSample& own_sample() const { return own_sample_; }

  // The batch's leak AUC, recorded; nullopt if it has one class, of which nothing is recorded. Errors: of LeakAuc
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

  // The stronger leak of two: the non-label party's scores, or the label party's own attacks:
  // submitted scores may be made of anything, and must not hide what was measured here.
  BatchLeaks series() const { return Merged(&Figures::series); }
  // The latest epoch's row of each layer and attack, by the same rule.
  EpochLeaks epoch_leaks() const { return Merged(&Figures::epoch_leaks); }
  // How often an own attack exceeded over an epoch what the noise allows, and which did: layers and names.
  int64_t bound_exceeded() const { return bound_exceeded_; }
  const std::set<std::pair<std::string, std::string>>& attacks_beyond() const { return attacks_beyond_; }
  // Own attacks on the latest batch: "norm 0.54 cosine 0.68 at cut"; empty before the first.
  std::string latest() const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(own_sample_, figures_, bound_exceeded_, attacks_beyond_);
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

  const ExampleSample& SampleOf(Observer observer) const {
    return observer == Observer::kLabelParty ? own_sample_ : submitted_sample_;
  }
  absl::Status Record(Observer observer, EpochLeakRow row);
  template <typename Leaks>
  Leaks Merged(Leaks Figures::*leaks) const;

  Ledger* const ledger_;
  ExampleSample own_sample_;
  const ExampleSample submitted_sample_;
  std::map<Observer, Figures> figures_;
  int64_t bound_exceeded_ = 0;
  std::set<std::pair<std::string, std::string>> attacks_beyond_;  // Layers and attacks that exceeded a bound.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_RECORDER_H_
