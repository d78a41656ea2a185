#include "common/schedule/schedule.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/invariant.h"
#include "common/crypto/seeded_stream.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr char kEpochTag[] = "splitveil.v1 epoch\n";

// The epoch in decimal, the last field: no byte order to agree on.
SeededStream EpochStream(const JointSeed& seed, uint32_t epoch) {
  return SeededStream(Sha256(absl::StrCat(kEpochTag, AsBytes(seed), epoch)));
}

}  // namespace

ScheduleOptions AgreedSchedule(const v1::RunAgreement& agreement) {
  return {agreement.batch_size(), agreement.minimum_batch_size()};
}

int64_t BatchesPerEpoch(int64_t examples, const ScheduleOptions& options) {
  const int64_t rest = examples % options.batch_size;
  // A rest that is too small joins the batch before it: a small batch would expose its examples.
  const bool rest_stands_alone = rest >= options.minimum_batch_size;
  return std::max<int64_t>(1, examples / options.batch_size + (rest_stands_alone ? 1 : 0));
}

absl::StatusOr<Schedule> Schedule::Create(const JointSeed& seed, std::vector<uint32_t> train,
                                          const ScheduleOptions& options) {
  if (options.minimum_batch_size < 1 || options.batch_size < options.minimum_batch_size) {
    return absl::InvalidArgumentError(absl::StrCat("schedule: expected 1 <= minimum_batch_size <= batch_size, found ",
                                                   options.minimum_batch_size, " and ", options.batch_size));
  }
  if (static_cast<int64_t>(train.size()) < options.minimum_batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule: expected at least minimum_batch_size = ", options.minimum_batch_size,
                     " training examples, found ", train.size()));
  }
  // Sorted input makes the permutation depend on the seed and the set only.
  if (std::adjacent_find(train.begin(), train.end(), std::greater_equal<>()) != train.end()) {
    return absl::InvalidArgumentError("schedule: expected strictly ascending training positions");
  }
  return Schedule(seed, std::move(train), options);
}

Schedule::Schedule(const JointSeed& seed, std::vector<uint32_t> train, const ScheduleOptions& options)
    : seed_(seed), train_(std::move(train)), options_(options) {}

int64_t Schedule::batches_per_epoch() const { return BatchesPerEpoch(static_cast<int64_t>(train_.size()), options_); }

int64_t Schedule::batch_rows(int64_t batch) const {
  CheckInvariant(batch >= 0 && batch < batches_per_epoch(), "Schedule: 0 <= batch < batches_per_epoch");
  if (batch < batches_per_epoch() - 1) {
    return options_.batch_size;
  }
  return static_cast<int64_t>(train_.size()) - batch * options_.batch_size;
}

absl::Span<const uint32_t> Schedule::BatchRows(uint32_t epoch, int64_t batch) {
  const int64_t rows = batch_rows(batch);
  if (cached_epoch_ != int64_t{epoch}) {
    Permute(epoch);
  }
  return absl::MakeConstSpan(permutation_).subspan(batch * options_.batch_size, rows);
}

void Schedule::Permute(uint32_t epoch) {
  SeededStream stream = EpochStream(seed_, epoch);
  permutation_ = train_;
  // Fisher-Yates over an unbiased stream: std::shuffle differs between standard libraries, and the parties must agree.
  for (size_t i = permutation_.size(); i > 1; --i) {
    std::swap(permutation_[i - 1], permutation_[stream.UniformBelow(static_cast<uint32_t>(i))]);
  }
  cached_epoch_ = epoch;
}

}  // namespace splitveil
