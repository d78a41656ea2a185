// What a party draws for itself: its half of the joint seed, the start of its weights, the name of an Open.
#ifndef SPLITVEIL_COMMON_SCHEDULE_PARTY_SEED_H_
#define SPLITVEIL_COMMON_SCHEDULE_PARTY_SEED_H_

#include <cstdint>
#include <string>

#include "common/schedule/joint_seed.h"

namespace splitveil {

// 32 bytes: from the operating system where `reproducible_seed` is 0, else derived from it and the role (research: the
// same configuration repeats the same schedule).
std::string SeedContribution(SeedRole role, uint64_t reproducible_seed);

// Seed of a party's weight initialisation, likewise. Not secret: it touches no label.
uint64_t WeightSeed(SeedRole role, uint64_t reproducible_seed);

// OpenRequest.nonce: 32 bytes, always from the operating system.
std::string OpenNonce();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_PARTY_SEED_H_
