#include "common/schedule/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <openssl/crypto.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/invariant.h"
#include "common/crypto/secure_random.h"
#include "common/crypto/seeded_stream.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// `purpose` keeps the two draws of one seed apart.
Digest Draw(const char* purpose, SeedRole role, uint64_t reproducible_seed) {
  Digest digest;
  // 0 is the default: only a test or an experiment may have a peer that can guess the seed.
  if (reproducible_seed == 0) {
    FillSecureRandom(absl::MakeSpan(digest));
    return digest;
  }
  return Sha256(absl::StrCat("splitveil ", purpose, role == SeedRole::kLabelParty ? " label " : " non-label ",
                             reproducible_seed));
}

}  // namespace

std::string SeedContribution(SeedRole role, uint64_t reproducible_seed) {
  return std::string(AsBytes(Draw("seed contribution", role, reproducible_seed)));
}

uint64_t WeightSeed(SeedRole role, uint64_t reproducible_seed) {
  const Digest digest = Draw("weight seed", role, reproducible_seed);
  uint64_t seed = 0;
  std::memcpy(&seed, digest.data(), sizeof(seed));
  return seed;
}

std::string OpenNonce() {
  Digest nonce;
  FillSecureRandom(absl::MakeSpan(nonce));
  return std::string(AsBytes(nonce));
}

namespace {

constexpr size_t kContributionBytes = 32;

// Tags end in a newline and what follows has a fixed length, so no two inputs of the hash can be read as each other.
constexpr char kCommitmentTag[] = "splitveil.v1 seed commitment\n";
constexpr char kSeedTag[] = "splitveil.v1 joint seed\n";

SeedRole PeerOf(SeedRole role) {
  return role == SeedRole::kLabelParty ? SeedRole::kNonLabelParty : SeedRole::kLabelParty;
}

Digest Commitment(SeedRole role, absl::string_view contribution) {
  const char* role_tag = role == SeedRole::kLabelParty ? "label party\n" : "non-label party\n";
  return Sha256(absl::StrCat(kCommitmentTag, role_tag, contribution));
}

absl::Status CheckLength(const char* field, absl::string_view bytes) {
  if (bytes.size() != kContributionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("joint seed: ", field, ": expected ", kContributionBytes, " bytes, found ", bytes.size()));
  }
  return absl::OkStatus();
}

}  // namespace

SeedExchange& SeedExchange::operator=(SeedExchange&& other) noexcept {
  role_ = other.role_;
  contribution_.swap(other.contribution_);  // The other one wipes it.
  return *this;
}

SeedExchange::~SeedExchange() { OPENSSL_cleanse(contribution_.data(), contribution_.size()); }

absl::StatusOr<SeedExchange> SeedExchange::Create(SeedRole role, std::string contribution) {
  SPLITVEIL_RETURN_IF_ERROR(CheckLength("contribution", contribution));
  return SeedExchange(role, std::move(contribution));
}

std::string SeedExchange::commitment() const { return std::string(AsBytes(Commitment(role_, contribution_))); }

absl::StatusOr<JointSeed> SeedExchange::Combine(absl::string_view peer_commitment,
                                                absl::string_view peer_reveal) const {
  SPLITVEIL_RETURN_IF_ERROR(CheckLength("peer's commitment", peer_commitment));
  SPLITVEIL_RETURN_IF_ERROR(CheckLength("peer's reveal", peer_reveal));
  const Digest expected = Commitment(PeerOf(role_), peer_reveal);
  // A peer that saw this party's seed first could choose its own to fit: the commitment binds it (architecture rule 1).
  if (CRYPTO_memcmp(expected.data(), peer_commitment.data(), expected.size()) != 0) {
    return absl::PermissionDeniedError("joint seed: the peer revealed a seed that does not match its commitment");
  }
  // The label party's first, so that both parties hash the same bytes.
  const bool own_first = role_ == SeedRole::kLabelParty;
  return Sha256(
      absl::StrCat(kSeedTag, own_first ? contribution_ : peer_reveal, own_first ? peer_reveal : contribution_));
}

namespace {

constexpr char kEpochTag[] = "splitveil.v1 epoch\n";

// The epoch in decimal, the last field: no byte order to agree on.
SeededStream EpochStream(const JointSeed& seed, uint32_t epoch) {
  return SeededStream(Sha256(absl::StrCat(kEpochTag, AsBytes(seed), epoch)));
}

std::vector<uint32_t> PositionsIn(const std::vector<bool>& trains, int64_t examples) {
  std::vector<uint32_t> positions;
  positions.reserve(static_cast<size_t>(examples));
  for (size_t position = 0; position < trains.size(); ++position) {
    if (trains[position]) {
      positions.push_back(static_cast<uint32_t>(position));
    }
  }
  return positions;
}

// Fisher-Yates over an unbiased stream: std::shuffle differs between standard libraries, and the parties must agree.
std::vector<uint32_t> Permuted(std::vector<uint32_t> positions, SeededStream stream) {
  for (size_t i = positions.size(); i > 1; --i) {
    std::swap(positions[i - 1], positions[stream.UniformBelow(static_cast<uint32_t>(i))]);
  }
  return positions;
}

}  // namespace

