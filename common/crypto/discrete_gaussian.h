// Exact samples of the discrete Gaussian distribution, in integer arithmetic only.
#ifndef SPLITVEIL_COMMON_CRYPTO_DISCRETE_GAUSSIAN_H_
#define SPLITVEIL_COMMON_CRYPTO_DISCRETE_GAUSSIAN_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace splitveil {

// The next 64 independent, uniformly random bits. Someone who knows them knows the samples.
using RandomWords = absl::FunctionRef<uint64_t()>;

// The algorithms of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020,
// arXiv:2004.00010. Given uniform bits each distribution is exact: no probability is ever rounded, and no
// floating-point number is computed, so that none can leave its low bits in the result (Mironov, CCS 2012). On x86-64
// and AArch64 GCC is told to refuse one. The same words give the same samples on every machine.
//
// All reject until they accept: how many words they read, and so the time they take, depends on the sample and what was
// rejected before it. Not for code whose time an adversary measures for each single sample. Thread-safe for words of
// their own.

// Uniform in [0, bound), bound >= 1 (Lemire, ACM TOMACS 2019, algorithm 5). Reads one word, rarely more.
uint64_t SampleUniformBelow(uint64_t bound, RandomWords words);

// True with probability e^-(numerator/denominator) (algorithm 1). denominator >= 1; numerator / denominator < 2^64.
bool SampleBernoulliExp(unsigned __int128 numerator, uint64_t denominator, RandomWords words);

// The integer y with probability proportional to e^(-|y|/scale) (algorithm 2 with s = 1). 1 <= scale < 2^31.
int64_t SampleDiscreteLaplace(uint32_t scale, RandomWords words);

// The integer y with probability proportional to e^(-y^2 / (2 sigma^2)): mean 0, variance at most sigma^2 and less by
// under 1e-6 of it for sigma >= 1 (algorithm 3, its t chosen as sigma, which keeps the fractions small; any t gives the
// same distribution). 1 <= sigma < 2^31. About 14 words a sample. |y| < 2^51: beyond would take a geometric variable of
// mean below 1 to reach 2^20, which aborts.
int64_t SampleDiscreteGaussian(uint32_t sigma, RandomWords words);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_DISCRETE_GAUSSIAN_H_
