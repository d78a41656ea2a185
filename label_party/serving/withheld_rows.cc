#include "label_party/serving/withheld_rows.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"
#include "common/ledger/ledger_reader.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// The data that the model was trained on.
absl::StatusOr<std::shared_ptr<const Dataset>> TrainingDataOf(const v1::LabelPartyConfig& config,
                                                              const Checkpoint& checkpoint,
                                                              const StoredVersion& stored) {
  const std::string& trained_on = checkpoint.header().dataset_sha256();
  if (AsBytes(stored.data->digest()) == trained_on) {
    return stored.data;
  }
  const std::string& path = config.party().dataset().path();
  SPLITVEIL_ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> data, Dataset::Open(path));
  return AsBytes(data->digest()) == trained_on
             ? absl::StatusOr<std::shared_ptr<const Dataset>>(std::move(data))
             : absl::FailedPreconditionError(
                   absl::StrCat(path,
                                ": expected the data that the model was trained on, as the version was stored "
                                "with others: put them back"));
}

// That the run of `checkpoint` started from fresh weights.
absl::Status CheckFreshWeights(const v1::LabelPartyConfig& config, const Checkpoint& checkpoint) {
  const std::string &path = config.party().ledger_path(), &run_id = checkpoint.header().run_id();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, LedgerReader::Open(path));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> runs, ledger->Runs());
  const auto run =
      std::find_if(runs.begin(), runs.end(), [&](const RunRecord& each) { return each.run.run_id == run_id; });
  if (run == runs.end()) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": expected the ledger of run ", run_id,
                                                      ", which trained the model, found no such run in it"));
  }
  return run->run.resumed_from.empty() ? absl::OkStatus()
                                       : absl::FailedPreconditionError(absl::StrCat(
                                             "run ", run_id, " started from the weights of run ", run->run.resumed_from,
                                             ", whose examples are not known here"));
}

}  // namespace

absl::StatusOr<std::vector<bool>> WithheldRows(const v1::LabelPartyConfig& config, const Checkpoint& checkpoint,
                                               const StoredVersion& stored) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> trained, TrainingDataOf(config, checkpoint, stored));
  SPLITVEIL_RETURN_IF_ERROR(CheckFreshWeights(config, checkpoint));
  // Without a validation part it alone says which epoch is kept, and when to stop.
  const bool chosen_by_test = trained->preprocessing().validation_fraction() <= 0;
  const SplitRule rule(trained->preprocessing());
  absl::flat_hash_set<absl::string_view> ids;  // That are withheld.
  for (uint32_t row = 0; row < trained->rows(); ++row) {
    const SplitPart part = rule.PartOf(*trained, row);
    if (part == SplitPart::kTraining || part == SplitPart::kValidation ||
        (part == SplitPart::kTest && chosen_by_test)) {
      ids.insert(trained->ids()[row]);
    }
  }
  std::vector<bool> withheld;
  withheld.reserve(stored.rows.size());
  for (const uint32_t row : stored.rows) {
    withheld.push_back(ids.contains(stored.data->ids()[row]));
  }
  trained->ReleaseMemory();
  return withheld;
}

}  // namespace splitveil
