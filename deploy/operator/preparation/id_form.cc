#include "deploy/operator/preparation/id_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

constexpr double kMostlyNumbers = 0.9;
constexpr double kFewOddCases = 0.1;

// What no eye sees at the end of a cell: U+00A0, U+2000 to U+200B, U+202F, U+205F, U+2060, U+3000, U+FEFF.
constexpr absl::string_view kBlanks[] = {"\xc2\xa0",     "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83",
                                         "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
                                         "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\x8b", "\xe2\x80\xaf", "\xe2\x81\x9f",
                                         "\xe2\x81\xa0", "\xe3\x80\x80", "\xef\xbb\xbf"};

// What no eye sees inside one either: U+00AD, U+200C, U+200D.
constexpr absl::string_view kHiddenInside[] = {"\xc2\xad", "\xe2\x80\x8c", "\xe2\x80\x8d"};
// U+2010 to U+2015, U+2212, U+FF0D.
constexpr absl::string_view kDashes[] = {"\xe2\x80\x90", "\xe2\x80\x91", "\xe2\x80\x92", "\xe2\x80\x93",
                                         "\xe2\x80\x94", "\xe2\x80\x95", "\xe2\x88\x92", "\xef\xbc\x8d"};

template <typename Signs>
bool HoldsOneOf(absl::string_view id, const Signs& signs) {
  return absl::c_any_of(signs, [&](absl::string_view sign) { return absl::StrContains(id, sign); });
}

absl::string_view WithoutBlanks(absl::string_view id) {
  while (true) {
    const size_t before = id.size();
    id = absl::StripAsciiWhitespace(id);
    if (id.empty() || (absl::ascii_isascii(id.front()) && absl::ascii_isascii(id.back()))) {
      return id;
    }
    for (const absl::string_view blank : kBlanks) {
      absl::ConsumePrefix(&id, blank);
      absl::ConsumeSuffix(&id, blank);
    }
    if (id.size() == before) {
      return id;
    }
  }
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return absl::ascii_isascii(byte); });
}

// Nullopt if `text` is not UTF-8.
std::optional<std::string> Mapped(absl::string_view text, int options) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  std::optional<std::string> mapped;
  if (size >= 0) {
    mapped.emplace(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
  }
  std::free(out);  // NOLINT(cppcoreguidelines-no-malloc): utf8proc allocates so.
  return mapped;
}

absl::string_view TakeDigits(absl::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), absl::ascii_isdigit);
  const absl::string_view digits = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

// A decimal number, cut into its parts; none has a sign in front.
struct Number {
  absl::string_view digits;
  absl::string_view fraction;  // Digits behind the point.
  bool scientific = false;
};

std::optional<Number> NumberIn(absl::string_view text) {
  Number number;
  number.digits = TakeDigits(text);
  if (absl::ConsumePrefix(&text, ".")) {
    number.fraction = TakeDigits(text);
  }
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    text.remove_prefix(1);
    absl::ConsumePrefix(&text, "+");
    number.scientific = !TakeDigits(text).empty();
  }
  return number.digits.empty() || !text.empty() ? std::nullopt : std::optional<Number>(number);
}

bool IsZero(absl::string_view digits) { return digits.find_first_not_of('0') == absl::string_view::npos; }

// How the letters of a word are written, by bit.
constexpr unsigned kSmallWord = 1, kCapitalWord = 2, kTitledWord = 4, kOddWord = 8;

// Takes the next word off `text`: letters of an alphabet with capitals, with their accents. Returns how it is written,
// or 0 if there is none; `hash` is that of its letters, be they capitals or not.
unsigned TakeWord(absl::string_view& text, uint64_t& hash) {
  size_t letters = 0, capitals = 0;
  bool capital_in_front = false;
  hash = 0;
  while (!text.empty()) {
    // Nearly all ids are ASCII, of which no table needs to be asked.
    const char byte = text.front();
    const bool is_ascii = absl::ascii_isascii(byte);
    utf8proc_int32_t letter = static_cast<unsigned char>(byte);
    const utf8proc_ssize_t size = is_ascii ? 1
                                           : utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                              static_cast<utf8proc_ssize_t>(text.size()), &letter);
    const utf8proc_category_t category = !is_ascii                   ? utf8proc_category(letter)
                                         : absl::ascii_isupper(byte) ? UTF8PROC_CATEGORY_LU
                                         : absl::ascii_islower(byte) ? UTF8PROC_CATEGORY_LL
                                                                     : UTF8PROC_CATEGORY_CN;
    const bool capital = category == UTF8PROC_CATEGORY_LU;
    if (capital || category == UTF8PROC_CATEGORY_LL) {
      capital_in_front = letters == 0 ? capital : capital_in_front;
      ++letters;
      capitals += capital ? 1 : 0;
      hash = (hash ^ static_cast<uint64_t>(is_ascii ? absl::ascii_tolower(byte) : utf8proc_tolower(letter))) *
                 0x9e3779b97f4a7c15 +
             letters;
    } else if (letters > 0 && category != UTF8PROC_CATEGORY_MN) {
      break;
    }
    text.remove_prefix(static_cast<size_t>(std::max<utf8proc_ssize_t>(size, 1)));
  }
  if (capitals == 0) {
    return letters == 0 ? 0 : kSmallWord;
  }
  return capitals == letters ? kCapitalWord : capitals == 1 && capital_in_front ? kTitledWord : kOddWord;
}

}  // namespace

