#include "deploy/operator/preparation/header_mistakes.h"

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/cell_splitter.h"
#include "deploy/operator/preparation/quoted_names.h"

#include "common/naming/nearest_name.h"

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

}  // namespace

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

}  // namespace splitveil
