// What ids look like: patterns of characters and their lengths, and whether another party's look alike.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_SHAPE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Patterns of ids. Holds no id. Not thread-safe.
class IdShapes {
 public:
  static constexpr size_t kMaxPatterns = 256;  // Ids with a further one are not counted.

  // `decomposed`: whether accents stand behind their letters.
  void Add(absl::string_view id, bool decomposed);

  // AlignmentAgreement.id_shape, of `ids` ids: the most frequent first, without rare ones.
  std::vector<std::string> Of(int64_t ids) const;

 private:
  // Consecutive letters and digits.
  struct Run {
    unsigned kinds = 0;  // Bits of kKindMarks.
    size_t shortest = 0, longest = 0;
  };
  struct Pattern {
    int64_t ids = 0;
    std::vector<Run> runs;
  };

  absl::flat_hash_map<std::string, Pattern> patterns_;  // By punctuation and case of the letters.
  std::string key_;                                     // Of the pattern of the id under way...
  std::vector<Run> runs_;                               // ...and its runs.
};

// What the proposal in `alignment` says of its party's ids, against this party's own: a warning for people, or "" if
// they look alike or nothing is stated. Shows columns' names and shapes.
std::string DescribeIdDifference(const v1::AlignmentAgreement& alignment, const std::string& column,
                                 const std::vector<std::string>& shape);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_SHAPE_H_
