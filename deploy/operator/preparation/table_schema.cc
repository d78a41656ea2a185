#include "deploy/operator/preparation/table_schema.h"

#include <algorithm>
#include <cmath>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/line_reader.h"

#include "common/naming/nearest_name.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;
using Cells = std::vector<absl::string_view>;

constexpr size_t kMaxName = 80;  // Of an unknown column, in an error.
constexpr char kSeparators[] = {',', ';', '\t', '|'};

// As a schema has it.
std::string Quoted(char separator) {
  return absl::StrCat("\"", separator == '\t' ? "\\t" : std::string(1, separator), "\"");
}

// The first other separator whose cells `fit`.
std::string SeparatorHint(const Schema& schema, absl::string_view line, absl::FunctionRef<bool(const Cells&)> fit) {
  const char own = schema.separator()[0];
  for (const char separator : kSeparators) {
    CellSplitter splitter(separator, schema.quotes(), schema.trim());
    Cells cells;
    if (separator != own && splitter.Split(line, cells) && fit(cells)) {
      return absl::StrCat("; its separator seems to be ", Quoted(separator), ", the schema says ", Quoted(own),
                          ": with separator: ", Quoted(separator), " in the schema it has ", cells.size(), " columns");
    }
  }
  return "";
}

using Schema = v1::TableSchema;

constexpr absl::string_view kThousands = ",.'_ ";
constexpr int kMinClasses = 3, kMaxClasses = 256;
constexpr int kMinAttributeValues = 2, kMaxAttributeValues = 254;

std::vector<std::string> TextsOr(const google::protobuf::RepeatedPtrField<std::string>& texts, const char* otherwise) {
  return texts.empty() ? std::vector<std::string>{otherwise} : std::vector<std::string>(texts.begin(), texts.end());
}

absl::Status SchemaError(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("table schema: ", message));
}

absl::Status CheckTexts(absl::string_view field, const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::vector<absl::string_view> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front().empty()) {
    return SchemaError(absl::StrCat(field, ": expected no empty text, found one"));
  }
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return SchemaError(absl::StrCat(field, ": expected distinct texts, found \"", *twice, "\" twice"));
  }
  return absl::OkStatus();
}

absl::Status CheckClasses(const Schema& schema) {
  if (schema.classes_size() < kMinClasses || schema.classes_size() > kMaxClasses) {
    return SchemaError(absl::StrCat("classes: expected ", kMinClasses, " to ", kMaxClasses,
                                    " texts beside a CLASS_LABEL (two classes are a LABEL), found ",
                                    schema.classes_size()));
  }
  return CheckTexts("classes", schema.classes());
}

absl::Status CheckAttribute(const Schema::Column& column) {
  const std::string field = absl::StrCat("columns: ", column.name(), ": values");
  if (column.kind() != Schema::ATTRIBUTE) {
    return column.values().empty() && !column.also_feature()
               ? absl::OkStatus()
               : SchemaError(absl::StrCat(field, ", also_feature: only an ATTRIBUTE has them, this column is of kind ",
                                          Schema::Kind_Name(column.kind()), ": remove them or change its kind"));
  }
  if (column.values_size() < kMinAttributeValues || column.values_size() > kMaxAttributeValues) {
    return SchemaError(absl::StrCat(field, ": expected ", kMinAttributeValues, " to ", kMaxAttributeValues,
                                    " texts of an ATTRIBUTE, found ", column.values_size()));
  }
  return CheckTexts(field, column.values());
}

// How a column's cells are written.
absl::Status CheckTimeZone(const Schema::Column& column) {
  absl::TimeZone zone;
  if (!column.has_time_zone() || (column.kind() == Schema::TIME && absl::LoadTimeZone(column.time_zone(), &zone))) {
    return absl::OkStatus();
  }
  return SchemaError(column.kind() == Schema::TIME
                         ? absl::StrCat("columns: ", column.name(),
                                        ": time_zone: expected a zone that this machine knows "
                                        "(/usr/share/zoneinfo), such as UTC or Europe/Berlin, found \"",
                                        column.time_zone(), "\"")
                         : absl::StrCat("columns: ", column.name(),
                                        ": time_zone: only a TIME has it, this column is of "
                                        "kind ",
                                        Schema::Kind_Name(column.kind()), ": remove it"));
}

