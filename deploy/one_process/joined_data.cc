#include "deploy/one_process/joined_data.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "common/dataset/party_data.h"

namespace splitveil {
namespace {

// Each party's row of the common examples, in the order of the ids.
struct CommonRows {
  std::vector<uint32_t> label, nonlabel;
};

CommonRows JoinById(const std::vector<std::string>& label_ids, const std::vector<std::string>& nonlabel_ids) {
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

absl::StatusOr<JoinedData> ReadJoinedData(const std::string& label_path, const std::string& nonlabel_path,
                                          const JointSeed& seed, double test_fraction) {
  const absl::StatusOr<PartyData> label = ReadPartyData(label_path);
  const absl::StatusOr<PartyData> nonlabel = ReadPartyData(nonlabel_path);
  for (const absl::Status& status : {label.status(), nonlabel.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  if (label->labels.size() != label->ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat(label_path, ": expected a label column, found none"));
  }
  const CommonRows rows = JoinById(label->ids, nonlabel->ids);
  if (rows.label.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(label_path, ", ", nonlabel_path, ": expected common ids, found ", rows.label.size()));
  }
  JoinedData joined;
  joined.split = SplitTrainTest(seed, nonlabel->ids, rows.nonlabel, test_fraction);
  absl::StatusOr<FeatureTable> label_features = BuildFeatures(*label, rows.label, joined.split.train);
  absl::StatusOr<FeatureTable> nonlabel_features = BuildFeatures(*nonlabel, rows.nonlabel, joined.split.train);
  if (!label_features.ok() || !nonlabel_features.ok()) {
    return label_features.ok() ? nonlabel_features.status() : label_features.status();
  }
  joined.label_features = std::make_unique<FeatureTable>(*std::move(label_features));
  joined.nonlabel_features = std::make_unique<FeatureTable>(*std::move(nonlabel_features));
  joined.labels.reserve(rows.label.size());
  for (uint32_t row : rows.label) {
    joined.labels.push_back(label->labels[row]);
  }
  return joined;
}

}  // namespace splitveil
