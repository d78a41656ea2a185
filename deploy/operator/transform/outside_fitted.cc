#include "deploy/operator/transform/outside_fitted.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/preprocessor.h"

#include "common/dataset/features.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int64_t kRowsAtOnce = 1024;

// Rows of each categorical column that have the row of the embedding table which all unseen values share: the first.
std::vector<int64_t> UnseenRows(const Dataset& data) {
  const auto& columns = data.preprocessing().categorical();
  std::vector<int64_t> unseen(static_cast<size_t>(columns.size()));
  for (int64_t first = 0; first < data.rows(); first += kRowsAtOnce) {
    std::vector<uint32_t> rows(static_cast<size_t>(std::min(kRowsAtOnce, data.rows() - first)));
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first));
    const FeatureBatch batch = data.Gather(rows);
    for (size_t cell = 0; cell < rows.size() * unseen.size(); ++cell) {
      const v1::CategoryIndex& column = columns[static_cast<int>(cell % unseen.size())];
      const bool is_unseen = column.hash_buckets() == 0 && batch.categories[cell] == column.blocks(0).first_row();
      unseen[cell % unseen.size()] += is_unseen ? 1 : 0;
    }
  }
  return unseen;
}

}  // namespace

std::string OutsideFittedTable(const Dataset& data) {
  std::vector<std::pair<std::string, std::string>> lines = {{"column", "outside of what was fitted"}};
  const auto share = [&data](int64_t rows) {
    return absl::StrFormat("%5.1f%%", 100.0 * static_cast<double>(rows) / static_cast<double>(data.rows()));
  };
  for (const v1::NumericScaling& column : data.preprocessing().numeric()) {
    if (!IsMissingIndicator(column)) {
      lines.emplace_back(OneLine(column.name()), share(column.clipped()) + " clipped");
    }
  }
  const std::vector<int64_t> unseen = UnseenRows(data);
  for (size_t column = 0; column < unseen.size(); ++column) {
    lines.emplace_back(OneLine(data.preprocessing().categorical(static_cast<int>(column)).name()),
                       share(unseen[column]) + " unseen");
  }
  size_t width = 0;
  for (const auto& [name, text] : lines) {
    width = std::max(width, name.size());
  }
  std::string table;
  for (const auto& [name, text] : lines) {
    absl::StrAppendFormat(&table, "  %-*s  %s\n", static_cast<int>(width), name, text);
  }
  return lines.size() == 1 ? "" : table;
}

}  // namespace splitveil
