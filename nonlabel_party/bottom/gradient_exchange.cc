#include "nonlabel_party/bottom/gradient_exchange.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Bytes of `rows` rows of `width` numbers of this type, by rank.
template <typename Number>
std::vector<size_t> BytesOf(const std::vector<int64_t>& rows, int64_t width) {
  std::vector<size_t> bytes;
  for (const int64_t count : rows) {
    bytes.push_back(static_cast<size_t>(count * width) * sizeof(Number));
  }
  return bytes;
}

template <typename Number>
absl::Span<const char> AsChars(const Number* data, size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof(Number)};
}

}  // namespace

absl::Status GradientExchange::CountRows(int64_t own) {
  const std::vector<int64_t> one_each(static_cast<size_t>(group_->size()), 1);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<char> counts,
                             group_->Gather(AsChars(&own, 1), BytesOf<int64_t>(one_each, 1)));
  rows_of_.resize(one_each.size());
  std::memcpy(rows_of_.data(), counts.data(), counts.size());
  return absl::OkStatus();
}

absl::Status GradientExchange::GatherLookups(std::vector<LookupGradient>& at_input) {
  const int64_t width = categories_ * dimension_;
  std::vector<int64_t> own_indices;
  std::vector<float> own_gradients;
  for (const LookupGradient& lookup : at_input) {
    own_indices.insert(own_indices.end(), lookup.indices.begin(), lookup.indices.end());
    // The numeric columns behind the embeddings have no table.
    for (int64_t row = 0; row < lookup.gradient.rows(); ++row) {
      const float* const values = lookup.gradient.data() + row * lookup.gradient.cols();
      own_gradients.insert(own_gradients.end(), values, values + width);
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<char> indices,
      group_->Gather(AsChars(own_indices.data(), own_indices.size()), BytesOf<int64_t>(rows_of_, categories_)));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<char> gradients,
      group_->Gather(AsChars(own_gradients.data(), own_gradients.size()), BytesOf<float>(rows_of_, width)));
  const int64_t rows = std::accumulate(rows_of_.begin(), rows_of_.end(), int64_t{0});
  indices_.resize(static_cast<size_t>(rows * categories_));
  std::memcpy(indices_.data(), indices.data(), indices.size());
  gradients_ = Matrix::ToOverwrite(rows, width);
  std::memcpy(gradients_.data(), gradients.data(), gradients.size());
  at_input = {{indices_, gradients_}};
  return absl::OkStatus();
}

absl::Status GradientExchange::Share(int64_t own_rows, LayerStack* layers, bool has_embedding,
                                     std::vector<LookupGradient>& at_input) {
  SPLITVEIL_RETURN_IF_ERROR(CountRows(own_rows));
  if (layers != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(layers->ShareGradients([this](absl::Span<float> values) { return group_->Sum(values); },
                                                     std::accumulate(rows_of_.begin(), rows_of_.end(), int64_t{0})));
  }
  return has_embedding ? GatherLookups(at_input) : absl::OkStatus();
}

}  // namespace splitveil
