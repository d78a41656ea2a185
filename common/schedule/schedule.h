// Which examples make up batch (epoch, batch): fixed by a joint seed that neither party chose, the same at both
// parties; and how many batches are in flight.
#ifndef SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_
#define SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// 32 bytes both parties contributed to. Public to both parties, to nobody else.
using JointSeed = Digest;

enum class SeedRole { kLabelParty, kNonLabelParty };

// One party's side of the exchange: both commit, then both reveal.
//
//   label party                         non-label party
//     commitment()  ─────────────────►
//                   ◄─────────────────  commitment()
//     reveal()      ─────────────────►
//                   ◄─────────────────  reveal()
//     Combine(theirs)                   Combine(theirs)
//
// The party that reveals first learns nothing and can change nothing, so one honest party with a uniform contribution
// makes the seed uniform; a peer that does not like the seed can only break off (Blum, "Coin Flipping by Telephone",
// 1981). Commitments name the role: a peer that echoes ours, and later our reveal, is refused. The contribution is
// wiped with the object. Movable, not copyable. Thread-compatible.
class SeedExchange {
 public:
  SeedExchange(SeedExchange&&) noexcept = default;
  SeedExchange& operator=(SeedExchange&& other) noexcept;
  SeedExchange(const SeedExchange&) = delete;
  SeedExchange& operator=(const SeedExchange&) = delete;
  ~SeedExchange();

  // `contribution`: 32 bytes of FillSecureRandom; moved in, so that it stays in one place. Errors: InvalidArgument for
  // another length.
  static absl::StatusOr<SeedExchange> Create(SeedRole role, std::string contribution);

  // 32 bytes: SHA-256 of a domain tag, the role and the contribution.
  std::string commitment() const;
  // The 32-byte contribution; send only after the peer's commitment is held.
  const std::string& reveal() const { return contribution_; }

  // The joint seed: SHA-256 of a domain tag, the label party's contribution and the non-label party's, so both parties
  // get the same. Errors: InvalidArgument where an argument is not of 32 bytes; PermissionDenied where `peer_reveal` is
  // not what `peer_commitment` committed to.
  absl::StatusOr<JointSeed> Combine(absl::string_view peer_commitment, absl::string_view peer_reveal) const;

 private:
  SeedExchange(SeedRole role, std::string contribution) : role_(role), contribution_(std::move(contribution)) {}

  SeedRole role_;
  std::string contribution_;  // On the heap, being longer than any short string: a move leaves no copy of it.
};

// 32 bytes: from the operating system where `reproducible_seed` is 0, else derived from it and the role (research: the
// same configuration repeats the same schedule).
std::string SeedContribution(SeedRole role, uint64_t reproducible_seed);

// Seed of a party's weight initialisation, likewise. Not secret: it touches no label.
uint64_t WeightSeed(SeedRole role, uint64_t reproducible_seed);

// OpenRequest.nonce: 32 bytes, always from the operating system.
std::string OpenNonce();

struct ScheduleOptions {
  // Examples a batch, >= minimum_batch_size.
  int64_t batch_size = 1024;
  // A last batch smaller than this joins the one before it: a small batch hides its labels badly. >= 1.
  int64_t minimum_batch_size = 16;
  // Of the run: no order is drawn ahead of the last one's.
  int64_t epochs = 1;
};

// The agreed ones. `agreement`: valid.
ScheduleOptions AgreedSchedule(const v1::RunAgreement& agreement);

// Whether both parties write a checkpoint within an epoch once `steps` steps of the run are done: every `every`; 0:
// never (RunAgreement.checkpoint_steps).
inline bool IsCheckpointStep(int64_t steps, int64_t every) { return every > 0 && steps % every == 0; }

// Of an epoch of `examples` training examples, at least 1. `options`: in range.
int64_t BatchesPerEpoch(int64_t examples, const ScheduleOptions& options);

