#include "deploy/operator/preparation/cell_form.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNumberBytes = 64;
constexpr int kMaxExactDigits = 15;  // A double holds every integer of so many digits.
constexpr double kPowersOfTen[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
constexpr size_t kMaxUnitBytes = 12;

// Blanks of Unicode that stand between thousands or in front of a unit: no-break, narrow no-break, thin.
constexpr absl::string_view kWideBlanks[] = {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};
constexpr absl::string_view kApostrophe = "\xe2\x80\x99";  // U+2019, as Swiss locales write thousands.
constexpr absl::string_view kMinus = "\xe2\x88\x92";       // U+2212.

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

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool HasDigit(absl::string_view text) { return std::any_of(text.begin(), text.end(), IsDigit); }

// Of a first byte: digits, brackets and signs.
bool MayBeNumber(char c) { return IsDigit(c) || c == '(' || c == '.' || c == ',' || c == '\''; }

// Takes a blank off the front; false if there is none.
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

// Takes a sign off the front: -1, 1, or 0 for none.
int TakeSign(absl::string_view& text) {
  const int sign = absl::ConsumePrefix(&text, "-") || absl::ConsumePrefix(&text, kMinus) ? -1
                   : absl::ConsumePrefix(&text, "+")                                     ? 1
                                                                                         : 0;
  if (sign != 0) {
    text = StripBlanks(text);
  }
  return sign;
}

// A number without sign and unit, cut at its separators: digits[0] separators[0] digits[1] ....
struct Parts {
  std::array<absl::string_view, 16> digits;
  std::array<char, 16> separators;
  size_t count = 0;  // Of separators.
  absl::string_view exponent;
};

// Takes a separator off the front; 0 if there is none.
char TakeSeparator(absl::string_view& text) {
  if (TakeBlank(text)) {
    return ' ';
  }
  if (absl::ConsumePrefix(&text, kApostrophe)) {
    return '\'';
  }
  const char first = text.empty() ? '\0' : text.front();
  if (first == ',' || first == '.' || first == '\'' || first == '_') {
    text.remove_prefix(1);
    return first;
  }
  return 0;
}

bool IsExponent(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "e") && !absl::ConsumePrefix(&text, "E")) {
    return false;
  }
  if (!absl::ConsumePrefix(&text, "-")) {
    absl::ConsumePrefix(&text, "+");
  }
  return !text.empty() && text.size() <= 6 && std::all_of(text.begin(), text.end(), IsDigit);
}

bool Cut(absl::string_view text, Parts& parts) {
  while (true) {
    const size_t length = std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin();
    parts.digits[parts.count] = text.substr(0, length);
    text.remove_prefix(length);
    if (text.empty() || IsExponent(text)) {
      parts.exponent = text;
      return true;
    }
    const char separator = TakeSeparator(text);
    if (separator == 0 || parts.count + 1 == parts.separators.size()) {
      return false;
    }
    parts.separators[parts.count++] = separator;
  }
}

// The number with `decimal` before its fraction, and what separates its thousands; NaN if it cannot be read so.
double ReadWith(const Parts& parts, char decimal, char& thousands) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const bool has_fraction = parts.count > 0 && parts.separators[parts.count - 1] == decimal;
  const size_t groups = parts.count - (has_fraction ? 1 : 0);
  thousands = groups > 0 ? parts.separators[0] : '\0';
  std::string text(parts.digits[0]);
  if (groups > 0 && (text.empty() || text.size() > 3 || text[0] == '0' || !parts.exponent.empty())) {
    return none;
  }
  for (size_t group = 1; group <= groups; ++group) {
    if (parts.separators[group - 1] != thousands || thousands == decimal || parts.digits[group].size() != 3) {
      return none;
    }
    text.append(parts.digits[group].data(), 3);
  }
  const absl::string_view fraction = has_fraction ? parts.digits[parts.count] : absl::string_view();
  if (text.empty() && fraction.empty()) {
    return none;
  }
  text.append(".").append(fraction.data(), fraction.size()).append(parts.exponent.data(), parts.exponent.size());
  double number = 0;
  const absl::from_chars_result result = absl::from_chars(text.data(), text.data() + text.size(), number);
  // Too small for a double: 0 or next to it.
  const bool tiny = result.ec == std::errc::result_out_of_range && std::abs(number) < 1;
  return (result.ec == std::errc() || tiny) && std::isfinite(number) ? number : none;
}

