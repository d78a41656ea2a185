// What a run sends of each example: the message of a batch, uploads of many examples that nobody learns from, and, with
// `gaussian` protection, the account by which it is counted before it is sent.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATION_ACCOUNT_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATION_ACCOUNT_H_

#include <cereal/access.hpp>
#include <cereal/types/array.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/release_journal.h"
#include "common/crypto/digest.h"
#include "common/crypto/label_noise.h"
#include "common/crypto/secure_gaussian.h"
#include "common/dataset/feature_table.h"
#include "common/ledger/ledger_rows.h"
#include "common/matrix/matrix.h"
#include "common/privacy_account/privacy_account.h"
#include "common/schedule/train_test_split.h"
#include "nonlabel_party/protection/protected_bottom_model.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/reconnector.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// That `config` has an account if its protection is `gaussian`, and none otherwise; and that beside `gaussian` nothing
// else that is sent is computed of the features: no scores of layers below the cut, no completed model, no TorchScript
// file, whose rows may depend on each other. Errors: InvalidArgument with field, expected and found.
absl::Status CheckActivationAccount(const v1::NonLabelPartyConfig& config, const v1::RunAgreement& agreement);

// What a run releases of each example with `gaussian`, at most, as accounts know it: noise_sigma in units of 2^-20 of 2
// clip_norm, rounded down, so that mu is rounded up, by 10^-6 mu. Errors: InvalidArgument where that is 0.
absl::StatusOr<NoiseReleases> PlannedActivationReleases(const v1::ActivationProtection& protection,
                                                        const v1::RunAgreement& agreement);

// What the run would count of these examples, were it to send all of them, in the account as it is or is still to be
// made. Changes nothing. Errors: as PrivacyAccount::OpenToRead and PrivacyAccount::Foresee.
absl::StatusOr<ForeseenDebit> ForeseeActivations(const v1::NonLabelPartyConfig& config,
                                                 const v1::RunAgreement& agreement,
                                                 absl::Span<const NoiseRow> examples);

// That the account can be opened and that the limit admits the run on examples that were never released. Writes
// nothing. OK without an account. Errors: a halt (AsHalt) where the limit does not; else as ForeseeActivations, and
// NotFound without the account's folder.
absl::Status CheckAffordable(const v1::NonLabelPartyConfig& config, const v1::RunAgreement& agreement);

// The examples whose activations a training sends: those that it trains on, evaluates and embeds.
std::vector<uint32_t> SentPositions(std::vector<uint32_t> trained, const TrainTestSplit& split);

// Whether the journals of the interrupted runs are theirs, and the latest that the account knows of. Before either
// ledger goes back to a checkpoint: with the latest in its place, the run can still go on. Errors: InvalidArgument; see
// PrivacyAccount.
absl::Status CheckWhatWasSent(const v1::NonLabelPartyConfig& config, const CheckpointPlan& checkpoints);

// Debits a run's releases as a whole before the first, and then sees to it that nothing is sent but these.
//
// The noise is drawn under a key of the run and bound to the activations and their place (ActivationNoise), so a run
// that resumes from a checkpoint repeats its bytes as long as its weights come out the same. They need not: a label
// party may interrupt a run and then answer it differently. So of all that is sent a digest is kept, in a
// ReleaseJournal beside the checkpoints, and what would be sent in another's place halts the run. The digest is of the
// answers so far, too: that a run halts must show that it was answered differently, not which examples that concerns.
// Without checkpoints there is nothing to resume from. Not thread-safe.
class ActivationAccount {
 public:
  struct Run {
    std::string run_id, noise_id;  // Of ProtectedBottomModel::NoiseId: names the run's noise.
    std::string checkpoint_path;   // Empty: the run cannot resume.
    bool continues = false;
    uint32_t epochs = 0, batches = 0;  // From where; as CheckpointHeader has them.
  };
  // Not owned; both must outlive this. `config`: without an account nothing is counted, and everything may be sent.
  ActivationAccount(const v1::NonLabelPartyConfig* config, const v1::RunAgreement* agreement)
      : config_(*config), agreement_(*agreement) {}
  // Whether there is an account.
  bool counts() const { return config_.has_privacy_account(); }

