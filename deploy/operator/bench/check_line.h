// The outcome of one check as a JSON line.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_CHECK_LINE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_CHECK_LINE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace splitveil {

struct CheckLimit {
  enum class Side { kAtLeast, kAtMost, kBelow };
  Side side = Side::kAtLeast;
  double bound = 0;

  // Not of NaN.
  bool Holds(double value) const;
  std::string Text() const;  // ">= 0.9", "<= 0.1", "< 15".
};

// {"bench": "training", "check": NAME, "value": ..., "unit": ..., "limit": TEXT, "met": ..., "measured": MEASURED}.
// `value` is null where it is not finite.
std::string CheckLine(const std::string& name, double value, const std::string& unit, const CheckLimit& limit,
                      const nlohmann::ordered_json& measured);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_CHECK_LINE_H_