// Batches of one run. An epoch's order is a Fisher-Yates permutation of the training positions, drawn without bias from
// the SeededStream under SHA-256(domain tag, seed, epoch); batch b is its b-th slice. The next epoch's is drawn on a
// thread of its own while the last sixteenth of an epoch is asked for, so that no step waits for it. Memory: 4 bytes a
// training position, 8 from then on until the next epoch, and a bit for each aligned one. Not thread-safe.
class Schedule {
 public:
  // The order of an epoch, once it is drawn.
  using Order = std::shared_future<std::vector<uint32_t>>;

  // `train`: positions in the aligned order, strictly ascending, as SplitRule gives them. Errors: InvalidArgument
  // where fewer than minimum_batch_size are given, where they do not ascend, or for options out of range.
  static absl::StatusOr<Schedule> Create(const JointSeed& seed, absl::Span<const uint32_t> train,
                                         const ScheduleOptions& options);

  // How many training positions there are, and a copy of them, strictly ascending.
  int64_t examples() const { return examples_; }
  std::vector<uint32_t> positions() const;
  int64_t batches_per_epoch() const;
  // Of the run.
  int64_t epochs() const { return options_.epochs; }
  // Rows of batch `batch`. Aborts unless 0 <= batch < batches_per_epoch(): what a peer asks for is checked before.
  int64_t batch_rows(int64_t batch) const;
  // The batch's positions in the aligned order. Every training position occurs in exactly one batch of an epoch. The
  // span is valid until another epoch is asked for. Aborts as batch_rows does.
  absl::Span<const uint32_t> BatchRows(uint32_t epoch, int64_t batch);
  // Begins to draw the order of `epoch`, unless that is done or under way.
  Order DrawAhead(uint32_t epoch);
  // The positions of a batch in its epoch's order; waits for that. Aborts as batch_rows does. Thread-safe.
  absl::Span<const uint32_t> RowsIn(const Order& order, int64_t batch) const;

 private:
  struct EpochOrder {
    int64_t epoch = -1;
    Order order;
  };

  Schedule(const JointSeed& seed, absl::Span<const uint32_t> train, const ScheduleOptions& options);

  JointSeed seed_;
  std::shared_ptr<const std::vector<bool>> trains_;  // By aligned position. Shared with the threads that draw.
  int64_t examples_;
  ScheduleOptions options_;
  EpochOrder latest_, ahead_;
};

struct LinkFigures {
  absl::Duration round_trip;  // Of a message and an answer that hold next to nothing.
  absl::Duration batch;       // What the bytes of a batch take besides, in one direction.
};

// What the parties at least compute between two batches.
inline constexpr absl::Duration kLeastBatchWork = absl::Milliseconds(2);

// Bytes of the activations of `examples`, as of their gradients, at `cut_width` numbers each.
int64_t BatchBytes(int64_t examples, int64_t cut_width, v1::DataType wire_dtype);

// As many as are under way while the first of them returns and for eight round trips more, (9 round trips + 2 batch) /
// the longer of `batch` and kLeastBatchWork: a lost packet holds up all that follow it for about a round trip, on its
// way and on the way back, and with one of a thousand lost the next one is lost before those are made up for. One more,
// so that a batch waits when its turn comes. In [1, most].
int64_t BatchesInFlight(const LinkFigures& link, int64_t most);

// A sixteenth of an epoch's batches, at least 1: the most to choose, since the gradients of all of them are of
// activations that old.
int64_t FreshBatches(int64_t batches_per_epoch);

// From one batch to the next with `in_flight` of them, at least 1, under way: the longest of what the slower party
// computes for one (`work`), what it takes on the link in one direction, and a share of a whole turn, 1 / in_flight of
// (round trip + 2 batch + work). A lower limit: a connection that loses packets, or waits between batches, sends
// slower.
absl::Duration BatchInterval(const LinkFigures& link, absl::Duration work, int64_t in_flight);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_