  // Debits the run's releases of `examples`: on the disk when it returns. Of a run that continues this counts nothing
  // new. Only with an account. Errors: as PrivacyAccount::Open and PrivacyAccount::Debit, a halt among them;
  // InvalidArgument where party.ledger_path has a run that the account counted and does not know of; as
  // ReleaseJournal::Begin and ReleaseJournal::Continue.
  absl::Status Begin(const Run& run, absl::Span<const NoiseRow> examples);
  // What all releases of the most exposed example disclose together, this run's included; nullopt before Begin.
  const std::optional<AllRunsRow>& all_runs() const { return all_runs_; }
  // As which it has counted them (PrivacyAccount::Start); empty before Begin.
  const std::string& start() const { return start_; }

  enum class Stream { kTraining, kEvaluation, kAuxiliary };
  static NoisePosition PositionOf(Stream stream, uint32_t epoch, uint32_t batch) {
    return {epoch, batch, static_cast<uint32_t>(stream)};
  }
  // An answer has come, on which all later activations depend.
  void Received(const v1::CutGradients& gradients);
  // These activations are sent next, as batch `batch` of the stream in `epoch`. Errors: a halt where others have been
  // sent in their place; Internal before Begin, and where the journal cannot be written.
  absl::Status Send(Stream stream, uint32_t epoch, uint32_t batch, ConstMatrixView activations);
  // With each checkpoint: what was sent is on the disk, and the account remembers how much that is. Errors: as
  // ReleaseJournal::Sync and PrivacyAccount::Remember.
  absl::Status Sync();

 private:
  friend class cereal::access;
  // Between steps.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(received_);
  }

  const v1::NonLabelPartyConfig& config_;
  const v1::RunAgreement& agreement_;
  std::optional<AllRunsRow> all_runs_;
  std::string start_, run_id_;
  std::unique_ptr<PrivacyAccount> account_;  // Null before Begin.
  Digest received_ = {};                     // Of all answers so far.
  std::unique_ptr<ReleaseJournal> journal_;  // Null: the run cannot resume.
  // Of the latest upload that is no training, which is repeated as a whole after a lost connection.
  std::pair<Stream, uint32_t> upload_ = {Stream::kTraining, 0};
  std::map<uint32_t, Digest> uploaded_;
};

// `activations`: [batch, cut_width]. Errors: Internal for values that `wire_dtype` cannot hold: this party computed
// them, unlike the numbers of a file or of the peer.
absl::StatusOr<v1::CutActivations> ActivationsMessage(const std::string& run_id, uint32_t epoch, uint32_t batch,
                                                      ConstMatrixView activations, v1::DataType wire_dtype);

// Where the activations of an upload come from. Pointers: not owned; must outlive each upload.
struct ActivationsSource {
  std::string run_id;
  int64_t batch_size = 0;  // Rows per message, > 0.
  v1::DataType wire_dtype = v1::FLOAT32;
  ProtectedBottomModel* model = nullptr;
  const FeatureTable* features = nullptr;
  StopRequest* stop = nullptr;           // Asked between messages.
  ActivationAccount* account = nullptr;  // Null: nothing counts.
};

// Each sends the cut activations of the examples at `positions`, aligned ones, in that order, after the training of
// `epoch`. The whole may be repeated until it succeeds. Errors: StoppedOnRequest; the label party's; a refusal if it
// has counted a different number of examples; Internal for activations that overflow.
//
// For evaluation, and in a run that predicts. Nothing is sent without positions, and the answer is then an empty one.
absl::StatusOr<v1::EvaluateResponse> EvaluateExamples(TrainingPeer& peer, const ActivationsSource& source,
                                                      absl::Span<const uint32_t> positions, uint32_t epoch);
// For the label party's attacks on attributes.
absl::Status EmbedExamples(AttributeAuditPeer& peer, const ActivationsSource& source,
                           absl::Span<const uint32_t> positions, uint32_t epoch);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATION_ACCOUNT_H_
