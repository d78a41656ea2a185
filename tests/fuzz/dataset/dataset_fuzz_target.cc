// Feeds arbitrary bytes, under a digest that fits them, to the reader of prepared data and checks what the rest of the
// program relies on.
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/crypto/sha256.h"
#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "tests/fuzz/dataset/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace splitveil;  // NOLINT(google-build-using-namespace): one function.
  std::string contents(reinterpret_cast<const char*>(bytes), size);
  const Digest digest = Sha256(contents);
  contents.append(AsBytes(digest).data(), digest.size());
  const MemoryFile file(contents);
  const absl::StatusOr<std::shared_ptr<const Dataset>> data = Dataset::Open(file.path());
  if (!data.ok()) {
    Require(data.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  std::vector<uint32_t> rows(static_cast<size_t>((*data)->rows()));
  std::iota(rows.begin(), rows.end(), 0);
  const FeatureBatch batch = (*data)->Gather(rows);
  for (int64_t i = 0; i < batch.numeric.size(); ++i) {
    Require(std::isfinite(batch.numeric.data()[i]));
  }
  for (const int64_t category : batch.categories) {
    Require(category >= 0 && category < (*data)->features().embedding_rows);
  }
  Require((*data)->ids().size() == rows.size());
  const Task& task = (*data)->task();
  const bool regression = task.kind == Task::Kind::kRegression;
  Require((*data)->labels().size() == ((*data)->has_labels() && !regression ? rows.size() : 0));
  Require((*data)->targets().size() == (regression ? rows.size() : 0));
  for (const uint8_t label : (*data)->labels()) {
    Require(label < task.classes);
  }
  for (const float target : (*data)->targets()) {
    Require(target >= 0 && target <= 1);
  }
  for (const uint32_t row : rows) {
    Require(!(*data)->ids()[row].empty());
  }
  (void)(*data)->ReadVocabularies();
  return 0;
}
