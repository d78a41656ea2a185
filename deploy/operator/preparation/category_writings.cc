#include "deploy/operator/preparation/category_writings.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "deploy/operator/preparation/column_sketches.h"
#include "deploy/operator/preparation/id_form.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

uint64_t Folded(absl::string_view text, bool zeros_count) {
  IdNormalForm form({v1::UNICODE_NFC, v1::CASE_FOLD});
  const absl::string_view folded = form.Of(text).value_or(text);  // Bytes of other encodings are compared as they are.
  // Inside a text, too: no-break space, zero-width space and joiners, soft hyphen.
  const std::string seen = absl::StrReplaceAll(folded, {{"\xc2\xa0", " "},
                                                        {"\xe2\x80\x8b", ""},
                                                        {"\xe2\x80\x8c", ""},
                                                        {"\xe2\x80\x8d", ""},
                                                        {"\xc2\xad", ""},
                                                        {"  ", " "}});
  IdNormalForm integer({v1::INTEGER});
  const std::string plainest = PlainestWriting(seen);
  return HashText(!plainest.empty() ? plainest : zeros_count ? seen : integer.Of(seen).value_or(seen));
}

}  // namespace

std::string PlainestWriting(absl::string_view text) {
  absl::string_view digits = absl::StripPrefix(text, "-");
  const size_t point = std::min(digits.find('.'), digits.size());
  const auto are_digits = [](absl::string_view part) {
    return std::all_of(part.begin(), part.end(), [](char c) { return absl::ascii_isdigit(c); });
  };
  if (point == 0 || (point > 1 && digits[0] == '0') || !are_digits(digits.substr(0, point)) ||
      (point < digits.size() && !are_digits(digits.substr(point + 1)))) {
    return "";
  }
  if (point < digits.size()) {
    digits = digits.substr(0, digits.find_last_not_of('0') + 1);
    digits = absl::StripSuffix(digits, ".");
  }
  return absl::StrCat(digits != "0" && absl::StartsWith(text, "-") ? "-" : "", digits);
}

KnownWritings::KnownWritings(const Vocabulary& vocabulary) {
  for (int32_t number = 1; vocabulary.size() <= kMaxValues && number <= vocabulary.size(); ++number) {
    hashes_.insert(Folded(vocabulary.value(number), /*zeros_count=*/false));
  }
}

bool KnownWritings::Has(absl::string_view text) const {
  return !hashes_.empty() && hashes_.contains(Folded(text, /*zeros_count=*/false));
}

std::string DescribeTwins(const std::string& column, const Vocabulary& vocabulary,
                          absl::FunctionRef<int64_t(int32_t)> rows_of, int64_t rows) {
  if (vocabulary.size() > KnownWritings::kMaxValues) {
    return "";
  }
  absl::flat_hash_map<uint64_t, int64_t> most;  // Rows of the most frequent writing.
  int64_t twins = 0, twin_rows = 0;
  for (int32_t number = 1; number <= vocabulary.size(); ++number) {
    const int64_t here = rows_of(number);
    const auto [found, is_new] = most.emplace(Folded(vocabulary.value(number), /*zeros_count=*/true), here);
    if (!is_new) {
      ++twins;
      twin_rows += std::min(here, found->second);
      found->second = std::max(here, found->second);
    }
  }
  return twins == 0
             ? ""
             : absl::StrFormat(
                   "column \"%s\": %d of %d values are written like another one but for capitals, blanks, signs "
                   "that no eye sees, how accents are stored, or .0 behind a number, in %.2g%% of the rows: each "
                   "is a category of its own. Write them alike if they mean the same",
                   OneLine(column), twins, vocabulary.size(),
                   100.0 * static_cast<double>(twin_rows) / static_cast<double>(std::max<int64_t>(rows, 1)));
}

}  // namespace splitveil