ScheduleOptions AgreedSchedule(const v1::RunAgreement& agreement) {
  return {agreement.batch_size(), agreement.minimum_batch_size(), agreement.epochs()};
}

int64_t BatchesPerEpoch(int64_t examples, const ScheduleOptions& options) {
  const int64_t rest = examples % options.batch_size;
  // A rest that is too small joins the batch before it: a small batch would expose its examples.
  const bool rest_stands_alone = rest >= options.minimum_batch_size;
  return std::max<int64_t>(1, examples / options.batch_size + (rest_stands_alone ? 1 : 0));
}

absl::StatusOr<Schedule> Schedule::Create(const JointSeed& seed, absl::Span<const uint32_t> train,
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
  return Schedule(seed, train, options);
}

Schedule::Schedule(const JointSeed& seed, absl::Span<const uint32_t> train, const ScheduleOptions& options)
    : seed_(seed), examples_(static_cast<int64_t>(train.size())), options_(options) {
  std::vector<bool> trains(size_t{train.back()} + 1);
  for (const uint32_t position : train) {
    trains[position] = true;
  }
  trains_ = std::make_shared<const std::vector<bool>>(std::move(trains));
}

std::vector<uint32_t> Schedule::positions() const { return PositionsIn(*trains_, examples_); }

int64_t Schedule::batches_per_epoch() const { return BatchesPerEpoch(examples_, options_); }

int64_t Schedule::batch_rows(int64_t batch) const {
  CheckInvariant(batch >= 0 && batch < batches_per_epoch(), "Schedule: 0 <= batch < batches_per_epoch");
  if (batch < batches_per_epoch() - 1) {
    return options_.batch_size;
  }
  return examples_ - batch * options_.batch_size;
}

absl::Span<const uint32_t> Schedule::BatchRows(uint32_t epoch, int64_t batch) {
  CheckInvariant(batch >= 0 && batch < batches_per_epoch(), "Schedule: 0 <= batch < batches_per_epoch");
  if (latest_.epoch != int64_t{epoch}) {
    Order order = DrawAhead(epoch);
    latest_ = {int64_t{epoch}, std::move(order)};
    ahead_ = {};
  }
  constexpr int64_t kLastShare = 16;
  // Late, as it takes memory until then; in time, as a step costs more than what it takes to draw its rows.
  const int64_t left = batches_per_epoch() - batch;
  if (int64_t{epoch} + 1 < options_.epochs && left * kLastShare <= std::max(batches_per_epoch(), kLastShare)) {
    (void)DrawAhead(epoch + 1);
  }
  return RowsIn(latest_.order, batch);
}

Schedule::Order Schedule::DrawAhead(uint32_t epoch) {
  if (latest_.epoch == int64_t{epoch}) {
    return latest_.order;
  }
  if (ahead_.epoch != int64_t{epoch}) {
    // By value: the schedule may be moved meanwhile. Without a thread to be had, it is drawn when it is asked for.
    const auto draw = [trains = trains_, examples = examples_, seed = seed_, epoch] {
      return Permuted(PositionsIn(*trains, examples), EpochStream(seed, epoch));
    };
    ahead_ = {int64_t{epoch}, std::async(draw).share()};
  }
  return ahead_.order;
}

absl::Span<const uint32_t> Schedule::RowsIn(const Order& order, int64_t batch) const {
  return absl::MakeConstSpan(order.get()).subspan(batch * options_.batch_size, batch_rows(batch));
}

int64_t BatchBytes(int64_t examples, int64_t cut_width, v1::DataType wire_dtype) {
  return examples * cut_width * (wire_dtype == v1::FLOAT32 ? 4 : 2);
}

int64_t BatchesInFlight(const LinkFigures& link, int64_t most) {
  // A lost packet holds up what follows for about a round trip: more must be in flight than one round trip needs.
  constexpr int64_t kMoreRoundTrips = 8;
  const absl::Duration between = std::max(link.batch, kLeastBatchWork);
  const double under_way = absl::FDivDuration((1 + kMoreRoundTrips) * link.round_trip + 2 * link.batch, between);
  return std::min(static_cast<int64_t>(std::ceil(under_way)) + 1, most);
}

int64_t FreshBatches(int64_t batches_per_epoch) {
  // Gradients of older activations than this cost accuracy.
  constexpr int64_t kShareOfAnEpoch = 16;
  return std::max<int64_t>(1, batches_per_epoch / kShareOfAnEpoch);
}

absl::Duration BatchInterval(const LinkFigures& link, absl::Duration work, int64_t in_flight) {
  return std::max({work, link.batch, (link.round_trip + 2 * link.batch + work) / in_flight});
}

}  // namespace splitveil
