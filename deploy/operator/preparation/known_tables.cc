#include "deploy/operator/preparation/known_tables.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

v1::TableSchema::Column* AddColumn(std::string name, v1::TableSchema::Kind kind, v1::TableSchema& schema) {
  v1::TableSchema::Column* column = schema.add_columns();
  column->set_name(std::move(name));
  column->set_kind(kind);
  if (kind == v1::TableSchema::NUMERIC || kind == v1::TableSchema::CATEGORICAL) {
    column->set_holder(v1::TableSchema::BOTH);  // Public data: either model half may use every column.
  }
  return column;
}

}  // namespace

v1::TableSchema CriteoSchema() {
  v1::TableSchema schema;
  schema.set_scaling(v1::TableSchema::MIN_MAX);  // As Li et al. do, whose figures runs are held to.
  schema.set_separator("\t");
  schema.set_header(false);
  schema.set_quotes(false);
  AddColumn("label", v1::TableSchema::LABEL, schema);
  for (int i = 1; i <= kCriteoNumeric; ++i) {
    AddColumn(absl::StrCat("I", i), v1::TableSchema::NUMERIC, schema);
  }
  for (int i = 1; i <= kCriteoCategorical; ++i) {
    AddColumn(absl::StrCat("C", i), v1::TableSchema::CATEGORICAL, schema);
  }
  return schema;
}

v1::TableSchema AvazuSchema() {
  v1::TableSchema schema;
  AddColumn("id", v1::TableSchema::ID, schema)->set_optional(true);
  AddColumn("click", v1::TableSchema::LABEL, schema);
  AddColumn("hour", v1::TableSchema::CATEGORICAL, schema)->set_last_characters(2);
  AddColumn("device_ip", v1::TableSchema::CATEGORICAL, schema)->set_optional(true);
  for (const char* name :
       {"C1",         "banner_pos",   "site_id",   "site_domain",  "site_category", "app_id",
        "app_domain", "app_category", "device_id", "device_model", "device_type",   "device_conn_type",
        "C14",        "C15",          "C16",       "C17",          "C18",           "C19",
        "C20",        "C21"}) {
    AddColumn(name, v1::TableSchema::CATEGORICAL, schema);
  }
  return schema;
}

}  // namespace splitveil
