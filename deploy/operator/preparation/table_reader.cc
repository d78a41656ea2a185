#include "deploy/operator/preparation/table_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/table_files.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

// What `column` says of labels or targets.
TableColumns::Label LabelOf(const Schema& schema, const Schema::Column& column) {
  TableColumns::Label label;
  if (column.kind() == Schema::CLASS_LABEL) {
    label.task = {Task::Kind::kMultiClass, schema.classes_size()};
    label.classes.assign(schema.classes().begin(), schema.classes().end());
  } else if (column.kind() == Schema::TARGET) {
    label.task = {Task::Kind::kRegression, 0};
    label.minimum = schema.target_minimum();
    label.maximum = schema.target_maximum();
  }
  return label;
}

// The number of the new feature among those of its kind.
size_t AddFeature(const Schema& schema, const Schema::Column& column, TableColumns& columns) {
  auto& features = column.kind() == Schema::NUMERIC ? columns.numeric : columns.categorical;
  features.push_back({column.name(), column.holder(), column.has_scaling() ? column.scaling() : schema.scaling()});
  return features.size() - 1;
}

template <typename Columns>
bool SameColumnNames(const Columns& a, const Columns& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& left, const auto& right) { return left.name == right.name; });
}

bool SameColumns(const TableColumns& a, const TableColumns& b) {
  return a.has_id == b.has_id && a.has_group == b.has_group && a.has_time == b.has_time &&
         a.label.has_value() == b.label.has_value() && SameColumnNames(a.numeric, b.numeric) &&
         SameColumnNames(a.categorical, b.categorical) && SameColumnNames(a.attributes, b.attributes);
}

}  // namespace

TableReader::TableReader(std::vector<std::string> paths, v1::TableSchema schema, MayLack may_lack)
    : paths_(std::move(paths)),
      schema_(std::move(schema)),
      may_lack_(std::move(may_lack)),
      splitter_(schema_.separator()[0], schema_.quotes(), schema_.trim()),
      cell_reader_(schema_) {}

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(std::vector<std::string> paths, v1::TableSchema schema,
                                                               MayLack may_lack) {
  if (paths.empty()) {
    return absl::InvalidArgumentError("input: expected at least one file, found none");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckTableSchema(schema));
  SPLITVEIL_ASSIGN_OR_RETURN(paths, TableFiles(paths));
  std::unique_ptr<TableReader> reader(new TableReader(std::move(paths), std::move(schema), std::move(may_lack)));
  SPLITVEIL_RETURN_IF_ERROR(reader->OpenFile());
  return reader;
}

void TableReader::set_profile(TableProfile* profile) {
  profile_ = profile;
  std::vector<size_t> places;
  for (const ColumnRole& role : roles_) {
    places.push_back(role.place);
  }
  queue_ = profile == nullptr ? nullptr : std::make_unique<ProfileQueue>(profile, std::move(places));
}

absl::Status TableReader::OpenFile() {
  SPLITVEIL_ASSIGN_OR_RETURN(lines_, LineReader::Open(paths_[next_path_++]));
  roles_.clear();
  if (schema_.header()) {
    SPLITVEIL_RETURN_IF_ERROR(ReadHeader());
  } else {
    for (int column = 0; column < schema_.columns_size(); ++column) {
      roles_.push_back({&schema_.columns(column), static_cast<size_t>(column)});
    }
  }
  return AssignRoles();
}

absl::Status TableReader::ReadHeader() {
  absl::string_view line;
  absl::StatusOr<bool> found = lines_->Next(&line);
  while (found.ok() && *found && splitter_.IsBlank(line)) {
    found = lines_->Next(&line);
  }
  if (!found.ok() || !*found) {
    return found.ok() ? absl::InvalidArgumentError(
                            absl::StrCat(lines_->name(), ": expected a header line, found an empty file"))
                      : found.status();
  }
  SPLITVEIL_RETURN_IF_ERROR(lines_->CheckNoZeroByte(line));
  if (!splitter_.Split(line, cells_)) {
    return lines_->ErrorAt(
        static_cast<int64_t>(cells_.size()) + 1,
        absl::StrCat("expected a quoted cell to end, found none that does", HeaderSeparatorHint(schema_, line)));
  }
  for (const absl::string_view cell : cells_) {
    const auto column = std::find_if(schema_.columns().begin(), schema_.columns().end(),
                                     [&](const Schema::Column& named) { return named.name() == cell; });
    const auto number = static_cast<int64_t>(roles_.size()) + 1;
    if (column == schema_.columns().end()) {
      return lines_->ErrorAt(number, UnknownColumnMistake(schema_, line, cells_, cell));
    }
    if (std::any_of(roles_.begin(), roles_.end(), [&](const ColumnRole& role) { return role.column == &*column; })) {
      return lines_->ErrorAt(number, absl::StrCat("expected each column once, found \"", column->name(), "\" again"));
    }
    roles_.push_back({&*column, static_cast<size_t>(column - schema_.columns().begin())});
  }
  return absl::OkStatus();
}

absl::Status TableReader::AddAbsent(const Schema::Column& column, TableColumns& columns) const {
  const bool is_feature = column.kind() == Schema::NUMERIC || column.kind() == Schema::CATEGORICAL;
  if (is_feature && may_lack_.has_value() &&
      std::find(may_lack_->begin(), may_lack_->end(), column.name()) != may_lack_->end()) {
    AddFeature(schema_, column, columns);
    return absl::OkStatus();
  }
  return column.optional()
             ? absl::OkStatus()
             : lines_->ErrorAt(
                   1, absl::StrCat(
                          "expected a column \"", column.name(), "\" in the header line, found none",
                          is_feature && may_lack_.has_value()
                              ? absl::StrCat("; --allow_changed=", column.name(), " takes it as missing in all rows")
                              : ""));
}

