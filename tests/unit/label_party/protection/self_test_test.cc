#include "label_party/protection/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "label_party/noise/noise_plan.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

// A sound protection whose output or position is spoilt: the mistakes of other systems.
class SpoiltProtection {
 public:
  using Spoil = std::function<void(ConstMatrixView, absl::Span<const uint8_t>, Matrix&)>;

  SpoiltProtection(const std::string& text, Spoil spoil) : sound_(MakeBothSides(text)), spoil_(std::move(spoil)) {}

  // The spoilt protection must outlive it.
  ProtectionCandidate candidate() {
    return {[this](const LabelFreeBatch& batch, const LabelledGradients& gradients, const NoisePosition& position,
                   Matrix& out) {
              auto report =
                  sound_.gradients->Perturb(batch, gradients, fixed_position ? NoisePosition{} : position, out);
              if (spoil_) {
                spoil_(gradients.gradients, gradients.labels, out);
              }
              return report;
            },
            [this](absl::Span<const NoiseRow> examples, absl::Span<const uint8_t> labels, uint32_t epoch) {
              absl::StatusOr<std::vector<float>> targets =
                  sound_.TrainingTargets(examples, std::vector<float>(labels.begin(), labels.end()), epoch);
              if (spoil_targets && targets.ok()) {
                spoil_targets(labels, *targets);
              }
              return targets;
            }};
  }

  bool fixed_position = false;
  std::function<void(absl::Span<const uint8_t>, std::vector<float>&)> spoil_targets;

 private:
  Protection sound_;
  Spoil spoil_;
};

const char kMarvell[] = "marvell { s: 4 }";

std::string Verdict(const std::string& promised, const ProtectionCandidate& candidate) {
  const absl::Status status = ProveProtection(ProtectionConfig(promised), candidate);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  return status.ToString();
}

std::string Verdict(const std::string& promised, SpoiltProtection& spoilt) {
  return Verdict(promised, spoilt.candidate());
}

// Of a protection that is sound, but another one than promised.
std::string VerdictOn(const std::string& found, const std::string& promised) {
  const Protection protection = MakeBothSides(found);
  return Verdict(promised, CandidateOf(protection));
}

class SelfTestPassesTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Methods, SelfTestPassesTest,
                         ::testing::Values("none {}", "iso { t: 0.5 }", "iso { t: 25 }", "iso { ratio: 2 }",
                                           "max_norm {}", "marvell { s: 0.1 }", "marvell { s: 4 }", "marvell { s: 25 }",
                                           "marvell { sum_kl: 0.25 }", "marvell { detection_error: 0.4 }",
                                           "marvell { s: 4 orthogonal_noise_ratio: 4 }", "label_dp { epsilon: 0.1 }",
                                           "label_dp { epsilon: 1 }", "label_dp { epsilon: 30 }",
                                           "gaussian_label_dp { sigma: 0.1 }", "gaussian_label_dp { sigma: 2.79 }",
                                           "gaussian_label_dp { max_run_auc_bound: 0.6 "
                                           "planned_epochs: 3 noise_growth_per_epoch: 2 }",
                                           "gaussian_label_dp { max_run_auc_bound: 0.7 }", "sparsify { keep: 0.1 }",
                                           "sparsify { keep: 0.75 }", "discretize { bins: 2 }",
                                           "discretize { bins: 12 }",
                                           "iso { t: 1 } distance_correlation { weight: 0.1 }",
                                           "marvell { run_budget { planned_epochs: 5 noise_growth_per_epoch: 1.5 } }"));

TEST_P(SelfTestPassesTest, ForASoundProtectionUnderAnyKey) {
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(SelfTestProtection(ProtectionConfig(GetParam())).ok())
        << SelfTestProtection(ProtectionConfig(GetParam()));
  }
}

