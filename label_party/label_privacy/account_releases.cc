#include "label_party/label_privacy/account_releases.h"

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// As the table `label_set` has it: 0 binary, 1 one-hot, 2 of the unit interval.
int64_t NumberOfKind(LabelKind kind) { return kind == LabelKind::kBinary ? 0 : kind == LabelKind::kOneHot ? 1 : 2; }
LabelKind KindOfNumber(int64_t number) {
  return number == 0 ? LabelKind::kBinary : number == 1 ? LabelKind::kOneHot : LabelKind::kUnitInterval;
}

}  // namespace

absl::StatusOr<Releases> ReadReleases(SqliteDatabase& database, absl::string_view label_set) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select,
                             database.Prepare("SELECT release.number, label_set.name = ?1, sigma_units, kind "
                                              "FROM release JOIN label_set ON label_set.number = release.label_set"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(label_set));
  Releases releases;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool row, select.Next());
    if (!row) {
      return releases;
    }
    releases[select.Int64(0)] = {select.Int64(1) != 0, static_cast<uint32_t>(select.Int64(2)),
                                 KindOfNumber(select.Int64(3))};
  }
}

absl::StatusOr<Release> FindRelease(const Releases& releases, int64_t number) {
  const auto found = releases.find(number);
  return found != releases.end() ? absl::StatusOr<Release>(found->second)
                                 : absl::DataLossError(absl::StrCat(
                                       "expected the strength of every release, found number ", number,
                                       " without one: the file is damaged; restore its latest backup, and count again "
                                       "what was released since"));
}

absl::StatusOr<int64_t> NumberOf(SqliteDatabase& database, absl::string_view label_set, LabelKind kind,
                                 uint32_t sigma_units) {
  const int64_t units = sigma_units;
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement add_set,
                             database.Prepare("INSERT OR IGNORE INTO label_set(name, kind) VALUES (?1, ?2)"));
  SPLITVEIL_RETURN_IF_ERROR(add_set.Run(label_set, NumberOfKind(kind)));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement add,
                             database.Prepare("INSERT OR IGNORE INTO release(label_set, sigma_units) "
                                              "SELECT number, ?2 FROM label_set WHERE name = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(add.Run(label_set, units));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select,
                             database.Prepare("SELECT release.number FROM release JOIN label_set ON label_set.number = "
                                              "release.label_set WHERE name = ?1 AND sigma_units = ?2"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(label_set, units));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool found, select.Next());
  return found ? absl::StatusOr<int64_t>(select.Int64(0)) : absl::InternalError("expected a release, found none");
}

absl::Status OtherLabels(absl::string_view label_set) {
  return absl::InvalidArgumentError(
      absl::StrCat("label_set: expected the labels that \"", label_set,
                   "\" was first used with, found others: name these labels differently, which draws all of their "
                   "noise anew and adds up, or set another path where they have nothing to do with those"));
}

absl::Status CheckKind(SqliteDatabase& database, absl::string_view label_set, LabelKind kind) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select, database.Prepare("SELECT kind FROM label_set WHERE name = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(label_set));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool known, select.Next());
  return !known || select.Int64(0) == NumberOfKind(kind) ? absl::OkStatus() : OtherLabels(label_set);
}

}  // namespace splitveil
