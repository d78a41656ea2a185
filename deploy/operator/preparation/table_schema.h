// What a table's schema must be beyond its options.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_SCHEMA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_SCHEMA_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// "a", "b, c": a name may hold the comma that stands between two.
std::string QuotedNames(const std::vector<std::string>& names);

// Behind an error about a header line: which separator the file seems to have, the schema's, and what to set; "" where
// no other one makes most of the line's cells names of the schema.
std::string HeaderSeparatorHint(const v1::TableSchema& schema, absl::string_view line);
// The same about a line of data: another one makes `columns` cells of it.
std::string RowSeparatorHint(const v1::TableSchema& schema, absl::string_view line, size_t columns);

// What is wrong with `name`, one of the header line's `cells`, which the schema does not name. Shows it, and the name
// of the schema that it may be, only where most of the line is names: a file that lacks its header has data there.
std::string UnknownColumnMistake(const v1::TableSchema& schema, absl::string_view line,
                                 const std::vector<absl::string_view>& cells, absl::string_view name);

// InvalidArgument "table schema: FIELD: expected …, found …" where it contradicts itself: a separator that is none,
// columns of one name, more than one id or label, and what labels, targets and attributes need or must not have.
absl::Status CheckTableSchema(const v1::TableSchema& schema);

// The forms of the ID; empty if there is none.
std::set<v1::IdForm> IdFormsOf(const v1::TableSchema& schema);

// Whether such a column says what is to be predicted.
bool IsLabelKind(v1::TableSchema::Kind kind);

// Texts of a LABEL's classes, if the schema names none: 1 and 0.
std::vector<std::string> PositiveTexts(const v1::TableSchema& schema);
std::vector<std::string> NegativeTexts(const v1::TableSchema& schema);

// Criteo's display advertising data (Kaggle, 2014): tab-separated, no header: label, I1..I13 (numbers or empty; I2 may
// be negative), C1..C26 (8 hexadecimal digits or empty: opaque names, although one in eighty reads as a number, such as
// 12345e10).
inline constexpr int kCriteoNumeric = 13;
inline constexpr int kCriteoCategorical = 26;
inline constexpr int kCriteoFeatures = kCriteoNumeric + kCriteoCategorical;
v1::TableSchema CriteoSchema();

// Avazu's click-through data (Kaggle, 2014): comma-separated with a header, categories only. Copies without id or
// device_ip pass too. Of `hour` (YYMMDDHH) the hour of the day counts: days of the test data would all be unseen.
v1::TableSchema AvazuSchema();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_SCHEMA_H_
