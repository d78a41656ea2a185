#include "common/leakage/gradient_views.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/linear_algebra.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 400;
constexpr int64_t kUnits = 24;

// A quarter of the rows lies at (3, 0, ...), the others at (-1, 0, ...); across, `spread` in components 1 and 2.
Matrix Draw(uint64_t seed, float spread = 0.1f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Matrix rows(kRows, kUnits);
  for (int64_t j = 0; j < kRows; ++j) {
    rows.row(j)[0] = j % 4 == 0 ? 3.0f : -1.0f;
    rows.row(j)[1] = spread * normal(random);
    rows.row(j)[2] = 0.5f * spread * normal(random);
  }
  return rows;
}

TEST(GradientSplitterTest, TheMainViewIsStandardisedAndPositiveOnTheSideOfTheFew) {
  GradientSplitter splitter;
  const GradientViews views = splitter.Split(Draw(1));
  ASSERT_EQ(views.main.size(), kRows);
  double sum = 0;
  double squared = 0;
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_NEAR(views.main[j], j % 4 == 0 ? std::sqrt(3.0) : -std::sqrt(1 / 3.0), 0.05) << j;
    sum += views.main[j];
    squared += views.main[j] * views.main[j];
  }
  EXPECT_NEAR(sum, 0, 1e-2);
  EXPECT_NEAR(squared, kRows, 1e-2);
}

TEST(GradientSplitterTest, TheOtherViewHoldsWhatLiesAcross) {
  GradientSplitter splitter;
  const Matrix rows = Draw(1);
  const GradientViews views = splitter.Split(rows);
  ASSERT_EQ(views.across.cols(), GradientSplitter::kDirections);
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_NEAR(SquaredNorm(views.across.row(j)), 1, 1e-5);
    // Rows that agree across the main direction agree in the view, wherever they are along it.
    for (int64_t i = 0; i < 5; ++i) {
      const double product = rows.row(i)[1] * rows.row(j)[1];
      if (std::abs(rows.row(i)[1]) > 3 * std::abs(rows.row(i)[2]) &&
          std::abs(rows.row(j)[1]) > 3 * std::abs(rows.row(j)[2])) {
        EXPECT_GT(InnerProduct(views.across.row(i), views.across.row(j)) * product, 0) << i << "," << j;
      }
    }
  }
}

TEST(GradientSplitterTest, SaysHowItsCoordinatesTurn) {
  GradientSplitter splitter;
  EXPECT_EQ(splitter.Split(Draw(1)).turn.size(), 0);
  Matrix rows = Draw(2);
  const GradientViews before = splitter.Split(rows);
  const GradientViews after = splitter.Split(rows);
  ASSERT_EQ(after.turn.rows(), GradientSplitter::kDirections);
  // The row's coordinates of before, turned, point where it is now.
  for (int64_t j = 0; j < 20; ++j) {
    double product = 0;
    for (int64_t i = 0; i < after.turn.rows(); ++i) {
      product += InnerProduct(after.turn.row(i), before.across.row(j)) * after.across.row(j)[i];
    }
    EXPECT_GT(product, 0.95) << j;
  }
}

TEST(GradientSplitterTest, ABatchThatTellsNothingIsEmptyAndForgotten) {
  GradientSplitter splitter;
  GradientSplitter other;
  const GradientViews expected = (other.Split(Draw(1)), other.Split(Draw(2)));
  splitter.Split(Draw(1));
  EXPECT_TRUE(splitter.Split(Matrix(kRows, kUnits)).empty());
  Matrix broken = Draw(3);
  broken.row(5)[3] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(splitter.Split(broken).empty());
  EXPECT_EQ(splitter.Split(broken).rows, kRows);
  EXPECT_EQ(splitter.Split(Draw(2)).main, expected.main);
}

TEST(GradientSplitterTest, TakesRowsOfOneComponent) {
  GradientSplitter splitter;
  Matrix rows(4, 1);
  rows.row(0)[0] = 3;
  const GradientViews views = splitter.Split(rows);
  ASSERT_EQ(views.main.size(), 4);
  EXPECT_GT(views.main[0], 1);
  EXPECT_EQ(views.across.cols(), 1);
}

