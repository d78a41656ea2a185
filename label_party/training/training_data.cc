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

// The audited class's number, CheckTaskOf having made sure that there is one.
float AuditedClass(const Dataset& data, const v1::LabelSideAudit& audit) {
  const auto& classes = data.preprocessing().classes();
  const auto found = std::find(classes.begin(), classes.end(), audit.audited_class());
  return found == classes.end() ? 0 : static_cast<float>(found - classes.begin());
}

// Of the numbers of `rows` at `positions`; not empty.
float Median(const Dataset& data, absl::Span<const uint32_t> rows, absl::Span<const uint32_t> positions) {
  std::vector<float> values;
  values.reserve(positions.size());
  for (const uint32_t position : positions) {
    values.push_back(LabelOf(data, rows[position]));
  }
  // The median of training examples only: that of all would depend on held-out labels.
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// `training`: positions.
AuditedSide AuditedSideOf(const Dataset& data, const v1::LabelSideAudit& audit, absl::Span<const uint32_t> rows,
                          absl::Span<const uint32_t> training) {
  switch (data.task().kind) {
    case Task::Kind::kRegression:
      return {Median(data, rows, training), /*above=*/true};
    case Task::Kind::kMultiClass:
      return {AuditedClass(data, audit)};
    case Task::Kind::kBinary:
      break;
  }
  return {};
}

}  // namespace

float TrainingData::LabelAt(uint32_t position) const { return LabelOf(features->dataset(), features->row(position)); }

std::vector<float> TrainingData::LabelsAt(absl::Span<const uint32_t> positions) const {
  std::vector<float> labels;
  labels.reserve(positions.size());
  for (const uint32_t position : positions) {
    labels.push_back(LabelAt(position));
  }
  return labels;
}

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
  SPLITVEIL_ASSIGN_OR_RETURN(Schedule schedule, Schedule::Create(seed, split.train, AgreedSchedule(agreement)));
  const AuditedSide audited = AuditedSideOf(data, audit, rows, split.train);
  data.ReleaseMemory();  // Of the ids and the labels,
  ReturnFreeMemory();    // of the alignment.
  return TrainingData{std::make_unique<FeatureTable>(dataset, rows),
                      data.task(),
                      audited,
                      std::move(targets),
                      std::move(schedule),
                      std::move(evaluated),
                      static_cast<int64_t>(split.validation.size())};
}

}  // namespace splitveil
