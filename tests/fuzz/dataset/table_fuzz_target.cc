// Feeds arbitrary bytes, plain or gzip, to the reader of tables and to the preprocessing behind it, and checks what the
// rest of the program relies on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "deploy/operator/preparation/preprocessor.h"
#include "deploy/operator/preparation/row_source.h"

#include "common/dataset/column_encoding.h"
#include "tests/fuzz/dataset/memory_file.h"

namespace splitveil {
namespace {

// The kind of the label goes round with the input's length.
v1::TableSchema Schema(v1::TableSchema::Kind label) {
  v1::TableSchema schema;
  if (label == v1::TableSchema::CLASS_LABEL) {
    for (const char* text : {"0", "1", "2"}) {
      schema.add_classes(text);
    }
  } else if (label == v1::TableSchema::TARGET) {
    schema.set_target_minimum(0);
    schema.set_target_maximum(0.5);
  }
  for (const auto& [name, kind] : {std::pair{"id", v1::TableSchema::ID},
                                   {"label", label},
                                   {"a", v1::TableSchema::NUMERIC},
                                   {"b", v1::TableSchema::NUMERIC},
                                   {"c", v1::TableSchema::CATEGORICAL}}) {
    v1::TableSchema::Column& column = *schema.add_columns();
    column.set_name(name);
    column.set_kind(kind);
  }
  schema.mutable_columns(3)->set_optional(true);
  schema.add_missing("?");
  return schema;
}

// Reads all rows and hands each to `visit`; their number.
template <typename Visit>
int64_t ForEachRow(const std::string& path, v1::TableSchema::Kind label, Visit visit) {
  RowSource::Options options;
  options.input_paths = {path};
  options.schema = Schema(label);
  options.skip_bad_rows = true;
  absl::StatusOr<std::unique_ptr<RowSource>> rows = RowSource::Open(options);
  if (!rows.ok()) {
    Require(rows.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  TableRow row;
  int64_t count = 0;
  while (true) {
    const absl::StatusOr<bool> more = (*rows)->Next(row);
    Require(more.ok());
    if (!*more) {
      break;
    }
    ++count;
    visit(row, (*rows)->columns());
  }
  int64_t skipped = 0;
  for (const int64_t faults : (*rows)->skipped()) {
    skipped += faults;
  }
  Require(count + skipped == (*rows)->row_number() + 1);
  return count;
}

void CheckRow(const TableRow& row, const TableColumns& columns, absl::flat_hash_set<std::string>& ids) {
  Require(!row.id.empty() && ids.insert(std::string(row.id)).second);
  Require(columns.label.has_value() && std::isfinite(row.target));
  Require(row.label < std::max<int64_t>(1, columns.label->task.classes));
  Require(row.numeric.size() == columns.numeric.size() && row.categories.size() == columns.categorical.size());
  for (const double number : row.numeric) {
    Require(!std::isinf(number));
  }
}

}  // namespace
}  // namespace splitveil

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace splitveil;  // NOLINT(google-build-using-namespace): one function.
  const MemoryFile file({reinterpret_cast<const char*>(bytes), size});
  absl::flat_hash_set<std::string> ids;
  std::unique_ptr<Preprocessor> preprocessor;
  const v1::TableSchema::Kind kinds[] = {v1::TableSchema::LABEL, v1::TableSchema::CLASS_LABEL, v1::TableSchema::TARGET};
  const v1::TableSchema::Kind label = kinds[size % std::size(kinds)];
  Preprocessor::Options options;
  const v1::TableSchema::Scaling scalings[] = {v1::TableSchema::MIN_MAX, v1::TableSchema::ROBUST,
                                               v1::TableSchema::QUANTILE, v1::TableSchema::LOG};
  options.scaling = scalings[size % std::size(scalings)];
  const int64_t fitted = ForEachRow(file.path(), label, [&](const TableRow& row, const TableColumns& columns) {
    CheckRow(row, columns, ids);
    if (preprocessor == nullptr) {
      preprocessor = std::make_unique<Preprocessor>(*Preprocessor::Create(columns, options));
    }
    Require(preprocessor->Fit(row, ids.size() % 3 != 0).ok());
  });
  if (fitted == 0) {
    return 0;
  }
  Require(preprocessor->FinishFit().ok());
  EncodedRow encoded;
  const int64_t rows = ForEachRow(file.path(), label, [&](const TableRow& row, const TableColumns& /*columns*/) {
    preprocessor->Encode(row, encoded);
    preprocessor->Count(row, encoded);
    Require(encoded.target >= 0 && encoded.target <= 1);
    for (const float number : encoded.numeric) {
      Require(number >= 0 && number <= 1);
    }
    for (const int32_t category : encoded.categories) {
      Require(category >= 0 && category < preprocessor->preprocessing().embedding_rows());
    }
  });
  Require(rows == fitted);
  preprocessor->FinishCounts();
  const auto counted = [](const v1::ValueCounts& counts) {
    return std::accumulate(counts.buckets().begin(), counts.buckets().end(), counts.missing());
  };
  for (const v1::NumericScaling& column : preprocessor->preprocessing().numeric()) {
    Require(IsMissingIndicator(column) || counted(column.counts()) == rows);
  }
  for (const v1::CategoryIndex& column : preprocessor->preprocessing().categorical()) {
    Require(counted(column.counts()) == rows);
  }
  return 0;
}
