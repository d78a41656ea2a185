// What a few wrong or missing cells of a table cost the model that is trained on it: nothing to speak of. One table,
// clean; with one row that has 1e6 in six columns; with one cell of a hundred missing; and with amounts over many
// orders of magnitude, as they are and as logarithms. Same ids, labels, split and weights: the difference of test AUC
// is what the cells do. Figures: deploy/operator/preparation/README.md.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

constexpr int kRows = 20000, kColumns = 6;
constexpr int kOutlierRow = 4;  // Of the training part.

constexpr char kSchema[] = R"(columns { name: "id" kind: ID } columns { name: "bought" kind: LABEL }
  columns { name: "n0" kind: NUMERIC holder: NONLABEL_PARTY } columns { name: "n1" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "n2" kind: NUMERIC holder: NONLABEL_PARTY } columns { name: "n3" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "n4" kind: NUMERIC holder: NONLABEL_PARTY } columns { name: "n5" kind: NUMERIC holder: NONLABEL_PARTY }
)";
constexpr char kAgreement[] = R"(run_name: "dirty" cut_width: 16 batch_size: 256 epochs: 12)";
constexpr char kParty[] = R"(party {
  identity { own_name: "own" peer_name: "peer" certificate_path: "c.pem" private_key_path: "c.key" authority_path: "a.pem" }
  dataset { path: "data/$0.data" } optimizer { learning_rate: 0.003 adam {} } ledger_path: "$0.db" }
)";
constexpr char kLabelModel[] = R"(listen_address: "127.0.0.1:0" protection { none {} }
  model { layers { name: "top" units: 16 } })";
constexpr char kNonLabelModel[] = R"(listen_address: "127.0.0.1:0" peer_address: "127.0.0.1:1"
  model { layers { name: "first" units: 32 } layers { name: "second" units: 16 } })";

enum class Dirt { kNone, kOutlierRow, kMissingCells, kHeavyTails, kLogarithms };

// Six columns as tables have them, all above 0 and some far from it: amounts, ages, years, counts.
std::string Table(Dirt dirt) {
  std::mt19937_64 random(17);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::string text = "id,bought,n0,n1,n2,n3,n4,n5\n";
  for (int i = 0; i < kRows; ++i) {
    double z[kColumns];
    for (double& value : z) {
      value = normal(random);
    }
    double numbers[kColumns] = {std::exp(10 + 0.4 * z[0]),
                                40 + 12 * z[1],
                                1985 + 10 * z[2],
                                std::floor(std::exp(1.5 + 0.5 * z[3])),
                                180 + 8 * z[4],
                                20 + 5 * z[5]};
    for (int column = 0; column < kColumns && dirt >= Dirt::kHeavyTails; ++column) {
      const double logarithm = 6 + 2.5 * z[column];
      numbers[column] = dirt == Dirt::kLogarithms ? logarithm : std::exp(logarithm);
    }
    const double logit = -0.5 + 0.8 * z[0] - 0.6 * z[1] + 0.6 * z[2] + 0.5 * z[3] - 0.4 * z[4] + 0.5 * z[1] * z[5];
    absl::StrAppend(&text, "id", i, ",", uniform(random) < 1 / (1 + std::exp(-logit)) ? 1 : 0);
    for (const double number : numbers) {
      const bool missing = uniform(random) < 0.01 && dirt == Dirt::kMissingCells;
      const bool outlier = dirt == Dirt::kOutlierRow && i == kOutlierRow;
      absl::StrAppend(&text, ",", missing ? "" : outlier ? "1000000" : absl::StrFormat("%.2f", number));
    }
    text += "\n";
  }
  return text;
}

class DirtyTableTest : public ::testing::Test {
 protected:
  DirtyTableTest() {
    Write("schema", kSchema);
    Write("run.textproto", kAgreement);
    for (const auto& [party, model] : {std::pair("label_party", kLabelModel), {"nonlabel_party", kNonLabelModel}}) {
      std::string common = kParty;
      for (size_t at = common.find("$0"); at != std::string::npos; at = common.find("$0")) {
        common.replace(at, 2, party);
      }
      Write(absl::StrCat(party, ".textproto"), absl::StrCat(common, model));
    }
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(files_.path() + "/" + name, std::ios::binary) << text;
  }

