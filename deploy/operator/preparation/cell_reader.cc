#include "deploy/operator/preparation/cell_reader.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/config/row_time.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

constexpr int kMaxListedTexts = 20;  // In an error.

template <typename Texts>
bool Holds(const Texts& texts, absl::string_view cell) {
  return std::find(texts.begin(), texts.end(), cell) != texts.end();
}

// "1", or "yes" or "y".
std::string Listed(const std::vector<std::string>& texts) {
  return absl::StrCat("\"", absl::StrJoin(texts, "\" or \""), "\"");
}

// one of "low", "middle", "high".
std::string ListedTexts(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  // These are the schema's own texts; what stands in the cell is never shown.
  const int shown = std::min(texts.size(), kMaxListedTexts);
  const std::string list = absl::StrJoin(texts.begin(), texts.begin() + shown, "\", \"");
  const int more = texts.size() - shown;
  return absl::StrCat("one of \"", list, "\"", more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// Of a column of numbers: false, or the number or NaN if it is missing.
bool ReadNumberOf(const ColumnRole& role, absl::string_view cell, double& number) {
  if (!ReadNumber(cell, role.format, number)) {
    return false;
  }
  // By value, so that -1 for "unknown" is found in -1.0, too.
  const std::vector<double>& missing = role.missing_numbers;
  if (std::find(missing.begin(), missing.end(), number) != missing.end()) {
    number = std::numeric_limits<double>::quiet_NaN();
  }
  return true;
}

}  // namespace

std::vector<double> MissingNumbersOf(const Schema::Column& column) {
  std::vector<double> numbers;
  double number = 0;
  for (const std::string& text : column.missing()) {
    if (column.kind() == Schema::NUMERIC && ReadNumber(text, {}, number)) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

CellReader::CellReader(const Schema& schema)
    : schema_(schema), positive_(PositiveTexts(schema)), negative_(NegativeTexts(schema)), id_form_(IdFormsOf(schema)) {
  for (int label = 0; label < schema.classes_size(); ++label) {
    classes_.emplace(schema.classes(label), static_cast<uint8_t>(label));
  }
  for (const Schema::Column& column : schema.columns()) {
    absl::TimeZone zone;
    if (column.has_time_zone() && absl::LoadTimeZone(column.time_zone(), &zone)) {  // CheckTableSchema: it is one.
      time_zone_ = zone;
    }
  }
}

CellReader::Fault CellReader::Read(const ColumnRole& role, absl::string_view cell, TableRow& row) {
  const Schema::Column& column = *role.column;
  switch (column.kind()) {
    case Schema::ID:
      return ReadId(role, cell, row);
    case Schema::LABEL:
    case Schema::CLASS_LABEL:
    case Schema::TARGET:
      return ReadLabel(role, cell, row);
    case Schema::GROUP:
    case Schema::TIME:
      return ReadGroupOrTime(column, cell, row);
    case Schema::NUMERIC:
      if (!IsMissing(column, cell) && !ReadNumberOf(role, cell, row.numeric[role.index])) {
        return {RowFault::kNumber,
                absl::StrCat(column.name(), ": expected a finite number or nothing", ReadingHint(cell))};
      }
      return {};
    case Schema::CATEGORICAL:
      row.categories[role.index] = CategoryOf(column, cell);
      return {};
    case Schema::ATTRIBUTE:
      return ReadAttribute(role, cell, row);
    case Schema::IMAGE_FILE:
      row.image_name = cell;
      return {};
    default:
      return {};
  }
}

CellReader::Fault CellReader::ReadId(const ColumnRole& role, absl::string_view cell, TableRow& row) {
  const Schema::Column& column = *role.column;
  // In the agreed form, or equal ids of the two parties would not meet.
  const std::optional<absl::string_view> id = id_form_.Of(IsMissing(column, cell) ? absl::string_view() : cell);
  row.id = id.value_or(absl::string_view());
  if (!id.has_value()) {
    return {RowFault::kId, absl::StrCat(column.name(), ": expected an id in UTF-8, found different text")};
  }
  return row.id.empty() ? Fault{RowFault::kId, absl::StrCat(column.name(), ": expected an id, found none")} : Fault{};
}

CellReader::Fault CellReader::ReadLabel(const ColumnRole& role, absl::string_view cell, TableRow& row) const {
  const Schema::Column& column = *role.column;
  const bool is_missing = IsMissing(column, cell);
  if (column.kind() == Schema::TARGET) {
    return is_missing || !ReadNumberOf(role, cell, row.target)
               ? Fault{RowFault::kTarget,
                       absl::StrCat(column.name(), ": expected a finite number, found nothing or another text")}
               : Fault{};
  }
  const char* const found = is_missing ? ", as the schema says, found none; --skip_bad_rows leaves such rows out"
                                       : ", as the schema says, found a different text";
  if (column.kind() == Schema::CLASS_LABEL) {
    // By its text: the number of a class is its place in the schema, not an order of first appearance that another file
    // would change.
    const auto label = classes_.find(cell);
    if (label == classes_.end()) {
      return {RowFault::kLabel, absl::StrCat(column.name(), ": expected ", ListedTexts(schema_.classes()), found)};
    }
    row.label = label->second;
    return {};
  }
  row.label = Holds(positive_, cell) ? 1 : 0;
  // A text that is neither is no negative: a misspelt "yes" would be a wrong label that nobody sees.
  if (row.label == 0 && !Holds(negative_, cell)) {
    return {RowFault::kLabel,
            absl::StrCat(column.name(), ": expected ", Listed(positive_), " (positive) or ", Listed(negative_),
                         " (negative)", found, is_missing ? "" : "; its `positive` and `negative` name others")};
  }
  return {};
}

CellReader::Fault CellReader::ReadGroupOrTime(const Schema::Column& column, absl::string_view cell,
                                              TableRow& row) const {
  cell = IsMissing(column, cell) ? absl::string_view() : absl::StripAsciiWhitespace(cell);
  if (column.kind() == Schema::GROUP) {
    row.group = cell;
    return cell.empty() ? Fault{RowFault::kGroup, absl::StrCat(column.name(), ": expected a group, found none")}
                        : Fault{};
  }
  const std::optional<RowTime> time = ParseRowTime(cell, time_zone_.value_or(absl::UTCTimeZone()));
  if (!time.has_value()) {
    return {
        RowFault::kTime,
        absl::StrCat(column.name(), ": expected a number or a date such as 2024-06-01 or 2024-06-01T12:30:00Z, found ",
                     cell.empty() ? "nothing" : "another text")};
  }
  if (time->needs_zone && !time_zone_.has_value()) {
    // Two parties with different clocks would hold out different rows, and learn so only at the start of the run.
    return {RowFault::kTime,
            absl::StrCat(column.name(),
                         ": expected a time of day with its offset from UTC, such as 12:30:00Z or 12:30:00+02:00, "
                         "found one without: say whose clock it shows by time_zone: \"UTC\" or \"Europe/Berlin\" of "
                         "this column in the schema (init --time_zone)")};
  }
  row.time = *time;
  return {};
}

absl::string_view CellReader::CategoryOf(const Schema::Column& column, absl::string_view cell) const {
  const auto last = static_cast<size_t>(column.last_characters());
  cell = IsMissing(column, cell) ? absl::string_view() : cell;
  return last > 0 && cell.size() > last ? cell.substr(cell.size() - last) : cell;
}

CellReader::Fault CellReader::ReadAttribute(const ColumnRole& role, absl::string_view cell, TableRow& row) const {
  const Schema::Column& column = *role.column;
  if (!IsMissing(column, cell)) {
    const auto value = std::find(column.values().begin(), column.values().end(), cell);
    if (value == column.values().end()) {
      return {RowFault::kAttribute, absl::StrCat(column.name(), ": expected ", ListedTexts(column.values()),
                                                 ", as the schema says, or nothing, found a different text")};
    }
    row.attributes[role.index] = static_cast<uint8_t>(value - column.values().begin());
  }
  if (column.also_feature()) {
    row.categories[role.feature] = CategoryOf(column, cell);
  }
  return {};
}

bool CellReader::IsMissing(const Schema::Column& column, absl::string_view cell) const {
  return cell.empty() || Holds(schema_.missing(), cell) || Holds(column.missing(), cell);
}

}  // namespace splitveil
