#include "common/checkpoint/checkpoint_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

#include "common/checkpoint/alignment_cache.h"
#include "common/checkpoint/run_files.h"
#include "common/config/agreement.h"
#include "common/config/message_validator.h"
#include "common/crypto/digest.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"

namespace splitveil {

namespace {

bool ReadDigest(const std::string& bytes, Digest& digest) {
  if (bytes.size() != digest.size()) {
    return false;
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return true;
}

absl::Status Malformed(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": continuation: expected digests and rows of the data: the file is damaged, or from a different version"));
}

}  // namespace

absl::StatusOr<std::optional<Continuation>> ContinuationOf(const Checkpoint& checkpoint,
                                                           const v1::RunAgreement& agreement, const Dataset& data) {
  const v1::CheckpointHeader& header = checkpoint.header();
  const v1::Continuation& proto = header.continuation();
  // A validation that moves on with the data cannot be resumed in the middle: which rows are held out depends on the
  // past.
  if (!header.has_continuation() || proto.agreement_sha256() != AsBytes(AgreementSha256(agreement)) ||
      header.dataset_sha256() != AsBytes(data.digest()) || agreement.progressive_validation()) {
    return std::nullopt;
  }
  Continuation continuation;
  continuation.epochs = header.epochs();
  continuation.batches = header.batches();
  continuation.in_flight_batches = proto.in_flight_batches();
  // The file is this party's own, but may be damaged or edited: nothing of it is believed.
  if (header.epochs() > static_cast<uint32_t>(agreement.epochs()) || continuation.in_flight_batches < 1 ||
      continuation.in_flight_batches > MostInFlight(agreement) || !ReadDigest(proto.joint_seed(), continuation.seed) ||
      !ReadDigest(proto.order_sha256(), continuation.aligned.order_sha256)) {
    return Malformed(checkpoint.path());
  }
  SPLITVEIL_ASSIGN_OR_RETURN(continuation.aligned.rows, ReadAlignedRows(RunFilePath(PathOfLatest(checkpoint.path()),
                                                                                    kAlignedRows, header.run_id()),
                                                                        proto.rows_sha256()));
  if (!AreDistinctRows(continuation.aligned.rows, static_cast<int64_t>(data.rows()))) {
    return Malformed(checkpoint.path());
  }
  continuation.aligned.peer_ids = proto.peer_ids();
  return continuation;
}

namespace {

// Of the last three checkpoints, the latest first.
constexpr const char* kSuffixes[] = {"", ".1", ".2"};

// The optimiser's method as configured, and whether it averages: "adam", "adam, averaged".
// State of one method means nothing to another; learning rates may change, so only the method is compared.
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
  // Epochs, run and data may differ: a new run may start from these weights.
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

// Nothing where `from` does not exist.
absl::Status Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(to, ": cannot be made: ", std::strerror(errno)));
}

// Of a run that nothing continues. One that stays is removed when the next run begins.
void RemoveAlignedRows(const std::string& path, const std::string& run_id) {
  std::remove(RunFilePath(path, kAlignedRows, run_id).c_str());
}

// Those that are there and good. Errors: that of the latest, where none is.
absl::StatusOr<std::vector<std::shared_ptr<const Checkpoint>>> OpenInitial(const std::string& path,
                                                                           const v1::CheckpointHeader& facts) {
  std::vector<std::shared_ptr<const Checkpoint>> found;
  absl::Status latest;
  for (const char* const suffix : kSuffixes) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(path + suffix);
    const absl::Status fits = checkpoint.ok() ? CheckFits(**checkpoint, facts) : absl::OkStatus();
    if (!fits.ok() && found.empty()) {
      return fits;  // A good file of something else: one before it would be no substitute.
    }
    // The first error is of the latest, the one that the user asked for.
    latest.Update(checkpoint.status());
    if (checkpoint.ok() && fits.ok()) {
      found.push_back(*std::move(checkpoint));
    }
  }
  if (found.empty()) {
    return latest;
  }
  if (found.front()->path() != path) {
    LogWarning(latest.message(), "; started from ", found.front()->path());
  }
  return found;
}

// Those that are there and good, the latest first.
std::vector<std::shared_ptr<const Checkpoint>> OpenLatest(const std::string& path) {
  std::vector<std::shared_ptr<const Checkpoint>> found;
  for (const char* const suffix : kSuffixes) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(path + suffix);
    if (checkpoint.ok()) {
      found.push_back(*std::move(checkpoint));
    } else if (!absl::IsNotFound(checkpoint.status())) {
      LogWarning(checkpoint.status().message(), "; this file is ignored");
    }
  }
  return found;
}

}  // namespace