TEST(SelfTestTest, FailsForProtectionConfiguredButNotApplied) {
  for (const char* promised : {"iso { t: 1 }", "max_norm {}", kMarvell}) {
    EXPECT_THAT(VerdictOn("none {}", promised), HasSubstr("leave as they are"));
  }
  SpoiltProtection forgetful(kMarvell, [](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    std::copy(g.data(), g.data() + g.size(), out.data());
  });
  EXPECT_THAT(Verdict(kMarvell, forgetful), HasSubstr("leave as they are"));
}

TEST(SelfTestTest, FailsForNoiseWhereNoneIsConfigured) {
  EXPECT_THAT(VerdictOn(kMarvell, "none {}"), HasSubstr("`none` is configured"));
}

TEST(SelfTestTest, FailsWithoutThePromisedNoiseAcross) {
  EXPECT_THAT(VerdictOn(kMarvell, "marvell { s: 4 orthogonal_noise_ratio: 4 }"), HasSubstr("across the line"));
}

TEST(SelfTestTest, FailsForIsotropicMaxNorm) {
  EXPECT_THAT(VerdictOn("iso { t: 1 }", "max_norm {}"), HasSubstr("off the line"));
}

// sigma from the norm of the whole batch instead of each row's: one factor for all rows.
TEST(SelfTestTest, FailsForMaxNormByTheNormOfTheWholeBatch) {
  SpoiltProtection whole("max_norm {}", [](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    double largest = 0;
    double mean = 0;
    for (int64_t j = 0; j < g.rows(); ++j) {
      largest = std::max(largest, SquaredNorm(g.row(j)));
      mean += SquaredNorm(g.row(j)) / static_cast<double>(g.rows());
    }
    const double sigma = std::sqrt(largest / mean - 1);
    for (int64_t j = 0; j < g.rows(); ++j) {
      // Any scrambled number of variance one will do that repeats at a repeated position.
      const double z = std::sqrt(2.0) * std::sin(1e4 * out.row(j)[0]);
      for (int64_t k = 0; k < g.cols(); ++k) {
        out.row(j)[k] = static_cast<float>((1 + sigma * z) * g.row(j)[k]);
      }
    }
  });
  Verdict("max_norm {}", whole);
}

TEST(SelfTestTest, FailsForAnotherMethod) {
  VerdictOn("max_norm {}", kMarvell);
  VerdictOn("iso { t: 1 }", kMarvell);
  VerdictOn(kMarvell, "iso { t: 1 }");
}

TEST(SelfTestTest, FailsForAnotherStrength) {
  EXPECT_THAT(VerdictOn("marvell { s: 3 }", kMarvell), HasSubstr("variance"));
  EXPECT_THAT(VerdictOn("iso { t: 0.8 }", "iso { t: 1 }"), HasSubstr("variance"));
}

// Half of the components stay as they are, the others get all the noise.
TEST(SelfTestTest, FailsForFewerNoiseDirections) {
  const auto fewer = [](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t j = 0; j < g.rows(); ++j) {
      for (int64_t k = 0; k < g.cols() / 2; ++k) {
        out.row(j)[k] = g.row(j)[k] + std::sqrt(2.0f) * (out.row(j)[k] - g.row(j)[k]);
        out.row(j)[k + g.cols() / 2] = g.row(j)[k + g.cols() / 2];
      }
    }
  };
  SpoiltProtection iso("iso { t: 1 }", fewer);
  Verdict("iso { t: 1 }", iso);
  SpoiltProtection marvell(kMarvell, fewer);
  Verdict(kMarvell, marvell);
}

