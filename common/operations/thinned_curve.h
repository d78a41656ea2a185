// A curve over a whole run, however long, in few points.
#ifndef SPLITVEIL_COMMON_OPERATIONS_THINNED_CURVE_H_
#define SPLITVEIL_COMMON_OPERATIONS_THINNED_CURVE_H_

#include <cstdint>
#include <vector>

namespace splitveil {

// Each point is the mean of as many values. Once there are kMaxPoints, every two of them become one, and each further
// point is the mean of twice as many values. Not thread-safe.
class ThinnedCurve {
 public:
  static constexpr int kMaxPoints = 200;
  struct Point {
    double step = 0;  // Of its last value.
    double value = 0;
  };

  // A value that is not finite is left out.
  void Add(int64_t step, double value);
  // What has come since the latest full point is the last one.
  std::vector<Point> points() const;

 private:
  std::vector<Point> points_;
  int64_t values_per_point_ = 1;
  // Of the point to come.
  int64_t values_ = 0;
  double sum_ = 0, last_step_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_THINNED_CURVE_H_
