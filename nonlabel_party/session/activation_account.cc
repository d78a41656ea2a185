#include "nonlabel_party/session/activation_account.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/crypto/sha256.h"
#include "common/figures/all_runs.h"
#include "common/ledger/ledger_reader.h"
#include "common/process/exit_code.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "nonlabel_party/protection/activation_protection.h"

namespace splitveil {
namespace {

absl::Status OfField(const absl::Status& status) { return IsHalt(status) ? status : Within("privacy_account", status); }

PrivacyAccountOptions OptionsOf(const v1::NonLabelPartyConfig& config, const std::string& noise_id) {
  const v1::ActivationAccount& account = config.privacy_account();
  return {account.path(), noise_id, account.max_lifetime_auc_bound(), LabelKind::kActivations};
}

// The journal knows epochs and batches alone: each epoch stands for three, in the order in which they are sent.
uint32_t JournalEpoch(ActivationAccount::Stream stream, uint32_t epoch) {
  return 3 * epoch + static_cast<uint32_t>(stream);
}

absl::StatusOr<std::unique_ptr<ReleaseJournal>> OpenJournal(const ActivationAccount::Run& run,
                                                            const std::string& account_id) {
  const std::string path = ReleaseJournal::PathOf(run.checkpoint_path, run.run_id);
  if (!run.continues) {
    if (const absl::StatusOr<std::vector<std::string>> runs = RunsAt(run.checkpoint_path); runs.ok()) {
      ReleaseJournal::RemoveOthers(run.checkpoint_path, *runs);
    }
    return ReleaseJournal::Begin(path, account_id);
  }
  absl::StatusOr<std::unique_ptr<ReleaseJournal>> journal = ReleaseJournal::Continue(
      path, account_id, JournalEpoch(ActivationAccount::Stream::kTraining, run.epochs), run.batches);
  return absl::IsNotFound(journal.status())
             ? absl::InvalidArgumentError(absl::StrCat(
                   path,
                   ": expected what the run had sent before it was interrupted, found no file: restore it, or "
                   "set restart at both parties, which begins a new run and counts it"))
             : std::move(journal);
}

// The account keeps the name of each run that it counted, and the ledger has the run's figure, both on the disk before
// anything is sent. One that the account lacks came after the copy that is in its place.
absl::Status CheckNotOlder(const PrivacyAccount& account, const std::string& ledger_path) {
  std::error_code ignored;
  if (!std::filesystem::exists(ledger_path, ignored)) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, LedgerReader::Open(ledger_path));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> records, ledger->Runs());
  for (const RunRecord& record : records) {
    const std::string& run_id = record.run.run_id;
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<AllRunsRow> counted, ledger->AllRuns(run_id));
    if (!counted.has_value() || counted->account != account.id()) {
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, ledger->Events(run_id));
    const std::vector<std::string> starts = StartsIn(events);
    if (absl::c_any_of(starts, [&](const std::string& start) { return account.remembered().count(start) == 0; })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "path: this account does not know all of run ", run_id, ", which it has counted by ", ledger_path,
          ", so it is an older copy: put the latest in its place; or, if that is lost, set another path: the new "
          "account knows of nothing that was sent before, and splitveil audit adds up both"));
    }
  }
  return absl::OkStatus();
}

// How much of the run's journal there was, as the account remembers it.
std::string NameOfSent(const std::string& run_id, int64_t records) { return absl::StrCat(run_id, " sent, ", records); }

// With each checkpoint, and each time the run goes on, the account remembers how much there is of its journal: with
// less of it, what was sent since would be sent again with other noise.
absl::Status CheckNotLess(const PrivacyAccount& account, const std::string& journal_path, const std::string& run_id,
                          int64_t records) {
  for (const std::string& name : account.remembered()) {
    int64_t remembered = 0;
    absl::string_view number = name;
    if (absl::ConsumePrefix(&number, absl::StrCat(run_id, " sent, ")) && absl::SimpleAtoi(number, &remembered) &&
        remembered > records) {
      return absl::InvalidArgumentError(absl::StrCat(
          journal_path,
          ": an older copy of what this run has sent: the privacy account remembers more. Restore the latest, or set "
          "restart at both parties, which begins a new run and counts it"));
    }
  }
  return absl::OkStatus();
}

