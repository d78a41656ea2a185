#include "common/naming/nearest_name.h"

#include <algorithm>
#include <cstddef>

namespace splitveil {
namespace {

// Longer words are not typed, and the work grows with the product of the lengths.
constexpr size_t kMaxWord = 64;

char Folded(char letter) { return letter == '-' ? '_' : letter; }

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Folded(a[i - 1]) == Folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Folded(a[i - 1]) == Folded(b[j - 2]) && Folded(a[i - 2]) == Folded(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view word, const std::vector<std::string>& names) {
  if (word.size() > kMaxWord) {
    return "";
  }
  std::string nearest;
  size_t fewest = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t edits = EditDistance(word, name);
    if (edits < fewest && edits < word.size()) {
      fewest = edits;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace splitveil
