// What a flag's value may be: `app.add_option("--jobs", jobs, "...")->check(IntegerIn(0, 1024))`.
#ifndef SPLITVEIL_COMMON_COMMAND_LINE_FLAG_CHECKS_H_
#define SPLITVEIL_COMMON_COMMAND_LINE_FLAG_CHECKS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace splitveil {

// Each refuses with "expected ..., found ..." and describes itself in the help.

// A decimal integer in [min, max], without zeros in front. Every integer flag needs it: CLI11 alone reads "010" as 8.
CLI::Validator IntegerIn(int64_t min, int64_t max = std::numeric_limits<int64_t>::max());
// A finite decimal number in [min, max].
CLI::Validator NumberIn(double min, double max);
// One of `words`, at least two, as they are spelled.
CLI::Validator OneOf(const std::vector<std::string>& words);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_COMMAND_LINE_FLAG_CHECKS_H_
