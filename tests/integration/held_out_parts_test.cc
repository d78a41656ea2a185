// The validation part, and splits by group and time, through both programs.
#include <sqlite3.h>

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/privacy_account/privacy_account.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRows = 2000;
constexpr char kFeatures[] = R"(columns { name: "id" kind: ID } columns { name: "n" kind: NUMERIC }
  columns { name: "c" kind: CATEGORICAL } )";

// Row i has the same id at both parties; "of" is what it is split by: its group of eight plus `shift`, or a day.
std::string Table(bool labels, bool days, int shift = 0) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::string text = labels ? "id,n,c,bought,of\n" : "id,n,c,of\n";
  for (int i = 0; i < kRows; ++i) {
    const double n = normal(random);
    const bool bought = n + normal(random) > 0.5;
    const int of = days ? 1 + (i + shift) % 28 : (i + shift) / 8;
    absl::StrAppend(&text, "id", i, ",", n, ",c", i % 5, labels ? (bought ? ",1" : ",0") : "", ",",
                    days ? absl::StrCat("2024-02-", of < 10 ? "0" : "", of) : absl::StrCat("p", of), "\n");
  }
  return text;
}

class HeldOutPartsTest : public ::testing::Test {
 protected:
  // Each party's own table, split by a column of this kind.
  void Prepare(const std::string& kind, const std::string& label_table, const std::string& nonlabel_table,
               std::vector<std::string> more = {}) {
    for (const auto& [party, table] : {std::pair("label_party", label_table), {"nonlabel_party", nonlabel_table}}) {
      const bool labels = std::string(party) == "label_party";
      const std::string schema = absl::StrCat(run_.folder, "/", party, ".schema"),
                        input = absl::StrCat(run_.folder, "/", party, ".csv");
      std::ofstream(schema) << kFeatures << (labels ? "columns { name: 'bought' kind: LABEL }" : "")
                            << "columns { name: 'of' kind: " << kind << " }";
      std::ofstream(input) << table;
      std::vector<std::string> words = {
          "prepare",          "--format=table",      absl::StrCat("--party=", party), "--schema=" + schema,
          "--input=" + input, "--out=" + run_.folder};
      words.insert(words.end(), more.begin(), more.end());
      ASSERT_EQ(TwoPartyRun::Tool(words), 0);
    }
  }

  void Start() {
    run_.StartLabelParty();
    run_.StartNonLabelParty();
  }
  void Agree(void (*change)(v1::RunAgreement&)) {
    change(run_.label_agreement);
    change(run_.nonlabel_agreement);
  }

  // The run ends well; its figures.
  nlohmann::json Result() {
    Start();
    EXPECT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
    EXPECT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
    const std::string output = run_.label->Output();
    const size_t begin = output.find("RESULT ");
    return begin == std::string::npos ? nlohmann::json() : nlohmann::json::parse(output.substr(begin + 7));
  }

  std::string Query(const std::string& sql) {
    sqlite3* database = nullptr;
    std::string value;
    EXPECT_EQ(sqlite3_open_v2(run_.ledger("label_party").c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr) {
      value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return value;
  }

  TwoPartyRun run_{2000};
};

TEST_F(HeldOutPartsTest, TheBestEpochIsChosenByValidationAndMeasuredOnTheTestPart) {
  Agree([](v1::RunAgreement& agreement) { agreement.set_epochs(4); });
  const nlohmann::json result = Result();
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["best_epoch_chosen_on"], "validation");
  EXPECT_EQ(Query("SELECT group_concat(split || n) FROM (SELECT split, count(*) AS n FROM evaluation GROUP BY split)"),
            "test4,validation4");
  // Independently of the program: the test AUC at the step of the best validation AUC.
  const std::string chosen =
      "SELECT round(t.auc, 6) FROM evaluation t JOIN evaluation v ON t.step = v.step WHERE t.split = 'test' AND "
      "v.split "
      "= 'validation' ORDER BY v.auc DESC, v.step LIMIT 1";  // Of equals, the first.
  EXPECT_NEAR(result["test_auc"].get<double>(), std::stod(Query(chosen)), 2e-6);
  EXPECT_NEAR(result["validation_auc"].get<double>(),
              std::stod(Query("SELECT max(auc) FROM evaluation WHERE split = 'validation'")), 2e-6);
  EXPECT_THAT(run_.label->Errors(), HasSubstr("best by validation, after epoch"));
  EXPECT_NEAR(result["test_auc"].get<double>(),
              std::stod(Query("SELECT round(auc, 6) FROM evaluation WHERE split = 'test' AND kept = 'validation' "
                              "ORDER BY step DESC LIMIT 1")),
              2e-6);
}

TEST_F(HeldOutPartsTest, TrainingStopsByTheValidationPart) {
  Agree([](v1::RunAgreement& agreement) {
    agreement.set_epochs(50);
    agreement.set_test_fraction(0);
  });
  Prepare("IGNORE", Table(true, false), Table(false, false), {"--test_fraction=0"});
  run_.label_config.mutable_early_stopping()->set_patience(2);
  run_.label_config.mutable_early_stopping()->set_min_delta(1);
  const nlohmann::json result = Result();
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["epochs"], 3);
  EXPECT_TRUE(result["test_auc"].is_null());
  EXPECT_TRUE(result["validation_auc"].is_number());
  EXPECT_THAT(Query("SELECT detail FROM event WHERE kind = 'early_stopping'"), HasSubstr("validation AUC"));
}