absl::Status CheckpointPlan::UseData(const Dataset& data, const v1::RunAgreement& agreement) {
  // A model may go on with more rows of the same kind: their vocabulary is that of the data they extend.
  const std::string own(AsBytes(data.digest()));
  const auto fits = [&](const std::shared_ptr<const Checkpoint>& checkpoint) {
    const std::string& trained_on = checkpoint->header().dataset_sha256();
    return trained_on == own || (!trained_on.empty() && trained_on == data.preprocessing().extends_sha256());
  };
  if (resumes() && !fits(initial.front())) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path(), ": expected the data that ", initial.front()->path(),
                     " was trained on, or data that extend them (`splitveil prepare --extend`)"));
  }
  initial.erase(std::remove_if(initial.begin(), initial.end(), [&](const auto& each) { return !fits(each); }),
                initial.end());
  std::vector<std::shared_ptr<const Checkpoint>> continuable;
  for (const std::shared_ptr<const Checkpoint>& checkpoint : unfinished) {
    // A complete run must not be offered again: its account is closed, and its aligned rows may be gone.
    const std::string& run_id = checkpoint->header().run_id();
    if (IsComplete(run_id, unfinished)) {
      continue;
    }
    // So does a run of which only the complete checkpoint was removed. Whether one that was interrupted may be followed
    // by another, its journal says.
    if (const std::string rows = RunFilePath(PathOfLatest(checkpoint->path()), kAlignedRows, run_id);
        checkpoint->header().has_continuation() && access(rows.c_str(), F_OK) != 0) {
      LogWarning(checkpoint->path(), ": cannot be continued, as ", rows, " is gone; this file is ignored");
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<Continuation> continuation,
                               ContinuationOf(*checkpoint, agreement, data));
    if (continuation.has_value()) {
      continuable.push_back(checkpoint);
    }
  }
  unfinished = std::move(continuable);
  facts.set_dataset_sha256(own);
  return absl::OkStatus();
}

absl::Status CheckpointPlan::KeepContinuation(const std::string& run_id, const Digest& seed, const AlignedIds& aligned,
                                              int64_t in_flight_batches, const v1::RunAgreement& agreement) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  // If a checkpoint cannot be read, the rows of all runs stay. By headers alone: the peer waits meanwhile.
  if (const auto runs = RunsAt(path, SectionFile::Check::kStructure); runs.ok()) {
    RemoveOtherRunFiles(path, kAlignedRows, *runs);
  }
  // Before the first checkpoint that names it.
  SPLITVEIL_RETURN_IF_ERROR(WriteAlignedRows(RunFilePath(path, kAlignedRows, run_id), aligned.rows));
  v1::Continuation& proto = *facts.mutable_continuation();
  // A run is continued only under the very agreement that it began with.
  proto.set_agreement_sha256(std::string(AsBytes(AgreementSha256(agreement))));
  proto.set_joint_seed(std::string(AsBytes(seed)));
  proto.set_order_sha256(std::string(AsBytes(aligned.order_sha256)));
  proto.set_peer_ids(aligned.peer_ids);
  proto.set_in_flight_batches(static_cast<uint32_t>(in_flight_batches));
  proto.set_rows_sha256(std::string(AsBytes(RowsSha256(aligned.rows))));
  return absl::OkStatus();
}

absl::Status CheckpointPlan::Write(const v1::CheckpointHeader& place, const NamedParameters& state,
                                   absl::string_view progress, const NamedParameters& kept) const {
  if (path.empty()) {
    return absl::OkStatus();
  }
  v1::CheckpointHeader header = facts;
  header.MergeFrom(place);
  // The new one is whole before an earlier one is touched; whatever happens in between, the latest whole one has one of
  // the three names.
  const std::string fresh = path + ".new";
  const bool is_complete = !header.has_continuation();
  SPLITVEIL_RETURN_IF_ERROR(Checkpoint::Write(fresh, std::move(header), state, progress, kept));
  SPLITVEIL_RETURN_IF_ERROR(Rename(path + kSuffixes[1], path + kSuffixes[2]));
  SPLITVEIL_RETURN_IF_ERROR(Rename(path, path + kSuffixes[1]));
  SPLITVEIL_RETURN_IF_ERROR(Rename(fresh, path));
  SPLITVEIL_RETURN_IF_ERROR(SyncFolderOf(path));
  if (is_complete) {
    RemoveAlignedRows(path, place.run_id());
  }
  return absl::OkStatus();
}

