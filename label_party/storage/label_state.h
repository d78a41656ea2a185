// What the label party's protection carries from run to run, as a checkpoint holds it.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_STATE_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "label_party/noise/class_moments.h"

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

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_STATE_H_
