#include "label_party/top/release_head_state.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

constexpr char kReleasePrefix[] = "release_head.";

}  // namespace

NamedParameters JoinHeads(HeadStates heads) {
  NamedParameters state = std::move(heads.predicting);
  for (auto& [name, values] : heads.releasing) {
    state.emplace_back(absl::StrCat(kReleasePrefix, name), std::move(values));
  }
  return state;
}

absl::StatusOr<HeadStates> SplitHeads(const NamedParameters& state) {
  HeadStates heads;
  for (const auto& [name, values] : state) {
    absl::string_view bare = name;
    const bool releases = absl::ConsumePrefix(&bare, kReleasePrefix);
    (releases ? heads.releasing : heads.predicting).emplace_back(std::string(bare), values);
  }
  if (heads.releasing.empty()) {
    return absl::InvalidArgumentError(
        "checkpoint: expected the release head of a run with gaussian_label_dp, found a model with one head, which "
        "has learned from the labels themselves");
  }
  return heads;
}

}  // namespace splitveil