Digest DigestOf(const Digest& received, ConstMatrixView activations) {
  const int64_t shape[] = {activations.rows(), activations.cols()};
  Sha256Hasher hasher;
  hasher.Update(AsBytes(received));
  hasher.Update({reinterpret_cast<const char*>(shape), sizeof(shape)});
  hasher.Update(
      {reinterpret_cast<const char*>(activations.data()), static_cast<size_t>(activations.size()) * sizeof(float)});
  return hasher.Finish();
}

}  // namespace

absl::Status CheckActivationAccount(const v1::NonLabelPartyConfig& config, const v1::RunAgreement& agreement) {
  const bool gaussian = config.protection().has_gaussian();
  if (config.has_privacy_account() != gaussian) {
    return absl::InvalidArgumentError(
        gaussian ? "privacy_account: not set, but protection { gaussian {} } needs one, which counts what all runs and "
                   "predictions release: set privacy_account { path: \"features.account.db\" }"
                 : "privacy_account: set, but counts only what protection { gaussian {} } releases: remove it, or use "
                   "that protection");
  }
  if (!gaussian) {
    return absl::OkStatus();
  }
  const v1::AuditAgreement& audit = agreement.audit();
  const auto inner = std::find_if(audit.layers().begin(), audit.layers().end(),
                                  [](const std::string& layer) { return layer != "cut"; });
  // Gradients below the cut are computed of the features, without noise, and scores of them are sent.
  if (!audit.attacks().empty() && inner != audit.layers().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection.gaussian: the agreement's audit.layers has \"", *inner,
                     "\", whose scores would show the features without noise: leave only \"cut\" at both parties"));
  }
  if (audit.auxiliary_labels() > 0) {
    return absl::InvalidArgumentError(
        "protection.gaussian: the agreement's audit.auxiliary_labels has this party send scores that show the features "
        "without noise: set it to 0 at both parties");
  }
  if (!config.model().torchscript_path().empty()) {
    return absl::InvalidArgumentError(
        "protection.gaussian: model.torchscript_path is set, and in a TorchScript file an example's activations may "
        "depend on others of its batch, which the bound does not cover: describe the model by layers");
  }
  return absl::OkStatus();
}

absl::StatusOr<NoiseReleases> PlannedActivationReleases(const v1::ActivationProtection& protection,
                                                        const v1::RunAgreement& agreement) {
  // Down, unlike noise that is drawn on a grid: the account must count at least what this noise discloses.
  const double units = std::floor(std::ldexp(protection.noise_sigma() / (2 * protection.clip_norm()), kLabelGridBits));
  if (!(units >= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("protection.noise_sigma: expected at least 2^-19 of clip_norm (",
                                                   protection.clip_norm(), "), found ", protection.noise_sigma()));
  }
  const int64_t draws = ActivationReleases(agreement);
  return NoiseReleases{static_cast<uint32_t>(std::min<double>(units, kMaxSigmaUnits)), static_cast<uint32_t>(draws)};
}

absl::StatusOr<ForeseenDebit> ForeseeActivations(const v1::NonLabelPartyConfig& config,
                                                 const v1::RunAgreement& agreement,
                                                 absl::Span<const NoiseRow> examples) {
  SPLITVEIL_ASSIGN_OR_RETURN(const NoiseReleases planned, PlannedActivationReleases(config.protection(), agreement));
  // No run has this name, so that all of it counts.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PrivacyAccount> there,
                             PrivacyAccount::OpenToRead(OptionsOf(config, "a run to come")));
  return there != nullptr
             ? there->Foresee(examples, {planned})
             : PrivacyAccount::ForeseeNew(LabelKind::kActivations, static_cast<int64_t>(examples.size()), {planned});
}

