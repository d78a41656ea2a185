// Feeds arbitrary bytes to the reader of party files, plain or gzip, and checks what the rest of the program relies on.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "common/dataset/line_reader.h"
#include "common/dataset/party_data.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxLineBytes = 4096;

// Aborts, so that a fuzzer keeps the input.
void Require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void CheckData(const PartyData& data) {
  const size_t rows = data.ids.size();
  Require(data.labels.empty() || data.labels.size() == rows);
  Require(absl::flat_hash_set<std::string>(data.ids.begin(), data.ids.end()).size() == rows);
  for (const std::string& id : data.ids) {
    Require(!id.empty());
  }
  for (const uint8_t label : data.labels) {
    Require(label <= 1);
  }
  for (const NumericColumn& column : data.numeric) {
    Require(column.values.size() == rows);
    for (const float value : column.values) {
      Require(!std::isinf(value));
    }
  }
  for (const CategoricalColumn& column : data.categorical) {
    Require(column.codes.size() == rows);
    Require(absl::flat_hash_set<std::string>(column.values.begin(), column.values.end()).size() ==
            column.values.size());
    for (const int32_t code : column.codes) {
      Require(code >= 0 && static_cast<size_t>(code) < column.values.size());
    }
  }
}

void CheckFeatures(const PartyData& data) {
  std::vector<uint32_t> rows(data.ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<uint32_t> train(rows.begin(), rows.begin() + (rows.size() + 1) / 2);
  absl::StatusOr<FeatureTable> table = BuildFeatures(data, rows, train);
  Require(table.ok() == !rows.empty());
  if (!table.ok()) {
    return;
  }
  const FeatureBatch batch = table->Gather(rows);
  for (int64_t i = 0; i < batch.numeric.size(); ++i) {
    Require(batch.numeric.data()[i] >= 0 && batch.numeric.data()[i] <= 1);
  }
  for (const int64_t category : batch.categories) {
    Require(category >= 0 && category < table->shape().embedding_rows);
  }
}

}  // namespace
}  // namespace splitveil

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using splitveil::LineReader;
  using splitveil::Require;
  absl::StatusOr<std::unique_ptr<LineReader>> lines =
      LineReader::FromBytes("fuzz", std::string(reinterpret_cast<const char*>(bytes), size), splitveil::kMaxLineBytes);
  Require(lines.ok());
  absl::StatusOr<splitveil::PartyData> data = splitveil::ParsePartyData(lines->get());
  if (!data.ok()) {
    Require(data.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  splitveil::CheckData(*data);
  splitveil::CheckFeatures(*data);
  return 0;
}