// All of Marvell's noise on the line of dg: nothing hides the class of smaller spread across it.
TEST(SelfTestTest, FailsForMarvellWithoutNoiseAcrossItsLine) {
  const ClassMoments moments = [] {
    const SyntheticBatch batch = MakeSyntheticBatch();
    return *ExpectedMoments(batch.label_free());
  }();
  SpoiltProtection along(kMarvell, [&](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t j = 0; j < g.rows(); ++j) {
      double on_line = 0;
      for (int64_t k = 0; k < g.cols(); ++k) {
        on_line += (out.row(j)[k] - g.row(j)[k]) * moments.mean_difference[k] / moments.dg_squared;
      }
      for (int64_t k = 0; k < g.cols(); ++k) {
        out.row(j)[k] = g.row(j)[k] + static_cast<float>(on_line * moments.mean_difference[k]);
      }
    }
  });
  EXPECT_THAT(Verdict(kMarvell, along), HasSubstr("across the line"));
}

// Every positive row trades its noise with the negative one before it.
TEST(SelfTestTest, FailsForNoiseOfTheOtherClass) {
  SpoiltProtection swapped(kMarvell, [](ConstMatrixView g, absl::Span<const uint8_t> labels, Matrix& out) {
    for (int64_t j = 1; j < g.rows(); ++j) {
      for (int64_t k = 0; k < g.cols() && labels[j] == 1; ++k) {
        const float noise = out.row(j)[k] - g.row(j)[k];
        out.row(j)[k] = g.row(j)[k] + (out.row(j - 1)[k] - g.row(j - 1)[k]);
        out.row(j - 1)[k] = g.row(j - 1)[k] + noise;
      }
    }
  });
  Verdict(kMarvell, swapped);
}

TEST(SelfTestTest, FailsForTheSameNoiseAtEveryPosition) {
  SpoiltProtection repeating(kMarvell, nullptr);
  repeating.fixed_position = true;
  Verdict(kMarvell, repeating);
}

TEST(SelfTestTest, FailsForOtherNoiseAtTheSamePosition) {
  int call = 0;
  SpoiltProtection restless(kMarvell, [&](ConstMatrixView, absl::Span<const uint8_t>, Matrix& out) {
    out.row(0)[0] += 1e-3f * static_cast<float>(++call);
  });
  EXPECT_THAT(Verdict(kMarvell, restless), HasSubstr("same position"));
}

TEST(SelfTestTest, FailsForNoiseSharedByAllRows) {
  SpoiltProtection shared("iso { t: 1 }", [](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t j = 1; j < g.rows(); ++j) {
      for (int64_t k = 0; k < g.cols(); ++k) {
        out.row(j)[k] = g.row(j)[k] + (out.row(0)[k] - g.row(0)[k]);
      }
    }
  });
  Verdict("iso { t: 1 }", shared);
}

TEST(SelfTestTest, FailsForABias) {
  SpoiltProtection biased(kMarvell, [](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t j = 0; j < g.rows(); ++j) {
      out.row(j)[0] += 0.4f;
    }
  });
  Verdict(kMarvell, biased);
}

TEST(SelfTestTest, FailsForAShrunkenGradient) {
  SpoiltProtection shrunken(kMarvell, [](ConstMatrixView, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t i = 0; i < out.size(); ++i) {
      out.data()[i] *= 0.8f;
    }
  });
  Verdict(kMarvell, shrunken);
}

const char kGaussianLabelDp[] = "gaussian_label_dp { sigma: 2 }";

// What the self-test says where the noise of label j of n is what `spoil` makes of it.
std::string VerdictOnNoise(const std::function<void(absl::Span<const uint8_t>, std::vector<float>&)>& spoil) {
  SpoiltProtection spoilt(kGaussianLabelDp, nullptr);
  spoilt.spoil_targets = [&](absl::Span<const uint8_t> labels, std::vector<float>& targets) {
    for (size_t j = 0; j < labels.size(); ++j) {
      targets[j] -= labels[j];
    }
    spoil(labels, targets);
    for (size_t j = 0; j < labels.size(); ++j) {
      targets[j] += labels[j];
    }
  };
  return Verdict(kGaussianLabelDp, spoilt);
}