  // Mean test AUC over three seeds.
  double TestAuc(Dirt dirt, const std::string& scaling) {
    Write("table", Table(dirt));
    const std::string folder = files_.path();
    std::vector<std::string> prepare = {BinDir() + "/splitveil",
                                        "prepare",
                                        "--format=table",
                                        "--schema=" + folder + "/schema",
                                        "--input=" + folder + "/table",
                                        "--out=" + folder + "/data",
                                        "--only_label_fraction=0",
                                        "--only_nonlabel_fraction=0"};
    if (scaling == "proposed") {
      Write("schema", ProposedSchema());
      Write("run.textproto",
            absl::StrCat(kAgreement, " alignment { id_form: [CASE_FOLD, UNICODE_NFC] }"));  // As `init` proposes it.
    } else {
      prepare.push_back("--scaling=" + scaling);
    }
    const ChildResult prepared = RunChild(prepare);
    EXPECT_EQ(prepared.exit_code, 0) << prepared.err;
    double sum = 0;
    for (int seed = 1; seed <= 3; ++seed) {
      const ChildResult trained = RunChild(
          {BinDir() + "/centralized_baseline", "--agreement=" + folder + "/run.textproto",
           "--label_config=" + folder + "/label_party.textproto",
           "--nonlabel_config=" + folder + "/nonlabel_party.textproto", "--threads=1", absl::StrCat("--seed=", seed)});
      EXPECT_EQ(trained.exit_code, 0) << trained.err;
      const size_t begin = trained.out.find("RESULT ");
      if (begin == std::string::npos) {
        ADD_FAILURE() << trained.out;
        return 0;
      }
      const double auc = nlohmann::json::parse(trained.out.substr(begin + 7))["test_auc"].get<double>();
      std::printf("scaling %s, dirt %d, seed %d: test AUC %.5f\n", scaling.c_str(), static_cast<int>(dirt), seed, auc);
      sum += auc;
    }
    return sum / 3;
  }

  // What `splitveil init` makes of the table, all columns of which the non-label party then holds.
  std::string ProposedSchema() const {
    const std::string folder = files_.path();
    const ChildResult made =
        RunChild({BinDir() + "/splitveil", "init", "--role=label_party", "--table=" + folder + "/table", "--id=id",
                  "--label=bought", "--own_name=own.example", "--peer_name=peer.example",
                  "--listen_address=127.0.0.1:1", "--protection=none", "--out=" + folder + "/own"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return absl::StrReplaceAll(ReadWholeFile(folder + "/own/schema.textproto"),
                               {{"kind: NUMERIC", "kind: NUMERIC holder: NONLABEL_PARTY"}});
  }

  const TempFolder files_;
};

TEST_F(DirtyTableTest, AnOutlierAndMissingCellsCostNoMoreThanThreeThousandthsOfTestAuc) {
  const double clean = TestAuc(Dirt::kNone, "robust");
  EXPECT_GT(clean, 0.75);
  EXPECT_NEAR(TestAuc(Dirt::kOutlierRow, "robust"), clean, 0.003);
  EXPECT_NEAR(TestAuc(Dirt::kMissingCells, "robust"), clean, 0.003);
}

// What makes the first test worth its name; and that robust scaling itself costs nothing on clean data.
TEST_F(DirtyTableTest, TheSameOutlierIsFeltByScalingFromLeastToGreatest) {
  const double clean = TestAuc(Dirt::kNone, "min_max");
  EXPECT_GT(TestAuc(Dirt::kNone, "robust"), clean - 0.003);
  EXPECT_LT(TestAuc(Dirt::kOutlierRow, "min_max"), clean - 0.003);
}

TEST_F(DirtyTableTest, TheProposedScalingOfHeavyTailsReachesTheLogarithm) {
  const double logarithm = TestAuc(Dirt::kLogarithms, "robust");
  EXPECT_NEAR(TestAuc(Dirt::kHeavyTails, "proposed"), logarithm, 0.01);
  EXPECT_NEAR(TestAuc(Dirt::kHeavyTails, "quantile"), logarithm, 0.01);
  EXPECT_LT(TestAuc(Dirt::kHeavyTails, "robust"), logarithm - 0.01);
}

}  // namespace
}  // namespace splitveil::testing
