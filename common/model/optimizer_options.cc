#include "common/model/optimizer_options.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/config/message_validator.h"

namespace splitveil {
namespace {

constexpr double kPi = 3.14159265358979323846;

void ReadMethod(const v1::Optimizer& optimizer, OptimizerOptions& options) {
  const auto read_adam = [&](const auto& adam) {
    options.method = OptimizerOptions::Method::kAdam;
    options.beta1 = adam.beta1();
    options.beta2 = adam.beta2();
    options.epsilon = adam.epsilon();
  };
  switch (optimizer.method_case()) {
    case v1::Optimizer::kAdam:
      return read_adam(optimizer.adam());
    case v1::Optimizer::kAdamw:
      // AdamW is Adam with decoupled decay (Loshchilov and Hutter, ICLR 2019).
      options.weight_decay = optimizer.adamw().weight_decay();
      return read_adam(optimizer.adamw());
    case v1::Optimizer::kSgd:
      options.method = OptimizerOptions::Method::kSgd;
      options.momentum = optimizer.sgd().momentum();
      options.nesterov = optimizer.sgd().nesterov();
      return;
    case v1::Optimizer::kAdagrad:
      options.method = OptimizerOptions::Method::kAdagrad;
      options.epsilon = optimizer.adagrad().epsilon();
      options.initial_accumulator = optimizer.adagrad().initial_accumulator();
      return;
    case v1::Optimizer::METHOD_NOT_SET:
      return;  // Refused by the schema.
  }
}

void ReadSchedule(const v1::LearningRateSchedule& schedule, OptimizerOptions& options) {
  options.warmup_steps = schedule.warmup_steps();
  if (schedule.has_decay()) {
    options.decay_steps = schedule.decay().steps();
    options.decay_factor = schedule.decay().factor();
  } else if (schedule.has_cosine()) {
    options.cosine_steps = schedule.cosine().steps();
    options.cosine_floor = schedule.cosine().floor();
  }
}

}  // namespace

double OptimizerOptions::LearningRate(int64_t step) const {
  double rate = learning_rate;
  // From 1 / warmup_steps up: a first step of 0 would be lost.
  if (step < warmup_steps) {
    rate *= static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (decay_steps > 0) {
    // Whole decays: a staircase, not a curve.
    const int64_t decays = step / decay_steps;
    rate *= std::pow(decay_factor, static_cast<double>(decays));
  }
  if (cosine_steps > 0) {
    const double progress = static_cast<double>(std::min(step, cosine_steps)) / static_cast<double>(cosine_steps);
    // Loshchilov and Hutter, ICLR 2017, without restarts; stays at the floor afterwards.
    rate *= cosine_floor + (1 - cosine_floor) * 0.5 * (1 + std::cos(kPi * progress));
  }
  return rate;
}

double OptimizerOptions::AverageRate(int64_t step) const {
  const auto t = static_cast<double>(step);
  // Early steps weigh more, or the average would remember the random start (as TensorFlow's ExponentialMovingAverage
  // with num_updates).
  return 1 - std::min(average_decay, (1 + t) / (10 + t));
}

int OptimizerOptions::moments() const {
  switch (method) {
    case Method::kAdam:
      return 2;
    case Method::kAdagrad:
      return 1;
    case Method::kSgd:
      return momentum > 0 ? 1 : 0;
  }
  return 0;
}

absl::StatusOr<OptimizerOptions> ReadOptimizerOptions(const v1::Optimizer& optimizer) {
  if (absl::Status status = ValidateMessage(optimizer); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("optimizer.", status.message()));
  }
  OptimizerOptions options;
  options.learning_rate = optimizer.learning_rate();
  options.l2 = optimizer.l2();
  options.clip_norm = optimizer.clip_norm();
  options.average_decay = optimizer.average_decay();
  ReadMethod(optimizer, options);
  ReadSchedule(optimizer.schedule(), options);
  return options;
}

}  // namespace splitveil
