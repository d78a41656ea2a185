#include "common/schedule/joint_seed.h"

#include <cstring>
#include <openssl/crypto.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/secure_random.h"
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

}  // namespace splitveil
