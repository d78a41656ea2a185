// `splitveil score` against figures worked out by hand.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNormalQuantile = 1.959964;

class ScoreTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& predictions, const std::string& labels,
                                     const std::vector<std::string>& more) const {
    WriteText(files_.File("predictions.csv"), predictions);
    WriteText(files_.File("labels.csv"), labels);
    std::vector<std::string> arguments = {"score", "--predictions=" + files_.File("predictions.csv"),
                                          "--labels=" + files_.File("labels.csv")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  nlohmann::json Scored(const std::string& predictions, const std::string& labels, std::vector<std::string> more = {}) {
    more.push_back("--out=" + files_.File("score.json"));
    printed_ = ExpectDone(Arguments(predictions, labels, more));
    std::ifstream file(files_.File("score.json"));
    return nlohmann::json::parse(file);
  }
  std::string Error(const std::string& predictions, const std::string& labels,
                    const std::vector<std::string>& more = {}) const {
    const std::string error = ExpectError(2, Arguments(predictions, labels, more));
    EXPECT_THAT(error, Not(HasSubstr("planted")));
    return error;
  }

  const TempFolder files_;
  std::string printed_;
};

TEST_F(ScoreTest, TwoClassesAreThoseOfAFewRowsByHand) {
  const nlohmann::json scored =
      Scored("id,probability\na,0.9\nb,0.8\nc,0.4\nd,0.3\ne,0.2\n", "label,id,x\n1,a,\n0,d,\n1,c,\n0,b,\n1,z,\n");
  EXPECT_EQ(scored["rows"], 4);
  EXPECT_EQ(scored["predictions_without_label"], 1);
  EXPECT_EQ(scored["labels_without_prediction"], 1);
  EXPECT_EQ(scored["auc"], 0.75);  // Of four pairs 0.4 < 0.8 alone is the wrong way round.
  EXPECT_NEAR(scored["log_loss"], -(std::log(0.9) + std::log(0.2) + std::log(0.4) + std::log(0.7)) / 4, 1e-6);
  EXPECT_NEAR(scored["brier_score"], (0.01 + 0.64 + 0.36 + 0.09) / 4, 1e-12);
  EXPECT_NEAR(scored["calibration_error"], (0.1 + 0.8 + 0.6 + 0.3) / 4, 1e-6);  // A range for each of so few rows.
  EXPECT_EQ(scored["base_rate"], 0.5);
  EXPECT_NEAR(scored["mean_predicted"], 0.6, 1e-12);
  EXPECT_TRUE(scored["days"].empty());
  // Each limit is so many standard errors of its own from the AUC (Newcombe, 2006, part 2, method 5).
  for (const double limit : {scored["auc_low"].get<double>(), scored["auc_high"].get<double>()}) {
    const double error = std::sqrt(limit * (1 - limit) * (1 + (1 - limit) / (2 - limit) + limit / (1 + limit)) / 4);
    EXPECT_NEAR(std::abs(limit - 0.75), kNormalQuantile * error, 1e-6);
  }
  ASSERT_EQ(scored["calibration"].size(), 4);
  EXPECT_EQ(scored["calibration"][0], nlohmann::json({{"rows", 1}, {"predicted", 0.3}, {"observed", 0.0}}));
  EXPECT_THAT(printed_, HasSubstr("4 predictions with a label; 1 without one; 1 labels without a prediction\n"));
  EXPECT_THAT(printed_, HasSubstr("0.7500"));
  EXPECT_THAT(printed_, Not(HasSubstr("nan")));
}

TEST_F(ScoreTest, TenthsOfTheRowsShowHowFarProbabilitiesAreOff) {
  // 100 rows of 0.005 to 0.995, of which every other has the label; and 20 of one probability, which share a bin.
  std::string predictions = "id,probability\n", labels = "id,label\n";
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&predictions, i, ",", (i + 0.5) / 100, "\n");
    absl::StrAppend(&labels, i, ",", i % 2, "\n");
  }
  nlohmann::json bins = Scored(predictions, labels)["calibration"];
  ASSERT_EQ(bins.size(), 10);
  for (int bin = 0; bin < 10; ++bin) {
    EXPECT_EQ(bins[bin]["rows"], 10);
    EXPECT_NEAR(bins[bin]["predicted"], (bin + 0.5) / 10, 1e-9);
    EXPECT_EQ(bins[bin]["observed"], 0.5);
  }
  for (int i = 100; i < 120; ++i) {
    absl::StrAppend(&predictions, i, ",0.005\n");
    absl::StrAppend(&labels, i, ",1\n");
  }
  bins = Scored(predictions, labels)["calibration"];
  EXPECT_EQ(bins[0]["rows"], 21);
  EXPECT_NEAR(bins[0]["predicted"], 0.005, 1e-12);
  EXPECT_NEAR(bins[0]["observed"], 20.0 / 21, 1e-12);
}