TEST(SelfTestTest, FailsForLabelsWithLessNoiseThanPromised) {
  EXPECT_THAT(VerdictOn("none {}", kGaussianLabelDp), HasSubstr("variance"));
  EXPECT_THAT(VerdictOn("gaussian_label_dp { sigma: 1 }", kGaussianLabelDp), HasSubstr("variance"));
  EXPECT_THAT(VerdictOn("gaussian_label_dp { sigma: 2.1 }", kGaussianLabelDp), HasSubstr("variance"));
  for (int spared : {0, 1}) {
    EXPECT_THAT(VerdictOnNoise([&](absl::Span<const uint8_t> labels, std::vector<float>& noise) {
                  for (size_t j = 0; j < labels.size(); ++j) {
                    noise[j] = labels[j] == spared ? 0 : noise[j];
                  }
                }),
                HasSubstr("variance"));
  }
}

TEST(SelfTestTest, FailsForLabelNoiseThatIsBiasedSharedOrNotGaussian) {
  EXPECT_THAT(VerdictOnNoise([](absl::Span<const uint8_t> labels, std::vector<float>& noise) {
                for (size_t j = 0; j < labels.size(); ++j) {
                  noise[j] += labels[j] == 1 ? 0.1F : 0;
                }
              }),
              HasSubstr("mean"));
  for (size_t apart : {1, 2}) {
    EXPECT_THAT(VerdictOnNoise([&](absl::Span<const uint8_t> labels, std::vector<float>& noise) {
                  for (size_t j = 0; j + apart < labels.size(); j += 4) {
                    noise[j + apart] = noise[j];
                  }
                }),
                HasSubstr("neighbouring"));
  }
  EXPECT_THAT(VerdictOnNoise([](absl::Span<const uint8_t>, std::vector<float>& noise) {
                for (float& value : noise) {
                  value = value > 0 ? 2.0F : -2.0F;
                }
              }),
              HasSubstr("not Gaussian"));
}

TEST(SelfTestTest, FailsForEpochsThatShareTheirNoise) {
  const char promised[] = "gaussian_label_dp { sigma: 2 planned_epochs: 2 }";
  SpoiltProtection spoilt(promised, nullptr);
  std::vector<float> first;
  spoilt.spoil_targets = [&](absl::Span<const uint8_t>, std::vector<float>& targets) {
    if (first.empty()) {
      first = targets;
    }
    targets = first;
  };
  EXPECT_THAT(Verdict(promised, spoilt), HasSubstr("two epochs"));
  EXPECT_THAT(VerdictOn("gaussian_label_dp { sigma: 2 planned_epochs: 3 }", promised), HasSubstr("variance"));
}

const char kLabelDp[] = "label_dp { epsilon: 1 }";

TEST(SelfTestTest, FailsForMethodsWithoutNoiseConfiguredButNotApplied) {
  for (const char* promised : {"sparsify { keep: 0.1 }", "discretize { bins: 8 }"}) {
    EXPECT_THAT(VerdictOn("none {}", promised), HasSubstr("leave as they are"));
  }
  EXPECT_THAT(VerdictOn("none {}", kLabelDp), HasSubstr("target"));
  SpoiltProtection true_labels(kLabelDp, nullptr);
  true_labels.spoil_targets = [](absl::Span<const uint8_t> labels, std::vector<float>& targets) {
    targets.assign(labels.begin(), labels.end());
  };
  EXPECT_THAT(Verdict(kLabelDp, true_labels), HasSubstr("target"));
}

TEST(SelfTestTest, FailsForLabelsThatAreNeverFlipped) {
  SpoiltProtection unflipped(kLabelDp, nullptr);
  unflipped.spoil_targets = [](absl::Span<const uint8_t> labels, std::vector<float>& targets) {
    const auto [low, high] = std::minmax_element(targets.begin(), targets.end());
    const float of_label[2] = {*low, *high};
    for (size_t j = 0; j < labels.size(); ++j) {
      targets[j] = of_label[labels[j]];
    }
  };
  EXPECT_THAT(Verdict(kLabelDp, unflipped), HasSubstr("share of flipped"));
}

