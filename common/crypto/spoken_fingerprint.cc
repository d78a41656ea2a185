#include "common/crypto/spoken_fingerprint.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace splitveil {
namespace {

constexpr size_t kGroups = 6;
constexpr size_t kBytesOfGroup = 5;
constexpr uint64_t kBelow = 100'000;

std::string Digits(absl::string_view text) { return absl::StrReplaceAll(text, {{" ", ""}, {"-", ""}}); }

}  // namespace

std::string SpokenFingerprint(const Digest& digest) {
  std::string text;
  for (size_t group = 0; group < kGroups; ++group) {
    uint64_t number = 0;
    for (size_t byte = 0; byte < kBytesOfGroup; ++byte) {
      number = number << 8 | digest[group * kBytesOfGroup + byte];
    }
    absl::StrAppendFormat(&text, "%s%05d", group == 0 ? "" : " ", number % kBelow);
  }
  return text;
}

bool SameFingerprint(absl::string_view spoken, absl::string_view fingerprint) {
  return Digits(spoken) == Digits(fingerprint);
}

}  // namespace splitveil