class Batches {
 public:
  // Rows about (`tail`, 0, ...) with a share of 1/4 and about 0 otherwise, spread `along` on the first axis and 0.3 on
  // the others.
  Matrix Draw(int64_t rows, int64_t cols, float tail, float along) {
    Matrix matrix(rows, cols);
    for (int64_t j = 0; j < rows; ++j) {
      for (float& component : matrix.row(j)) {
        component = 0.3f * normal_(random_);
      }
      matrix.row(j)[0] = along * normal_(random_) + (random_() % 4 == 0 ? tail : 0);
    }
    return matrix;
  }

 private:
  std::mt19937_64 random_{19};  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal_;
};

// Largest eigenvalue's vector of the covariance, by Jacobi rotations: nothing in common with power iteration.
std::vector<double> JacobiPrincipal(const Matrix& rows) {
  const int64_t d = rows.cols();
  std::vector<double> mean(d);
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (int64_t k = 0; k < d; ++k) {
      mean[k] += rows.row(j)[k] / static_cast<double>(rows.rows());
    }
  }
  std::vector<std::vector<double>> a(d, std::vector<double>(d));
  std::vector<std::vector<double>> vectors(d, std::vector<double>(d));
  for (int64_t i = 0; i < d; ++i) {
    vectors[i][i] = 1;
    for (int64_t k = 0; k < d; ++k) {
      for (int64_t j = 0; j < rows.rows(); ++j) {
        a[i][k] += (rows.row(j)[i] - mean[i]) * (rows.row(j)[k] - mean[k]);
      }
    }
  }
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (int64_t p = 0; p < d; ++p) {
      for (int64_t q = p + 1; q < d; ++q) {
        const double angle = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(angle);
        const double s = std::sin(angle);
        for (int64_t k = 0; k < d; ++k) {
          const double left = a[k][p];
          a[k][p] = c * left - s * a[k][q];
          a[k][q] = s * left + c * a[k][q];
          const double vector = vectors[k][p];
          vectors[k][p] = c * vector - s * vectors[k][q];
          vectors[k][q] = s * vector + c * vectors[k][q];
        }
        for (int64_t k = 0; k < d; ++k) {
          const double upper = a[p][k];
          a[p][k] = c * upper - s * a[q][k];
          a[q][k] = s * upper + c * a[q][k];
        }
      }
    }
  }
  int64_t largest = 0;
  for (int64_t k = 1; k < d; ++k) {
    largest = a[k][k] > a[largest][largest] ? k : largest;
  }
  std::vector<double> principal(d);
  for (int64_t k = 0; k < d; ++k) {
    principal[k] = vectors[k][largest];
  }
  return principal;
}

TEST(PrincipalDirectionTest, OfTheFirstBatchIsTheLargestEigenvector) {
  const Matrix rows = Batches().Draw(300, 6, 1, 1);
  PrincipalDirection direction;
  const std::vector<double> projections = direction.Project(rows);
  const std::vector<double> expected = JacobiPrincipal(rows);
  double cosine = 0;
  double sum = 0;
  for (int64_t k = 0; k < 6; ++k) {
    cosine += direction.direction()[k] * expected[k];
  }
  EXPECT_NEAR(std::abs(cosine), 1, 1e-5);
  for (double projection : projections) {
    sum += projection;
  }
  EXPECT_NEAR(sum, 0, 1e-3);  // Of centred rows.
}

TEST(PrincipalDirectionTest, TheLongerTailIsPositive) {
  for (float tail : {4.0f, -4.0f}) {
    PrincipalDirection direction;
    (void)direction.Project(Batches().Draw(400, 4, tail, 1));
    EXPECT_GT(direction.orientation() * direction.direction()[0] * tail, 3);
  }
}

