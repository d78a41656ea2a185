// What a checkpoint says of the label party's protection: its state, and the noise on labels that the run began with.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_STATE_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "label_party/noise/class_moments.h"
#include "label_party/storage/run_context.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

struct LabelState {
  double cumulative_sum_kl = 0;         // Nats; over this run and all it continued. Infinite: released without noise.
  std::optional<ClassMoments> moments;  // GradientProtection::Moments.
  std::string privacy_account;          // That has counted all of cumulative_sum_kl; empty: none has.
};

v1::LabelPartyState ToProto(const LabelState& state);

// Errors: InvalidArgument where a number is not one, a divergence or variance is negative, or the moments are not those
// of gradients [batch, cut_width].
absl::StatusOr<LabelState> LabelStateFrom(const v1::LabelPartyState& proto, int64_t cut_width);

// Of a run that is configured so; with neither gaussian_label_dp nor label_dp an empty message. Errors: as
// PlannedReleases.
absl::StatusOr<v1::LabelReleases> LabelReleasesOf(const RunContext& run);

// That a run which began with the releases `begun` goes on with them. What a run states of its labels (run_auc_bound,
// epsilon) is of one plan: were the strength another in its second part, draws of the first would have left that it
// does not count, and under another label set noise of another key. Error: InvalidArgument, with the field, what the
// run began with and what is configured now.
absl::Status CheckSameReleases(const v1::LabelReleases& begun, const v1::LabelReleases& now);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_STATE_H_
