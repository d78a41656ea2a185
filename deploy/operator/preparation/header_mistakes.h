// What a line that does not fit the schema was most likely meant to be.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_HEADER_MISTAKES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_HEADER_MISTAKES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Behind an error about a header line: which separator the file seems to have, the schema's, and what to set; "" where
// no other one makes most of the line's cells names of the schema.
std::string HeaderSeparatorHint(const v1::TableSchema& schema, absl::string_view line);
// The same about a line of data: another one makes `columns` cells of it.
std::string RowSeparatorHint(const v1::TableSchema& schema, absl::string_view line, size_t columns);

// What is wrong with `name`, one of the header line's `cells`, which the schema does not name. Shows it, and the name
// of the schema that it may be, only where most of the line is names: a file that lacks its header has data there.
std::string UnknownColumnMistake(const v1::TableSchema& schema, absl::string_view line,
                                 const std::vector<absl::string_view>& cells, absl::string_view name);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_HEADER_MISTAKES_H_
