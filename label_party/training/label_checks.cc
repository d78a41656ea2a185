#include "label_party/training/label_checks.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/config/agreement.h"
#include "common/dataset/label_variety.h"
#include "common/privacy_account/privacy_account.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/storage/label_history.h"

namespace splitveil {

float LabelOf(const Dataset& data, uint32_t row) {
  if (!data.has_labels()) {
    return 0;
  }
  if (data.task().kind == Task::Kind::kRegression) {
    return data.targets()[row];
  }
  const uint8_t label = data.labels()[row];
  // Read where the file is mapped, long after it was checked: a class that is none would be an index past the end.
  if (label >= data.task().classes) {
    EndForChangedFile(data.path());
  }
  return static_cast<float>(label);
}

absl::Status CheckTaskOf(const v1::RunAgreement& agreement, const Dataset& data, const v1::LabelPartyConfig& config) {
  // Before the peer connects: these follow from the table and the two files.
  SPLITVEIL_RETURN_IF_ERROR(CheckTask(config.protection(), data.task()));
  const std::string& audited_class = config.label_side_audit().audited_class();
  const auto& classes = data.preprocessing().classes();
  if (!audited_class.empty() && std::find(classes.begin(), classes.end(), audited_class) == classes.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("label_side_audit.audited_class: expected ",
                     classes.empty() ? "none, as the labels are not of several classes"
                                     : absl::StrCat("one of the schema's classes (", absl::StrJoin(classes, ", "), ")"),
                     ", found \"", audited_class, "\""));
  }
  if (data.task().kind == Task::Kind::kBinary) {
    return absl::OkStatus();
  }
  // One number more or less can move the median, and with it another example across: mu is that of one label.
  if (data.task().kind == Task::Kind::kRegression && agreement.audit().disclosure() == v1::ROUNDED) {
    return absl::InvalidArgumentError(
        "audit.disclosure: expected LABEL_SIDE_ONLY or ORACLE, as the labels are numbers, found ROUNDED");
  }
  // The audit of several outputs reads directions that clipping would not keep.
  if (config.clip_cut_gradients() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "clip_cut_gradients: works with labels of two classes only: remove it, found ", config.clip_cut_gradients()));
  }
  if (data.task().kind == Task::Kind::kRegression && config.has_early_stopping() &&
      config.early_stopping().metric() == v1::EarlyStopping::AUC) {
    return absl::InvalidArgumentError(
        "early_stopping.metric: expected LOG_LOSS, which stands for the squared error of numbers, found AUC");
  }
  return absl::OkStatus();
}

absl::Status CheckLabelsDiffer(const v1::RunAgreement& agreement, const Dataset& data,
                               std::optional<absl::Span<const uint32_t>> rows) {
  // By the rule and not by the joint schedule, so that it can be asked before the alignment as well as after it.
  const SplitRule rule(agreement);
  const bool tests = HasTestPart(agreement), validates = agreement.validation_fraction() > 0;
  LabelVariety training, test, validation, unused;
  const auto labels_of = [&](SplitPart part) -> LabelVariety& {
    return part == SplitPart::kTraining     ? training
           : part == SplitPart::kTest       ? test
           : part == SplitPart::kValidation ? validation
                                            : unused;
  };
  const size_t examples = rows ? rows->size() : data.ids().size();
  for (size_t i = 0; i < examples; ++i) {
    const uint32_t row = rows ? (*rows)[i] : static_cast<uint32_t>(i);
    // Checked first, as a large table mostly varies within its first rows.
    if (training.varied() && (test.varied() || !tests) && (validation.varied() || !validates)) {
      return absl::OkStatus();
    }
    labels_of(rule.PartOf(data, row)).Add(LabelOf(data, row));
  }
  // The error says nothing of the labels but that they are alike, and only this party reads it.
  absl::Status status = training.Check(rows ? "shared training examples" : "training examples");
  status.Update(tests ? test.Check(rows ? "shared test examples" : "test examples") : absl::OkStatus());
  status.Update(validates ? validation.Check(rows ? "shared validation examples" : "validation examples")
                          : absl::OkStatus());
  return status.ok()
             ? status
             : absl::InvalidArgumentError(absl::StrCat(data.path(), ": ", status.message(),
                                                       "; check whether a table was filtered by the label, and whether "
                                                       "it has enough rows"));
}

absl::Status CheckInitialHead(const v1::LabelPartyConfig& config, const v1::LabelReleases& learned) {
  const bool is_safe =
      !config.protection().has_label_dp() || (config.has_privacy_account() && learned.noise_size() > 0 &&
                                              learned.flip_epsilon() == config.protection().label_dp().epsilon() &&
                                              learned.label_set() == config.privacy_account().label_set());
  return is_safe ? absl::OkStatus()
                 : absl::InvalidArgumentError(
                       "party.initial_checkpoint: its head may have learned labels that protection.label_dp hides: "
                       "start without a checkpoint, or from a run of label_dp with the same epsilon and "
                       "privacy_account");
}

absl::Status CheckInitialIsCounted(const v1::LabelPartyConfig& config, const Task& task,
                                   const v1::CheckpointHeader& initial, const LabelState& released) {
  const bool noises_labels = config.protection().has_gaussian_label_dp() || config.protection().has_label_dp();
  if (!config.has_privacy_account() || !noises_labels || released.cumulative_sum_kl == 0) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PrivacyAccount> account,
                             PrivacyAccount::OpenToRead(AccountOptions(config.privacy_account(), task)));
  const bool is_counted =
      account != nullptr && account->id() == released.privacy_account && account->Knows(initial.run_id());
  return is_counted ? absl::OkStatus()
                    : absl::InvalidArgumentError(absl::StrCat(
                          "party.initial_checkpoint: its run ", initial.run_id(),
                          " released labels that privacy_account has not counted: it is another account, or an older "
                          "copy, and its limit would leave them out. Put the account of that run in place, or start "
                          "without a checkpoint"));
}

}  // namespace splitveil
