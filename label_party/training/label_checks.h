// Whether labels are what a run needs: of the kind that is asked for, and not all alike.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_LABEL_CHECKS_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_LABEL_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "label_party/storage/run_records.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/checkpoint.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Of one row: label, class or target; 0 where there are none.
float LabelOf(const Dataset& data, uint32_t row);

// Whether what the agreement and the configuration ask for is there for labels of the kind that `data` has. Error:
// InvalidArgument, with field, expected and found.
absl::Status CheckTaskOf(const v1::RunAgreement& agreement, const Dataset& data, const v1::LabelPartyConfig& config);

// Whether the labels of the shared examples differ, in training and in what the agreement keeps for testing: a run on
// examples that are all alike would end well and mean nothing. `rows`:
// TrainingInputs.rows; nullopt, before they are known: all of the party's. Error: InvalidArgument.
absl::Status CheckLabelsDiffer(const v1::RunAgreement& agreement, const Dataset& data,
                               std::optional<absl::Span<const uint32_t>> rows);

// Whether a run may start from the head of `learned`, which party.initial_checkpoint names. Beside label_dp it must
// have learned from the very same flips alone: gradients reveal whatever else a head has learned, and no account counts
// what a run learned without releasing anything. gaussian_label_dp needs no such check: it takes a release head
// (SplitHeads). Error: InvalidArgument, with what to start from instead.
absl::Status CheckInitialHead(const v1::LabelPartyConfig& config, const v1::LabelReleases& learned);

// Whether the privacy account of `config`, where it counts what this run releases, has counted the run of `initial`,
// from whose weights this run starts. Of another account, or of an older copy that has forgotten that run, neither its
// limit nor a sum over ledgers would include that. `released`: of `initial`'s run and those before it. Errors:
// InvalidArgument, with what to start from instead; see PrivacyAccount.
absl::Status CheckInitialIsCounted(const v1::LabelPartyConfig& config, const Task& task,
                                   const v1::CheckpointHeader& initial, const LabelState& released);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_LABEL_CHECKS_H_