TEST_F(HeldOutPartsTest, WithoutAValidationPartTheResultSaysThatTheTestPartChose) {
  Agree([](v1::RunAgreement& agreement) { agreement.set_validation_fraction(0); });
  Prepare("IGNORE", Table(true, false), Table(false, false), {"--validation_fraction=0"});
  const nlohmann::json result = Result();
  ASSERT_TRUE(result.is_object());
  EXPECT_EQ(result["best_epoch_chosen_on"], "test");
  EXPECT_TRUE(result["validation_auc"].is_null());
  EXPECT_THAT(run_.label->Errors(), HasSubstr("best, chosen on the test part itself, after epoch"));
}

TEST_F(HeldOutPartsTest, GroupsThatBothTablesHaveAreSplitAlike) {
  Agree([](v1::RunAgreement& agreement) { agreement.set_split_by_group(true); });
  Prepare("GROUP", Table(true, false), Table(false, false));
  EXPECT_TRUE(Result().is_object());
}

TEST_F(HeldOutPartsTest, TablesWithOtherGroupsAreRefusedBeforeTraining) {
  Agree([](v1::RunAgreement& agreement) { agreement.set_split_by_group(true); });
  Prepare("GROUP", Table(true, false), Table(false, false, /*shift=*/8));
  Start();
  EXPECT_EQ(run_.nonlabel->Wait(), 4) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 4) << run_.label->Errors();
  for (const RunningProgram* party : {run_.label.get(), run_.nonlabel.get()}) {
    EXPECT_THAT(party->Errors(), HasSubstr("split: the parties divide the shared examples differently"));
  }
}

TEST_F(HeldOutPartsTest, APartyWhoseTableHasNoGroupsIsRefusedByItsOwnProgram) {
  Agree([](v1::RunAgreement& agreement) { agreement.set_split_by_group(true); });
  Prepare("IGNORE", Table(true, false), Table(false, false));
  run_.WriteLabelPartyFiles();
  const ChildResult result = RunChild({BinDir() + "/label_party", "--agreement=" + run_.folder + "/label_run.textproto",
                                       "--config=" + run_.folder + "/label_party.textproto", "--check"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("split_by_group: the run agreement splits by group, but the table that these data "
                                    "were prepared from has no column of kind GROUP"));
}

// What other runs have released of the rows after the date is no matter of a run that trains on those before it.
TEST_F(HeldOutPartsTest, ADryRunForeseesTheAccountForTheRowsThatTheRunTrainsOn) {
  Agree([](v1::RunAgreement& agreement) {
    agreement.set_test_after("2024-02-21");
    agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    agreement.mutable_audit()->clear_attacks();
    agreement.mutable_audit()->add_attacks(v1::NORM);
  });
  Prepare("TIME", Table(true, true), Table(false, true), {"--test_after=2024-02-21"});
  const std::string path = run_.folder + "/labels.account.db";
  std::vector<NoiseRow> later;
  for (int i = 0; i < kRows; ++i) {
    if (1 + i % 28 > 21) {
      later.push_back(NoiseRow::OfId(absl::StrCat("id", i)));
    }
  }
  ASSERT_TRUE((*PrivacyAccount::Open({path, "earlier", 1}))
                  ->Debit(later, std::vector<int64_t>(later.size()), std::vector<NoiseReleases>{{1 << 20, 1}})
                  .ok());
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  run_.label_config.mutable_privacy_account()->set_path(path);
  run_.label_config.mutable_privacy_account()->set_label_set("June");
  run_.WriteLabelPartyFiles();
  const ChildResult result = RunChild({BinDir() + "/label_party", "--agreement=" + run_.folder + "/label_run.textproto",
                                       "--config=" + run_.folder + "/label_party.textproto", "--dry_run"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("AUC bound of all runs together: 0.500 now, 0.700 with this one"));
}

TEST_F(HeldOutPartsTest, TimesThatBothTablesHaveAreSplitAlike) {
  Agree([](v1::RunAgreement& agreement) { agreement.set_test_after("2024-02-21"); });
  Prepare("TIME", Table(true, true), Table(false, true), {"--test_after=2024-02-21"});
  EXPECT_TRUE(Result().is_object());
  Prepare("TIME", Table(true, true), Table(false, true, /*shift=*/1), {"--test_after=2024-02-21"});
  Start();
  EXPECT_EQ(run_.nonlabel->Wait(), 4) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 4) << run_.label->Errors();
}

}  // namespace
}  // namespace splitveil::testing
