#include "common/alignment/masking_key.h"

#include <endian.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/crypto/invariant.h"
#include "common/crypto/sha256.h"
#include "common/process/parallel_for.h"

namespace splitveil {
namespace {

constexpr absl::string_view kDomainTag = "Splitveil alignment ristretto255 SHA-512 v1";
constexpr absl::string_view kSecretTag = "Splitveil alignment exponent SHA-512 v1";
constexpr absl::string_view kPaddingTag = "Splitveil alignment padding ristretto255 SHA-512 v1";
constexpr absl::string_view kNonceTag = "Splitveil alignment nonce HMAC-SHA-256 v1";
constexpr absl::string_view kCanaryTag = "Splitveil alignment canary ristretto255 SHA-512 v1";

const uint8_t* Bytes(absl::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

constexpr absl::string_view kCommitmentTag = "Splitveil alignment commitment SHA-256 v1";

std::array<char, 8> LittleEndian(uint64_t number) {
  std::array<char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * i));
  }
  return bytes;
}

void UpdateWith(uint64_t number, Sha256Hasher& hasher) {
  const std::array<char, 8> bytes = LittleEndian(number);
  hasher.Update({bytes.data(), bytes.size()});
}

void UpdateWith(uint64_t number, crypto_hash_sha512_state& state) {
  const std::array<char, 8> bytes = LittleEndian(number);
  crypto_hash_sha512_update(&state, Bytes({bytes.data(), bytes.size()}), bytes.size());
}

crypto_hash_sha512_state After(absl::string_view tag, absl::string_view run_id) {
  crypto_hash_sha512_state state;
  crypto_hash_sha512_init(&state);
  crypto_hash_sha512_update(&state, Bytes(tag), tag.size());
  UpdateWith(run_id.size(), state);
  crypto_hash_sha512_update(&state, Bytes(run_id), run_id.size());
  return state;
}

RistrettoUniform Finish(crypto_hash_sha512_state& state) {
  RistrettoUniform digest;
  crypto_hash_sha512_final(&state, digest.data());
  return digest;
}

// Calls body(first, count) for batches that together are [0, points), on up to `threads` threads.
template <typename Body>
void ForEachBatch(size_t points, size_t threads, const Body& body) {
  ParallelFor((points + kRistrettoBatch - 1) / kRistrettoBatch, threads, [&](size_t batch) {
    const size_t first = batch * kRistrettoBatch;
    body(first, std::min(kRistrettoBatch, points - first));
  });
}

}  // namespace

std::vector<uint32_t> AscendingPositions(absl::Span<const Point> points) {
  // First by their leading 16 bits, by counting, then by 64, which lie beside each other in the processor's cache: to
  // compare the points waits for memory at nearly every step.
  struct Entry {
    uint64_t leading;
    uint32_t position;
  };
  const auto bucket = [](const Point& point) { return size_t{point[0]} << 8 | point[1]; };
  std::vector<uint32_t> ends(size_t{1} << 16);  // Where each bucket ends; before it is filled, where it begins.
  for (const Point& point : points) {
    ++ends[bucket(point)];
  }
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), uint32_t{0});
  std::vector<Entry> entries(points.size());
  for (uint32_t position = 0; position < points.size(); ++position) {
    Entry& entry = entries[ends[bucket(points[position])]++];
    std::memcpy(&entry.leading, points[position].data(), sizeof(entry.leading));
    entry.leading = be64toh(entry.leading);
    entry.position = position;
  }
  const auto precedes = [&](const Entry& a, const Entry& b) {
    return a.leading != b.leading ? a.leading < b.leading : points[a.position] < points[b.position];
  };
  auto begin = entries.begin();
  for (const uint32_t end : ends) {
    std::sort(begin, entries.begin() + end, precedes);
    begin = entries.begin() + end;
  }
  std::vector<uint32_t> positions(points.size());
  std::transform(entries.begin(), entries.end(), positions.begin(), [](const Entry& entry) { return entry.position; });
  return positions;
}

bool IsUsablePoint(const Point& point) { return CountUnusable({&point, 1}) == 0; }