std::optional<absl::string_view> IdNormalForm::Of(absl::string_view id) {
  id = WithoutBlanks(id);
  const bool folds = forms_.count(v1::CASE_FOLD) > 0;
  if (folds || (forms_.count(v1::UNICODE_NFC) > 0 && !IsAscii(id))) {
    std::optional<std::string> mapped = Mapped(id, UTF8PROC_COMPOSE | (folds ? UTF8PROC_CASEFOLD : 0));
    if (!mapped.has_value()) {
      return std::nullopt;
    }
    text_ = *std::move(mapped);
    id = text_;
  }
  if (forms_.count(v1::INTEGER) > 0) {
    const std::optional<Number> number = NumberIn(id);
    if (number.has_value() && !number->scientific && IsZero(number->fraction)) {
      id = number->digits;
      id.remove_prefix(std::min(id.find_first_not_of('0'), id.size() - 1));
    }
  }
  if (forms_.count(v1::DIGITS) > 0 && !absl::c_all_of(id, absl::ascii_isdigit)) {
    std::string digits;
    absl::c_copy_if(id, std::back_inserter(digits), absl::ascii_isdigit);
    text_ = std::move(digits);
    id = text_;
  }
  return id;
}

void IdSurvey::Count(Kind kind, int64_t line) {
  Found& found = found_[static_cast<size_t>(kind)];
  found.first_line = found.ids == 0 ? line : found.first_line;
  ++found.ids;
}

void IdSurvey::Add(absl::string_view id, int64_t line) {
  id = WithoutBlanks(id);
  ++ids_;
  AddNumber(id, line);
  AddCase(id, line);
  AddSigns(id, line);
  bool decomposed = false;
  if (!IsAscii(id)) {
    const std::optional<std::string> composed = Mapped(id, UTF8PROC_COMPOSE);
    decomposed = composed.has_value() && *composed != id;
    if (decomposed) {
      Count(Kind::kDecomposed, line);
    } else if (const auto apart = Mapped(id, UTF8PROC_DECOMPOSE); apart.has_value() && *apart != id) {
      Count(Kind::kComposed, line);
    }
  }
  shapes_.Add(id, decomposed);
}

void IdSurvey::AddSigns(absl::string_view id, int64_t line) {
  if (absl::StrContains(id, '-')) {
    Count(Kind::kHyphen, line);
  }
  if (IsAscii(id)) {
    return;
  }
  if (HoldsOneOf(id, kDashes)) {
    Count(Kind::kDash, line);
  }
  if (HoldsOneOf(id, kBlanks) || HoldsOneOf(id, kHiddenInside)) {
    Count(Kind::kHidden, line);
  }
}

void IdSurvey::AddNumber(absl::string_view id, int64_t line) {
  const std::optional<Number> number = NumberIn(id);
  if (!number.has_value() || (!number->scientific && !IsZero(number->fraction))) {
    measured_ += number.has_value() ? 1 : 0;
    return;
  }
  const absl::string_view digits = number->digits;
  if (number->scientific) {
    Count(Kind::kScientific, line);
    return;
  }
  if (digits.size() < id.size()) {
    Count(Kind::kWithFraction, line);
  } else if (digits.size() > 1 && digits.front() == '0') {
    Count(Kind::kPadded, line);
    longest_padded_ = std::max(longest_padded_, digits.size());
  } else {
    shortest_integer_ = count(Kind::kInteger) == 0 ? digits.size() : std::min(shortest_integer_, digits.size());
    Count(Kind::kInteger, line);
  }
  int64_t value = 0;
  if (absl::SimpleAtoi(digits, &value)) {
    rises_ += small_ > 0 && value > latest_ ? 1 : 0;
    latest_ = value;
    least_ = small_ == 0 ? value : std::min(least_, value);
    greatest_ = small_ == 0 ? value : std::max(greatest_, value);
    ++small_;
  }
}

void IdSurvey::AddCase(absl::string_view id, int64_t line) {
  unsigned ways = 0;
  uint64_t word = 0;
  while (const unsigned way = TakeWord(id, word)) {
    ways |= way;
    const auto found = words_.find(word);
    if (found != words_.end()) {
      found->second |= way;
      mixes_case_ = mixes_case_ || (found->second & (found->second - 1)) != 0;
    } else if (words_.size() < IdShapes::kMaxPatterns) {
      words_.emplace(word, way);
    }
  }
  // Small letters beside capitals that are no title: every letter may count, as in Base64.
  if ((ways & kOddWord) != 0 || ways == (kSmallWord | kCapitalWord)) {
    Count(Kind::kOddCase, line);
  } else if (ways != 0) {
    Count((ways & kTitledWord) != 0    ? Kind::kTitled
          : (ways & kCapitalWord) != 0 ? Kind::kCapitals
                                       : Kind::kSmall,
          line);
  }
}

