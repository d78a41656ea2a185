// This party's half of a stored version, with its data of the moment: positions in the alignment -> activations.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVING_LIVE_VERSION_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVING_LIVE_VERSION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/version_watch.h"
#include "common/dataset/dataset.h"
#include "common/dataset/drift_watch.h"
#include "common/matrix/matrix.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/protection/protected_bottom_model.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/serving.pb.h"

namespace splitveil {

// Whether a model that was trained under `protection` may answer live. Errors: InvalidArgument, which says why not:
// noise, since each answer would be one more release of its rows, which no account counts; pareto, whose gate judges
// batches of the party's own choice.
absl::Status CheckAnswersLive(const v1::ActivationProtection& protection);

// Thread-safe.
class LiveVersion {
 public:
  // The run that trained the model; `config` is the non-label party's of it, with the data of the moment.
  struct Training {
    v1::RunAgreement agreement;
    v1::NonLabelPartyConfig config;
    std::shared_ptr<DriftWatches> drifts;  // Of this server. Null: each version has its own.
  };
  // Version `number` of `folder`. Errors: those of OpenVersion; InvalidArgument where its parts, or the data, do not
  // fit the training.
  static absl::StatusOr<std::shared_ptr<LiveVersion>> Open(const Training& training, const std::string& folder,
                                                           int64_t number);

  const v1::VersionHeader& header() const { return header_; }
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t stored_seconds() const { return stored_seconds_; }  // When, since 1970.
  // Name of the model's checkpoint: "RUN_ID/EPOCHS".
  const std::string& checkpoint() const { return header_.checkpoint(); }
  // Of the rows that were asked for, as this party's data had them.
  const DriftWatch& drift() const { return *drift_; }

  struct Answer {
    Matrix activations;             // [positions that are not missing, cut_width], as they are sent.
    std::vector<uint32_t> missing;  // Indices in the positions, ascending, of rows that the data no longer have.
  };
  // Errors: InvalidArgument for a position that is none; Internal from LibTorch.
  absl::StatusOr<Answer> Activate(absl::Span<const uint32_t> positions) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr uint32_t kMissing = std::numeric_limits<uint32_t>::max();

  LiveVersion(const StoredVersion& stored, std::shared_ptr<const Dataset> data, std::vector<uint32_t> rows,
              std::shared_ptr<DriftWatch> drift)
      : header_(stored.header),
        stored_seconds_(stored.stored_seconds),
        data_(std::move(data)),
        rows_(std::move(rows)),
        drift_(std::move(drift)) {}
  // `data`'s row of each shared example; kMissing: none. Errors: InvalidArgument for an id that is there twice.
  static absl::StatusOr<std::vector<uint32_t>> RowsNow(const StoredVersion& stored, const Dataset& data);
  absl::Status MakeModel(const Training& training, const Checkpoint& checkpoint);

  const v1::VersionHeader header_;
  const int64_t stored_seconds_;
  const std::shared_ptr<const Dataset> data_;
  const std::vector<uint32_t> rows_;
  const std::shared_ptr<DriftWatch> drift_;
  absl::Mutex mutex_;
  std::unique_ptr<BottomModel> model_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ProtectedBottomModel> protected_model_ ABSL_GUARDED_BY(mutex_);  // Of that.
};

using LiveVersions = VersionWatch<LiveVersion>;

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVING_LIVE_VERSION_H_
