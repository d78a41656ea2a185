#include "deploy/operator/preparation/cell_form.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNumberBytes = 64;
constexpr int kMaxExactDigits = 15;  // A double holds every integer of so many digits.
constexpr double kPowersOfTen[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

constexpr absl::string_view kApostrophe = "\xe2\x80\x99";  // U+2019, as Swiss locales write thousands.
constexpr absl::string_view kMinus = "\xe2\x88\x92";       // U+2212.

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
  // Thousands are groups of three behind one to three digits that do not begin with 0; anything else, as 1,23,456, is a
  // list or a different system.
  if (groups > 0 && (text.empty() || text.size() > 3 || text[0] == '0' || !parts.exponent.empty())) {
    return none;
  }
  for (size_t group = 1; group <= groups; ++group) {
    // One separator throughout: 1.234,567.8 is no number.
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
  // An exponent too small is a number next to 0; one too large is none, as it would be infinite.
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
  // Both are exact doubles, and one division rounds once.
  scan.as_point = static_cast<double>(mantissa) / kPowersOfTen[std::max(fraction, 0)];
  scan.form = fraction < 0 ? CellForm::kInteger : CellForm::kDecimalPoint;
  // 007 is more likely a code than a number: as 7 it would lose what tells it from 07.
  scan.padded = fraction < 0 && digits > 1 && text.front() == '0' && !negative;
  if (fraction < 0) {
    scan.as_comma = scan.as_point;
    // 1.234 has a second reading, 1234, where people write thousands with a point.
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
  // 25:10 is no time of day, but minutes and seconds or a score.
  scan.time_of_day = clock && (parts[0].size() == 1 || (parts[0].size() == 2 && parts[0] < "24")) &&
                     std::all_of(parts.begin() + 1, parts.end(),
                                 [](absl::string_view part) { return part.size() == 2 && part < "60"; });
  scan.parts = !scan.time_of_day;
}

}  // namespace

CellScan ScanCell(absl::string_view cell) {
  CellScan scan;
  if (ScanPlain(cell, scan)) {
    return scan;
  }
  // Texts that begin with a letter are no numbers, unless it is that of a currency.
  // Before anything slower: in columns of words this is every cell.
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
  // The sign may stand before or behind the currency: -$5 and $-5.
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
    // At most one unit, at one end: "5 kg" and "$5", not "$5 kg".
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
  // Thousands that the column does not declare are refused: 1,234 read as 1234 may have been meant as 1.234.
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

}  // namespace splitveil
