// What a bound for a run means and costs, before anything is trained.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_PRIVACY_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_PRIVACY_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/plan/loss_curves.h"

#include "common/alignment/buckets.h"
#include "common/operations/dry_run.h"
#include "common/privacy/label_privacy.h"

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// Appends one line to `text`: what it is, and the figure with its unit.
inline void Line(absl::string_view name, const std::string& figure, std::string& text) {
  absl::StrAppendFormat(&text, "  %-34s %s\n", name, figure);
}

struct PlanOptions {
  int64_t rows = 0;
  double positives = 0;  // Share of the rows, in (0, 1).
  int64_t epochs = 0;
  double max_run_auc_bound = 0;  // In (0.5, 0.999999].
  double delta = 0;              // In (0, 1); 0: one over the rows.
  // Test AUC that the label party's own columns reach alone, trained as they are with true labels, and of both parties'
  // without protection: noise can cost only the difference. 0: no own columns; as in the runs that were measured.
  double own_features_auc = 0, unprotected_auc = 0;
};

// Every figure is of the noise as it is drawn: sigma rounded up to the grid, bounds with the slack of discrete noise
// (LabelPrivacy). They do not depend on rows and epochs: however many draws of the
// noise there are, they share the strength.
struct PrivacyPlan {
  PlanOptions options;  // With delta.
  double sigma = 0;     // Of gaussian_label_dp { max_run_auc_bound }, were it drawn once.
  LabelPrivacy privacy;
  double information_kept = 0;        // LabelInformationKept.
  absl::StatusOr<ExpectedLoss> loss;  // OutOfRange if nothing near was measured.
};

// Errors: InvalidArgument with field, expected and found for options out of range, and where so tight a bound takes
// more noise than can be drawn, were it drawn in every epoch.
absl::StatusOr<PrivacyPlan> MakePrivacyPlan(const PlanOptions& options, const LossCurves& curves);

// For people, one figure per line; if there is no expected loss, why.
std::string PrivacyPlanText(const PrivacyPlan& plan, const LossCurves& curves);

// Defaults: the agreement's.
struct LinkPlanOptions {
  double round_trip_ms = 0;
  double bandwidth_mbps = 0;  // Of each direction, 10^6 bits a second; positive.
  int64_t cut_width = 0;
  v1::DataType wire_dtype = v1::FLOAT32;
  int64_t batch_size = 1024;
  int64_t in_flight_batches = 1;  // 0: as the parties would choose.
  int64_t max_in_flight_batches = 32;
  double step_ms = 2;  // What the slower party computes for a batch.
  int64_t rows = 0;    // Trained on, each epoch: of those shared the parties hold some out, so that theirs are fewer.
  int64_t epochs = 0;
};

// By the formulas that parties choose by (common/schedule/schedule.h), without what messages, TLS and TCP add. What is
// expected is the most that a link lets through: lost packets, and a connection that slows down where it waits, take
// away from it.
struct LinkPlan {
  LinkPlanOptions options;     // With the number in flight, at least 1.
  int64_t chosen_batches = 0;  // What in_flight_batches: 0 comes to.
  double batch_ms = 0;         // What a batch's bytes take in one direction.
  double examples_per_second = 0;
  double link_share = 0;  // In use in each direction while training, 0 to 1.
  double seconds = 0;     // Of all rows and epochs, evaluations left out.
};

LinkPlan MakeLinkPlan(const LinkPlanOptions& options);

// For people, one figure a line.
std::string LinkPlanText(const LinkPlan& plan);

struct AlignmentPlanOptions {
  uint64_t ids = 0, peer_ids = 0;    // Of this party and of its peer; at least 1.
  int cores = 1;                     // Of either party's machine.
  double bandwidth_mbps = 0;         // As LinkPlanOptions; 0: not asked for.
  uint64_t chunk_ids = 4096;         // AlignmentAgreement.chunk_ids.
  uint64_t bucket_ids = kBucketIds;  // AlignmentAgreement.bucket_ids.
  double id_bytes = 0;  // Of a key, on average, where `splitveil align --ids` reads a table; 0: it does not.
};

struct AlignmentPlan {
  AlignmentPlanOptions options;
  double bytes_sent = 0, bytes_received = 0;  // Of messages, without what TLS and TCP add.
  double own_core_seconds = 0;                // What this party computes, on one core.
  double compute_seconds = 0;                 // Of the slower party, on all cores.
  double transfer_seconds = 0;                // Of the fuller direction.
  double memory_bytes = 0;
  double disk_bytes = 0;  // At most; 0: none.
};

// What an alignment takes, if the peer's machine is like the one of `speed`.
AlignmentPlan MakeAlignmentPlan(const AlignmentPlanOptions& options, const MaskingSpeed& speed);

// For people, one figure a line.
std::string AlignmentPlanText(const AlignmentPlan& plan);

// In the largest unit of which there are at least two: "3.07 min".
std::string TimeText(double seconds);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_PRIVACY_PLAN_H_
