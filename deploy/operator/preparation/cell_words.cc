#include "deploy/operator/preparation/cell_words.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

// Longer ones are remarks.
constexpr size_t kMaxUnitBytes = 12;

// Blanks of Unicode that stand between thousands or in front of a unit: no-break, narrow no-break, thin.
constexpr absl::string_view kWideBlanks[] = {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};

constexpr absl::string_view kCurrencies[] = {"$",   "€",   "£",   "¥",   "₹",   "₽", "₩",   "zł",  "kr",
                                             "EUR", "USD", "GBP", "JPY", "CHF", "CNY", "INR", "RUB", "KRW",
                                             "PLN", "SEK", "NOK", "DKK", "CZK", "HUF", "AUD", "CAD", "NZD",
                                             "SGD", "HKD", "MXN", "BRL", "ZAR", "TRY"};
constexpr absl::string_view kMeasures[] = {"%",  "kg", "g",   "mg", "t",  "km",  "m",  "cm", "mm", "km/h", "m²", "l",
                                           "ml", "h",  "min", "s",  "ms", "kWh", "kW", "W",  "GB", "MB",   "kB", "°C"};

// In lower case.
constexpr absl::string_view kMissing[] = {"na",      "n/a",   "n.a.",  "nan",     "-nan",   "nat",    "none",
                                          "null",    "nil",   "?",     "-",       "--",     ".",      "\\n",
                                          "#n/a",    "#na",   "<na>",  "<null>",  "(null)", "#null!", "#value!",
                                          "#div/0!", "#ref!", "#num!", "1.#qnan", "missing"};

constexpr absl::string_view kDateForms[] = {"9999-99-99", "99.99.9999", "9.99.9999", "99.9.9999",
                                            "9.9.9999",   "9999.99.99", "99-99-9999"};  // "/" as ".".

template <typename List>
bool Has(const List& list, absl::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// Of a first byte: digits, brackets and signs.
bool MayBeNumber(char c) { return IsDigit(c) || c == '(' || c == '.' || c == ',' || c == '\''; }

// "/100" of 51/100; "" if there is no denominator.
absl::string_view DenominatorOf(absl::string_view text) {
  const absl::string_view denominator = text.substr(std::min(text.find('/'), text.size()));
  return denominator.size() > 1 && std::all_of(denominator.begin() + 1, denominator.end(), IsDigit)
             ? denominator
             : absl::string_view();
}

// A number between signs that are no letters, as ="12.34", '12, <5 and 12.3‰, or one with a fraction and a letter or
// two behind it: 12.34k. Codes have letters in front.
bool HasNumberInside(absl::string_view text) {
  const auto is_inside = [](char c) { return IsDigit(c) || c == '.' || c == ','; };
  const size_t begin = std::find_if(text.begin(), text.end(), IsDigit) - text.begin();
  const size_t end = std::find_if_not(text.begin() + static_cast<int64_t>(begin), text.end(), is_inside) - text.begin();
  const absl::string_view front = text.substr(0, begin), number = text.substr(begin, end - begin);
  const absl::string_view behind = text.substr(end);
  const auto has_letter = [](absl::string_view affix) {
    return std::any_of(affix.begin(), affix.end(), absl::ascii_isalpha);
  };
  // Short affixes only, or every sentence with a number in it would be one.
  return !number.empty() && front.size() <= 3 && behind.size() <= 3 && !has_letter(front) && !HasDigit(behind) &&
         std::count_if(number.begin(), number.end(), [](char c) { return !IsDigit(c); }) <= 1 &&
         (number.find_first_of(".,") != absl::string_view::npos || !has_letter(behind));
}

}  // namespace

bool TakeBlank(absl::string_view& text) {
  if (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
    return true;
  }
  return !text.empty() && !absl::ascii_isascii(text.front()) &&
         std::any_of(std::begin(kWideBlanks), std::end(kWideBlanks),
                     [&](absl::string_view blank) { return absl::ConsumePrefix(&text, blank); });
}

absl::string_view StripBlanks(absl::string_view text) {
  while (TakeBlank(text)) {
  }
  while (true) {
    if (absl::EndsWith(text, " ") || absl::EndsWith(text, "\t")) {
      text.remove_suffix(1);
    } else if (text.empty() || absl::ascii_isascii(text.back()) ||
               !std::any_of(std::begin(kWideBlanks), std::end(kWideBlanks),
                            [&](absl::string_view blank) { return absl::ConsumeSuffix(&text, blank); })) {
      return text;
    }
  }
}