absl::Status CheckForms(const Schema::Column& column) {
  const std::string field = absl::StrCat("columns: ", column.name(), ": ");
  const bool is_number = column.kind() == Schema::NUMERIC || column.kind() == Schema::TARGET;
  if (!is_number && (column.has_decimal() || column.has_thousands() || !column.strip().empty())) {
    return SchemaError(
        absl::StrCat(field, "decimal, thousands, strip: only a NUMERIC or a TARGET has them, this column is of kind ",
                     Schema::Kind_Name(column.kind()), ": remove them or change its kind"));
  }
  const char decimal = column.decimal() == Schema::COMMA ? ',' : '.';
  if (column.has_thousands() && (column.thousands().size() != 1 || !absl::StrContains(kThousands, column.thousands()) ||
                                 column.thousands()[0] == decimal)) {
    return SchemaError(absl::StrCat(field, "thousands: expected one of , . ' _ and the blank, and not the decimal (",
                                    std::string(1, decimal), ")"));
  }
  for (const std::string& text : column.strip()) {
    if (text.empty() || text.find_first_of("0123456789") != std::string::npos) {
      return SchemaError(absl::StrCat(field, "strip: expected texts without digits, found ",
                                      text.empty() ? "an empty one" : "one with digits"));
    }
  }
  return column.missing().empty() ? absl::OkStatus() : CheckTexts(absl::StrCat(field, "missing"), column.missing());
}

absl::Status CheckLabels(const Schema& schema) {
  const auto column = std::find_if(schema.columns().begin(), schema.columns().end(),
                                   [](const Schema::Column& candidate) { return IsLabelKind(candidate.kind()); });
  const Schema::Kind kind = column == schema.columns().end() ? Schema::KIND_UNSPECIFIED : column->kind();
  if ((kind == Schema::CLASS_LABEL || kind == Schema::TARGET) &&
      !(schema.positive().empty() && schema.negative().empty())) {
    return SchemaError(absl::StrCat("positive, negative: only a LABEL has them, the schema has a ",
                                    Schema::Kind_Name(kind), ": remove them"));
  }
  const std::vector<std::string> negative = NegativeTexts(schema);
  for (const std::string& text : PositiveTexts(schema)) {
    if (std::find(negative.begin(), negative.end(), text) != negative.end()) {
      return SchemaError("positive, negative: expected different texts, found one in both");
    }
  }
  if (kind != Schema::CLASS_LABEL && !schema.classes().empty()) {
    return SchemaError("classes: only a CLASS_LABEL has them, and the schema has none: remove them");
  }
  if (kind != Schema::TARGET && (schema.has_target_minimum() || schema.has_target_maximum())) {
    return SchemaError("target_minimum, target_maximum: only a TARGET has them, and the schema has none: remove them");
  }
  if (kind == Schema::TARGET && !(schema.has_target_minimum() && schema.has_target_maximum())) {
    return SchemaError("target_minimum, target_maximum: expected both beside a TARGET, found one or none");
  }
  const double minimum = schema.target_minimum(), maximum = schema.target_maximum();
  // Halves, as their difference scales the targets and that of two doubles may overflow.
  if (kind == Schema::TARGET && !(std::isfinite(minimum) && std::isfinite(maximum) && minimum / 2 < maximum / 2)) {
    return SchemaError(
        absl::StrCat("target_minimum, target_maximum: expected two finite numbers, the first below the second, found ",
                     minimum, " and ", maximum));
  }
  return kind == Schema::CLASS_LABEL ? CheckClasses(schema) : absl::OkStatus();
}

}  // namespace

