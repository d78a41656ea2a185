#include "common/schedule/slice_assembler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/invariant.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

// Where no other batch is under way, a party has only the rest of a batch to compute while the peer has its beginning.
constexpr int64_t kSlicesOfOneInFlight = 3;

}  // namespace

BatchSlices::BatchSlices(int64_t rows, int64_t in_flight_batches) {
  const int64_t wanted = in_flight_batches == 1 ? kSlicesOfOneInFlight : 1;
  // Both parties compute the same cuts from agreed numbers, so a message says only where it starts.
  const int64_t slice_rows = std::clamp((rows + wanted - 1) / wanted, kLeastSliceRows, kMostSliceRows);
  for (int64_t first = 0; first < rows; first += slice_rows) {
    slices_.push_back({first, std::min(slice_rows, rows - first)});
  }
}

std::vector<RowRange> BatchSlices::Within(const RowRange& rows) const {
  std::vector<RowRange> within;
  std::copy_if(slices_.begin(), slices_.end(), std::back_inserter(within),
               [&](const RowRange& slice) { return slice.first >= rows.first && slice.end() <= rows.end(); });
  return within;
}

std::vector<RowRange> BatchSlices::Computed(bool needs_whole_batch) const {
  return needs_whole_batch ? std::vector<RowRange>{{0, rows()}} : slices_;
}

SliceAssembler::SliceAssembler(const SliceFormat& format, BatchSlices slices, bool needs_whole_batch)
    : format_(format),
      slices_(std::move(slices)),
      computed_(slices_.Computed(needs_whole_batch)),
      rows_(Matrix::ToOverwrite(slices_.rows(), format.cols)) {}

absl::Status SliceAssembler::Add(int64_t first_row, const v1::Tensor& tensor) {
  if (complete()) {
    return absl::InvalidArgumentError(
        absl::StrCat(format_.field, ": this batch is complete, but more rows came, from row ", first_row));
  }
  const RowRange& due = slices_.all()[received_];
  // Any other order would let the peer choose which rows are computed together.
  if (first_row != due.first) {
    return absl::InvalidArgumentError(
        absl::StrCat(format_.field, ".first_row: expected ", due.first, ", found ", first_row));
  }
  // Straight into place: rows that have not been received are out of everybody's reach, whatever they hold.
  SPLITVEIL_RETURN_IF_ERROR(DecodeInto(rows_.block_values(due.first, due.rows), tensor,
                                       {format_.field, format_.dtype, due.rows, format_.cols, kCutMagnitudeLimit}));
  ++received_;
  return absl::OkStatus();
}

std::optional<RowRange> SliceAssembler::NextReady() {
  // In order, and only whole parts: the model takes rows as it computed them.
  if (ready_ == computed_.size() || computed_[ready_].end() > received_rows()) {
    return std::nullopt;
  }
  return computed_[ready_++];
}

ConstMatrixView SliceAssembler::block(const RowRange& rows) const {
  CheckInvariant(rows.first >= 0 && rows.rows >= 0 && rows.end() <= received_rows(), "SliceAssembler: rows received");
  return rows_.block(rows.first, rows.rows);
}

Matrix SliceAssembler::Take() {
  // Rows that have not come hold whatever was in the memory.
  CheckInvariant(complete(), "SliceAssembler: the whole batch received");
  return std::move(rows_);
}

}  // namespace splitveil
