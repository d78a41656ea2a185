#include "nonlabel_party/session/activation_account.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/figures/all_runs.h"
#include "common/ledger/ledger.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/process/exit_code.h"
#include "common/process/file.h"
#include "tests/testing/account_contents.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using Stream = ActivationAccount::Stream;

std::vector<NoiseRow> Ids(int first, int count) {
  std::vector<NoiseRow> rows;
  for (int i = first; i < first + count; ++i) {
    rows.push_back(NoiseRow::OfId(absl::StrCat("id-", i)));
  }
  return rows;
}

class ActivationAccountTest : public ::testing::Test {
 protected:
  ActivationAccountTest() {
    agreement_.set_epochs(3);
    config_.mutable_protection()->mutable_gaussian();
    config_.mutable_protection()->set_clip_norm(1);
    config_.mutable_protection()->set_noise_sigma(4);
    config_.mutable_privacy_account()->set_path(path_);
  }

  // All that the account says after a run of this name.
  absl::StatusOr<double> AucBoundAfter(const std::string& noise_id, const std::vector<NoiseRow>& examples) const {
    ActivationAccount account(&config_, &agreement_);
    const absl::Status begun = account.Begin({"run", noise_id, "", false, 0, 0}, examples);
    return begun.ok() ? absl::StatusOr<double>(account.all_runs()->auc_bound) : begun;
  }
  static double AucBoundOf(double sum_of_squares) {
    return GaussianPrivacy::FromMu(std::sqrt(sum_of_squares))->AucBound();
  }
  std::string Sql(const std::string& query) const { return LedgerValue(path_, query); }
  // Of all examples, in all releases.
  int64_t Draws() const {
    int64_t draws = 0;
    for (const auto& [example, debits] : ReadAccount(path_)) {
      draws += DrawsOf(debits);
    }
    return draws;
  }
  absl::Status Refused() const { return CheckActivationAccount(config_, agreement_); }

  const TempFolder folder_;
  const std::string path_ = folder_.File("features.account.db");
  v1::NonLabelPartyConfig config_;
  v1::RunAgreement agreement_;
};

// mu of one release: 2 clip_norm / noise_sigma. All are powers of two, so that sums have no rounding.
TEST_F(ActivationAccountTest, TenRunsTheirRestartsAndPredictionsAddUpToTheLastBit) {
  const std::vector<NoiseRow> rows = Ids(0, 50);
  double sum = 0;
  int64_t releases = 0;
  for (int run = 0; run < 10; ++run) {
    const double sigma = std::ldexp(1, run % 4);
    config_.mutable_protection()->set_noise_sigma(sigma);
    agreement_.set_mode(run % 3 == 2 ? v1::RunAgreement::PREDICT : v1::RunAgreement::TRAIN);
    agreement_.set_progressive_validation(run % 2 == 1);
    const int64_t of_run = agreement_.mode() == v1::RunAgreement::PREDICT ? 1 : 3 + run % 2;
    sum += static_cast<double>(of_run) * 4 / sigma / sigma;
    releases += of_run;
    for (int start = 0; start < 3; ++start) {  // A run that resumes repeats its bytes.
      EXPECT_DOUBLE_EQ(*AucBoundAfter(absl::StrCat("noise ", run), rows), AucBoundOf(sum)) << run;
    }
    const AccountContents contents = ReadAccount(path_);
    EXPECT_EQ(contents.size(), rows.size());
    for (const auto& [example, debits] : contents) {
      EXPECT_EQ(DrawsOf(debits), releases);
    }
    // Numbers of releases and of noise are integers: the sum of 2^40 draws / units^2 is exact.
    double counted = 0;
    for (const auto& [number, draws, label] : contents.begin()->second) {
      const double units = std::stod(Sql(absl::StrCat("SELECT sigma_units FROM release WHERE number = ", number)));
      counted += static_cast<double>(draws) * std::ldexp(1, 40) / units / units;
    }
    EXPECT_EQ(counted, sum);
  }
  EXPECT_DOUBLE_EQ(*AucBoundAfter("noise of others", Ids(1000, 5)),
                   AucBoundOf(4));  // Of run 9's kind: 4 releases of mu 1.
}

TEST_F(ActivationAccountTest, ARunThatWouldPassTheLimitIsHaltedAndCountsNothing) {
  config_.mutable_privacy_account()->set_max_lifetime_auc_bound(0.75);
  ASSERT_TRUE(AucBoundAfter("first", Ids(0, 20)).ok());  // mu^2 = 0.75: 0.730.
  const std::string before = *ReadFile(path_);
  const absl::Status status = AucBoundAfter("second", Ids(19, 20)).status();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kHalted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_lifetime_auc_bound: expected at most 0.75, found 0.8067"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("use more noise or fewer releases, or raise the limit"));
  EXPECT_EQ(*ReadFile(path_), before);
  EXPECT_TRUE(AucBoundAfter("first", Ids(0, 20)).ok());   // As before: nothing is added.
  EXPECT_TRUE(AucBoundAfter("third", Ids(20, 19)).ok());  // Of other examples.
}