// One class alone is flipped: the other's labels stay certain.
TEST(SelfTestTest, FailsForFlipsOfOneClassOnly) {
  SpoiltProtection one_sided(kLabelDp, nullptr);
  one_sided.spoil_targets = [](absl::Span<const uint8_t> labels, std::vector<float>& targets) {
    const float high = *std::max_element(targets.begin(), targets.end());
    for (size_t j = 0; j < labels.size(); ++j) {
      targets[j] = labels[j] == 1 ? high : targets[j];
    }
  };
  EXPECT_THAT(Verdict(kLabelDp, one_sided), HasSubstr("share of flipped"));
}

TEST(SelfTestTest, FailsForFlipsOfAnotherPrivacyOrWithoutCorrection) {
  EXPECT_THAT(VerdictOn("label_dp { epsilon: 1.2 }", kLabelDp), HasSubstr("target"));
  SpoiltProtection raw(kLabelDp, nullptr);  // Trains on y' itself: biased towards the other class.
  raw.spoil_targets = [](absl::Span<const uint8_t>, std::vector<float>& targets) {
    for (float& target : targets) {
      target = target > 0.5f ? 1.0f : 0.0f;
    }
  };
  EXPECT_THAT(Verdict(kLabelDp, raw), HasSubstr("target"));
}

// One flip decides for two labels of a class that follow each other.
TEST(SelfTestTest, FailsForFlipsThatNeighboursShare) {
  SpoiltProtection shared(kLabelDp, nullptr);
  shared.spoil_targets = [](absl::Span<const uint8_t>, std::vector<float>& targets) {
    for (size_t j = 0; j + 3 < targets.size(); j += 4) {
      targets[j + 2] = targets[j];
      targets[j + 3] = targets[j + 1];
    }
  };
  EXPECT_THAT(Verdict(kLabelDp, shared), HasSubstr("not independent"));
}

TEST(SelfTestTest, FailsForAnotherShareOrOtherComponentsThanTheLargest) {
  const char kSparsify[] = "sparsify { keep: 0.25 }";
  EXPECT_THAT(VerdictOn("sparsify { keep: 0.3 }", kSparsify), HasSubstr("number of components"));
  SpoiltProtection smallest("none {}", [](ConstMatrixView g, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t i = g.size() / 4; i < g.size(); ++i) {
      out.data()[i] = 0;
    }
  });
  EXPECT_THAT(Verdict(kSparsify, smallest), HasSubstr("smaller than one that is gone"));
  SpoiltProtection scaled(kSparsify, [](ConstMatrixView, absl::Span<const uint8_t>, Matrix& out) {
    for (int64_t i = 0; i < out.size(); ++i) {
      out.data()[i] *= 4;
    }
  });
  EXPECT_THAT(Verdict(kSparsify, scaled), HasSubstr("is changed"));
}

TEST(SelfTestTest, FailsForOtherBins) {
  const char kDiscretize[] = "discretize { bins: 8 }";
  EXPECT_THAT(VerdictOn("discretize { bins: 4 }", kDiscretize), HasSubstr("nearest bin"));
  EXPECT_THAT(VerdictOn("discretize { bins: 16 }", kDiscretize), HasSubstr("more values"));
  VerdictOn("iso { t: 1e-6 }", kDiscretize);
}

TEST(SelfTestTest, FailsForLabelsChangedByAMethodThatPromisesNone) {
  EXPECT_THAT(VerdictOn(kLabelDp, "none {}"), HasSubstr("labels are changed"));
}

TEST(SelfTestTest, PassesOnTheErrorOfAConfigurationThatCannotBe) {
  EXPECT_EQ(SelfTestProtection(v1::GradientProtection()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