TEST_F(ScoreTest, DaysAreThoseOfUtcAndOneOfASingleLabelHasNoAuc) {
  const nlohmann::json scored =
      Scored("id,probability\na,0.9\nb,0.8\nc,0.4\nd,0.1\ne,0\n",
             "key;paid;seen\na;yes;2026-11-01T23:30:00-01:00\nb;no;2026-11-01\nc;yes;2026-11-01T12:00:00Z\n"
             "d;no;2026-11-02\ne;yes;2026-11-03\n",
             {"--id=key", "--label=paid", "--date=seen", "--positive=yes", "--negative=no"});
  ASSERT_EQ(scored["days"].size(), 3);
  EXPECT_EQ(scored["days"][0]["day"], "2026-11-01");
  EXPECT_EQ(scored["days"][0]["rows"], 2);
  EXPECT_EQ(scored["days"][0]["auc"], 0);
  EXPECT_EQ(scored["days"][1]["auc"], 1);  // d and a, which is of the day after in UTC.
  EXPECT_NEAR(scored["days"][1]["base_rate"], 0.5, 1e-12);
  EXPECT_TRUE(scored["days"][2]["auc"].is_null());
  // A probability of 0 counts as the least one there is.
  EXPECT_NEAR(scored["days"][2]["log_loss"], -std::log(std::numeric_limits<double>::min()), 1e-4);
  EXPECT_THAT(printed_, AllOf(HasSubstr("all"), HasSubstr("2026-11-03")));
}

TEST_F(ScoreTest, SeveralClassesAndNumbers) {
  const nlohmann::json classes =
      Scored("id,\"a,b\",c,d\n1,0.5,0.25,0.25\n2,0.1,0.7,0.2\n3,0.2,0.3,0.5\n", "id\tlabel\n1\ta,b\n2\tc\n3\tc\n");
  EXPECT_NEAR(classes["log_loss"], -(std::log(0.5) + std::log(0.7) + std::log(0.3)) / 3, 1e-6);
  EXPECT_NEAR(classes["accuracy"], 2.0 / 3, 1e-12);
  EXPECT_EQ(classes["auc"], 1);  // Of "a,b" and of c; of d there is no row.
  const nlohmann::json numbers =
      Scored("id,prediction\n1,1000\n2,2000\n3,2500\n", "id,label\n1,1300\n2,1600\n3,2500\n");
  EXPECT_NEAR(numbers["rmse"], std::sqrt((90000 + 160000) / 3.0), 1e-4);
  // About the mean 1800: 250000 + 40000 + 490000.
  EXPECT_NEAR(numbers["r_squared"], 1 - 250000 / 780000.0, 1e-6);
}

// Ever smaller probabilities, all of them of the wrong class; and numbers that a float does not tell apart.
TEST_F(ScoreTest, TellsApartWhatAFloatDoesNot) {
  std::string predictions = "id,probability\n", labels = "id,label\n";
  for (int i = 0; i < 100; ++i) {
    absl::StrAppendFormat(&predictions, "%d,%.9g\n", i, std::exp(-0.8 * i - 1));
    absl::StrAppend(&labels, i, ",", i < 50 ? 0 : 1, "\n");
  }
  EXPECT_EQ(Scored(predictions, labels)["auc"], 0);
  const nlohmann::json numbers = Scored("id,prediction\n1,100000000.5\n2,100000001.5\n3,100000003.5\n",
                                        "id,label\n1,100000000\n2,100000002\n3,100000004\n");
  EXPECT_NEAR(numbers["rmse"], 0.5, 1e-6);
  EXPECT_NEAR(numbers["r_squared"], 1 - 0.75 / 8, 1e-6);
}