absl::Status TableReader::AssignRoles() {
  TableColumns columns;
  for (const Schema::Column& column : schema_.columns()) {
    const auto role = std::find_if(roles_.begin(), roles_.end(),
                                   [&](const ColumnRole& candidate) { return candidate.column == &column; });
    if (role == roles_.end()) {
      SPLITVEIL_RETURN_IF_ERROR(AddAbsent(column, columns));
      continue;
    }
    role->format = FormatOf(column);
    role->missing_numbers = MissingNumbersOf(column);
    if (column.kind() == Schema::NUMERIC || column.kind() == Schema::CATEGORICAL) {
      role->index = AddFeature(schema_, column, columns);
    }
    if (column.kind() == Schema::ATTRIBUTE) {
      role->index = columns.attributes.size();
      columns.attributes.push_back({column.name(), column.holder(), {column.values().begin(), column.values().end()}});
    }
    if (column.also_feature()) {
      role->feature = columns.categorical.size();
      columns.categorical.push_back({column.name(), column.holder()});
    }
    columns.has_id = columns.has_id || column.kind() == Schema::ID;
    columns.has_group = columns.has_group || column.kind() == Schema::GROUP;
    columns.has_time = columns.has_time || column.kind() == Schema::TIME;
    if (IsLabelKind(column.kind())) {
      columns.label = LabelOf(schema_, column);
    }
  }
  // A row has one layout whatever file it comes from; only the order of columns may differ.
  if (next_path_ > 1 && !SameColumns(columns, columns_)) {
    return lines_->ErrorAt(1, "its columns differ from those of the first file");
  }
  columns_ = std::move(columns);
  set_profile(profile_);  // Each file may order its columns differently.
  return absl::OkStatus();
}

absl::StatusOr<bool> TableReader::Next(TableRow& row) {
  absl::string_view line;
  while (true) {
    if (lines_ == nullptr) {
      if (next_path_ == paths_.size()) {
        return false;
      }
      SPLITVEIL_RETURN_IF_ERROR(OpenFile());
    }
    const absl::StatusOr<bool> more = lines_->Next(&line);
    if (!more.ok() || !*more) {
      queue_ = nullptr;  // Which adds what waits.
    }
    if (more.ok() && !*more) {
      lines_ = nullptr;
      // A truncated file costs one row, whatever it lacks, and not the files behind it.
    } else if (!more.ok()) {
      ++rows_read_;
      row.fault = RowFault::kFile;
      row.error = more.status();
      lines_ = nullptr;
      return true;
    } else if (!splitter_.IsBlank(line)) {
      ++rows_read_;
      ReadRow(line, row);
      return true;
    }
  }
}

std::string TableReader::place() const { return absl::StrCat(lines_->name(), ":", lines_->line_number()); }

void TableReader::SetFault(RowFault fault, int64_t column, absl::string_view message, TableRow& row) const {
  row.fault = fault;
  row.error = lines_->ErrorAt(column, message);
}

int64_t TableReader::column_of(v1::TableSchema::Kind kind) const {
  const auto role = std::find_if(roles_.begin(), roles_.end(),
                                 [&](const ColumnRole& candidate) { return candidate.column->kind() == kind; });
  return role == roles_.end() ? 1 : role - roles_.begin() + 1;
}

void TableReader::ReadRow(absl::string_view line, TableRow& row) {
  row.fault = RowFault::kNone;
  row.id = {};
  row.label = 0;
  row.target = 0;
  // Features whose column this file lacks stay missing.
  row.numeric.assign(columns_.numeric.size(), std::numeric_limits<double>::quiet_NaN());
  row.categories.assign(columns_.categorical.size(), {});
  row.attributes.assign(columns_.attributes.size(), kUnknownAttribute);
  row.image_name = {};
  row.group = {};
  row.time = {};
  row.pixels.clear();
  const bool split = splitter_.Split(line, cells_);
  if (!split) {
    SetFault(RowFault::kQuotes, static_cast<int64_t>(cells_.size()) + 1,
             absl::StrCat("expected a quoted cell to end with its quote on the same line",
                          RowSeparatorHint(schema_, line, roles_.size())),
             row);
  } else if (cells_.size() != roles_.size()) {
    SetFault(RowFault::kColumnCount, static_cast<int64_t>(std::min(cells_.size(), roles_.size() + 1)),
             absl::StrCat("expected ", roles_.size(), " columns, found ", cells_.size(),
                          RowSeparatorHint(schema_, line, roles_.size())),
             row);
  }
  if (queue_ != nullptr && row.fault == RowFault::kNone) {
    // Before any cell is judged: a profile also describes the rows that cannot be read.
    queue_->Add(cells_, lines_->line_number());
  }
  for (size_t column = 0; row.fault == RowFault::kNone && column < roles_.size(); ++column) {
    const CellReader::Fault found = cell_reader_.Read(roles_[column], cells_[column], row);
    if (found.fault != RowFault::kNone) {
      SetFault(found.fault, static_cast<int64_t>(column) + 1, found.message, row);
    }
  }
}

TableProfile EmptyProfile(const Schema& schema) {
  TableProfile profile;
  for (const Schema::Column& column : schema.columns()) {
    ColumnProfile::Declared declared = {
        FormatOf(column), {schema.missing().begin(), schema.missing().end()}, MissingNumbersOf(column)};
    declared.missing.insert(declared.missing.end(), column.missing().begin(), column.missing().end());
    profile.columns.emplace_back(column.name(), std::move(declared));
  }
  return profile;
}

}  // namespace splitveil