std::string IdSurvey::Counted(Kind kind, absl::string_view words) const {
  const Found& found = found_[static_cast<size_t>(kind)];
  return found.ids == 0 ? "" : absl::StrCat(found.ids, " ", words, ", first in line ", found.first_line);
}

int64_t IdSurvey::numbers() const {
  return count(Kind::kInteger) + count(Kind::kPadded) + count(Kind::kWithFraction) + count(Kind::kScientific);
}

absl::Status IdSurvey::Check(const std::string& table, const std::string& column,
                             const std::set<v1::IdForm>& forms) const {
  if (forms.count(v1::AS_WRITTEN) > 0) {
    return absl::OkStatus();
  }
  // Among hexadecimal codes some look like numbers of every form.
  const bool are_numbers = static_cast<double>(numbers()) >= kMostlyNumbers * static_cast<double>(ids_);
  const std::string place = absl::StrCat(table, ": column \"", column, "\": ");
  if (are_numbers && count(Kind::kScientific) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, "expected ids, found ", Counted(Kind::kScientific, "of numbers in scientific notation such as 3.1E+17"),
        ", as spreadsheets write long numbers: digits are lost. Export the column as text from where it is whole"));
  }
  const bool keeps_signs = forms.count(v1::DIGITS) == 0;
  if (keeps_signs && count(Kind::kHidden) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "expected ids of characters that are seen, found ",
                     Counted(Kind::kHidden, "with a no-break or a zero-width one inside"),
                     ". They would match no id without it. Write them without; id_form: AS_WRITTEN says that they are "
                     "meant so"));
  }
  if (keeps_signs && count(Kind::kHyphen) > 0 && count(Kind::kDash) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, "expected ids that are written in one way, found ", Counted(Kind::kHyphen, "with a hyphen"),
                     "; ", Counted(Kind::kDash, "with a dash that looks like it"),
                     ". They would not match the other party's. Write them alike; id_form: AS_WRITTEN says that they "
                     "differ on purpose"));
  }
  std::vector<std::string> found;
  const bool as_integers = forms.count(v1::INTEGER) > 0;
  const bool composed = !keeps_signs || forms.count(v1::UNICODE_NFC) + forms.count(v1::CASE_FOLD) > 0;
  if (!as_integers && are_numbers && count(Kind::kWithFraction) > 0 && numbers() > count(Kind::kWithFraction)) {
    found = {Counted(Kind::kInteger, "without a fraction"), Counted(Kind::kPadded, "with zeros in front"),
             Counted(Kind::kWithFraction, "with .0 behind them")};
  } else if (!as_integers && are_numbers && longest_padded_ > 0 && count(Kind::kInteger) > 0 &&
             shortest_integer_ < longest_padded_) {
    found = {Counted(Kind::kPadded, "with zeros in front"), Counted(Kind::kInteger, "without, some of them shorter")};
  }
  const char* form = "INTEGER";
  if (found.empty() && !composed && count(Kind::kComposed) > 0 && count(Kind::kDecomposed) > 0) {
    form = "UNICODE_NFC";
    found = {Counted(Kind::kComposed, "with letters that have their accents"),
             Counted(Kind::kDecomposed, "with accents behind their letters")};
  }
  if (found.empty() && mixes_case_ && keeps_signs && forms.count(v1::CASE_FOLD) == 0 &&
      static_cast<double>(count(Kind::kOddCase)) < kFewOddCases * static_cast<double>(ids_)) {
    form = "CASE_FOLD";
    found = {Counted(Kind::kCapitals, "in capitals"), Counted(Kind::kTitled, "with capitals in front of words"),
             Counted(Kind::kSmall, "in small letters"), "the same words among them"};
  }
  if (found.empty()) {
    return absl::OkStatus();
  }
  found.erase(std::remove(found.begin(), found.end(), ""), found.end());
  return absl::InvalidArgumentError(absl::StrCat(
      place, "expected ids that are written in one way, found ", absl::StrJoin(found, "; "),
      ". They would not match the other party's. Write them alike, or let both parties apply id_form: ", form,
      " (`init --id_form=", form,
      "` at the party that proposes; by hand: in the schema's ID column and in the "
      "agreement's alignment). AS_WRITTEN says that they differ on purpose"));
}

bool IdSurvey::NumbersRows() const {
  return ids_ > 1 && small_ == ids_ && count(Kind::kPadded) == 0 && least_ <= 1 && greatest_ - least_ + 1 == ids_;
}

bool IdSurvey::Ascends() const {
  const int64_t steps = ids_ - 1;
  // Each part of a table may count from the start.
  return AreSmall() && (100 * rises_ >= 99 * steps || 100 * rises_ <= steps);
}

bool IdSurvey::LooksLikeTimes() const {
  bool are_times = false;
  for (int64_t second = 1; second <= 1'000'000'000; second *= 1000) {
    are_times = are_times || (least_ >= 1'000'000'000 * second && greatest_ / second < 2'000'000'000);
  }
  return AreSmall() && are_times;
}

}  // namespace splitveil
