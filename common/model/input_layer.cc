#include "common/model/input_layer.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kEmbedding[] = "embedding";

absl::Status CheckFeatures(const InputLayer::Options& options) {
  const FeatureShape& features = options.features;
  if (features.numeric < 0 || features.categorical < 0 || features.numeric + features.categorical == 0) {
    return absl::InvalidArgumentError(absl::StrCat(options.field, ": expected at least one feature column, found ",
                                                   features.numeric, " numeric and ", features.categorical,
                                                   " categorical"));
  }
  if (features.categorical > 0 && options.embedding == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(options.field, ".embedding is missing: the data have ",
                                                   features.categorical,
                                                   " categorical columns. Add embedding { ... }"));
  }
  if (options.pieces < 1 || (options.pieces > 1 && features.image.channels > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.numeric_pieces: expected ", features.image.channels > 0 ? "1, as the data have images" : "at least 1",
        ", found ", options.pieces));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const FeatureBatch& batch, const FeatureShape& features) {
  if (batch.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("feature batch: expected at least 1 row, found ", batch.rows));
  }
  // Without numeric columns the matrix may also be empty.
  if (batch.numeric.cols() != features.numeric || (features.numeric > 0 && batch.numeric.rows() != batch.rows)) {
    return absl::InvalidArgumentError(absl::StrCat("feature batch, numeric: expected ", batch.rows, " x ",
                                                   features.numeric, ", found ", batch.numeric.rows(), " x ",
                                                   batch.numeric.cols()));
  }
  const int64_t categories = static_cast<int64_t>(batch.categories.size());
  if (categories != batch.rows * features.categorical) {
    return absl::InvalidArgumentError(absl::StrCat("feature batch, categories: expected ", batch.rows, " x ",
                                                   features.categorical, ", found ", categories));
  }
  return absl::OkStatus();
}

// Writes `pieces` numbers for each of `numbers` from `out` on: ModelSpec.numeric_pieces.
void WritePieces(absl::Span<const float> numbers, int64_t pieces, float* out) {
  for (const float number : numbers) {
    const float scaled = number * static_cast<float>(pieces);
    for (int64_t i = 0; i < pieces; ++i) {
      *out++ = std::clamp(scaled - static_cast<float>(i), 0.0f, 1.0f);
    }
  }
}

int64_t RowsOf(absl::Span<const LookupGradient> parts) {
  int64_t rows = 0;
  for (const LookupGradient& part : parts) {
    rows += part.gradient.rows();
  }
  return rows;
}

// Gradients of each embedding that occurs, summed over a batch. In double: inner products of many small numbers follow.
using EmbeddingSums = absl::flat_hash_map<int64_t, std::vector<double>>;

EmbeddingSums SumByEmbedding(absl::Span<const LookupGradient> parts, int64_t dimension) {
  EmbeddingSums sums;
  for (const LookupGradient& part : parts) {
    const int64_t columns = static_cast<int64_t>(part.indices.size()) / part.gradient.rows();
    const int64_t* index = part.indices.data();
    for (int64_t b = 0; b < part.gradient.rows(); ++b) {
      const float* source = part.gradient.row(b).data();
      for (int64_t c = 0; c < columns; ++c, source += dimension) {
        std::vector<double>& sum = sums[*index++];
        sum.resize(static_cast<size_t>(dimension));
        std::transform(sum.begin(), sum.end(), source, sum.begin(), [](double a, float b) { return a + b; });
      }
    }
  }
  return sums;
}

// Inner product of two objectives of one batch, so that the same embeddings occur in both.
double InnerProductOf(const EmbeddingSums& left, const EmbeddingSums& right) {
  double product = 0;
  for (const auto& [row, sum] : left) {
    product = std::inner_product(sum.begin(), sum.end(), right.at(row).begin(), product);
  }
  return product;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputLayer>> InputLayer::Create(const Options& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckFeatures(options));
  std::optional<EmbeddingTable> table;
  if (options.features.categorical > 0) {
    EmbeddingTable::Options table_options;
    table_options.rows = options.features.embedding_rows;
    table_options.dimension = options.embedding->dimension();
    table_options.initial_range = options.embedding->initial_range();
    table_options.seed = options.seed;
    table_options.optimizer = options.optimizer;
    absl::StatusOr<EmbeddingTable> created = EmbeddingTable::Create(table_options);
    if (!created.ok()) {
      return absl::Status(created.status().code(), absl::StrCat(options.field, ".", created.status().message()));
    }
    table = *std::move(created);
  }
  return absl::WrapUnique(new InputLayer(options.features, std::move(table), options.pieces));
}

