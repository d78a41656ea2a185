// Which examples a model may not answer for where nothing bounds its answers.
#include "label_party/serving/withheld_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/crypto/digest.h"
#include "common/ledger/ledger.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

class WithheldRowsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const Dataset> Store(double validation_fraction, const std::string& prefix = "id") {
    SmallTable table;
    for (int i = 0; i < 200; ++i) {
      table.ids.push_back(absl::StrCat(prefix, i));
      table.labels.push_back(i % 2);
    }
    return table.Store(0.25, "salt", validation_fraction);
  }

  // A version of `data` by a model that run "run-1" has trained on `trained_on`.
  absl::StatusOr<std::vector<bool>> Withheld(const std::shared_ptr<const Dataset>& data, const Dataset& trained_on) {
    v1::CheckpointHeader header;
    header.set_run_id("run-1");
    header.set_dataset_sha256(std::string(AsBytes(trained_on.digest())));
    EXPECT_TRUE(Checkpoint::Write(files_.File("checkpoint"), header, {}, "").ok());
    config_.mutable_party()->set_ledger_path(files_.File("ledger.db"));
    rows_.resize(static_cast<size_t>(data->rows()));
    std::iota(rows_.rbegin(), rows_.rend(), 0);
    StoredVersion stored;
    stored.data = data;
    stored.rows = rows_;
    return WithheldRows(config_, **Checkpoint::Open(files_.File("checkpoint")), stored);
  }
  std::unique_ptr<Ledger> Record(const std::string& run_id, const std::string& resumed_from = "") {
    RunRow run = {run_id, "label_party", "", "none", "{}"};
    run.resumed_from = resumed_from;
    return *Ledger::Create(files_.File("ledger.db"), run);
  }
  // Those of these parts, and no others.
  void ExpectWithheld(const std::vector<bool>& withheld, const Dataset& data,
                      const std::vector<SplitPart>& parts) const {
    const SplitRule rule("salt", 0.25, 0, data.preprocessing().validation_fraction());
    for (size_t i = 0; i < withheld.size(); ++i) {
      const SplitPart part = rule.PartOf(data.ids()[rows_[i]]);
      EXPECT_EQ(withheld[i], std::find(parts.begin(), parts.end(), part) != parts.end()) << data.ids()[rows_[i]];
    }
    EXPECT_THAT(withheld, Contains(true));
  }

  const TempFolder files_;
  v1::LabelPartyConfig config_;
  std::vector<uint32_t> rows_;
};

TEST_F(WithheldRowsTest, AreThoseThatWereTrainedOnOrMayHaveChosenTheEpoch) {
  const auto data = Store(0.2), without_validation = Store(0);
  Record("run-1");
  ExpectWithheld(*Withheld(data, *data), *data, {SplitPart::kTraining, SplitPart::kValidation});
  // Early stopping and `keep: BEST` watch the validation part, or without one the test part.
  EXPECT_THAT(*Withheld(without_validation, *without_validation), Each(true));
}

TEST_F(WithheldRowsTest, FailsWhereItIsNotKnown) {
  const auto data = Store(0.2);
  const auto refusal = [&](const Dataset& trained_on) {
    return std::string(Withheld(data, trained_on).status().message());
  };
  EXPECT_FALSE(Withheld(data, *data).ok());  // No ledger.
  Record("run-2");
  EXPECT_THAT(refusal(*data), HasSubstr("expected the ledger of run run-1"));
  Record("run-1", "run-0");
  EXPECT_THAT(refusal(*data), HasSubstr("run run-1 started from the weights of run run-0"));
  config_.mutable_party()->mutable_dataset()->set_path(data->path());
  EXPECT_FALSE(Withheld(data, *Store(0.2, "other")).ok());
}

}  // namespace
}  // namespace splitveil::testing
