// Independent of the solver: the four-variable problem as the paper states it, in extended precision, and points that
// are feasible by construction.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_MARVELL_MARVELL_ORACLE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_MARVELL_MARVELL_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <random>

#include "label_party/marvell/marvell_solver.h"

namespace splitveil {

using Real = long double;  // Wider exponents than a double: nothing below overflows.

struct Lambdas {
  Real along_neg = 0, across_neg = 0;
  Real along_pos = 0, across_pos = 0;
};

inline Lambdas LambdasOf(const MarvellSolution& s) {
  return {s.lambda1_neg, s.lambda2_neg, s.lambda1_pos, s.lambda2_pos};
}

// x/y + y/x - 2, and the limit where both are zero.
inline Real Spread(Real x, Real y) { return x == y ? 0 : (x - y) / x * ((x - y) / y); }

inline Real OracleSumKl(const MarvellProblem& q, const Lambdas& l) {
  const Real a0 = l.along_neg + q.u;
  const Real a1 = l.along_pos + q.v;
  const Real distance = q.g == 0 ? 0 : Real(q.g) / a0 + Real(q.g) / a1;
  const Real across = q.d == 1 ? 0 : Real(q.d - 1) * Spread(l.across_neg + q.u, l.across_pos + q.v);
  return (across + Spread(a0, a1) + distance) / 2;
}

inline Real PowerOf(const MarvellProblem& q, const Lambdas& l) {
  const Real others = q.d - 1;
  return Real(q.p) * (l.along_pos + others * l.across_pos) + (1 - Real(q.p)) * (l.along_neg + others * l.across_neg);
}

// Stretches or shrinks `l` so that it spends exactly the power.
inline Lambdas SpendingAll(const MarvellProblem& q, Lambdas l) {
  const Real power = PowerOf(q, l);
  const Real factor = power > 0 ? q.power / power : 0;
  return {l.along_neg * factor, l.across_neg * factor, l.along_pos * factor, l.across_pos * factor};
}

// Any feasible point: all four variables free, over many orders of magnitude.
template <typename Random>
Lambdas RandomFeasible(const MarvellProblem& q, Random& random) {
  std::uniform_real_distribution<double> exponent(-12, 0);
  const auto draw = [&] { return random() % 8 == 0 ? Real(0) : std::pow(Real(10), exponent(random)); };
  Lambdas l;
  l.across_neg = draw() / Real(q.d);
  l.across_pos = draw() / Real(q.d);
  l.along_neg = l.across_neg + draw();
  l.along_pos = l.across_pos + draw();
  return SpendingAll(q, l);
}

// A feasible point near `l`, each variable moved by a relative step of about `step`.
template <typename Random>
Lambdas RandomNeighbour(const MarvellProblem& q, const Lambdas& l, double step, Random& random) {
  std::uniform_real_distribution<double> move(-step, step);
  const Real unit = q.power;
  const auto moved = [&](Real x) {
    return std::max(Real(0), x * (1 + move(random)) + (random() % 4 == 0 ? unit * std::abs(move(random)) * 1e-3 : 0));
  };
  Lambdas n;
  n.across_neg = moved(l.across_neg);
  n.across_pos = random() % 2 == 0 ? l.across_pos : moved(l.across_pos);
  n.along_neg = std::max(n.across_neg, moved(l.along_neg));
  n.along_pos = std::max(n.across_pos, moved(l.along_pos));
  return SpendingAll(q, n);
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_MARVELL_MARVELL_ORACLE_H_