absl::Status CheckAffordable(const v1::NonLabelPartyConfig& config, const v1::RunAgreement& agreement) {
  if (!config.has_privacy_account()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<ForeseenDebit> foreseen = ForeseeActivations(config, agreement, {});
  SPLITVEIL_RETURN_IF_ERROR(OfField(foreseen.status()));
  SPLITVEIL_RETURN_IF_ERROR(OfField(CheckFolderOf(config.privacy_account().path())));
  SPLITVEIL_ASSIGN_OR_RETURN(const NoiseReleases planned, PlannedActivationReleases(config.protection(), agreement));
  // Before the peer is called: a run that exceeds the limit by itself cannot succeed.
  SPLITVEIL_ASSIGN_OR_RETURN(const ForeseenDebit alone,
                             PrivacyAccount::ForeseeNew(LabelKind::kActivations, 1, {planned}));
  const double limit = config.privacy_account().max_lifetime_auc_bound();
  return alone.lifetime.AucBound() <= limit
             ? absl::OkStatus()
             : AsHalt(absl::ResourceExhaustedError(absl::StrFormat(
                   "privacy_account.max_lifetime_auc_bound: expected at most %.6g, found %.6g of this run by itself: "
                   "nothing is released; use a larger noise_sigma, a smaller clip_norm or fewer epochs, or raise the "
                   "limit",
                   limit, alone.lifetime.AucBound())));
}

std::vector<uint32_t> SentPositions(std::vector<uint32_t> trained, const TrainTestSplit& split) {
  const std::vector<uint32_t> evaluated = split.Evaluated();
  trained.insert(trained.end(), evaluated.begin(), evaluated.end());
  trained.insert(trained.end(), split.auxiliary.begin(), split.auxiliary.end());
  return trained;
}

absl::Status CheckWhatWasSent(const v1::NonLabelPartyConfig& config, const CheckpointPlan& checkpoints) {
  if (!config.has_privacy_account()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<PrivacyAccount>> account =
      PrivacyAccount::OpenToRead(OptionsOf(config, "interrupted runs"));
  SPLITVEIL_RETURN_IF_ERROR(OfField(account.status()));
  for (const std::shared_ptr<const Checkpoint>& unfinished : checkpoints.unfinished) {
    const std::string& run_id = unfinished->header().run_id();
    const std::string path = ReleaseJournal::PathOf(checkpoints.path, run_id);
    const absl::StatusOr<ReleaseJournal::Outline> sent = ReleaseJournal::Read(path);
    if (absl::IsNotFound(sent.status())) {
      continue;  // Said where the run goes on.
    }
    SPLITVEIL_RETURN_IF_ERROR(sent.status());
    SPLITVEIL_RETURN_IF_ERROR(*account == nullptr ? absl::OkStatus()
                                                  : CheckNotLess(**account, path, run_id, sent->records));
  }
  return absl::OkStatus();
}

absl::Status ActivationAccount::Begin(const Run& run, absl::Span<const NoiseRow> examples) {
  SPLITVEIL_ASSIGN_OR_RETURN(const NoiseReleases planned, PlannedActivationReleases(config_.protection(), agreement_));
  absl::StatusOr<std::unique_ptr<PrivacyAccount>> file = PrivacyAccount::Open(OptionsOf(config_, run.noise_id));
  SPLITVEIL_RETURN_IF_ERROR(OfField(file.status()));
  if ((*file)->is_new()) {
    LogWarning("privacy account: made ", config_.privacy_account().path(),
               ": it knows of nothing that was released before");
  }
  SPLITVEIL_RETURN_IF_ERROR(OfField(CheckNotOlder(**file, config_.party().ledger_path())));
  absl::StatusOr<LabelPrivacy> lifetime = (*file)->Debit(examples, std::vector<int64_t>(examples.size()), {planned});
  SPLITVEIL_RETURN_IF_ERROR(OfField(lifetime.status()));
  absl::StatusOr<PrivacyAccount::Start> start = (*file)->RememberStart(run.run_id, lifetime->mu() * lifetime->mu());
  SPLITVEIL_RETURN_IF_ERROR(OfField(start.status()));
  start_ = std::move(start->name);
  if (!run.checkpoint_path.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(journal_, OpenJournal(run, (*file)->id()));
    // All but the record that it has gone on, just now.
    SPLITVEIL_RETURN_IF_ERROR(CheckNotLess(**file, ReleaseJournal::PathOf(run.checkpoint_path, run.run_id), run.run_id,
                                           journal_->records() - (run.continues ? 1 : 0)));
    run_id_ = run.run_id;
  }
  account_ = *std::move(file);
  SPLITVEIL_RETURN_IF_ERROR(Sync());
  all_runs_ = {account_->id(), static_cast<int64_t>(examples.size()), lifetime->AucBound()};
  LogInfo("privacy account: ", examples.size(),
          " examples counted; AUC bound of all their releases, this run's included: ",
          absl::StrFormat("%.6f", lifetime->AucBound()));
  return absl::OkStatus();
}

absl::Status ActivationAccount::Sync() {
  if (journal_ == nullptr) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(journal_->Sync());
  return OfField(account_->Remember(NameOfSent(run_id_, journal_->records())));
}

void ActivationAccount::Received(const v1::CutGradients& gradients) {
  if (counts()) {
    Sha256Hasher hasher;
    hasher.Update(AsBytes(received_));
    // Everything received so far determines the weights, and so what is sent next: a digest of it tells whether a
    // repeated run is the same one.
    hasher.Update(gradients.frozen() ? "frozen" : "");
    hasher.Update(gradients.gradients().data());
    received_ = hasher.Finish();
  }
}

absl::Status ActivationAccount::Send(Stream stream, uint32_t epoch, uint32_t batch, ConstMatrixView activations) {
  if (!counts()) {
    return absl::OkStatus();
  }
  if (!all_runs_.has_value()) {
    return absl::InternalError("privacy_account: expected the run to be counted before it sends");
  }
  const Digest digest = DigestOf(received_, activations);
  const absl::Status other = AsHalt(absl::ResourceExhaustedError(absl::StrCat(
      "privacy_account: batch ", batch + 1, " of epoch ", epoch + 1,
      " was sent before with other activations, or after other answers of the label party, and a second release is not "
      "counted: nothing is sent; run this party "
      "on what it ran on (machine, threads, libraries), or set restart at both parties, which begins a new run and "
      "counts it")));
  // Batches of the training are resent from memory, an upload is computed again.
  if (stream != Stream::kTraining) {
    if (upload_ != std::pair(stream, epoch)) {
      upload_ = {stream, epoch};
      uploaded_.clear();
    }
    if (const auto [known, is_new] = uploaded_.emplace(batch, digest); !is_new) {
      return known->second == digest ? absl::OkStatus() : other;
    }
  }
  // On the disk before the message is sent: a release that nobody remembers could be made a second time.
  const absl::Status taken =
      journal_ == nullptr ? absl::OkStatus() : journal_->Take(JournalEpoch(stream, epoch), batch, digest);
  return absl::IsAlreadyExists(taken) ? other : taken;
}

namespace {

template <typename Response>
absl::StatusOr<Response> Upload(ActivationAccount::Stream kind, const ActivationsSource& source,
                                absl::Span<const uint32_t> positions, uint32_t epoch, UploadStream<Response>& stream) {
  const auto batch_size = static_cast<size_t>(source.batch_size);
  uint32_t batch = 0;
  for (size_t first = 0; first < positions.size(); first += batch_size, ++batch) {
    // Returning closes the stream without Finish: figures of a part of the examples would say nothing.
    SPLITVEIL_RETURN_IF_ERROR(source.stop->Check());
    // The position names the noise: training, evaluation and queries must never share one.
    source.model->SetPosition(ActivationAccount::PositionOf(kind, epoch, batch));
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                               source.model->Predict(source.features->Gather(positions.subspan(first, batch_size))));
    if (source.account != nullptr) {
      SPLITVEIL_RETURN_IF_ERROR(source.account->Send(kind, epoch, batch, activations));
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const v1::CutActivations message,
                               ActivationsMessage(source.run_id, epoch, batch, activations, source.wire_dtype));
    if (!stream.Send(message).ok()) {
      break;  // Finish says why.
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(Response response, stream.Finish());
  if (response.examples() != positions.size()) {
    return AsRefusal(absl::InvalidArgumentError(
        absl::StrCat(kind == ActivationAccount::Stream::kEvaluation ? "evaluation" : "auxiliary activations",
                     ": expected ", positions.size(), " examples, found ", response.examples())));
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::CutActivations> ActivationsMessage(const std::string& run_id, uint32_t epoch, uint32_t batch,
                                                      ConstMatrixView activations, v1::DataType wire_dtype) {
  v1::CutActivations message;
  message.set_run_id(run_id);
  message.set_epoch(epoch);
  message.set_batch(batch);
  if (absl::Status status = EncodeMatrix(activations, wire_dtype, *message.mutable_activations()); !status.ok()) {
    return absl::InternalError(absl::StrCat("activations: ", status.message()));
  }
  return message;
}

absl::StatusOr<v1::EvaluateResponse> EvaluateExamples(TrainingPeer& peer, const ActivationsSource& source,
                                                      absl::Span<const uint32_t> positions, uint32_t epoch) {
  if (positions.empty()) {
    return v1::EvaluateResponse();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<EvaluationStream> stream, peer.Evaluate());
  return Upload(ActivationAccount::Stream::kEvaluation, source, positions, epoch, *stream);
}

absl::Status EmbedExamples(AttributeAuditPeer& peer, const ActivationsSource& source,
                           absl::Span<const uint32_t> positions, uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddingStream> stream, peer.EmbedAuxiliary());
  return Upload(ActivationAccount::Stream::kAuxiliary, source, positions, epoch, *stream).status();
}

}  // namespace splitveil
