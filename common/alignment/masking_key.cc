#include "common/alignment/masking_key.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/types/span.h"

#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

static_assert(sizeof(Point) == crypto_core_ristretto255_BYTES, "a point is 32 bytes on the wire");

constexpr absl::string_view kDomainTag = "Splitveil alignment ristretto255 SHA-512 v1";

const uint8_t* Bytes(absl::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

constexpr absl::string_view kCommitmentTag = "Splitveil alignment commitment SHA-256 v1";

void UpdateWith(uint64_t number, Sha256Hasher& hasher) {
  std::array<char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * i));
  }
  hasher.Update({bytes.data(), bytes.size()});
}

}  // namespace

std::vector<uint32_t> AscendingPositions(absl::Span<const Point> points) {
  // First by their leading 16 bits, by counting: the points to compare with each other then fit in a processor's cache,
  // while comparing them all waits for memory at nearly every step.
  const auto bucket = [](const Point& point) { return size_t{point[0]} << 8 | point[1]; };
  std::vector<uint32_t> ends(size_t{1} << 16);  // Where each bucket ends; before it is filled, where it begins.
  for (const Point& point : points) {
    ++ends[bucket(point)];
  }
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), uint32_t{0});
  std::vector<uint32_t> positions(points.size());
  for (uint32_t position = 0; position < points.size(); ++position) {
    positions[ends[bucket(points[position])]++] = position;
  }
  auto begin = positions.begin();
  for (const uint32_t end : ends) {
    std::sort(begin, positions.begin() + end, [&](uint32_t a, uint32_t b) { return points[a] < points[b]; });
    begin = positions.begin() + end;
  }
  return positions;
}

bool IsUsablePoint(const Point& point) {
  return crypto_core_ristretto255_is_valid_point(point.data()) == 1 && sodium_is_zero(point.data(), point.size()) == 0;
}

IdHasher::IdHasher(absl::string_view run_id) {
  std::array<uint8_t, 8> length;
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<uint8_t>(static_cast<uint64_t>(run_id.size()) >> (8 * i));
  }
  crypto_hash_sha512_init(&prefix_);
  crypto_hash_sha512_update(&prefix_, Bytes(kDomainTag), kDomainTag.size());
  crypto_hash_sha512_update(&prefix_, length.data(), length.size());
  crypto_hash_sha512_update(&prefix_, Bytes(run_id), run_id.size());
}

Point IdHasher::Hash(absl::string_view id) const {
  crypto_hash_sha512_state state = prefix_;
  crypto_hash_sha512_update(&state, Bytes(id), id.size());
  std::array<uint8_t, crypto_hash_sha512_BYTES> digest;
  crypto_hash_sha512_final(&state, digest.data());
  Point point;
  crypto_core_ristretto255_from_hash(point.data(), digest.data());
  return point;
}

MaskingKey::MaskingKey() {
  // Reducing 512 bits modulo the group order leaves a bias below 2^-256.
  std::array<uint8_t, crypto_core_ristretto255_NONREDUCEDSCALARBYTES> wide;
  do {
    FillSecureRandom(absl::MakeSpan(wide));
    crypto_core_ristretto255_scalar_reduce(scalar_.data(), wide.data());
  } while (sodium_is_zero(scalar_.data(), scalar_.size()) != 0);
  sodium_memzero(wide.data(), wide.size());
}

MaskingKey::~MaskingKey() { sodium_memzero(scalar_.data(), scalar_.size()); }

bool MaskingKey::Mask(const Point& point, Point& masked) const {
  return crypto_scalarmult_ristretto255(masked.data(), scalar_.data(), point.data()) == 0;
}

// Without a nonce the commitment to a shared id's point could be computed by either party.
CommitmentNonce DrawCommitmentNonce() {
  CommitmentNonce nonce;
  FillSecureRandom(absl::MakeSpan(nonce));
  return nonce;
}

Digest CommitmentTo(PointKind kind, absl::string_view run_id, uint64_t first_index, const CommitmentNonce& nonce,
                    absl::string_view points) {
  Sha256Hasher hasher;
  hasher.Update(kDomainTag);
  UpdateWith(static_cast<uint64_t>(kind), hasher);
  UpdateWith(first_index, hasher);
  UpdateWith(run_id.size(), hasher);
  hasher.Update(run_id);
  hasher.Update({reinterpret_cast<const char*>(nonce.data()), nonce.size()});
  hasher.Update(points);
  return hasher.Finish();
}

}  // namespace splitveil