TEST_F(ActivationAccountTest, ARunThatTheLimitNeverAdmitsIsHaltedBeforeTheFirstMessage) {
  config_.mutable_privacy_account()->set_max_lifetime_auc_bound(0.7);
  const absl::Status status = CheckAffordable(config_, agreement_);
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kHalted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("found 0.729854 of this run by itself"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  agreement_.set_epochs(1);
  EXPECT_TRUE(CheckAffordable(config_, agreement_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  config_.mutable_privacy_account()->set_path(folder_.File("none/account.db"));
  EXPECT_FALSE(CheckAffordable(config_, agreement_).ok());
}

// A run is in the account before the ledger says so, and a copy from before the run is not taken for the account.
TEST_F(ActivationAccountTest, AnOlderCopyIsRefusedWhereTheLedgerNamesARunThatItDoesNotKnow) {
  const std::string ledger_path = folder_.File("ledger.db"), copy = folder_.File("copy");
  config_.mutable_party()->set_ledger_path(ledger_path);
  const auto begin = [&](const std::string& run_id, bool is_new = true) {
    ActivationAccount account(&config_, &agreement_);
    const absl::Status begun = account.Begin({run_id, "noise " + run_id, "", false, 0, 0}, Ids(0, 5));
    if (begun.ok() && is_new) {
      RunRow row;
      row.run_id = run_id;
      row.role = "nonlabel_party";
      const std::unique_ptr<Ledger> ledger = *Ledger::Create(ledger_path, row);
      EXPECT_TRUE(ledger->Record(*account.all_runs()).ok());
      EXPECT_TRUE(ledger->RecordEvent(kReleasesFollow, ReleasesFollow(5, account.start())).ok());
    }
    return begun;
  };
  EXPECT_TRUE(begin("first").ok());
  std::filesystem::copy_file(path_, copy);
  EXPECT_TRUE(begin("second").ok());
  EXPECT_TRUE(begin("second", /*is_new=*/false).ok());  // One that goes on.
  std::filesystem::copy_file(copy, path_, std::filesystem::copy_options::overwrite_existing);
  const std::string before = *ReadFile(path_);
  for (const char* run_id : {"third", "second"}) {
    const absl::Status status = begin(run_id);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("does not know all of run second"));
    EXPECT_EQ(*ReadFile(path_), before);
  }
  config_.mutable_privacy_account()->set_path(folder_.File("another.db"));  // The remedy.
  EXPECT_TRUE(begin("third").ok());
}

// Killed at any moment of its debit, a run is counted as a whole or not at all.
TEST_F(ActivationAccountTest, AKilledDebitIsWholeOrNotThere) {
  const std::vector<NoiseRow> rows = Ids(0, 4'000);
  ASSERT_TRUE(AucBoundAfter("before", Ids(0, 1)).ok());
  int killed = 0;
  int64_t counted = 1;
  for (int run = 0; run < 10; ++run) {
    const std::string name = absl::StrCat("run ", run);
    const pid_t child = fork();
    if (child == 0) {
      _exit(AucBoundAfter(name, rows).ok() ? 0 : 1);
    }
    absl::SleepFor(absl::Milliseconds(5 * run));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) ? 1 : 0;
    // The next process that opens it rolls back what was not whole.
    ASSERT_TRUE(AucBoundAfter("before", Ids(0, 1)).ok());
    const int64_t now = Draws() / 3;
    ASSERT_TRUE(now == counted || now == counted + 4'000) << now - counted;
    ASSERT_TRUE(AucBoundAfter(name, rows).ok());  // The restart.
    counted += 4'000;
    ASSERT_EQ(Draws(), 3 * counted);
  }
  EXPECT_GT(killed, 0);
}

TEST_F(ActivationAccountTest, NothingIsSentBeforeItIsCounted) {
  ActivationAccount account(&config_, &agreement_);
  EXPECT_EQ(account.Send(Stream::kTraining, 0, 0, Matrix(2, 2)).code(), absl::StatusCode::kInternal);
  config_.clear_privacy_account();
  EXPECT_TRUE(account.Send(Stream::kTraining, 0, 0, Matrix(2, 2)).ok());
}

// A label party may interrupt a run and then answer it differently: the second release would have noise of its own.
TEST_F(ActivationAccountTest, OtherActivationsAreNotSentInThePlaceOfThoseThatWere) {
  const std::string checkpoint = folder_.File("nonlabel.checkpoint");
  const auto begin = [&](bool continues, uint32_t epochs, uint32_t batches) {
    auto account = std::make_unique<ActivationAccount>(&config_, &agreement_);
    const absl::Status begun = account->Begin({"run", "noise", checkpoint, continues, epochs, batches}, Ids(0, 4));
    EXPECT_TRUE(begun.ok()) << begun;
    return account;
  };
  Matrix sent(2, 2), other(2, 2);
  other.row(1)[1] = 1;
  {
    const auto account = begin(false, 0, 0);
    for (const Stream stream : {Stream::kTraining, Stream::kEvaluation, Stream::kAuxiliary}) {
      for (const uint32_t epoch : {0U, 1U}) {
        EXPECT_TRUE(account->Send(stream, epoch, 0, sent).ok());
        EXPECT_TRUE(account->Send(stream, epoch, 1, other).ok());
      }
    }
    // An upload that is repeated in the same process.
    EXPECT_TRUE(account->Send(Stream::kAuxiliary, 1, 0, sent).ok());
    EXPECT_TRUE(IsHalt(account->Send(Stream::kAuxiliary, 1, 0, other)));
  }
  for (const Stream stream : {Stream::kTraining, Stream::kEvaluation, Stream::kAuxiliary}) {
    const auto account = begin(true, 1, 0);
    EXPECT_TRUE(account->Send(stream, 1, 0, sent).ok());
    const absl::Status status = account->Send(stream, 1, 1, sent);
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kHalted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("batch 2 of epoch 2 was sent before with other activations"));
    EXPECT_TRUE(account->Send(stream, 2, 0, other).ok());  // Never sent.
  }
  // Other answers halt it whatever the activations come to: that they come out alike would tell of the examples.
  {
    const auto account = begin(true, 1, 0);
    v1::CutGradients answer;
    answer.mutable_gradients()->set_data("other gradients");
    account->Received(answer);
    EXPECT_TRUE(IsHalt(account->Send(Stream::kTraining, 1, 0, sent)));
  }
  // Without the file nothing says what was sent.
  ASSERT_TRUE(std::filesystem::remove(ReleaseJournal::PathOf(checkpoint, "run")));
  ActivationAccount account(&config_, &agreement_);
  EXPECT_THAT(std::string(account.Begin({"run", "noise", checkpoint, true, 1, 0}, Ids(0, 4)).message()),
              HasSubstr("expected what the run had sent before it was interrupted"));
}

// Put back together with its checkpoint, it would let the run send what came after it a second time.
TEST_F(ActivationAccountTest, AnOlderCopyOfWhatARunHasSentIsRefused) {
  const std::string checkpoint = folder_.File("nonlabel.checkpoint"), copy = folder_.File("copy");
  const std::string journal = ReleaseJournal::PathOf(checkpoint, "run");
  const auto begin = [&](bool continues) {
    auto account = std::make_unique<ActivationAccount>(&config_, &agreement_);
    const absl::Status begun = account->Begin({"run", "noise", checkpoint, continues, 0, 0}, Ids(0, 4));
    return begun.ok() ? absl::StatusOr<std::unique_ptr<ActivationAccount>>(std::move(account)) : begun;
  };
  std::string latest;
  const auto expect_refused = [&] {
    latest = *ReadFile(journal);
    std::filesystem::copy_file(copy, journal, std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(std::string(begin(true).status().message()), HasSubstr("an older copy of what this run has sent"));
    ASSERT_TRUE(WriteFile(journal, latest).ok());  // The remedy.
  };
  {
    const auto account = *begin(false);
    EXPECT_TRUE(account->Send(Stream::kTraining, 0, 0, Matrix(2, 2)).ok());
    std::filesystem::copy_file(journal, copy);  // While it sends.
    EXPECT_TRUE(account->Send(Stream::kTraining, 0, 1, Matrix(2, 2)).ok());
    EXPECT_TRUE(account->Sync().ok());  // A checkpoint.
    EXPECT_TRUE(account->Send(Stream::kTraining, 0, 2, Matrix(2, 2)).ok());
  }
  expect_refused();
  ASSERT_TRUE(begin(true).ok());
  std::filesystem::copy_file(journal, copy, std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(begin(true).ok());
  expect_refused();
  EXPECT_TRUE(begin(true).ok());
}

// It may have more records than the account remembers of this run, and says nothing of what this run has sent.
TEST_F(ActivationAccountTest, WhatAnotherRunHasSentIsRefused) {
  const std::string checkpoint = folder_.File("nonlabel.checkpoint"), other = folder_.File("other.checkpoint");
  {
    ActivationAccount ours(&config_, &agreement_), others(&config_, &agreement_);
    ASSERT_TRUE(ours.Begin({"run", "noise", checkpoint, false, 0, 0}, Ids(0, 4)).ok());
    ASSERT_TRUE(ours.Send(Stream::kTraining, 0, 0, Matrix(2, 2)).ok());
    ASSERT_TRUE(others.Begin({"another", "noise", other, false, 0, 0}, Ids(0, 4)).ok());
    for (uint32_t batch = 0; batch < 10; ++batch) {
      ASSERT_TRUE(others.Send(Stream::kTraining, 0, batch, Matrix(2, 2)).ok());
    }
  }
  const std::string journal = ReleaseJournal::PathOf(checkpoint, "run"), latest = *ReadFile(journal);
  std::filesystem::copy_file(ReleaseJournal::PathOf(other, "another"), journal,
                             std::filesystem::copy_options::overwrite_existing);
  const auto begin = [&] {
    return ActivationAccount(&config_, &agreement_).Begin({"run", "noise", checkpoint, true, 1, 0}, Ids(0, 4));
  };
  EXPECT_THAT(std::string(begin().message()), HasSubstr("it says what another run has sent"));
  ASSERT_TRUE(WriteFile(journal, latest).ok());  // The remedy.
  EXPECT_TRUE(begin().ok());
}

TEST_F(ActivationAccountTest, StrengthsAreRoundedTowardLessNoise) {
  config_.mutable_protection()->set_clip_norm(0.3);
  config_.mutable_protection()->set_noise_sigma(0.7);
  const NoiseReleases planned = *PlannedActivationReleases(config_.protection(), agreement_);
  EXPECT_EQ(planned.sigma_units, 1223338);  // 2^20 0.7 / 0.6 = 1223338.67.
  EXPECT_EQ(planned.draws, 3);
  config_.mutable_protection()->set_clip_norm(1e6);
  EXPECT_THAT(std::string(PlannedActivationReleases(config_.protection(), agreement_).status().message()),
              HasSubstr("protection.noise_sigma: expected at least 2^-19 of clip_norm"));
  config_.mutable_protection()->set_clip_norm(1e-9);
  EXPECT_EQ(PlannedActivationReleases(config_.protection(), agreement_)->sigma_units, kMaxSigmaUnits);
}

TEST_F(ActivationAccountTest, GaussianNeedsAnAccountAndNothingElseThatReadsTheFeatures) {
  EXPECT_TRUE(Refused().ok()) << Refused();
  const auto refused = [&](const char* config, const char* agreement) {
    v1::NonLabelPartyConfig changed = config_;
    v1::RunAgreement agreed = agreement_;
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(config, &changed));
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(agreement, &agreed));
    const absl::Status status = CheckActivationAccount(changed, agreed);
    EXPECT_TRUE(status.ok() || ExitCodeFor(status) == ExitCode::kInvalidInput) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refused("", "audit { layers: 'cut' attacks: NORM }"), "");
  EXPECT_EQ(refused("", "audit { layers: 'first' }"), "");  // Nobody scores it.
  EXPECT_THAT(refused("", "audit { layers: 'cut' layers: 'first' attacks: NORM }"),
              HasSubstr("audit.layers has \"first\""));
  EXPECT_THAT(refused("", "audit { auxiliary_labels: 10 }"), HasSubstr("audit.auxiliary_labels"));
  EXPECT_THAT(refused("model { torchscript_path: 'model.pt' }", ""), HasSubstr("model.torchscript_path is set"));
  EXPECT_THAT(refused("protection { none {} }", ""), HasSubstr("privacy_account: set, but counts only"));
  config_.clear_privacy_account();
  EXPECT_THAT(refused("", ""), HasSubstr("privacy_account: not set, but protection { gaussian {} } needs one"));
  EXPECT_EQ(refused("protection { none {} }", "audit { layers: 'first' attacks: NORM auxiliary_labels: 10 }"), "");
}

// One file could not hold both: mu of labels and mu of features never add up.
TEST_F(ActivationAccountTest, AnAccountOfLabelsIsNoneOfActivations) {
  ASSERT_TRUE(PrivacyAccount::Open({path_, "clicks", 1}).ok());
  EXPECT_THAT(std::string(AucBoundAfter("run", Ids(0, 2)).status().message()),
              HasSubstr("expected a privacy account of activations"));
  std::filesystem::remove(path_);
  ASSERT_TRUE(AucBoundAfter("run", Ids(0, 2)).ok());
  EXPECT_FALSE(PrivacyAccount::Open({path_, "clicks", 1}).ok());
}

}  // namespace
}  // namespace splitveil::testing
