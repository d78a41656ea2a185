#include "label_party/training/training_data.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "common/process/runtime.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "label_party/training/label_checks.h"

namespace splitveil {
namespace {

std::vector<float> AlignedLabels(const Dataset& data, absl::Span<const uint32_t> rows) {
  std::vector<float> labels;
  labels.reserve(rows.size());
  for (const uint32_t row : rows) {
    labels.push_back(LabelOf(data, row));
  }
  return labels;
}

// The audited class's number, CheckTaskOf having made sure that there is one.
float AuditedClass(const Dataset& data, const v1::LabelSideAudit& audit) {
  const auto& classes = data.preprocessing().classes();
  const auto found = std::find(classes.begin(), classes.end(), audit.audited_class());
  return found == classes.end() ? 0 : static_cast<float>(found - classes.begin());
}

// Of the numbers at `positions`; not empty.
float Median(const std::vector<float>& labels, absl::Span<const uint32_t> positions) {
  std::vector<float> values;
  values.reserve(positions.size());
  for (const uint32_t position : positions) {
    values.push_back(labels[position]);
  }
  // The median of training examples only: that of all would depend on held-out labels.
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// ReleasedBatch.labels of all examples. `training`: positions.
std::vector<uint8_t> AuditedLabels(const Dataset& data, const v1::LabelSideAudit& audit,
                                   const std::vector<float>& labels, absl::Span<const uint32_t> training) {
  std::vector<uint8_t> audited;
  audited.reserve(labels.size());
  // An audit of two classes needs two: above and not above the median, the audited class and all others.
  const bool is_number = data.task().kind == Task::Kind::kRegression;
  const float of = is_number                                     ? Median(labels, training)
                   : data.task().kind == Task::Kind::kMultiClass ? AuditedClass(data, audit)
                                                                 : 1;
  for (const float label : labels) {
    audited.push_back((is_number ? label > of : label == of) ? 1 : 0);
  }
  return audited;
}

}  // namespace

absl::StatusOr<TrainingData> MakeTrainingData(const v1::RunAgreement& agreement, const v1::LabelSideAudit& audit,
                                              const JointSeed& seed, const std::shared_ptr<const Dataset>& dataset,
                                              absl::Span<const uint32_t> rows, std::shared_ptr<LabelTargets> targets) {
  const Dataset& data = *dataset;
  TrainTestSplit split = SplitRule(agreement).Split(data, rows);
  std::vector<uint32_t> evaluated = split.Evaluated();
  if (agreement.progressive_validation()) {
    // Progressive validation predicts every example, before any is trained on.
    evaluated.resize(rows.size());
    std::iota(evaluated.begin(), evaluated.end(), 0);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(Schedule schedule,
                             Schedule::Create(seed, std::move(split.train), AgreedSchedule(agreement)));
  std::vector<float> labels = AlignedLabels(data, rows);
  std::vector<uint8_t> audited_labels = AuditedLabels(data, audit, labels, schedule.positions());
  data.ReleaseMemory();  // Of the ids and the labels,
  ReturnFreeMemory();    // of the alignment.
  auto features = std::make_unique<FeatureTable>(dataset, std::vector<uint32_t>(rows.begin(), rows.end()));
  return TrainingData{
      std::move(features), data.task(),         std::move(labels),    std::move(audited_labels),
      std::move(targets),  std::move(schedule), std::move(evaluated), static_cast<int64_t>(split.validation.size())};
}

}  // namespace splitveil
