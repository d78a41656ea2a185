// Both parties' data of the examples they share, joined in the memory of one process.
#ifndef SPLITVEIL_TESTS_BENCH_CENTRALIZED_BASELINE_JOINED_DATA_H_
#define SPLITVEIL_TESTS_BENCH_CENTRALIZED_BASELINE_JOINED_DATA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "common/dataset/dataset.h"
#include "common/dataset/feature_table.h"
#include "common/schedule/train_test_split.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Row i of everything is the same example. The test examples are those that the two parties of a run hold out; the
// order of the examples is that of their ids.
struct JoinedData {
  std::unique_ptr<FeatureTable> label_features, nonlabel_features;
  std::vector<uint8_t> labels;
  TrainTestSplit split;
};

// Joins both parties' data by id. Errors: InvalidArgument where the label party's have no labels of two classes or
// fewer than two examples are common.
absl::StatusOr<JoinedData> JoinData(std::shared_ptr<const Dataset> label, std::shared_ptr<const Dataset> nonlabel,
                                    const v1::RunAgreement& agreement);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_BENCH_CENTRALIZED_BASELINE_JOINED_DATA_H_
