#include "deploy/operator/bench/marvell_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/seeded_draws.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "label_party/protection/marvell_solver.h"
#include "label_party/protection/marvell_table.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kStrength = 4;  // s of the perturbation.
constexpr int kRepetitions = 21;
constexpr std::pair<int64_t, int64_t> kShapes[] = {{1024, 128}, {32768, 128}, {128, 1600}};

double Microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

void PrintLine(const nlohmann::ordered_json& line) { std::printf("%s\n", line.dump().c_str()); }

// Problems over the range that training meets and beyond, uniform in the logarithm: d from 1 to 2048, g from 1e-8 to
// 1e2, u and v from 1e-6 to 1e2 times g, power from 1e-2 to 1e2 times g; p uniform from 0.01 to 0.99.
std::vector<MarvellProblem> RandomProblems(int64_t count) {
  SeededDraws draws(/*seed=*/11, /*stream=*/0);
  const auto power_of_ten = [&draws](double low, double high) {
    return std::pow(10, low + (high - low) * draws.Uniform());
  };
  std::vector<MarvellProblem> problems(count);
  for (MarvellProblem& problem : problems) {
    problem.d = static_cast<int64_t>(power_of_ten(0, std::log10(2048.0)));
    problem.g = power_of_ten(-8, 2);
    problem.u = problem.g * power_of_ten(-6, 2);
    problem.v = problem.g * power_of_ten(-6, 2);
    problem.p = 0.01 + 0.98 * draws.Uniform();
    problem.power = problem.g * power_of_ten(-2, 2);
  }
  return problems;
}

absl::StatusOr<std::vector<MarvellProblem>> ReadProblems(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  std::istringstream file(contents);
  absl::StatusOr<std::vector<MarvellProblem>> problems = ReadMarvellProblems(file);
  if (!problems.ok()) {
    return absl::Status(problems.status().code(), absl::StrCat(path, ": ", problems.status().message()));
  }
  return problems->empty()
             ? absl::InvalidArgumentError(absl::StrCat(path, ": expected at least one problem, found none"))
             : std::move(problems);
}

// The smallest of `values` with at least a share q of them at or below it, 0 < q <= 1.
double Quantile(std::vector<double> values, double q) {
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(q * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + (rank - 1), values.end());
  return values[rank - 1];
}

// The mean is of one pass without a clock in it; the quantile of a second pass that times each solution.
absl::Status BenchSolver(const std::vector<MarvellProblem>& problems) {
  double checksum = 0;  // Printed, so that no compiler leaves the work out.
  const Clock::time_point started = Clock::now();
  for (const MarvellProblem& problem : problems) {
    SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution solution, SolveMarvell(problem));
    checksum += std::isfinite(solution.sum_kl) ? solution.sum_kl : 0;
  }
  const double total = Microseconds(Clock::now() - started);
  std::vector<double> each;
  for (const MarvellProblem& problem : problems) {
    const Clock::time_point before = Clock::now();
    checksum += SolveMarvell(problem)->lambda1_neg;
    each.push_back(Microseconds(Clock::now() - before));
  }
  PrintLine({{"bench", "marvell_solve"},
             {"instances", problems.size()},
             {"mean_microseconds", total / static_cast<double>(problems.size())},
             {"p99_microseconds", Quantile(std::move(each), 0.99)},
             {"checksum", checksum}});
  return absl::OkStatus();
}

// A batch of two classes, a quarter of the rows positive and wider.
struct Batch {
  Matrix gradients;
  std::vector<uint8_t> labels;
};

Batch MakeBatch(int64_t rows, int64_t columns, SecureGaussian& gaussian) {
  Batch batch{Matrix(rows, columns), std::vector<uint8_t>(rows)};
  gaussian.Fill({}, 0, absl::MakeSpan(batch.gradients.data(), batch.gradients.size()));
  for (int64_t j = 0; j < rows; ++j) {
    batch.labels[j] = j % 4 == 0 ? 1 : 0;
    for (float& component : batch.gradients.row(j)) {
      component = batch.labels[j] == 1 ? 0.03f + 0.02f * component : 0.01f * component - 0.01f;
    }
  }
  return batch;
}

// Protecting a batch against drawing as many secure Gaussians and no more, in turns, so that both meet the same
// machine.
absl::Status BenchPerturbation(int64_t rows, int64_t columns) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SecureGaussian> gaussian,
                             SecureGaussian::Create(SecretKey::Generate()));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SecureGaussian> own, SecureGaussian::Create(SecretKey::Generate()));
  v1::GradientProtection config;
  config.mutable_marvell()->set_s(kStrength);
  SPLITVEIL_ASSIGN_OR_RETURN(const Protection protection, MakeProtection(config, std::move(own)));
  const Batch batch = MakeBatch(rows, columns, *gaussian);
  Matrix noise(rows, columns), out(rows, columns);
  std::vector<double> noise_times, times;
  for (uint32_t i = 1; i <= kRepetitions; ++i) {
    const NoisePosition position = {0, i, 0};
    const Clock::time_point started = Clock::now();
    gaussian->Fill(position, 0, absl::MakeSpan(noise.data(), noise.size()));
    const Clock::time_point drawn = Clock::now();
    SPLITVEIL_ASSIGN_OR_RETURN(const ProtectionReport report,
                               protection.gradients->Perturb(batch.gradients, batch.labels, position, out));
    noise_times.push_back(Microseconds(drawn - started) / 1000);
    times.push_back(Microseconds(Clock::now() - drawn) / 1000);
  }
  const double noise_milliseconds = Quantile(noise_times, 0.5), milliseconds = Quantile(times, 0.5);
  PrintLine({{"bench", "marvell_perturb"},
             {"rows", rows},
             {"columns", columns},
             {"milliseconds", milliseconds},
             {"noise_milliseconds", noise_milliseconds},
             {"ratio", milliseconds / noise_milliseconds}});
  return absl::OkStatus();
}

}  // namespace

absl::Status RunMarvellBench(int64_t instances, const std::string& problems_path) {
  std::vector<MarvellProblem> problems;
  if (problems_path.empty()) {
    problems = RandomProblems(instances);
  } else {
    SPLITVEIL_ASSIGN_OR_RETURN(problems, ReadProblems(problems_path));
  }
  SPLITVEIL_RETURN_IF_ERROR(BenchSolver(problems));
  for (const auto& [rows, columns] : kShapes) {
    SPLITVEIL_RETURN_IF_ERROR(BenchPerturbation(rows, columns));
  }
  return absl::OkStatus();
}

}  // namespace splitveil
