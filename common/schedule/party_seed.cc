#include "common/schedule/party_seed.h"

#include <cstring>

#include "absl/strings/str_cat.h"

#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

// `purpose` keeps the two draws of one seed apart.
Digest Draw(const char* purpose, SeedRole role, uint64_t reproducible_seed) {
  Digest digest;
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

}  // namespace splitveil
