// What a column that is neither id nor label is taken to be.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_FEATURE_PROPOSAL_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_FEATURE_PROPOSAL_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/init/table_profile.h"

#include "splitveil/v1/id_form.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// What the user has said; empty: to be found out.
struct SchemaFlags {
  std::string id;
  std::set<v1::IdForm> id_form;  // Of the ids; none: to be found out.
  bool keeps_id_form = false;    // `id_form` is agreed: also none.
  std::string id_pattern;        // AlignmentAgreement.id_pattern; "": none.
  std::string time_zone;         // Of a column of kind TIME; "": its times say it.
  std::string label;             // Of the label party: required there.
  std::string positive;
  std::vector<std::string> classes;
  std::string target_minimum, target_maximum;
  std::vector<std::string> categorical, numeric, ignore;
  std::string group, time;  // At most one of them.
  // GROUP or TIME: rows are split by such a column, which is looked for unless it is named.
  v1::TableSchema::Kind split = v1::TableSchema::KIND_UNSPECIFIED;
  std::vector<std::string> missing;
  std::string decimal;  // "point" or "comma", where cells such as 1,234 leave it open.
  // Rows that cannot be used may be among them, up to 1 - min_usable_share: `prepare` skips them.
  bool skip_bad_rows = false;
  double min_usable_share = 1 - kOddLineShare;
};

// What the table leaves open: InvalidArgument "PATH: column "COLUMN": PROBLEM", without the column if that is empty.
absl::Status Unclear(const std::string& path, absl::string_view column, absl::string_view problem);

bool IsOfDates(const ColumnProfile& column);

// Whether its values repeat as the numbers of persons, patients or machines do, each in a few rows. `named`: and its
// name says so (patient_nbr). Other columns of whole numbers that are equally long only look alike: postcodes.
bool LooksLikeGroup(const ColumnProfile& column, bool named);

// Whether so many of the column's rows may be left out.
bool MayLeaveOut(int64_t rows, const ColumnProfile& column, const SchemaFlags& flags);

// Behind what is said of a kind: "" or how many rows are left out.
std::string LeftOut(int64_t rows);

// What is said of decimals elsewhere: FindFormat's arguments.
struct Decimals {
  char given = 0;
  bool comma_elsewhere = false;
};
Decimals DecimalsOf(const ProfiledTable& table, const SchemaFlags& flags);

// How the column's numbers are written, into the schema; "" or what is said of it. Error: as Unclear.
absl::StatusOr<std::string> AddFormat(const std::string& path, const ColumnProfile& column, const Decimals& decimals,
                                      v1::TableSchema::Column& into);

// What is doubtful about the features of a table.
struct FeatureWarnings {
  std::vector<std::string> others;  // A line each.
  std::vector<std::string> taken;   // What each column has that is taken for missing...
  std::vector<std::string> texts;   // ...and the texts.
  // All lines: one of what is taken, as columns that were written together have the same codes for it.
  std::vector<std::string> Lines() const;
};

// The kind of a feature, or IGNORE, into the schema; why, and what is doubtful. Error: as Unclear.
absl::StatusOr<std::string> AddFeature(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                       const Decimals& decimals, v1::TableSchema::Column& into,
                                       FeatureWarnings& warnings);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_FEATURE_PROPOSAL_H_