InputLayer::InputLayer(const FeatureShape& features, std::optional<EmbeddingTable> table, int64_t pieces)
    : features_(features),
      table_(std::move(table)),
      pieces_(pieces),
      width_(features.numeric * pieces + (table_.has_value() ? features.categorical * table_->dimension() : 0)) {}

absl::StatusOr<ConstMatrixView> InputLayer::Assemble(const FeatureBatch& batch, ParameterUse use,
                                                     Matrix& storage) const {
  SPLITVEIL_RETURN_IF_ERROR(CheckBatch(batch, features_));
  // Numbers alone, unchanged: a view is enough.
  if (!table_.has_value() && pieces_ == 1) {
    return ConstMatrixView(batch.numeric);
  }
  storage = Matrix::ToOverwrite(batch.rows, width_);
  if (table_.has_value()) {
    SPLITVEIL_RETURN_IF_ERROR(table_->Gather(batch.categories, use, storage));
  }
  // Embeddings first, then the numbers: the order in which exported models concatenate them.
  const int64_t embedded = width_ - features_.numeric * pieces_;
  for (int64_t b = 0; b < batch.rows && features_.numeric > 0; ++b) {
    const absl::Span<const float> numeric = batch.numeric.row(b);
    float* const out = storage.row(b).data() + embedded;
    if (pieces_ == 1) {
      std::copy(numeric.begin(), numeric.end(), out);
    } else {
      WritePieces(numeric, pieces_, out);
    }
  }
  return ConstMatrixView(storage);
}

absl::Status InputLayer::Update(absl::Span<const LookupGradient> parts) {
  if (!table_.has_value()) {
    return absl::OkStatus();
  }
  // Gradients come per example; the step is of their mean.
  return table_->Update(parts, 1.0 / static_cast<double>(RowsOf(parts)));
}

std::vector<double> InputLayer::GradientProducts(absl::Span<const std::vector<LookupGradient>> objectives) const {
  const size_t m = objectives.size();
  std::vector<double> products(m * m);
  if (!table_.has_value()) {
    return products;
  }
  std::vector<EmbeddingSums> sums;
  for (const std::vector<LookupGradient>& parts : objectives) {
    sums.push_back(SumByEmbedding(parts, table_->dimension()));
  }
  const auto rows = static_cast<double>(RowsOf(objectives.front()));
  // Symmetric, so half of it is computed.
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      products[i * m + j] = products[j * m + i] = InnerProductOf(sums[i], sums[j]) / (rows * rows);
    }
  }
  return products;
}

std::vector<ParameterView> InputLayer::parameters(const std::string& prefix, ParameterUse use) {
  if (!table_.has_value()) {
    return {};
  }
  return {{absl::StrCat(prefix, kEmbedding), table_->values(use)}};
}

std::vector<ParameterView> InputLayer::optimizer_state(const std::string& prefix) {
  if (!table_.has_value()) {
    return {};
  }
  const std::string name = absl::StrCat(prefix, kEmbedding);
  std::vector<ParameterView> views;
  for (int m = 0; m < table_->moments(); ++m) {
    views.push_back({MomentName(name, m), table_->moment(m)});
  }
  if (table_->has_average()) {
    views.push_back({AverageName(name), table_->values(ParameterUse::kPrediction)});
    views.push_back({absl::StrCat(AverageName(name), ".steps"), table_->average_steps()});
  }
  return views;
}

void InputLayer::RestartAverage() {
  if (table_.has_value()) {
    table_->RestartAverage();
  }
}

void InputLayer::set_steps(int64_t steps) {
  if (table_.has_value()) {
    table_->set_steps(steps);
  }
}

}  // namespace splitveil