TEST_F(ScoreTest, SaysWhatItCannotRead) {
  EXPECT_THAT(Error("id,probability\na,0.5\n", "id,label\na,0\n", {"--positive=0"}),
              HasSubstr("\"0\" is both --positive and --negative"));
  const std::string predictions = "id,probability\na,0.9\nb,0.8\n", labels = "id,label\na,1\nb,0\n";
  EXPECT_THAT(Error(predictions, "id,paid\na,1\n"),
              AllOf(HasSubstr("labels.csv:1: expected a header line that names each column once (id, label)"),
                    HasSubstr("found none, or more than one, of label\n")));
  EXPECT_THAT(Error(predictions, "label;id;id\n1;a;a\n"), HasSubstr("found none, or more than one, of id\n"));
  EXPECT_THAT(Error(predictions, labels, {"--date=day"}), HasSubstr("(id, label, day)"));
  EXPECT_THAT(Error(predictions, "id,label\na,1\nb,planted\n"),
              HasSubstr("labels.csv: 1 row whose label is neither 1 (--positive) nor 0 (--negative) (line 3)"));
  EXPECT_THAT(Error(predictions, "id,label\na,1\nb,\n"), HasSubstr("(line 3)"));
  EXPECT_THAT(Error(predictions, "id,label\na,1\na,1\nb,0\nb,1\n"),
              HasSubstr("labels.csv: 2 rows with an id that an earlier row has: remove them (line 3, 5)"));
  EXPECT_THAT(Error("id,probability\na,0.9\na,0.8\n", labels),
              HasSubstr("predictions.csv: 1 row with an id that an earlier row has"));
  EXPECT_THAT(
      Error(predictions, "id,label\nplanted,1\n"),
      HasSubstr("labels.csv: expected ids of " + files_.File("predictions.csv") + " in column id, found 1 rows"));
  for (const char* const cell : {"nan", "", "1.5", "-0.1", "planted", "inf"}) {
    EXPECT_THAT(Error(absl::StrCat("id,probability\na,0.9\nb,", cell, "\n"), labels),
                HasSubstr("predictions.csv: 1 row with a cell that is no probability from 0 to 1 (line 3)"))
        << cell;
  }
  EXPECT_THAT(Error("id,prediction\na,1\nb,planted\n", labels), HasSubstr("1 row without a finite number (line 3)"));
  EXPECT_THAT(Error("id,prediction\na,1\nb,2\n", "id,label\na,1\nb,nan\n"),
              HasSubstr("without a finite number in label"));
  EXPECT_THAT(Error("id,x,y,z\na,0.1,0.2,0.7\n", "id,label\na,planted\n"), HasSubstr("is no class of the predictions"));
  EXPECT_THAT(Error("id,planted,planted,x\na,0.1,0.2,0.7\n", labels),
              HasSubstr("predictions.csv:1: expected each class once, found one in two columns"));
  for (const char* const header : {"id,planted", "x,id", "id", "id,a,b"}) {
    EXPECT_THAT(Error(absl::StrCat(header, "\na,0.5\n"), labels), HasSubstr("predictions.csv:1: expected predictions"))
        << header;
  }
  EXPECT_THAT(Error(predictions, "id,label,day\na,1,yesterday\nb,0,20261101\n", {"--date=day"}),
              HasSubstr("labels.csv: 2 rows without a date such as 2024-06-01 in day (line 2, 3)"));
  EXPECT_THAT(Error(predictions, labels, {"--out=" + files_.File("labels.csv")}), HasSubstr("labels.csv"));
  EXPECT_THAT(Error("", labels), HasSubstr("found an empty file"));
}

}  // namespace
}  // namespace splitveil::testing