absl::Status CheckpointPlan::GoBackTo(const Checkpoint& chosen) const {
  const std::string middle = path + kSuffixes[1], oldest = path + kSuffixes[2];
  if (chosen.path() != middle && chosen.path() != oldest) {
    return absl::OkStatus();  // It is the latest.
  }
  // The peer lacks the newer ones: both parties go on from the same place.
  if (chosen.path() == oldest && std::remove(middle.c_str()) != 0 && errno != ENOENT) {
    return absl::InternalError(absl::StrCat(middle, ": cannot be removed: ", std::strerror(errno)));
  }
  SPLITVEIL_RETURN_IF_ERROR(Rename(chosen.path(), path));
  SPLITVEIL_RETURN_IF_ERROR(Rename(oldest, middle));  // Nothing if the oldest was chosen.
  return SyncFolderOf(path);
}

absl::Status CheckpointPlan::MarkComplete(const std::string& run_id) const {
  if (path.empty()) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> latest, Checkpoint::Open(path));
  v1::CheckpointHeader header = latest->header();
  // Already complete, or the latest file belongs to a different run: then there is nothing to mark.
  if (header.run_id() != run_id || !header.has_continuation()) {
    return absl::OkStatus();
  }
  // Without the continuation the file is a model to start from, not a run to resume.
  header.clear_continuation();
  SPLITVEIL_ASSIGN_OR_RETURN(const NamedParameters state, latest->State());
  SPLITVEIL_RETURN_IF_ERROR(Checkpoint::Write(path, std::move(header), state, latest->progress()));
  RemoveAlignedRows(path, run_id);
  return absl::OkStatus();
}

bool IsComplete(const std::string& run_id, const std::vector<std::shared_ptr<const Checkpoint>>& checkpoints) {
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const auto& checkpoint) {
    return checkpoint->header().run_id() == run_id && !checkpoint->header().has_continuation();
  });
}

// The journal lies beside the latest file, whichever of the three an operator names.
std::string PathOfLatest(const std::string& checkpoint_path) {
  for (const absl::string_view suffix : {kSuffixes[1], kSuffixes[2]}) {
    if (absl::EndsWith(checkpoint_path, suffix)) {
      return checkpoint_path.substr(0, checkpoint_path.size() - suffix.size());
    }
  }
  return checkpoint_path;
}

absl::StatusOr<std::vector<std::string>> RunsAt(const std::string& path, SectionFile::Check check) {
  std::vector<std::string> runs;
  for (const char* const suffix : kSuffixes) {
    const absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(path + suffix, check);
    if (checkpoint.ok()) {
      runs.push_back((*checkpoint)->header().run_id());
    } else if (!absl::IsNotFound(checkpoint.status())) {
      return checkpoint.status();
    }
  }
  return runs;
}

std::shared_ptr<const Checkpoint> FindCheckpoint(const std::vector<std::shared_ptr<const Checkpoint>>& checkpoints,
                                                 const std::string& name) {
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(),
                                  [&](const auto& checkpoint) { return checkpoint->name() == name; });
  return found == checkpoints.end() ? nullptr : *found;
}

absl::StatusOr<CheckpointPlan> PlanCheckpoints(const std::string& role, const v1::PartyCommon& party,
                                               const v1::ModelSpec& model, const v1::RunAgreement& agreement) {
  CheckpointPlan plan;
  plan.facts.set_role(role);
  *plan.facts.mutable_model() = model;
  plan.facts.set_cut_layer(agreement.cut_layer());
  plan.facts.set_cut_width(agreement.cut_width());
  plan.facts.set_optimizer(MethodOf(party.optimizer()));
  plan.path = party.checkpoint_path();
  if (const absl::Status place = plan.path.empty() ? absl::OkStatus() : CheckFolderOf(plan.path); !place.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("party.checkpoint_path: ", place.message()));
  }
  if (!party.initial_checkpoint().empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(plan.initial, OpenInitial(party.initial_checkpoint(), plan.facts));
  }
  // With `restart` the operator gives up what is there, so nothing is offered to the peer for resuming.
  if (!plan.path.empty() && !party.restart()) {
    std::vector<std::shared_ptr<const Checkpoint>> latest = OpenLatest(plan.path);
    if (!latest.empty() && !IsComplete(latest.front()->header().run_id(), latest)) {
      // Also if it does not fit: the operator is told which run is given up.
      plan.interrupted = latest.front();
    }
    std::copy_if(latest.begin(), latest.end(), std::back_inserter(plan.unfinished),
                 [&](const auto& checkpoint) { return CheckFits(*checkpoint, plan.facts).ok(); });
  }
  return plan;
}

}  // namespace splitveil
