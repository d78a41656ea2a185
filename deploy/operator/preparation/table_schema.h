// What a table's schema must be beyond its options.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_SCHEMA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_SCHEMA_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// InvalidArgument "table schema: FIELD: expected …, found …" where it contradicts itself: a separator that is none,
// columns of one name, more than one id or label, and what labels, targets and attributes need or must not have.
absl::Status CheckTableSchema(const v1::TableSchema& schema);

// Whether such a column says what is to be predicted.
bool IsLabelKind(v1::TableSchema::Kind kind);

// Texts of a LABEL's classes, where the schema names none: 1 and 0.
std::vector<std::string> PositiveTexts(const v1::TableSchema& schema);
std::vector<std::string> NegativeTexts(const v1::TableSchema& schema);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_SCHEMA_H_
