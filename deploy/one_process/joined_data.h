// Both parties' data of the examples they share, joined in the memory of one process.
#ifndef SPLITVEIL_DEPLOY_ONE_PROCESS_JOINED_DATA_H_
#define SPLITVEIL_DEPLOY_ONE_PROCESS_JOINED_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/dataset/feature_table.h"
#include "common/schedule/schedule.h"

namespace splitveil {

// Row i of everything is the same example. The test examples are those that the two parties of a run with the same
// seeds and ids hold out; the order of the examples is that of their ids.
struct JoinedData {
  std::unique_ptr<FeatureTable> label_features, nonlabel_features;
  std::vector<uint8_t> labels;
  TrainTestSplit split;
};

// Reads both parties' prepared files and joins them by id. Errors: those of reading; InvalidArgument where the label
// party's file has no label or fewer than two examples are common.
absl::StatusOr<JoinedData> ReadJoinedData(const std::string& label_path, const std::string& nonlabel_path,
                                          const JointSeed& seed, double test_fraction);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_ONE_PROCESS_JOINED_DATA_H_
