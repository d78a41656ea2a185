// Which column of a table names its rows, and how both parties write its ids.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_ID_PROPOSAL_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_ID_PROPOSAL_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "deploy/operator/init/feature_proposal.h"
#include "deploy/operator/init/table_profile.h"

#include "splitveil/v1/id_form.pb.h"

namespace splitveil {

// The id column: what flags.id says, or the one column whose cells all differ, if nothing speaks against it. Two tables
// of different rows share row numbers and times of writing, so a wrong choice aligns the rows of different people:
// whole numbers that count the rows, rise from row to row or look like times are never chosen, and nothing is beside a
// different column that is nearly an id, by its name (id, customer_no) or because at least 95% of its texts or whole
// numbers differ. Errors: Unclear that names these columns, how many cells repeat or lack a text, and their lines.
absl::StatusOr<std::string> FindId(const std::string& path, const ProfiledTable& table, const SchemaFlags& flags);

// Forms that both parties can apply: they change no id of this table, and those of a table that has the same ids
// written differently become alike. Errors: IdSurvey::Check.
absl::StatusOr<std::set<v1::IdForm>> FindIdForms(const std::string& path, const ColumnProfile& column,
                                                 const SchemaFlags& flags);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_ID_PROPOSAL_H_