// Spread 2, tail 2: the third moment is 0.07 standard deviations cubed, its standard error in a batch of 1000 is 0.08:
// one batch in five votes for the wrong side.
TEST(PrincipalDirectionTest, WeakTailsOfManyBatchesVote) {
  PrincipalDirection direction;
  Batches batches;
  for (int batch = 0; batch < 400; ++batch) {
    const std::vector<float> before(direction.direction().begin(), direction.direction().end());
    (void)direction.Project(batches.Draw(1000, 3, 2, 2));
    if (!before.empty()) {
      EXPECT_GT(before[0] * direction.direction()[0], 0.9) << "turned round at batch " << batch;
    }
  }
  EXPECT_GT(direction.orientation() * direction.direction()[0], 0.9);
}

TEST(PrincipalDirectionTest, FollowsALineThatTurnsWithoutTurningRound) {
  PrincipalDirection direction;
  Batches batches;
  std::vector<double> previous;
  for (int batch = 0; batch < 200; ++batch) {
    Matrix rows = batches.Draw(200, 2, 3, 1);
    const float angle = 0.02f * static_cast<float>(batch);  // More than half a turn in all.
    for (int64_t j = 0; j < rows.rows(); ++j) {
      const float x = rows.row(j)[0];
      const float y = rows.row(j)[1];
      rows.row(j)[0] = std::cos(angle) * x - std::sin(angle) * y;
      rows.row(j)[1] = std::sin(angle) * x + std::cos(angle) * y;
    }
    (void)direction.Project(rows);
    const double towards_tail = std::cos(angle) * direction.direction()[0] + std::sin(angle) * direction.direction()[1];
    EXPECT_GT(direction.orientation() * towards_tail, 0.8) << batch;
  }
}

// Rows spread alike in all of 40 directions; only their evidence points along the first.
TEST(PrincipalDirectionTest, EvidenceLeadsToALineThatTheRowsAloneDoNotShow) {
  Batches batches;
  PrincipalDirection told;
  PrincipalDirection untold;
  for (int batch = 0; batch < 60; ++batch) {
    const Matrix rows = batches.Draw(400, 40, 0, 0.3f);
    std::vector<float> evidence;
    for (int64_t j = 0; j < rows.rows(); ++j) {
      evidence.push_back(rows.row(j)[0] / 0.3f);
    }
    (void)told.Project(rows, evidence);
    (void)untold.Project(rows);
  }
  EXPECT_GT(std::abs(told.direction()[0]), 0.9);
  EXPECT_LT(std::abs(untold.direction()[0]), 0.6);
}

TEST(PrincipalDirectionTest, EvidenceOfNothingChangesNothing) {
  const Matrix rows = Batches().Draw(100, 5, 1, 1);
  PrincipalDirection told;
  PrincipalDirection untold;
  EXPECT_EQ(told.Project(rows, std::vector<float>(100)), untold.Project(rows));
}

TEST(PrincipalDirectionTest, RowsWithoutALineAreFiniteAndForgotten) {
  PrincipalDirection direction;
  EXPECT_EQ(direction.Project(Matrix(4, 3)), std::vector<double>(4, 0.0));
  EXPECT_TRUE(direction.direction().empty());
  (void)direction.Project(Batches().Draw(100, 3, 3, 1));
  const std::vector<float> before(direction.direction().begin(), direction.direction().end());
  const double orientation = direction.orientation();
  EXPECT_EQ(direction.Project(Matrix(4, 3)), std::vector<double>(4, 0.0));
  Matrix broken(2, 3);
  broken.row(1)[1] = NAN;
  EXPECT_EQ(direction.Project(broken), std::vector<double>(2, 0.0));
  EXPECT_EQ(std::vector<float>(direction.direction().begin(), direction.direction().end()), before);
  EXPECT_EQ(direction.orientation(), orientation);
  EXPECT_TRUE(direction.Project(Matrix(0, 3)).empty());
}

TEST(PrincipalDirectionTest, AnotherWidthStartsAfresh) {
  PrincipalDirection direction;
  Batches batches;
  (void)direction.Project(batches.Draw(50, 3, 3, 1));
  (void)direction.Project(batches.Draw(50, 5, 3, 1));
  EXPECT_EQ(direction.direction().size(), 5);
}

}  // namespace
}  // namespace splitveil