std::string QuotedNames(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

std::string HeaderSeparatorHint(const Schema& schema, absl::string_view line) {
  return SeparatorHint(schema, line, [&schema](const Cells& cells) {
    const auto named = std::count_if(cells.begin(), cells.end(), [&schema](absl::string_view cell) {
      return std::any_of(schema.columns().begin(), schema.columns().end(),
                         [cell](const Schema::Column& column) { return column.name() == cell; });
    });
    return cells.size() > 1 && 2 * static_cast<size_t>(named) >= cells.size();
  });
}

std::string RowSeparatorHint(const Schema& schema, absl::string_view line, size_t columns) {
  return SeparatorHint(schema, line, [columns](const Cells& cells) { return cells.size() == columns; });
}

std::string UnknownColumnMistake(const Schema& schema, absl::string_view line, const Cells& cells,
                                 absl::string_view name) {
  std::vector<std::string> missing;
  for (const Schema::Column& column : schema.columns()) {
    if (std::find(cells.begin(), cells.end(), column.name()) == cells.end()) {
      missing.push_back(column.name());
    }
  }
  const size_t known = static_cast<size_t>(schema.columns_size()) - missing.size();
  if (2 * known < cells.size()) {
    return absl::StrCat("expected a header line with the columns of the schema, found one without ",
                        QuotedNames(missing), HeaderSeparatorHint(schema, line));
  }
  const std::string still = missing.empty() ? "" : absl::StrCat(" (", QuotedNames(missing), " not found)");
  const std::string nearest = NearestName(name, missing);
  return absl::StrCat("expected a column of the schema", still, ", found \"", name.substr(0, kMaxName), "\"",
                      nearest.empty() ? "" : absl::StrCat("; if it is \"", nearest, "\", rename one of them"),
                      "; a column to leave out has kind: IGNORE");
}

std::set<v1::IdForm> IdFormsOf(const v1::TableSchema& schema) {
  for (const Schema::Column& column : schema.columns()) {
    if (column.kind() == Schema::ID) {
      return FormsIn(column.id_form());
    }
  }
  return {};
}

bool IsLabelKind(v1::TableSchema::Kind kind) {
  return kind == Schema::LABEL || kind == Schema::CLASS_LABEL || kind == Schema::TARGET;
}

std::vector<std::string> PositiveTexts(const v1::TableSchema& schema) { return TextsOr(schema.positive(), "1"); }

std::vector<std::string> NegativeTexts(const v1::TableSchema& schema) { return TextsOr(schema.negative(), "0"); }

absl::Status CheckTableSchema(const v1::TableSchema& schema) {
  const std::string& separator = schema.separator();
  if (separator.size() != 1 || separator == "\"" || separator == "\n" || separator == "\r") {
    return SchemaError("separator: expected one byte, neither quote nor line break");
  }
  std::vector<absl::string_view> names;
  int ids = 0, labels = 0, image_files = 0, groups_or_times = 0;
  for (const Schema::Column& column : schema.columns()) {
    names.push_back(column.name());
    ids += column.kind() == Schema::ID ? 1 : 0;
    labels += IsLabelKind(column.kind()) ? 1 : 0;
    image_files += column.kind() == Schema::IMAGE_FILE ? 1 : 0;
    groups_or_times += column.kind() == Schema::GROUP || column.kind() == Schema::TIME ? 1 : 0;
    SPLITVEIL_RETURN_IF_ERROR(CheckAttribute(column));
    if ((!column.id_form().empty() || column.has_id_pattern()) && column.kind() != Schema::ID) {
      return SchemaError(absl::StrCat(
          "columns: ", column.name(), column.id_form().empty() ? ": id_pattern" : ": id_form",
          ": only an ID has it, this column is of kind ", Schema::Kind_Name(column.kind()), ": remove it"));
    }
    SPLITVEIL_RETURN_IF_ERROR(CheckTimeZone(column));
    SPLITVEIL_RETURN_IF_ERROR(CheckForms(column));
    if (column.optional() && !schema.header()) {
      return SchemaError("columns: expected no optional one without a header line, found one");
    }
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return SchemaError(absl::StrCat("columns: expected distinct names, found ", *twice, " twice"));
  }
  if (ids > 1 || labels > 1) {
    return SchemaError(absl::StrCat("columns: expected at most one ID and one of LABEL, CLASS_LABEL and TARGET, found ",
                                    ids, " and ", labels));
  }
  if (groups_or_times > 1) {
    return SchemaError(absl::StrCat("columns: expected at most one GROUP or TIME, by which the rows are split, found ",
                                    groups_or_times));
  }
  if (image_files > (schema.has_images() ? 1 : 0)) {
    return SchemaError(
        absl::StrCat("columns: expected at most one IMAGE_FILE, and that only with images, found ", image_files));
  }
  return CheckLabels(schema);
}

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
