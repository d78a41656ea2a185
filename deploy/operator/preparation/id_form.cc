#include "deploy/operator/preparation/id_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

constexpr size_t kMaxPunctuation = 64;  // Bytes of a pattern; a longer text has none.
constexpr size_t kMaxShapes = 8;
constexpr int64_t kFewIds = 10;
constexpr double kMostlyNumbers = 0.9;
constexpr int kMainPercent = 5;  // A pattern that so many ids have must be known to the other party.

// What no eye sees at the end of a cell: U+00A0, U+2000 to U+200B, U+202F, U+205F, U+2060, U+3000, U+FEFF.
constexpr absl::string_view kBlanks[] = {"\xc2\xa0",     "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83",
                                         "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
                                         "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\x8b", "\xe2\x80\xaf", "\xe2\x81\x9f",
                                         "\xe2\x81\xa0", "\xe3\x80\x80", "\xef\xbb\xbf"};

absl::string_view WithoutBlanks(absl::string_view id) {
  while (true) {
    const size_t before = id.size();
    id = absl::StripAsciiWhitespace(id);
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
  size_t end = 0;
  while (end < text.size() && absl::ascii_isdigit(text[end])) {
    ++end;
  }
  const absl::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
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

// Kinds of characters in a run, by bit.
constexpr char kKindMarks[] = "Aae~90";
constexpr unsigned kCapital = 1, kSmall = 2, kBeyondAscii = 4, kAccentBehind = 8, kDigit = 16, kZeroInFront = 32;

unsigned KindOf(char byte) {
  return absl::ascii_isdigit(byte)   ? kDigit
         : absl::ascii_isupper(byte) ? kCapital
         : absl::ascii_islower(byte) ? kSmall
         : absl::ascii_isascii(byte) ? 0  // Punctuation.
                                     : kBeyondAscii;
}

struct Shape {
  int percent = 0;
  std::string structure;                             // The pattern without lengths.
  std::vector<std::pair<int64_t, int64_t>> lengths;  // Shortest and longest, of each run.
};

// "67% Aa{3-6}-9{4}" from the other party; a text of a different form is a pattern of its own.
Shape ParseShape(absl::string_view text) {
  Shape shape;
  const size_t end = text.find("% ");
  if (end == absl::string_view::npos || !absl::SimpleAtoi(text.substr(0, end), &shape.percent)) {
    shape.percent = 100;
  } else {
    text.remove_prefix(end + 2);
  }
  while (!text.empty()) {
    const size_t brace = text.find('{');
    absl::StrAppend(&shape.structure, text.substr(0, brace));
    if (brace == absl::string_view::npos) {
      break;
    }
    text.remove_prefix(brace);
    const size_t close = text.find('}');
    const absl::string_view inside = text.substr(1, close == absl::string_view::npos ? close : close - 1);
    const size_t dash = inside.find('-');
    std::pair<int64_t, int64_t> length;
    if (close == absl::string_view::npos || !absl::SimpleAtoi(inside.substr(0, dash), &length.first)) {
      shape.structure += '{';  // An id has the brace.
      text.remove_prefix(1);
      continue;
    }
    if (dash == absl::string_view::npos || !absl::SimpleAtoi(inside.substr(dash + 1), &length.second)) {
      length.second = length.first;
    }
    shape.lengths.push_back(length);
    text.remove_prefix(close + 1);
  }
  return shape;
}

bool LooksLike(const Shape& a, const Shape& b) {
  return a.structure == b.structure && std::equal(a.lengths.begin(), a.lengths.end(), b.lengths.begin(),
                                                  b.lengths.end(), [](const auto& one, const auto& other) {
                                                    return one.first <= other.second && other.first <= one.second;
                                                  });
}

// Whether every pattern that many ids have is in `others`.
bool AllIn(const std::vector<Shape>& others, const std::vector<Shape>& shapes) {
  return std::all_of(shapes.begin(), shapes.end(), [&](const Shape& shape) {
    return shape.percent < kMainPercent ||
           std::any_of(others.begin(), others.end(), [&](const Shape& other) { return LooksLike(shape, other); });
  });
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
      while (id.size() > 1 && id.front() == '0') {
        id.remove_prefix(1);
      }
    }
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
  AddPattern(id, decomposed);
}

void IdSurvey::AddNumber(absl::string_view id, int64_t line) {
  const std::optional<Number> number = NumberIn(id);
  if (!number.has_value() || (!number->scientific && !IsZero(number->fraction))) {
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
    least_ = small_ == 0 ? value : std::min(least_, value);
    greatest_ = small_ == 0 ? value : std::max(greatest_, value);
    ++small_;
  }
}

void IdSurvey::AddPattern(absl::string_view id, bool decomposed) {
  std::string key;
  std::vector<Run> runs;
  unsigned letters = 0;
  for (size_t i = 0; i < id.size();) {
    Run run;
    const size_t begin = i;
    for (; i < id.size() && KindOf(id[i]) != 0; ++i) {
      run.kinds |= KindOf(id[i]);
      // Bytes behind the first of a letter are no characters of their own.
      run.longest += (static_cast<unsigned char>(id[i]) & 0xc0U) == 0x80U ? 0 : 1;
    }
    if (i > begin) {
      run.kinds |= run.kinds == kDigit && run.longest > 1 && id[begin] == '0' ? kZeroInFront : 0;
      run.kinds |= decomposed && (run.kinds & kBeyondAscii) != 0 ? kAccentBehind : 0;
      run.shortest = run.longest;
      letters |= run.kinds & (kCapital | kSmall);
      runs.push_back(run);
      key += '\1';
    } else {
      key += id[i++];
    }
  }
  // Ids in capitals and others are two patterns: one party may have them in capitals alone.
  key += static_cast<char>(letters);
  const bool is_new = patterns_.find(key) == patterns_.end();
  if (key.size() > kMaxPunctuation || (is_new && patterns_.size() == kMaxPatterns)) {
    return;
  }
  Pattern& pattern = patterns_[key];
  for (size_t run = 0; run < runs.size() && !is_new; ++run) {
    pattern.runs[run].kinds |= runs[run].kinds;
    pattern.runs[run].shortest = std::min(pattern.runs[run].shortest, runs[run].shortest);
    pattern.runs[run].longest = std::max(pattern.runs[run].longest, runs[run].longest);
  }
  if (is_new) {
    pattern.runs = std::move(runs);
  }
  ++pattern.ids;
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
  std::vector<std::string> found;
  const bool as_integers = forms.count(v1::INTEGER) > 0;
  const bool composed = forms.count(v1::UNICODE_NFC) + forms.count(v1::CASE_FOLD) > 0;
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

std::vector<std::string> IdSurvey::Shape() const {
  // By rank, then by pattern, so that the same ids always have the same shape.
  std::map<std::pair<int64_t, std::string>, std::string> shapes;
  for (const auto& [key, pattern] : patterns_) {
    if (pattern.ids < kFewIds || 100 * pattern.ids < ids_) {
      continue;  // A rare pattern could be that of a single person.
    }
    std::string text;
    size_t next = 0;
    for (const char byte : absl::string_view(key).substr(0, key.size() - 1)) {
      if (byte != '\1') {
        text += byte;
        continue;
      }
      const Run& run = pattern.runs[next++];
      for (size_t bit = 0; kKindMarks[bit] != '\0'; ++bit) {
        text.append((run.kinds >> bit & 1U) != 0 ? 1 : 0, kKindMarks[bit]);
      }
      absl::StrAppend(&text, "{", run.shortest, run.shortest == run.longest ? "" : absl::StrCat("-", run.longest), "}");
    }
    const double percent = 100 * static_cast<double>(pattern.ids) / static_cast<double>(ids_);
    shapes[{-pattern.ids, key}] = absl::StrFormat("%.0f%% %s", percent, text);
  }
  std::vector<std::string> most;
  for (auto& [rank, text] : shapes) {
    if (most.size() < kMaxShapes) {
      most.push_back(std::move(text));
    }
  }
  return most;
}

std::string DescribeIdDifference(const v1::AlignmentAgreement& alignment, const std::string& column,
                                 const std::vector<std::string>& shape) {
  std::vector<Shape> theirs, own;
  for (const std::string& text : alignment.id_shape()) {
    theirs.push_back(ParseShape(text));
  }
  for (const std::string& text : shape) {
    own.push_back(ParseShape(text));
  }
  const bool other_shape = !theirs.empty() && !own.empty() && !(AllIn(own, theirs) && AllIn(theirs, own));
  const bool other_column = !alignment.id_column().empty() && alignment.id_column() != column;
  std::string text;
  if (other_column) {
    absl::StrAppend(&text, "the other party's ids are in its column \"", alignment.id_column(),
                    "\", this table's in \"", column, "\"");
  }
  if (other_shape) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "the other party's ids look like ",
                    absl::StrJoin(alignment.id_shape(), ", "), "; this table's like ", absl::StrJoin(shape, ", "),
                    " (9: digits, 0: zeros in front, A, a: letters, e: letters with accents, ~: accents behind their "
                    "letters, in braces how many). Ids match only if they are the same text: --id=COLUMN names a "
                    "different column, id_form in the agreement's alignment a form for both");
  }
  return text;
}

}  // namespace splitveil
