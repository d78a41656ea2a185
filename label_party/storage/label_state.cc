#include "label_party/storage/label_state.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

bool IsMeasure(double value) { return std::isfinite(value) && value >= 0; }

absl::StatusOr<ClassMoments> MomentsFrom(const v1::GradientMoments& proto, int64_t cut_width) {
  if (proto.mean_difference_size() != cut_width) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: moments: expected ", cut_width, " components, found ", proto.mean_difference_size()));
  }
  ClassMoments moments;
  moments.negatives = moments.positives = 1;  // Both classes were there.
  moments.p = proto.p();
  moments.u = proto.u();
  moments.v = proto.v();
  moments.dg_squared = proto.dg_squared();
  moments.max_squared_norm = proto.max_squared_norm();
  moments.mean_squared_norm = proto.mean_squared_norm();
  moments.mean_difference.assign(proto.mean_difference().begin(), proto.mean_difference().end());
  const bool sound = IsMeasure(moments.p) && moments.p <= 1 && IsMeasure(moments.u) && IsMeasure(moments.v) &&
                     IsMeasure(moments.dg_squared) && IsMeasure(moments.max_squared_norm) &&
                     IsMeasure(moments.mean_squared_norm) &&
                     std::all_of(moments.mean_difference.begin(), moments.mean_difference.end(),
                                 [](double component) { return std::isfinite(component); });
  if (!sound) {
    return absl::InvalidArgumentError("checkpoint: moments: expected finite averages, found a number that is none");
  }
  return moments;
}

}  // namespace

v1::LabelPartyState ToProto(const LabelState& state) {
  v1::LabelPartyState proto;
  proto.set_cumulative_sum_kl(state.cumulative_sum_kl);
  proto.set_privacy_account(state.privacy_account);
  if (state.moments) {
    v1::GradientMoments& moments = *proto.mutable_moments();
    moments.set_p(state.moments->p);
    moments.set_u(state.moments->u);
    moments.set_v(state.moments->v);
    moments.set_dg_squared(state.moments->dg_squared);
    moments.set_max_squared_norm(state.moments->max_squared_norm);
    moments.set_mean_squared_norm(state.moments->mean_squared_norm);
    moments.mutable_mean_difference()->Add(state.moments->mean_difference.begin(),
                                           state.moments->mean_difference.end());
  }
  return proto;
}

absl::StatusOr<LabelState> LabelStateFrom(const v1::LabelPartyState& proto, int64_t cut_width) {
  LabelState state;
  state.cumulative_sum_kl = proto.cumulative_sum_kl();
  if (!(state.cumulative_sum_kl >= 0)) {  // NaN, too.
    return absl::InvalidArgumentError("checkpoint: cumulative_sum_kl: expected a divergence, found none");
  }
  state.privacy_account = proto.privacy_account();
  if (proto.has_moments()) {
    SPLITVEIL_ASSIGN_OR_RETURN(ClassMoments moments, MomentsFrom(proto.moments(), cut_width));
    state.moments = std::move(moments);
  }
  return state;
}

}  // namespace splitveil
