// Commit-reveal of the joint seed: neither party chooses the schedule (architecture rule 1).
#ifndef SPLITVEIL_COMMON_SCHEDULE_JOINT_SEED_H_
#define SPLITVEIL_COMMON_SCHEDULE_JOINT_SEED_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"

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
// Whoever reveals first learns nothing and can change nothing, so one honest party with a uniform contribution makes
// the seed uniform; a peer that does not like the seed can only break off (Blum, "Coin Flipping by Telephone", 1981).
// Commitments name the role: a peer that echoes ours, and later our reveal, is refused. The contribution is wiped with
// the object. Movable, not copyable. Thread-compatible.
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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_JOINT_SEED_H_
