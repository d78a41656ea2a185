// Profiled tables of made-up columns, and what is proposed for them.
#ifndef SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_INIT_PROPOSAL_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_INIT_PROPOSAL_FIXTURE_H_

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/init/schema_proposal.h"

namespace splitveil {

using Cells = std::vector<std::string>;

// A column whose row r has cells[r % cells.size()].
inline ColumnProfile Column(const std::string& name, const Cells& cells, int rows) {
  ColumnProfile column(name);
  for (int row = 0; row < rows; ++row) {
    column.Add(cells[row % cells.size()], row + 2);
  }
  return column;
}

inline ColumnProfile Ids(const std::string& name, int rows) {
  ColumnProfile column(name);
  for (int row = 0; row < rows; ++row) {
    column.Add(absl::StrCat("C", row), row + 2);
  }
  return column;
}

inline ColumnProfile Numbers(int rows, const std::function<std::string(int)>& text) {
  ColumnProfile column("client");
  for (int row = 0; row < rows; ++row) {
    column.Add(text(row), row + 2);
  }
  return column;
}

inline ProfiledTable Sample(const std::vector<ColumnProfile>& columns) {
  ProfiledTable table;
  table.profile.columns = columns;
  table.rows = columns.front().rows();
  for (const ColumnProfile& column : columns) {
    table.layout.names.push_back(column.name());
  }
  return table;
}

inline std::map<std::string, std::string> Kinds(const SchemaProposal& proposal) {
  std::map<std::string, std::string> kinds;
  for (const auto& column : proposal.schema.columns()) {
    kinds[column.name()] = v1::TableSchema::Kind_Name(column.kind());
  }
  return kinds;
}

class SchemaProposalTest : public ::testing::Test {
 protected:
  SchemaProposal Propose(const ProfiledTable& table, bool has_label) {
    const auto proposal = ProposeSchema("t.csv", table, has_label, flags_);
    EXPECT_TRUE(proposal.ok()) << proposal.status();
    return proposal.value_or(SchemaProposal());
  }
  std::string Error(const ProfiledTable& table, bool has_label) {
    const absl::Status status = ProposeSchema("t.csv", table, has_label, flags_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const ColumnProfile id_ = Ids("customer", 100);
  const ColumnProfile income_ = Column("income", {"10", "12.5", "17", "", "NA"}, 100);
  const ColumnProfile defaulted_ = Column("defaulted", {"yes", "no", "no", "no"}, 100);
  const ColumnProfile region_ = Column("region", {"north", "south", "east"}, 100);
  SchemaFlags flags_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_INIT_PROPOSAL_FIXTURE_H_