bool BeginsWithCurrency(absl::string_view text) {
  return std::any_of(std::begin(kCurrencies), std::end(kCurrencies), [&](absl::string_view currency) {
    // The first byte alone sorts out nearly every cell.
    return text.front() == currency.front() && absl::StartsWith(text, currency);
  });
}

bool IsKnownUnit(absl::string_view unit) { return Has(kCurrencies, unit) || Has(kMeasures, unit); }

absl::string_view TakeUnit(absl::string_view& text) {
  const bool has_one = !IsDigit(text.front()) && BeginsWithCurrency(text);
  for (const absl::string_view unit : kCurrencies) {
    if (has_one && absl::ConsumePrefix(&text, unit)) {
      text = StripBlanks(text);
      return unit;
    }
  }
  if (!MayBeNumber(text.front())) {
    return "";
  }
  if (const absl::string_view denominator = DenominatorOf(text); !denominator.empty()) {
    text.remove_suffix(denominator.size());
    // 51/100 is a mark out of 100 where all cells have the same denominator; the profile compares them as units.
    return denominator.size() <= kMaxUnitBytes ? denominator : "";
  }
  const auto last = std::find_if(text.rbegin(), text.rend(), IsDigit);
  const size_t end = text.rend() - last;  // Behind the last digit.
  const absl::string_view behind = text.substr(end), unit = StripBlanks(behind);
  // Behind a blank any word will do, since "12 rooms" is a number with a unit; 12a is a code.
  const bool is_word = behind.size() > unit.size() && unit.size() > 1 &&
                       std::all_of(unit.begin(), unit.end(), [](char c) { return absl::ascii_isalpha(c) || c < 0; });
  if (end == 0 || unit.empty() || unit.size() > kMaxUnitBytes ||
      !(is_word || Has(kCurrencies, unit) || Has(kMeasures, unit))) {
    return "";
  }
  text = StripBlanks(text.substr(0, end));
  return unit;
}

bool HasOddDigits(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "0x") || absl::ConsumePrefix(&text, "0X")) {
    return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
  }
  return HasNumberInside(text) || (text.find_first_not_of("0123456789.,'_ ()-+") == absl::string_view::npos &&
                                   (text.find_first_of(",(") != absl::string_view::npos || text.back() == '-'));
}

bool IsNumberOfOtherDigits(absl::string_view text) {
  constexpr std::pair<absl::string_view, char> kZeros[] = {
      {"\xd9", '\xa0'}, {"\xdb", '\xb0'}, {"\xe0\xa5", '\xa6'}, {"\xef\xbc", '\x90'}};
  bool any = false;
  while (!text.empty()) {
    const auto* const zero = std::find_if(std::begin(kZeros), std::end(kZeros), [&](const auto& candidate) {
      return absl::StartsWith(text, candidate.first) && text.size() > candidate.first.size() &&
             static_cast<unsigned char>(text[candidate.first.size()] - candidate.second) < 10;
    });
    const bool is_digit = zero != std::end(kZeros);
    // With the Arabic decimal and thousands separators.
    const bool is_separator = absl::StartsWith(text, "\xd9\xab") || absl::StartsWith(text, "\xd9\xac");
    if (!is_digit && !is_separator && !absl::StrContains("+-., ", text.front())) {
      return false;
    }
    any = any || is_digit;
    text.remove_prefix(is_digit ? zero->first.size() + 1 : is_separator ? 2 : 1);
  }
  return any;
}

bool IsDate(absl::string_view cell) {
  const size_t end = cell.find_first_of(" T");
  if (end != absl::string_view::npos && (end + 1 == cell.size() || !IsDigit(cell[end + 1]))) {
    return false;
  }
  std::string form(cell.substr(0, end));
  // By its form alone, not by the calendar: 31.02. in a column of dates is still meant as one.
  std::transform(form.begin(), form.end(), form.begin(), [](char c) { return IsDigit(c) ? '9' : c == '/' ? '.' : c; });
  return Has(kDateForms, form);
}

bool MeansMissing(absl::string_view cell) {
  if (cell.empty()) {
    return false;
  }
  // Nearly every other text starts otherwise.
  return cell.size() <= 8 && absl::StrContains("nN?-.\\#<(1mM \t\xc2\xe2", cell.front()) &&
         Has(kMissing, absl::AsciiStrToLower(StripBlanks(cell)));
}

}  // namespace splitveil
