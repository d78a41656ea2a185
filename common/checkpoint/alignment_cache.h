// An alignment that is kept, so that further runs on the same data with the same peer need not repeat it.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_ALIGNMENT_CACHE_H_
#define SPLITVEIL_COMMON_CHECKPOINT_ALIGNMENT_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/alignment/private_set_intersection.h"
#include "common/crypto/digest.h"
#include "common/dataset/dataset.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// The file in which one party keeps its latest alignment, which both must have kept to use it again. It is bound to
// this party's prepared data, to both identities (own certificate, the peer's name and the authority that vouches for
// it) and to the agreed terms of the alignment; where the peer's data have changed, the peer's own is bound to others.
// Wiped by nobody: it tells which rows are shared, to its owner alone. Not thread-safe.
class AlignmentStore {
 public:
  // Keeps none, finds none.
  AlignmentStore() = default;
  // `path`: PartyCommon.alignment_cache_path, absolute; empty: as above. `identities`: digest of what they are proved
  // by.
  AlignmentStore(std::string path, absl::Duration max_age, const Digest& identities);

  const Digest& identities() const { return identities_; }

  // What is kept for `data` under `agreement`, once; nothing where there is none, it is bound to something else, older
  // than max_age or of the future. `now`: of the wall clock, as in other processes; without it, as it is. A damaged
  // file is passed over, with a warning.
  struct Found {
    std::string name;  // AlignmentName.
    AlignedIds aligned;
    absl::Duration age;
  };
  std::optional<Found> Find(const Dataset& data, const v1::RunAgreement& agreement) const;
  std::optional<Found> Find(const Dataset& data, const v1::RunAgreement& agreement, absl::Time now) const;
  // Replaces what is kept. Errors: those of WriteSectionFile.
  absl::Status Keep(const AlignedIds& aligned, const Dataset& data, const v1::RunAgreement& agreement) const;
  absl::Status Keep(const AlignedIds& aligned, const Dataset& data, const v1::RunAgreement& agreement,
                    absl::Time now) const;

 private:
  std::string path_;
  absl::Duration max_age_;
  Digest identities_ = {};
};

// Whether `rows`, as a file has them, are rows of data with `of` rows, none twice: only then may they be trained on.
// `of` >= 0. Thread-safe.
bool AreDistinctRows(absl::Span<const uint32_t> rows, int64_t of);

// What both parties call an alignment that they hold alike: 32 hexadecimal digits, which tell nothing of it.
std::string AlignmentName(const AlignedIds& aligned);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_ALIGNMENT_CACHE_H_
