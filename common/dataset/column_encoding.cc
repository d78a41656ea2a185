#include "common/dataset/column_encoding.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/crypto/mixed_bits.h"

namespace splitveil {
namespace {

// Keeps the logarithm's ratio of both sides finite.
constexpr double kLeastMidpoint = 1e-12;

// The rank in [0, 1] among ascending knots of equally distant ranks, at least two.
template <typename Knots>
double Rank(const Knots& knots, double number) {
  // A number that many rows have spans several knots: the middle of its ranks, as of tied observations.
  const auto [first, behind] = std::equal_range(knots.begin(), knots.end(), number);
  const auto last = static_cast<double>(knots.size() - 1), below = static_cast<double>(first - knots.begin());
  if (first != behind) {
    return (below + static_cast<double>(behind - knots.begin() - 1)) / 2 / last;
  }
  if (first == knots.begin() || first == knots.end()) {
    return first == knots.begin() ? 0 : 1;
  }
  return (below - 1 + PlaceBetween(number, *(first - 1), *first)) / last;
}

// The same on every machine: FNV-1a (Fowler, Noll, Vo), its bits spread.
uint64_t HashOf(absl::string_view value) {
  // std::hash may change between libraries, and a category would then get another row of a trained table.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : value) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  return MixBits(hash);
}

}  // namespace

double PlaceBetween(double number, double minimum, double maximum) {
  // Halves, because the difference of two doubles may overflow.
  const double range = maximum / 2 - minimum / 2;
  return range > 0 ? std::clamp((number / 2 - minimum / 2) / range, 0.0, 1.0) : 0;
}

double LogPlace(double place, double middle) {
  // Mirrored, so that a long tail below is spread as one above is.
  if (middle > 0.5) {
    return 1 - LogPlace(1 - place, 1 - middle);
  }
  // log(1 + growth p) / log(1 + growth) is 1/2 at p = m exactly for this growth.
  const double m = std::max(middle, kLeastMidpoint), growth = (1 - 2 * m) / (m * m);  // ((1 - m) / m)^2 - 1
  return growth > 0 ? std::log1p(place * growth) / std::log1p(growth) : place;
}

float ScaledNumber(const v1::NumericScaling& scaling, double number) {
  if (std::isnan(number)) {
    if (scaling.has_missing_value()) {
      return static_cast<float>(scaling.missing_value());
    }
    number = 0;
  }
  const double minimum = scaling.minimum(), maximum = scaling.maximum();
  if (scaling.has_midpoint()) {
    return static_cast<float>(
        LogPlace(PlaceBetween(number, minimum, maximum), PlaceBetween(scaling.midpoint(), minimum, maximum)));
  }
  return static_cast<float>(scaling.knots_size() > 1 ? Rank(scaling.knots(), number)
                                                     : PlaceBetween(number, minimum, maximum));
}

bool IsMissingIndicator(const v1::NumericScaling& scaling) {
  // No column has this by chance: without a range its missing value is the place of its median, which is never 1.
  return scaling.minimum() == 0 && scaling.maximum() == 0 && scaling.missing_value() == 1;
}

std::string MissingIndicatorOf(absl::string_view column) { return absl::StrCat(column, " is missing"); }

int32_t EmbeddingRowOf(const v1::CategoryIndex& index, int64_t number) {
  auto block = index.blocks().begin();
  // Few blocks: one for each time that the data were extended.
  for (; number >= block->rows(); ++block) {
    number -= block->rows();
  }
  return static_cast<int32_t>(block->first_row() + number);
}

int64_t HashBucketOf(const v1::CategoryIndex& index, absl::string_view value) {
  return static_cast<int64_t>(HashOf(value) % static_cast<uint64_t>(index.hash_buckets()));
}

}  // namespace splitveil
