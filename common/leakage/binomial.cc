#include "common/leakage/binomial.h"

#include <boost/math/distributions/binomial.hpp>

namespace splitveil {
namespace {

namespace policies = boost::math::policies;

// No exception: what is out of range is answered here, and an overflow gives the limit.
using Binomial = boost::math::binomial_distribution<
    double, policies::policy<
                policies::domain_error<policies::ignore_error>, policies::pole_error<policies::ignore_error>,
                policies::overflow_error<policies::ignore_error>, policies::evaluation_error<policies::ignore_error>>>;

}  // namespace

double BinomialCdf(int64_t n, double p, int64_t k) {
  if (k < 0) {
    return 0;
  }
  if (k >= n || p <= 0) {
    return 1;
  }
  if (p >= 1) {
    return 0;
  }
  return boost::math::cdf(Binomial(static_cast<double>(n), p), static_cast<double>(k));
}

double LowerBinomialLimit(int64_t successes, int64_t n, double risk) {
  return Binomial::find_lower_bound_on_p(static_cast<double>(n), static_cast<double>(successes), risk);
}

double UpperBinomialLimit(int64_t successes, int64_t n, double risk) {
  return Binomial::find_upper_bound_on_p(static_cast<double>(n), static_cast<double>(successes), risk);
}

}  // namespace splitveil
