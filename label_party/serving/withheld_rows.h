// Which examples a model may not answer for where no bound covers its answers (v1.UnprovedAnswers).
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_WITHHELD_ROWS_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_WITHHELD_ROWS_H_

#include <vector>

#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/stored_version.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// For each of `stored.rows`: whether the model of `checkpoint` may have learned from the example's label, or its epoch
// may have been chosen by it. An answer reveals the label of the first as well as the model ranks its training rows.
//
// An example is known by its id in the data that the model was trained on: the version's own, or those that `config`,
// the label party's of the training, names. Whether it was shared then is not asked. How these data were split, they
// say themselves; their test part counts as having chosen where there is no validation part. Errors: FailedPrecondition
// if it cannot be known: neither data are those of the training, the ledger lacks the run, or the run started from
// another one's weights, whose examples are not known here; those of LedgerReader.
absl::StatusOr<std::vector<bool>> WithheldRows(const v1::LabelPartyConfig& config, const Checkpoint& checkpoint,
                                               const StoredVersion& stored);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_WITHHELD_ROWS_H_