uint64_t CountUnusablePoints(absl::Span<const Point> points, size_t threads) {
  std::atomic<uint64_t> unusable{0};
  ForEachBatch(points.size(), threads,
               [&](size_t first, size_t count) { unusable += CountUnusable(points.subspan(first, count)); });
  return unusable;
}

IdHasher::IdHasher(absl::string_view run_id) : ids_(After(kDomainTag, run_id)), canaries_(After(kCanaryTag, run_id)) {}

RistrettoUniform IdHasher::Hash(absl::string_view id) const {
  crypto_hash_sha512_state state = ids_;
  crypto_hash_sha512_update(&state, Bytes(id), id.size());
  return Finish(state);
}

RistrettoUniform IdHasher::HashCanary(uint64_t number) const {
  crypto_hash_sha512_state state = canaries_;
  UpdateWith(number, state);
  return Finish(state);
}

RistrettoExponent AlignmentSecret::Exponent(absl::string_view purpose) const {
  crypto_hash_sha512_state state = After(kSecretTag, purpose);
  crypto_hash_sha512_update(&state, key_.bytes().data(), key_.bytes().size());
  RistrettoUniform hash = Finish(state);
  std::array<uint8_t, 32> scalar;
  crypto_core_ristretto255_scalar_reduce(scalar.data(), hash.data());
  CheckInvariant(sodium_is_zero(scalar.data(), scalar.size()) == 0, "an exponent is not zero");
  const absl::Cleanup wipe = [&] {
    sodium_memzero(&state, sizeof(state));
    sodium_memzero(hash.data(), hash.size());
    sodium_memzero(scalar.data(), scalar.size());
  };
  return RistrettoExponent(scalar);
}

RistrettoUniform AlignmentSecret::HashPadding(uint64_t bucket, uint64_t number) const {
  crypto_hash_sha512_state state = After(kPaddingTag, "");
  crypto_hash_sha512_update(&state, key_.bytes().data(), key_.bytes().size());
  UpdateWith(bucket, state);
  UpdateWith(number, state);
  return Finish(state);
}

CommitmentNonce AlignmentSecret::Nonce(PointKind kind, uint64_t first_index) const {
  const std::array<char, 8> index = LittleEndian(first_index);
  return HmacSha256(key_.bytes(),
                    absl::StrCat(kNonceTag, static_cast<int>(kind), absl::string_view(index.data(), index.size())));
}

bool MaskingKey::Mask(const Point& point, Point& masked) const {
  return exponent_.Multiply({&point, 1}, {&masked, 1}) == 0;
}

bool MaskingKey::Mask(absl::Span<const Point> points, size_t threads, absl::Span<Point> masked) const {
  std::atomic<bool> usable{true};
  ForEachBatch(masked.size(), threads, [&](size_t first, size_t count) {
    if (exponent_.Multiply(points.subspan(first, count), masked.subspan(first, count)) > 0) {
      usable = false;
    }
  });
  return usable;
}

bool MaskingKey::MaskHashes(absl::FunctionRef<RistrettoUniform(size_t)> hash, size_t threads,
                            absl::Span<Point> masked) const {
  std::atomic<bool> usable{true};
  ForEachBatch(masked.size(), threads, [&](size_t first, size_t count) {
    std::array<RistrettoUniform, kRistrettoBatch> hashes;
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = hash(first + i);
    }
    if (exponent_.HashAndMultiply(absl::MakeConstSpan(hashes).first(count), masked.subspan(first, count)) > 0) {
      usable = false;
    }
  });
  return usable;
}

Digest CommitmentTo(PointKind kind, absl::string_view run_id, uint64_t first_index, const CommitmentNonce& nonce,
                    absl::string_view points) {
  Sha256Hasher hasher;
  hasher.Update(kCommitmentTag);
  UpdateWith(static_cast<uint64_t>(kind), hasher);
  UpdateWith(first_index, hasher);
  UpdateWith(run_id.size(), hasher);
  hasher.Update(run_id);
  hasher.Update({reinterpret_cast<const char*>(nonce.data()), nonce.size()});
  hasher.Update(points);
  return hasher.Finish();
}

}  // namespace splitveil
