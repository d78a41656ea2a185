#include "deploy/operator/transform/data_table.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/local_run/figures_table.h"

#include "common/dataset/features.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/pending_file.h"

namespace splitveil {
namespace {

constexpr int64_t kRowsAtOnce = 1024;

std::string Header(const v1::Preprocessing& preprocessing, bool has_labels) {
  std::string header = "id";
  for (const v1::NumericScaling& column : preprocessing.numeric()) {
    absl::StrAppend(&header, ",", CsvCell(column.name()));
  }
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    absl::StrAppend(&header, ",", CsvCell(column.name()));
  }
  return absl::StrCat(header, has_labels ? ",label" : "", "\n");
}

void AppendLabel(const Dataset& data, uint32_t row, std::string& line) {
  if (!data.targets().empty()) {
    absl::StrAppendFormat(&line, ",%.9g", data.targets()[row]);
  } else if (!data.labels().empty()) {
    absl::StrAppend(&line, ",", int{data.labels()[row]});
  }
}

}  // namespace

absl::Status WriteDataTable(const std::string& path, const Dataset& data) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDataTablePath(path, data.preprocessing(), data.has_labels()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(Header(data.preprocessing(), data.has_labels())));
  const int64_t pixels = data.features().image.pixels(), categorical = data.features().categorical;
  for (int64_t first = 0; first < data.rows(); first += kRowsAtOnce) {
    std::vector<uint32_t> rows(static_cast<size_t>(std::min(kRowsAtOnce, data.rows() - first)));
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first));
    const FeatureBatch batch = data.Gather(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string line = CsvCell(std::string(data.ids()[rows[i]]));
      for (int64_t column = pixels; column < batch.numeric.cols(); ++column) {
        absl::StrAppendFormat(&line, ",%.9g", batch.numeric.row(static_cast<int64_t>(i))[column]);
      }
      for (int64_t column = 0; column < categorical; ++column) {
        absl::StrAppend(&line, ",", batch.categories[i * static_cast<size_t>(categorical) + column]);
      }
      AppendLabel(data, rows[i], line);
      line += '\n';
      SPLITVEIL_RETURN_IF_ERROR(file->Append(line));
    }
  }
  PendingFile* const all[] = {file.get()};
  return PendingFile::Publish(all);
}

absl::Status CheckDataTablePath(const std::string& path, const v1::Preprocessing& preprocessing, bool has_labels) {
  return CheckOwnTable(path, Header(preprocessing, has_labels));
}

}  // namespace splitveil
