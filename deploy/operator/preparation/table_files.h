// The files of a table: one, or several parts with one header line each.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_FILES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace splitveil {

// The files that `inputs` name, in their order: a file; standard input ("-"); a folder, which stands for its files and
// those of the folders in it, by name, without what begins with "." or "_"; or a pattern ("parts/2024-*.csv",
// "{bank,shop}.csv"), which stands for the files that match by name. Errors: NotFound if a pattern matches nothing;
// InvalidArgument for an empty folder, one with a folder such as "year=2024", whose name holds what the files lack, a
// pattern with "**", or standard input twice. Whether a file that is named is there shows when it is opened.
absl::StatusOr<std::vector<std::string>> TableFiles(const std::vector<std::string>& inputs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_FILES_H_
