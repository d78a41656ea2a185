// A stored version with its model: ids -> predictions.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_SERVED_VERSION_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_SERVED_VERSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

#include "common/checkpoint/stored_version.h"
#include "common/checkpoint/version_watch.h"
#include "common/dataset/drift_watch.h"
#include "label_party/serving/live_peer.h"
#include "label_party/serving/replaced_columns.h"
#include "label_party/serving/request_tensors.h"
#include "label_party/top/top_model.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct Answers {
  std::vector<float> values;  // [ids, width]: predicted values; NaN of an id that is not known.
  std::vector<bool> found;    // [ids]
};

// How a request is answered by a version.
struct AnswerTerms {
  bool held_out = false;        // What WithheldRows names, as if its id were not known; needs knows_held_out().
  std::optional<int> decimals;  // Places to which values are rounded.
  ReplacedColumns replaced;     // For these ids.
};

// One request of those that are answered together. Not owned.
struct AskedIds {
  absl::Span<const absl::string_view> ids;  // As the table writes them.
  const AnswerTerms* terms;
};

// What answers ids; a test's own, or a ServedVersion.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;

  // Of each question, whose failure is its own. Errors: Internal from LibTorch; Unavailable where the other party is to
  // answer and does not. One call at a time.
  virtual std::vector<absl::StatusOr<Answers>> Answer(absl::Span<const AskedIds> questions) = 0;
};

class ServedVersion final : public AnswerSource {
 public:
  // The run that trained the model; `config` is the label party's of it.
  struct Training {
    v1::RunAgreement agreement;
    v1::LabelPartyConfig config;
    bool answers_unproved = false;         // Whether anybody may ask for held out examples alone.
    std::shared_ptr<LivePeer> live;        // Whose activations answer; null: the stored ones.
    std::shared_ptr<DriftWatches> drifts;  // Of this server. Null: each version has its own.
  };
  // Version `number` of `folder`. Errors: those of OpenVersion; InvalidArgument where its parts do not fit the
  // training.
  static absl::StatusOr<std::shared_ptr<ServedVersion>> Open(const Training& training, const std::string& folder,
                                                             int64_t number);

  int64_t number() const { return stored_.number; }
  // The other party is asked for all of them at once: it may take long, and few requests would fill the time of many.
  std::vector<absl::StatusOr<Answers>> Answer(absl::Span<const AskedIds> questions) override;
  // Values of a request, encoded. Thread-safe. Errors: InvalidArgument, which repeats nothing of the request, where no
  // own column has that name and type.
  absl::StatusOr<ReplacedColumns> Replace(const std::vector<RequestColumn>& columns) ABSL_LOCKS_EXCLUDED(mutex_);

  // Why the other party, if it answers, cannot be asked live yet; OK where it is not to be asked.
  absl::Status WaitsForPeer() const { return live_ == nullptr ? absl::OkStatus() : live_->Lacks(stored_.header); }

  const Dataset& data() const { return *stored_.data; }
  int64_t rows() const { return stored_.activations.rows(); }
  int64_t stored_seconds() const { return stored_.stored_seconds; }  // When, since 1970.
  // Whether the model that predicts has learned from noised labels alone, which an account has counted.
  bool has_learned_from_noised_labels() const { return has_learned_from_noised_labels_; }
  // Whether it is known which examples the model has not learned from.
  bool knows_held_out() const { return withheld_.ok(); }
  // The run that trained the model.
  const std::string& trained_by() const { return trained_by_; }
  // Name of the model's checkpoint: "RUN_ID/EPOCHS".
  const std::string& checkpoint() const { return stored_.header.checkpoint(); }
  // Of what was asked for.
  const DriftWatch& drift() const { return *drift_; }

 private:
  // Positions in the alignment, found by their ids: 5 to 10 bytes a row.
  struct IdOf {
    using is_transparent = void;
    const StoredVersion* stored;
    absl::string_view operator()(uint32_t position) const { return stored->data->ids()[stored->rows[position]]; }
    absl::string_view operator()(absl::string_view id) const { return id; }
  };
  struct Hash : IdOf {
    template <typename Key>
    size_t operator()(const Key& key) const {
      return absl::HashOf(IdOf::operator()(key));
    }
  };
  struct Equal : IdOf {
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return IdOf::operator()(a) == IdOf::operator()(b);
    }
  };

  // Of the ids of a question: which it is answered for, and where in the alignment each is.
  struct Known {
    std::vector<size_t> asked;
    std::vector<uint32_t> positions;
  };

  ServedVersion(StoredVersion stored, std::unique_ptr<TopModel> model, std::string trained_by,
                bool has_learned_from_noised_labels, std::shared_ptr<LivePeer> live, std::shared_ptr<DriftWatch> drift);
  Known Find(const AskedIds& question) const;
  // The activations of all of those, one after another, [positions, cut_width], live or stored; takes from `known` what
  // the other party has no longer.
  absl::StatusOr<Matrix> Activations(std::vector<Known>& known) const;
  // Fills in what is `known`, with its `activations`. One question alone where it replaces columns.
  absl::Status Compute(absl::Span<const AskedIds> questions, absl::Span<const Known> known, ConstMatrixView activations,
                       absl::Span<absl::StatusOr<Answers>> answers);

  const StoredVersion stored_;
  const std::shared_ptr<LivePeer> live_;
  const std::unique_ptr<TopModel> model_;
  const std::string trained_by_;
  const bool has_learned_from_noised_labels_;
  const std::shared_ptr<DriftWatch> drift_;
  absl::StatusOr<std::vector<bool>> withheld_;  // [rows], WithheldRows.
  absl::flat_hash_set<uint32_t, Hash, Equal> positions_;
  absl::Mutex mutex_;
  std::optional<OwnColumns> columns_ ABSL_GUARDED_BY(mutex_);  // Once a request has given some.
};

using ServedVersions = VersionWatch<ServedVersion>;
// Those of `folder`. With a live peer, a new one is used once that has its half, too.
ServedVersions::Options VersionsIn(const ServedVersion::Training& training, const std::string& folder);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_SERVED_VERSION_H_
