// What the columns of a table are taken to be, and why.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_SCHEMA_PROPOSAL_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_SCHEMA_PROPOSAL_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/init/feature_proposal.h"
#include "deploy/operator/init/table_profile.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

struct SchemaProposal {
  v1::TableSchema schema;
  std::vector<std::string> why;       // Of each column of the schema.
  std::vector<std::string> warnings;  // Such as of what was taken for missing and may be a value.
  int features = 0;
  bool has_categories = false;
};

// `has_label`: the table is the label party's. Columns keep their order. The id is FindId's; a label has two values of
// which one is known to be the positive one (yes, true, 1), unless flags say more; numbers, however they are written
// (decimal, thousands, strip in the schema), are NUMERIC, texts that repeat and flags (one value or none) CATEGORICAL,
// and dates and what tells nothing (one value; another text in most rows) IGNORE, as are the numbers of persons, which
// repeat. Rows are split by the column of `group` or `time`, or by the only one that looks like it if `split` asks for
// one. In a column of numbers, words that repeat and numbers that seem to mean "unknown" become `missing`, with a
// warning. A column that is mostly of digits and cannot be read is an error. Errors: InvalidArgument, one line that
// names the flag by which the user decides what the table leaves open. Neither it nor `why` holds a cell; warnings hold
// what is taken for missing, and errors a unit.
absl::StatusOr<SchemaProposal> ProposeSchema(const std::string& path, const ProfiledTable& table, bool has_label,
                                             const SchemaFlags& flags);

// The schema's ID column.
const v1::TableSchema::Column& IdColumnOf(const SchemaProposal& proposal);

// A table for people: column, kind, why.
std::string ProposalText(const SchemaProposal& proposal);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_SCHEMA_PROPOSAL_H_
