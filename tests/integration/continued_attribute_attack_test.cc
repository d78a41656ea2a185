// Attacks on attributes in runs whose parties are killed: what they find is what they would have found.
#include <csignal>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "tests/integration/attribute_run.h"
#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

constexpr char kAttributeLeaks[] =
    "SELECT group_concat(epoch || attack || attribute || examples || ' ' || rows || ' ' || accuracy || ' ' || "
    "ifnull(auc, '-'), x'0a') FROM (SELECT * FROM attribute_leak ORDER BY epoch, attack, attribute, examples)";
constexpr char kQueries[] = "SELECT count(*) FROM event WHERE kind = 'attribute_queries'";

std::unique_ptr<InterruptedRun> MakeRun() {
  auto run = std::make_unique<InterruptedRun>(/*in_flight_batches=*/2, /*rows=*/200);
  AttackAttributes(3000, {"sex", "region"},
                   {v1::BASIC, v1::LINEAR_PROBE, v1::POISON, v1::CUMULATIVE_POISON, v1::SIMULATOR}, run->run);
  run->ForBoth([](v1::RunAgreement& agreement) { agreement.set_checkpoint_steps(2); });
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
      "attribute_attack { shadow_model { layers { name: 'shadow' units: 16 } } decoder_epochs: 3 }",
      &run->run.label_config));
  return run;
}

TEST(ContinuedAttributeAttackTest, FindsWhatAnUndisturbedRunFinds) {
  const std::unique_ptr<InterruptedRun> quiet = MakeRun();
  quiet->Start();
  const Remains expected = quiet->Finish();
  const std::string leaks = quiet->NonLabel(kAttributeLeaks);
  // Of two attributes after each of four epochs: two attacks on test examples, three on test and training examples.
  EXPECT_EQ(quiet->NonLabel("SELECT count(*) FROM attribute_leak"), "64");
  const int64_t bytes = std::stoll(quiet->Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));

  struct Kill {
    bool label, nonlabel;
    double share;  // Of the bytes of the training, from its start.
  };
  int continued = 0;
  for (const Kill& kill : {Kill{true, false, 0.6}, Kill{false, true, 0.7}, Kill{true, true, 0.8}}) {
    SCOPED_TRACE(absl::StrCat("killed after ", kill.share));
    const std::unique_ptr<InterruptedRun> run = MakeRun();
    run->proxy.GoDownAfter(quiet->BytesBeforeTraining() +
                           static_cast<int64_t>(kill.share * static_cast<double>(bytes)));
    run->Start();
    ASSERT_TRUE(run->proxy.WaitForCut());
    for (const auto& [killed, party] :
         {std::pair(kill.label, run->run.label.get()), std::pair(kill.nonlabel, run->run.nonlabel.get())}) {
      if (killed) {
        party->Signal(SIGKILL);
        (void)party->Wait();
      }
    }
    run->proxy.SetDown(false);
    run->SuperviseUntilDone();
    EXPECT_EQ(run->Finish(), expected);
    EXPECT_EQ(run->NonLabel(kAttributeLeaks), leaks);
    EXPECT_EQ(run->NonLabel("SELECT count(*) FROM event WHERE kind = 'attribute_guesses'"), "0");  // None is missing.
    for (const std::string& queries : {run->Label(kQueries), run->NonLabel(kQueries)}) {
      EXPECT_EQ(queries, "4");
    }
    continued += std::stoi(run->Label("SELECT count(*) FROM event WHERE kind = 'continued'"));
  }
  EXPECT_EQ(continued, 3);
}

}  // namespace
}  // namespace splitveil::testing
