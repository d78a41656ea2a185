#include "label_party/storage/label_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/label_noise.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/protection/protection_factory.h"

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

// To the last bit of the grid, so that two that differ read differently.
std::string SigmaText(uint32_t units) {
  return absl::StrFormat("%.10g", std::ldexp(static_cast<double>(units), -kLabelGridBits));
}

std::string NoiseText(const v1::LabelReleases& releases) {
  if (releases.noise().empty()) {
    return "none";
  }
  uint32_t draws = 0;
  for (const v1::LabelReleases::Noise& noise : releases.noise()) {
    draws += noise.draws();
  }
  const std::string first = SigmaText(releases.noise(0).sigma_units());
  const std::string last = SigmaText(releases.noise(releases.noise_size() - 1).sigma_units());
  return absl::StrCat("sigma ", first, first == last ? "" : absl::StrCat(" to ", last), " in ", draws,
                      draws == 1 ? " draw" : " draws");
}

std::string LabelSetText(const v1::LabelReleases& releases) {
  return releases.label_set().empty() ? "none" : absl::StrCat("\"", releases.label_set(), "\"");
}

std::string FlagText(bool flag) { return flag ? "true" : "false"; }

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
    return absl::InvalidArgumentError("checkpoint: cumulative_sum_kl: not a number of at least 0");
  }
  state.privacy_account = proto.privacy_account();
  if (proto.has_moments()) {
    SPLITVEIL_ASSIGN_OR_RETURN(ClassMoments moments, MomentsFrom(proto.moments(), cut_width));
    state.moments = std::move(moments);
  }
  return state;
}

absl::StatusOr<v1::LabelReleases> LabelReleasesOf(const RunContext& run) {
  v1::GradientProtection protection = run.config.protection();
  FillPlannedEpochs(run.agreement.epochs(), protection);
  v1::LabelReleases releases;
  releases.set_flip_epsilon(protection.label_dp().epsilon());
  if (!protection.has_gaussian_label_dp()) {
    return releases;
  }
  const v1::GradientProtection::GaussianLabelDp& config = protection.gaussian_label_dp();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> planned, PlannedReleases(config, run.data->task()));
  for (const NoiseReleases& of : planned) {
    v1::LabelReleases::Noise& noise = *releases.add_noise();
    noise.set_sigma_units(of.sigma_units);
    noise.set_draws(of.draws);
  }
  releases.set_label_set(run.config.privacy_account().label_set());
  releases.set_likelihood_correction(config.likelihood_correction());
  releases.set_release_head_predicts(config.release_head_predicts());
  return releases;
}

absl::Status CheckSameReleases(const v1::LabelReleases& begun, const v1::LabelReleases& now) {
  struct Field {
    const char* name;
    std::string begun, now;
  };
  const std::array<Field, 5> fields = {{
      {"protection.gaussian_label_dp", NoiseText(begun), NoiseText(now)},
      {"privacy_account.label_set", LabelSetText(begun), LabelSetText(now)},
      {"protection.gaussian_label_dp.likelihood_correction", FlagText(begun.likelihood_correction()),
       FlagText(now.likelihood_correction())},
      {"protection.gaussian_label_dp.release_head_predicts", FlagText(begun.release_head_predicts()),
       FlagText(now.release_head_predicts())},
      {"protection.label_dp.epsilon", absl::StrCat(begun.flip_epsilon()), absl::StrCat(now.flip_epsilon())},
  }};
  for (const Field& field : fields) {
    if (field.begun != field.now) {
      return absl::InvalidArgumentError(absl::StrCat(
          field.name, ": expected what the run that was interrupted began with, ", field.begun, ", found ", field.now,
          ": what it states of its labels holds for one plan in all of it. Restore the earlier setting, or let a new "
          "run begin in its place (party.restart)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
