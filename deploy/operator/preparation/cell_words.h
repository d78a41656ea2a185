// What stands in a table's cells beside numbers: blanks, units, dates, words for "missing", signs that look like
// numbers. Of any bytes. Thread-safe.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_WORDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_WORDS_H_

#include <algorithm>

#include "absl/strings/string_view.h"

namespace splitveil {

// ASCII alone, whatever the locale.
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool HasDigit(absl::string_view text) { return std::any_of(text.begin(), text.end(), IsDigit); }

// Takes a blank off the front, of ASCII or one that stands between thousands; false if there is none.
bool TakeBlank(absl::string_view& text);
// Without blanks at either end.
absl::string_view StripBlanks(absl::string_view text);

// `text`: not empty. Whether a currency is in front, whatever follows.
bool BeginsWithCurrency(absl::string_view text);
// `text`: not empty. Takes off a currency in front, or a unit behind, and the blanks next to it; "" if there is none.
absl::string_view TakeUnit(absl::string_view& text);
// Whether it is a currency or a unit of measure, and no other word.
bool IsKnownUnit(absl::string_view unit);

// Whether it is meant as a number and is none that is known: digits with commas, brackets or a sign behind, other signs
// around them, or hexadecimal ones. `text`: with a digit.
bool HasOddDigits(absl::string_view text);
// Arabic-Indic digits, those of Persian and Urdu, Devanagari and full-width ones, and signs of numbers alone.
bool IsNumberOfOtherDigits(absl::string_view text);

// Whether it has the form of a date, with or without a time of day: yyyy-mm-dd, dd.mm.yyyy, mm/dd/yyyy, ....
bool IsDate(absl::string_view cell);

// Whether databases, spreadsheets and statistics programs write it for "missing": NA, null, None, NaT, -, ?, ....
bool MeansMissing(absl::string_view cell);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_WORDS_H_
