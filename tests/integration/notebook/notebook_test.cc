// deploy/examples/ledgers.ipynb on the ledgers of a real run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(NotebookTest, ShowsWhatTheLedgersHold) {
  TwoPartyRun run(2000);
  run.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();

  ChildOptions options;
  options.environment = {
      {"SPLITVEIL_LEDGERS", absl::StrCat(run.ledger("label_party"), ":", run.ledger("nonlabel_party"))}};
  const ChildResult shown = RunChild({"/usr/bin/python3", RUN_NOTEBOOK, NOTEBOOK}, options);
  ASSERT_EQ(shown.exit_code, 0) << shown.out << shown.err;

  const auto label = [&](const std::string& query) { return LedgerValue(run.ledger("label_party"), query); };
  const std::string run_id = label("SELECT run_id FROM run");
  EXPECT_THAT(shown.out, HasSubstr(run_id + "  label_party  marvell(s=4)  completed"));
  EXPECT_THAT(shown.out, HasSubstr(run_id + "  nonlabel_party  "));
  // The strongest attack by either party comes first, with the bound of its epoch.
  EXPECT_THAT(shown.out,
              HasSubstr(label("SELECT run_id || printf('  %.4f  ', max(0.5 + abs(auc - 0.5))) || "
                              "coalesce(printf('bound %.4f', gaussian_auc_bound), 'no bound') || '  ' || attack || "
                              "' at ' || layer || ', epoch ' || epoch || ', by the ' || observer FROM epoch_leak")));
  EXPECT_THAT(shown.out, HasSubstr(label("SELECT printf('after 1 epochs  training loss %.4f', sum(loss * examples) / "
                                         "sum(examples)) FROM step WHERE epoch = 0")));
  EXPECT_THAT(shown.out, HasSubstr(label("SELECT printf('after %d steps  test AUC %.4f', step, auc) FROM evaluation "
                                         "WHERE split = 'test' ORDER BY step DESC LIMIT 1")));
  EXPECT_THAT(shown.out, AnyOf(HasSubstr("figures: 4, curves: "), HasSubstr("matplotlib is missing")));
}

}  // namespace
}  // namespace splitveil::testing
