#include "common/checkpoint/checkpoint_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

#include "common/config/canonical_message.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr char kPreviousSuffix[] = ".previous";

// The optimiser's method as configured, and whether it averages: "adam", "adam, averaged".
std::string MethodOf(const v1::Optimizer& optimizer) {
  const google::protobuf::FieldDescriptor* method = optimizer.GetReflection()->GetOneofFieldDescriptor(
      optimizer, v1::Optimizer::descriptor()->FindOneofByName("method"));
  return absl::StrCat(method == nullptr ? "" : method->name(), optimizer.average_decay() > 0 ? ", averaged" : "");
}

// The part of a header that a checkpoint must share with the run that continues it.
v1::CheckpointHeader WhatMustFit(const v1::CheckpointHeader& header) {
  v1::CheckpointHeader fit;
  fit.set_role(header.role());
  *fit.mutable_model() = header.model();
  fit.mutable_model()->clear_torchscript_path();  // A file may move; its parameters say whether it fits.
  fit.set_cut_layer(header.cut_layer());
  fit.set_cut_width(header.cut_width());
  fit.set_optimizer(header.optimizer());
  SetDefaults(fit);
  return fit;
}

absl::Status CheckFits(const Checkpoint& checkpoint, const v1::CheckpointHeader& facts) {
  const std::string difference = FirstDifference(WhatMustFit(facts), WhatMustFit(checkpoint.header()),
                                                 {"the configuration's is", "the checkpoint's"});
  return difference.empty() ? absl::OkStatus()
                            : absl::InvalidArgumentError(absl::StrCat(
                                  checkpoint.path(), ": expected a checkpoint that fits this party: ", difference));
}

}  // namespace

std::shared_ptr<const Checkpoint> CheckpointPlan::Find(const std::string& name) const {
  const auto found =
      std::find_if(initial.begin(), initial.end(), [&](const auto& checkpoint) { return checkpoint->name() == name; });
  return found == initial.end() ? nullptr : *found;
}

absl::Status CheckpointPlan::UseData(const Dataset& data) {
  const std::string own(AsBytes(data.digest()));
  const auto fits = [&](const std::shared_ptr<const Checkpoint>& checkpoint) {
    const std::string& trained_on = checkpoint->header().dataset_sha256();
    return trained_on == own || (!trained_on.empty() && trained_on == data.preprocessing().extends_sha256());
  };
  if (resumes() && !fits(initial.front())) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path(), ": expected the data that ", initial.front()->path(),
                     " was trained on, or data that extend them (`splitveil prepare --extend`), found others"));
  }
  initial.erase(std::remove_if(initial.begin(), initial.end(), [&](const auto& each) { return !fits(each); }),
                initial.end());
  facts.set_dataset_sha256(own);
  return absl::OkStatus();
}

absl::Status CheckpointPlan::Write(const std::string& run_id, uint32_t epochs, const v1::LabelPartyState* label_state,
                                   const NamedParameters& state, bool keep_previous) const {
  if (path.empty()) {
    return absl::OkStatus();
  }
  v1::CheckpointHeader header = facts;
  header.set_run_id(run_id);
  header.set_epochs(epochs);
  if (label_state != nullptr) {
    *header.mutable_label_party() = *label_state;
  }
  if (keep_previous) {
    // A second name first and the replacement after, so that `path` names a whole checkpoint at every moment.
    const std::string previous = path + kPreviousSuffix;
    unlink(previous.c_str());
    const bool linked = link(path.c_str(), previous.c_str()) == 0 || errno == ENOENT;
    if (!linked && std::rename(path.c_str(), previous.c_str()) != 0) {  // A file system without links.
      return absl::InternalError(absl::StrCat(previous, ": cannot be made: ", std::strerror(errno)));
    }
  }
  return Checkpoint::Write(path, std::move(header), state);
}

absl::StatusOr<CheckpointPlan> PlanCheckpoints(const std::string& role, const std::string& config_path,
                                               const v1::PartyCommon& party, const v1::ModelSpec& model,
                                               const v1::RunAgreement& agreement) {
  CheckpointPlan plan;
  plan.facts.set_role(role);
  *plan.facts.mutable_model() = model;
  plan.facts.set_cut_layer(agreement.cut_layer());
  plan.facts.set_cut_width(agreement.cut_width());
  plan.facts.set_optimizer(MethodOf(party.optimizer()));
  plan.path = ResolvePath(config_path, party.checkpoint_path());
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(plan.path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("party.checkpoint_path: expected a path in a folder that exists, found ", plan.path));
  }
  const std::string initial = ResolvePath(config_path, party.initial_checkpoint());
  if (initial.empty()) {
    return plan;
  }
  for (const std::string& path : {initial, initial + kPreviousSuffix}) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(path);
    absl::Status status = checkpoint.ok() ? CheckFits(**checkpoint, plan.facts) : checkpoint.status();
    if (status.ok()) {
      plan.initial.push_back(*std::move(checkpoint));
    } else if (path == initial) {
      return status;
    }
  }
  return plan;
}

}  // namespace splitveil
