// Attacks on a sensitive attribute, for real: a table with it, prepared for both parties, and two processes.
#include <sqlite3.h>

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRows = 3000;
constexpr int kEpochs =
    6;  // The bottom model has then come to rest enough for what was read in an epoch to hold after it.

constexpr char kSchema[] = R"(
  columns { name: "id" kind: ID } columns { name: "bought" kind: LABEL }
  columns { name: "visits" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "height" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "city" kind: CATEGORICAL holder: LABEL_PARTY }
  columns { name: "sex" kind: ATTRIBUTE values: ["Female", "Male"] }
)";
constexpr char kKnownSchema[] = R"(
  columns { name: "id" kind: ID } columns { name: "bought" kind: IGNORE } columns { name: "visits" kind: IGNORE }
  columns { name: "height" kind: IGNORE } columns { name: "city" kind: IGNORE }
  columns { name: "sex" kind: ATTRIBUTE values: ["Female", "Male"] }
)";

// `height` tells the sex of nine in ten; a third are male. `visits` tells whether they bought.
std::string Table() {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::string text = "id,bought,visits,height,city,sex\n";
  for (int i = 0; i < kRows; ++i) {
    const bool male = random() % 3 == 0, bought = random() % 2 == 0;
    absl::StrAppend(&text, "person", i, ",", bought ? 1 : 0, ",", 10 + 4 * (bought ? 1 : 0) + 2 * normal(random), ",",
                    165 + (male ? 16 : 0) + 6 * normal(random), ",", random() % 2 == 0 ? "A" : "B", ",",
                    male ? "Male" : "Female", "\n");
  }
  return text;
}

double Query(const std::string& ledger, const std::string& sql) {
  sqlite3* database = nullptr;
  double value = -1;
  EXPECT_EQ(sqlite3_open_v2(ledger.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
  if (sqlite3_step(statement) == SQLITE_ROW) {
    value = sqlite3_column_double(statement, 0);
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return value;
}

class AttributeAttackTest : public ::testing::Test {
 protected:
  AttributeAttackTest() {
    const auto write = [this](const std::string& name, const std::string& text) {
      std::ofstream(run_.folder + "/" + name) << text;
      return run_.folder + "/" + name;
    };
    const std::string table = write("table.csv", Table());
    TwoPartyRun::Tool({"prepare", "--format=table", "--input=" + table, "--schema=" + write("schema", kSchema),
                       "--auxiliary_fraction=0.2", "--out=" + run_.folder});
    TwoPartyRun::Tool({"prepare", "--format=table", "--party=nonlabel_party", "--input=" + table,
                       "--schema=" + write("known_schema", kKnownSchema), "--out=" + run_.folder + "/known"});
    for (v1::RunAgreement* agreement : {&run_.label_agreement, &run_.nonlabel_agreement}) {
      agreement->set_epochs(kEpochs);
      v1::AttributeAuditAgreement& audit = *agreement->mutable_attribute_audit();
      audit.add_attributes("sex");
      for (const v1::AttributeAttack attack : {v1::BASIC, v1::LINEAR_PROBE, v1::POISON, v1::CUMULATIVE_POISON}) {
        audit.add_attacks(attack);
      }
      audit.set_embed_auxiliary(true);
      audit.set_auxiliary_fraction(0.2);
      audit.set_marked_fraction(0.3);  // Some six hundred, so that what POISON learns from is no matter of luck.
    }
    run_.label_config.mutable_attribute_attack()->mutable_auxiliary()->set_path("known/nonlabel_party.data");
    run_.nonlabel_config.mutable_model()->clear_embedding();
  }

  // Exit code and errors of the label party, which is refused before it listens.
  std::string Refusal() {
    run_.WriteLabelPartyFiles();
    const ChildResult result =
        RunChild({BinDir() + "/label_party", "--agreement=" + run_.folder + "/label_run.textproto",
                  "--config=" + run_.folder + "/label_party.textproto"});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  }

  TwoPartyRun run_{200};
};

// Nothing protects either side: what features show openly, the activations do.
TEST_F(AttributeAttackTest, ReadsAnAttributeThatTheFeaturesShowAndTheNonLabelPartySeesIt) {
  run_.StartLabelParty();
  run_.StartNonLabelParty();
  ASSERT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
  ASSERT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
  const std::string ledger = run_.ledger("nonlabel_party");
  const std::string last =
      absl::StrCat(" FROM attribute_leak WHERE epoch = ", kEpochs - 1, " AND examples = 'test' AND attack = ");
  for (const char* attack : {"'basic'", "'linear_probe'", "'poison'", "'cumulative_poison'"}) {
    EXPECT_GT(Query(ledger, absl::StrCat("SELECT accuracy_low - floor", last, attack)), 0) << attack;
    EXPECT_GT(Query(ledger, absl::StrCat("SELECT auc", last, attack)), 0.85) << attack;
  }
  EXPECT_NEAR(Query(ledger, absl::StrCat("SELECT floor", last, "'basic'")), 2.0 / 3, 0.1);
  EXPECT_EQ(Query(ledger, "SELECT count(*) FROM attribute_leak"), 6 * kEpochs);
  for (const char* party : {"label_party", "nonlabel_party"}) {
    EXPECT_EQ(Query(run_.ledger(party), "SELECT count(*) FROM event WHERE kind = 'attribute_queries'"), kEpochs)
        << party;
  }
  EXPECT_THAT(run_.nonlabel->Errors(), HasSubstr("attribute sex"));
  EXPECT_THAT(run_.nonlabel->Errors(), HasSubstr("floor 0.6"));
}

TEST_F(AttributeAttackTest, RefusesWhatDoesNotFitTheAgreementBeforeItListens) {
  run_.label_agreement.mutable_attribute_audit()->add_attributes("age");
  EXPECT_THAT(Refusal(), HasSubstr("expected the agreed attribute \"age\", found sex"));
  run_.label_agreement.mutable_attribute_audit()->mutable_attributes()->RemoveLast();
  run_.label_agreement.mutable_attribute_audit()->set_auxiliary_fraction(0.3);
  EXPECT_THAT(Refusal(), HasSubstr("auxiliary_fraction: expected data prepared for 0.3"));
  run_.label_config.clear_attribute_attack();
  EXPECT_THAT(Refusal(), HasSubstr("attribute_attack: expected one beside attacks"));
}

}  // namespace
}  // namespace splitveil::testing
