#include "label_party/training/epoch_targets.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"

#include "common/crypto/invariant.h"
#include "common/status/status_macros.h"

namespace splitveil {

absl::StatusOr<std::unique_ptr<EpochTargets>> EpochTargets::Create(Options options) {
  const uint32_t first_epoch = options.first_epoch;
  auto targets = absl::WrapUnique(new EpochTargets(std::move(options)));
  SPLITVEIL_RETURN_IF_ERROR(targets->Draw(first_epoch));
  if (targets->options_.source->draws() == 1) {  // What later draws would be made of.
    targets->options_.examples = {};
    targets->options_.labels = {};
    targets->options_.positions = {};
  }
  return targets;
}

void EpochTargets::BeginEpoch(uint32_t epoch) {
  const uint32_t last = options_.source->draws() - 1;
  if (std::min(epoch, last) != std::min(epoch_, last)) {
    CheckInvariant(Draw(epoch).ok(), "LabelTargets: only the first targets of a run can fail");
  }
  epoch_ = epoch;
}

absl::Status EpochTargets::Draw(uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> drawn,
                             options_.source->TrainingTargets(options_.examples, options_.labels, epoch));
  epoch_ = epoch;
  const size_t outputs = options_.outputs;
  targets_.assign(outputs * options_.aligned, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < options_.positions.size(); ++i) {
    std::copy_n(drawn.begin() + static_cast<std::ptrdiff_t>(outputs * i), outputs,
                targets_.begin() + static_cast<std::ptrdiff_t>(outputs * options_.positions[i]));
  }
  return absl::OkStatus();
}

}  // namespace splitveil
