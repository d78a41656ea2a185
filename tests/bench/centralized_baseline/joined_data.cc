#include "tests/bench/centralized_baseline/joined_data.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

// Each party's row of the common examples, in the order of the ids.
struct CommonRows {
  std::vector<uint32_t> label, nonlabel;
};

CommonRows JoinById(const IdList& label_ids, const IdList& nonlabel_ids) {
  absl::flat_hash_map<absl::string_view, uint32_t> label_row;
  label_row.reserve(label_ids.size());
  for (uint32_t row = 0; row < label_ids.size(); ++row) {
    label_row.emplace(label_ids[row], row);
  }
  CommonRows rows;
  for (uint32_t row = 0; row < nonlabel_ids.size(); ++row) {
    if (const auto found = label_row.find(nonlabel_ids[row]); found != label_row.end()) {
      rows.nonlabel.push_back(row);
    }
  }
  std::sort(rows.nonlabel.begin(), rows.nonlabel.end(),
            [&](uint32_t a, uint32_t b) { return nonlabel_ids[a] < nonlabel_ids[b]; });
  for (uint32_t row : rows.nonlabel) {
    rows.label.push_back(label_row.at(nonlabel_ids[row]));
  }
  return rows;
}

}  // namespace

absl::StatusOr<JoinedData> JoinData(std::shared_ptr<const Dataset> label, std::shared_ptr<const Dataset> nonlabel,
                                    const v1::RunAgreement& agreement) {
  if (!label->has_labels()) {
    return absl::InvalidArgumentError(absl::StrCat(label->path(), ": expected labels, found none"));
  }
  if (label->task().kind != Task::Kind::kBinary) {
    return absl::InvalidArgumentError(
        absl::StrCat(label->path(), ": expected labels of two classes, as this program trains no other model, found ",
                     label->task().kind == Task::Kind::kMultiClass ? "several" : "numbers"));
  }
  CommonRows rows = JoinById(label->ids(), nonlabel->ids());
  if (rows.label.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(label->path(), ", ", nonlabel->path(), ": expected common ids, found ", rows.label.size()));
  }
  JoinedData joined;
  joined.split = SplitRule(agreement).Split(*nonlabel, rows.nonlabel);
  joined.labels.reserve(rows.label.size());
  for (uint32_t row : rows.label) {
    joined.labels.push_back(label->labels()[row]);
  }
  joined.label_features = std::make_unique<FeatureTable>(std::move(label), std::move(rows.label));
  joined.nonlabel_features = std::make_unique<FeatureTable>(std::move(nonlabel), std::move(rows.nonlabel));
  return joined;
}

}  // namespace splitveil
