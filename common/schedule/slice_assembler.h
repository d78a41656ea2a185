// How a batch crosses the wire: in slices of rows, so that either party computes on what has come while the other still
// computes what follows (as the micro-batches of Huang et al., "GPipe", NeurIPS 2019, section 2.3). Both parties derive
// the same slices. Nothing is learnt from before the whole batch is there, so the result is that of the batch at once.
#ifndef SPLITVEIL_COMMON_SCHEDULE_SLICE_ASSEMBLER_H_
#define SPLITVEIL_COMMON_SCHEDULE_SLICE_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "common/matrix/matrix.h"

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// Rows [first, first + rows) of a batch.
struct RowRange {
  int64_t first = 0;
  int64_t rows = 0;

  int64_t end() const { return first + rows; }
  friend bool operator==(const RowRange& a, const RowRange& b) { return a.first == b.first && a.rows == b.rows; }
};

constexpr int64_t kLeastSliceRows = 256;  // Each slice costs a message and a call of every layer.
constexpr int64_t kMostSliceRows = 1024;  // Above, the numbers of a layer outgrow a core's cache.

// The cuts of one batch: for what is sent and for what comes. Thread-compatible.
class BatchSlices {
 public:
  // Of no rows.
  BatchSlices() = default;
  // A batch of `rows` >= 1. `in_flight_batches`: the agreement's, >= 1.
  BatchSlices(int64_t rows, int64_t in_flight_batches);

  int64_t rows() const { return slices_.empty() ? 0 : slices_.back().end(); }
  // In order, equal but for the last, together all rows.
  const std::vector<RowRange>& all() const& { return slices_; }
  std::vector<RowRange> all() && { return std::move(slices_); }
  // Those that lie in `rows` as a whole: what may be sent of a batch once `rows` of it are computed.
  std::vector<RowRange> Within(const RowRange& rows) const;
  // Rows that a model computes together: each slice on its own or, where it needs the batch as a whole, all of them.
  std::vector<RowRange> Computed(bool needs_whole_batch) const;

 private:
  std::vector<RowRange> slices_;
};

// What a slice of the peer's matrix must be.
struct SliceFormat {
  const char* field = "";  // Named in errors; a literal.
  v1::DataType dtype = v1::FLOAT32;
  int64_t cols = 0;
};

// The peer's matrix of one batch, [slices.rows(), format.cols]: rows in, whole batch out. A slice is checked before it
// counts; one that is refused changes nothing, and the right one may follow. Not thread-safe.
//
//   for each message:   Add(first_row, tensor)
//                       while (rows = NextReady()):  compute block(*rows)
//   once complete():    Take()
class SliceAssembler {
 public:
  // `needs_whole_batch`: as in BatchSlices::Computed.
  SliceAssembler(const SliceFormat& format, BatchSlices slices, bool needs_whole_batch);

  // Takes the next slice. Errors: InvalidArgument with field, expected and found where it does not start at the row
  // that is due, has another type, shape or length, or holds a value that is not finite or beyond kCutMagnitudeLimit.
  absl::Status Add(int64_t first_row, const v1::Tensor& tensor);

  // The next rows that a model computes together (BatchSlices::Computed), once, as soon as all of them are here.
  std::optional<RowRange> NextReady();

  const BatchSlices& slices() const { return slices_; }
  int64_t received_rows() const { return received_ == 0 ? 0 : slices_.all()[received_ - 1].end(); }
  bool complete() const { return received_ == slices_.all().size(); }
  // Of rows that have come; aborts for others.
  ConstMatrixView block(const RowRange& rows) const;
  // The whole batch; aborts before it is complete. The assembler is then of no more use.
  Matrix Take();

 private:
  SliceFormat format_;
  BatchSlices slices_;
  std::vector<RowRange> computed_;
  size_t received_ = 0;  // Slices.
  size_t ready_ = 0;     // Of computed_, handed out.
  Matrix rows_;          // The first received_rows() are written.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_SLICE_ASSEMBLER_H_
