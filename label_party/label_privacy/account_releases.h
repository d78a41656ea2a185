// The strengths of noise that a privacy account knows, by label set: its tables `label_set` and `release`.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_ACCOUNT_RELEASES_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_ACCOUNT_RELEASES_H_

#include <cstdint>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/privacy/label_privacy.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

// A number of the table `release`: a strength.
struct Release {
  bool of_label_set = false;
  uint32_t sigma_units = 0;
  LabelKind kind = LabelKind::kBinary;
};
using Releases = std::unordered_map<int64_t, Release>;

// The releases there are. Errors of this and of the others: also as SqliteDatabase.
absl::StatusOr<Releases> ReadReleases(SqliteDatabase& database, absl::string_view label_set);

// Of a number that an example was released with. Error: DataLoss where there is none of it: it must not count as none.
absl::StatusOr<Release> FindRelease(const Releases& releases, int64_t number);

// The number of a release, which is made if it is new. Within a transaction.
absl::StatusOr<int64_t> NumberOf(SqliteDatabase& database, absl::string_view label_set, LabelKind kind,
                                 uint32_t sigma_units);

// InvalidArgument, with what to do where `label_set` was first used with other labels.
absl::Status OtherLabels(absl::string_view label_set);

// Labels of one name are of one kind. Error: OtherLabels.
absl::Status CheckKind(SqliteDatabase& database, absl::string_view label_set, LabelKind kind);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_ACCOUNT_RELEASES_H_
