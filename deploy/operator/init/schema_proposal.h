// What the columns of a table are taken to be, and why.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_SCHEMA_PROPOSAL_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_SCHEMA_PROPOSAL_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/init/table_sample.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// What the user has said; empty: to be found out.
struct SchemaFlags {
  std::string id;
  // Of the ids; none: to be found out.
  std::set<v1::IdForm> id_form;
  bool keeps_id_form = false;  // `id_form` is agreed: also none.
  std::string label;           // Of the label party: required there.
  std::string positive;
  std::vector<std::string> classes;
  std::string target_minimum, target_maximum;
  std::vector<std::string> categorical, numeric, ignore;
  std::vector<std::string> missing;
  // Rows that cannot be used may be among them, up to kOddLineShare: `prepare` skips them.
  bool skip_bad_rows = false;
};

struct SchemaProposal {
  v1::TableSchema schema;
  std::vector<std::string> why;  // Of each column of the schema.
  int features = 0;
  bool has_categories = false;
};

// `has_label`: the table is the label party's. Columns keep their order. An id is the one column whose cells all differ
// and are neither fractions nor the numbers of the rows; a label has two values of which one is known to be the
// positive one (yes, true, 1), unless flags say more; numbers are NUMERIC, texts that repeat CATEGORICAL, and dates and
// what tells nothing (one value; another text in most rows) IGNORE. Errors: InvalidArgument, one line that names the
// flag by which the user decides what the table leaves open. Neither it nor `why` holds a cell.
absl::StatusOr<SchemaProposal> ProposeSchema(const std::string& path, const TableSample& sample, bool has_label,
                                             const SchemaFlags& flags);

// The schema's ID column.
const v1::TableSchema::Column& IdColumnOf(const SchemaProposal& proposal);

// A table for people: column, kind, why.
std::string ProposalText(const SchemaProposal& proposal);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_SCHEMA_PROPOSAL_H_
