// What leaves of the labels in a run, as its checkpoints say it: the same in every part of it.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_RELEASES_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_RELEASES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "label_party/storage/run_context.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

// Of a run that is configured so; with neither gaussian_label_dp nor label_dp an empty message. Errors: as
// PlannedReleases.
absl::StatusOr<v1::LabelReleases> LabelReleasesOf(const RunContext& run);

// That a run which began with the releases `begun` goes on with them. What a run states of its labels (run_auc_bound,
// epsilon) is of one plan: were the strength another in its second part, draws of the first would have left that it
// does not count, and under another label set noise of another key. Error: InvalidArgument, with the field, what the
// run began with and what is configured now.
absl::Status CheckSameReleases(const v1::LabelReleases& begun, const v1::LabelReleases& now);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_RELEASES_H_
