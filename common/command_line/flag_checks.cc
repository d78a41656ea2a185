#include "common/command_line/flag_checks.h"

#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/naming/nearest_name.h"

namespace splitveil {
namespace {

std::string Refusal(const std::string& expected, const std::string& found) {
  return absl::StrCat("expected ", expected, ", found \"", found, "\"");
}

}  // namespace

CLI::Validator IntegerIn(int64_t min, int64_t max) {
  const std::string range =
      max == std::numeric_limits<int64_t>::max() ? absl::StrCat("at least ", min) : absl::StrCat(min, " to ", max);
  return CLI::Validator(
      [min, max, range](std::string& value) -> std::string {
        int64_t number = 0;
        const bool decimal = absl::SimpleAtoi(value, &number) && value == absl::StrCat(number);
        return decimal && number >= min && number <= max ? "" : Refusal(absl::StrCat("an integer, ", range), value);
      },
      range);
}

CLI::Validator NumberIn(double min, double max) {
  const std::string range = absl::StrCat(min, " to ", max);
  return CLI::Validator(
      [min, max, range](std::string& value) -> std::string {
        double number = 0;
        if (!absl::SimpleAtod(value, &number) || !std::isfinite(number) || number < min || number > max) {
          return Refusal(absl::StrCat("a number, ", range), value);
        }
        return "";
      },
      range);
}

CLI::Validator OneOf(const std::vector<std::string>& words) {
  const std::string choice = absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "), " or ", words.back());
  return CLI::Validator(
      [words, choice](std::string& value) -> std::string {
        if (absl::c_linear_search(words, value)) {
          return "";
        }
        const std::string nearest = NearestName(value, words);
        return absl::StrCat(Refusal(choice, value),
                            nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"));
      },
      choice);
}

}  // namespace splitveil