// Digits with at most one point, behind a minus or not, few enough that the quotient of two exact doubles is the
// nearest one (Clinger, "How to read floating point numbers accurately", PLDI 1990): nearly all cells, at a fraction of
// the time.
bool ScanPlain(absl::string_view text, CellScan& scan) {
  const bool negative = !text.empty() && text.front() == '-';
  text.remove_prefix(negative ? 1 : 0);
  int64_t mantissa = 0;
  int digits = 0, fraction = -1;
  for (const char c : text) {
    if (IsDigit(c)) {
      mantissa = 10 * mantissa + (c - '0');
      fraction += fraction >= 0 ? 1 : 0;
      if (++digits > kMaxExactDigits) {
        return false;
      }
    } else if (c == '.' && fraction < 0) {
      fraction = 0;
    } else {
      return false;
    }
  }
  if (digits == 0) {
    return false;
  }
  scan.as_point = static_cast<double>(mantissa) / kPowersOfTen[std::max(fraction, 0)];
  scan.form = fraction < 0 ? CellForm::kInteger : CellForm::kDecimalPoint;
  scan.padded = fraction < 0 && digits > 1 && text.front() == '0' && !negative;
  if (fraction < 0) {
    scan.as_comma = scan.as_point;
  } else if (fraction == 3 && digits > 3 && digits <= 6 && text.front() != '0') {
    scan.as_comma = static_cast<double>(mantissa);
    scan.comma_thousands = '.';
  }
  if (negative) {
    scan.as_point = -scan.as_point;
    scan.as_comma = -scan.as_comma;
  }
  return true;
}

CellForm FormOf(const Parts& parts, const CellScan& scan) {
  const bool point = !std::isnan(scan.as_point), comma = !std::isnan(scan.as_comma);
  if (!point && !comma) {
    return CellForm::kText;
  }
  if (point && comma && parts.count == 1 && parts.separators[0] == ',') {
    return CellForm::kCommaGroup;
  }
  if ((point ? scan.point_thousands : scan.comma_thousands) != 0) {
    return CellForm::kThousands;
  }
  return parts.count == 0 ? CellForm::kInteger : point ? CellForm::kDecimalPoint : CellForm::kDecimalComma;
}

// A number without blanks, sign and unit.
void ScanUnsigned(absl::string_view text, CellScan& scan) {
  Parts parts;
  if (text.empty() || text.front() == '-' || text.size() > kMaxNumberBytes || ScanPlain(text, scan) ||
      !Cut(text, parts)) {
    return;
  }
  scan.as_point = ReadWith(parts, '.', scan.point_thousands);
  scan.as_comma = ReadWith(parts, ',', scan.comma_thousands);
  scan.form = FormOf(parts, scan);
}

void Negate(CellScan& scan) {
  scan.as_point = -scan.as_point;
  scan.as_comma = -scan.as_comma;
  scan.padded = false;
}

bool BeginsWithCurrency(absl::string_view text) {
  return std::any_of(std::begin(kCurrencies), std::end(kCurrencies), [&](absl::string_view currency) {
    return text.front() == currency.front() && absl::StartsWith(text, currency);
  });
}

// Sets what the scan says of numbers with / or : between them.
void FindParts(absl::string_view text, CellScan& scan) {
  const size_t separator = text.find_first_of(":/");
  if (separator == absl::string_view::npos || !IsDigit(text.front())) {
    return;
  }
  const bool clock = text[separator] == ':';
  const std::vector<absl::string_view> parts = absl::StrSplit(text, text[separator]);
  if (parts.size() > (clock ? 3 : 2) || !std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
        return !part.empty() && std::all_of(part.begin(), part.end(), IsDigit);
      })) {
    return;
  }
  scan.time_of_day = clock && (parts[0].size() == 1 || (parts[0].size() == 2 && parts[0] < "24")) &&
                     std::all_of(parts.begin() + 1, parts.end(),
                                 [](absl::string_view part) { return part.size() == 2 && part < "60"; });
  scan.parts = !scan.time_of_day;
}

// "/100" of 51/100; "" if there is no denominator.
absl::string_view DenominatorOf(absl::string_view text) {
  const absl::string_view denominator = text.substr(std::min(text.find('/'), text.size()));
  return denominator.size() > 1 && std::all_of(denominator.begin() + 1, denominator.end(), IsDigit)
             ? denominator
             : absl::string_view();
}

// A currency in front, or a unit behind, taken off; "" if there is none.
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
    return denominator.size() <= kMaxUnitBytes ? denominator : "";
  }
  const auto last = std::find_if(text.rbegin(), text.rend(), IsDigit);
  const size_t end = text.rend() - last;  // Behind the last digit.
  const absl::string_view behind = text.substr(end), unit = StripBlanks(behind);
  const bool is_word = behind.size() > unit.size() && unit.size() > 1 &&
                       std::all_of(unit.begin(), unit.end(), [](char c) { return absl::ascii_isalpha(c) || c < 0; });
  if (end == 0 || unit.empty() || unit.size() > kMaxUnitBytes ||
      !(is_word || Has(kCurrencies, unit) || Has(kMeasures, unit))) {
    return "";
  }
  text = StripBlanks(text.substr(0, end));
  return unit;
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
  return !number.empty() && front.size() <= 3 && behind.size() <= 3 && !has_letter(front) && !HasDigit(behind) &&
         std::count_if(number.begin(), number.end(), [](char c) { return !IsDigit(c); }) <= 1 &&
         (number.find_first_of(".,") != absl::string_view::npos || !has_letter(behind));
}

