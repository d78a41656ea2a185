// A digest that two people can compare by voice.
#ifndef SPLITVEIL_COMMON_CRYPTO_SPOKEN_FINGERPRINT_H_
#define SPLITVEIL_COMMON_CRYPTO_SPOKEN_FINGERPRINT_H_

#include <string>

#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"

namespace splitveil {

// Six groups of five decimal digits, "01234 56789 ...": group k is bytes [5k, 5k + 5) of `digest`, big-endian, modulo
// 100,000, as Signal's safety numbers are made. 99.6 bits: to find a text whose fingerprint is a given one takes some
// 2^99 digests, to find two texts that share one some 2^50. The programs compare whole digests; this is for people, who
// make sure that both mean the same file. Thread-safe.
std::string SpokenFingerprint(const Digest& digest);

// Whether `spoken` has the digits of `fingerprint`, however they are grouped by blanks and hyphens.
bool SameFingerprint(absl::string_view spoken, absl::string_view fingerprint);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SPOKEN_FINGERPRINT_H_
