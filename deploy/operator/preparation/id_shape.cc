#include "deploy/operator/preparation/id_shape.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace splitveil {
namespace {

constexpr int64_t kFewIds = 10;
constexpr size_t kMaxPunctuation = 64;  // Bytes of a pattern; a longer text has none.
constexpr size_t kMaxShapes = 8;
constexpr int kMainPercent = 5;  // A pattern that so many ids have must be known to the other party.

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

void IdShapes::Add(absl::string_view id, bool decomposed) {
  std::string& key = key_;
  std::vector<Run>& runs = runs_;
  key.clear();
  runs.clear();
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
  const auto known = patterns_.find(key);
  const bool is_new = known == patterns_.end();
  if (key.size() > kMaxPunctuation || (is_new && patterns_.size() == kMaxPatterns)) {
    return;
  }
  Pattern& pattern = is_new ? patterns_[key] : known->second;
  for (size_t run = 0; run < runs.size() && !is_new; ++run) {
    pattern.runs[run].kinds |= runs[run].kinds;
    pattern.runs[run].shortest = std::min(pattern.runs[run].shortest, runs[run].shortest);
    pattern.runs[run].longest = std::max(pattern.runs[run].longest, runs[run].longest);
  }
  if (is_new) {
    pattern.runs = runs;
  }
  ++pattern.ids;
}

std::vector<std::string> IdShapes::Of(int64_t ids) const {
  // By rank, then by pattern, so that the same ids always have the same shape.
  std::map<std::pair<int64_t, std::string>, std::string> shapes;
  for (const auto& [key, pattern] : patterns_) {
    if (pattern.ids < kFewIds || 100 * pattern.ids < ids) {
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
    const double percent = 100 * static_cast<double>(pattern.ids) / static_cast<double>(ids);
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