// Digits with commas, brackets or a sign behind, or hexadecimal ones.
bool HasOddDigits(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "0x") || absl::ConsumePrefix(&text, "0X")) {
    return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
  }
  return HasNumberInside(text) || (text.find_first_not_of("0123456789.,'_ ()-+") == absl::string_view::npos &&
                                   (text.find_first_of(",(") != absl::string_view::npos || text.back() == '-'));
}

// Arabic-Indic digits, those of Persian and Urdu, Devanagari and full-width ones, and signs of numbers alone.
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

}  // namespace

CellScan ScanCell(absl::string_view cell) {
  CellScan scan;
  if (ScanPlain(cell, scan)) {
    return scan;
  }
  // Texts that begin with a letter are no numbers, unless it is that of a currency.
  if (!cell.empty() && absl::ascii_isalpha(cell.front()) && !BeginsWithCurrency(cell)) {
    scan.form = CellForm::kText;
    return scan;
  }
  if (!HasDigit(cell)) {
    scan.form = IsNumberOfOtherDigits(cell) ? CellForm::kOddDigits : CellForm::kText;
    return scan;
  }
  absl::string_view text = StripBlanks(cell);
  int sign = TakeSign(text);
  ScanUnsigned(text, scan);
  if (scan.form == CellForm::kText && HasDigit(text)) {
    const absl::string_view unit = TakeUnit(text);
    if (!unit.empty()) {
      sign = sign == 0 ? TakeSign(text) : sign;
      ScanUnsigned(text, scan);
      if (scan.form != CellForm::kText) {
        scan.unit = unit;
        scan.form = unit == "%" ? CellForm::kPercent : CellForm::kUnit;
      }
    }
  }
  if (sign < 0) {
    Negate(scan);
  }
  if (scan.form >= CellForm::kUnit) {
    FindParts(StripBlanks(cell), scan);
  }
  if (scan.form == CellForm::kText && !text.empty() && !absl::ascii_isalpha(text.front())) {
    scan.form = IsDate(cell) ? CellForm::kDate : HasOddDigits(text) ? CellForm::kOddDigits : CellForm::kText;
  }
  return scan;
}

bool IsKnownUnit(absl::string_view unit) { return Has(kCurrencies, unit) || Has(kMeasures, unit); }

NumberFormat FormatOf(const v1::TableSchema::Column& column) {
  return {column.decimal() == v1::TableSchema::COMMA,
          column.thousands().empty() ? '\0' : column.thousands()[0],
          {column.strip().begin(), column.strip().end()}};
}

bool ReadNumber(absl::string_view cell, const NumberFormat& format, double& number) {
  CellScan scan;
  int sign = 0;
  if (!ScanPlain(cell, scan)) {
    absl::string_view text = StripBlanks(cell);
    sign = TakeSign(text);
    for (const std::string& unit : format.strip) {
      if (absl::ConsumePrefix(&text, unit) || absl::ConsumeSuffix(&text, unit)) {
        text = StripBlanks(text);
        sign = sign == 0 ? TakeSign(text) : sign;
        break;
      }
    }
    ScanUnsigned(text, scan);
  }
  const double magnitude = format.decimal_comma ? scan.as_comma : scan.as_point;
  const char thousands = format.decimal_comma ? scan.comma_thousands : scan.point_thousands;
  number = sign < 0 ? -magnitude : magnitude;
  return !std::isnan(magnitude) && (thousands == 0 || thousands == format.thousands);
}

const char* ReadingHint(absl::string_view cell) {
  switch (ScanCell(cell).form) {
    case CellForm::kDecimalComma:
      return ", found one with a decimal comma: decimal: COMMA in the schema reads it";
    case CellForm::kCommaGroup:
      return ", found one such as 1,234: thousands: \",\" in the schema reads it as 1234, decimal: COMMA as 1.234";
    case CellForm::kThousands:
      return ", found one with separated thousands: thousands and decimal in the schema say how to read it";
    case CellForm::kUnit:
    case CellForm::kPercent:
      return ", found one with a unit or a percent sign: strip in the schema drops it";
    case CellForm::kDate:
      return ", found a date";
    case CellForm::kOddDigits:
      return ", found digits that are no number";
    case CellForm::kText:
      return ", found a different text: missing in the schema lists texts that stand for nothing";
    default:
      return ", found one written otherwise: decimal and thousands in the schema say how to read it";
  }
}

bool IsDate(absl::string_view cell) {
  const size_t end = cell.find_first_of(" T");
  if (end != absl::string_view::npos && (end + 1 == cell.size() || !IsDigit(cell[end + 1]))) {
    return false;
  }
  std::string form(cell.substr(0, end));
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
