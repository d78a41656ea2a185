// Both programs, for real: two processes, mutual TLS, real files, free ports.
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/dataset/dataset.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The one number a query gives; NaN where it gives none.
double Query(const std::string& ledger, const std::string& sql) {
  sqlite3* database = nullptr;
  double value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sqlite3_open_v2(ledger.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
  if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
    value = sqlite3_column_double(statement, 0);
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return value;
}

nlohmann::json Result(const std::string& output) {
  for (const auto& line : absl::StrSplit(output, '\n')) {
    const std::string text(line);
    if (text.rfind("RESULT ", 0) == 0) {
      return nlohmann::json::parse(text.substr(7), nullptr, false);
    }
  }
  return {};
}

// What the label party leaves beside its ledger.
nlohmann::json FullResult(const TwoPartyRun& run) {
  return nlohmann::json::parse(ReadWholeFile(run.folder + "/label_party.result.json"), nullptr, false);
}

int Program(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BinDir() + "/" + name);
  return RunChild(arguments).exit_code;
}

int Lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// The party of `identity` gets a certificate of an authority that the other does not know.
void UseOtherAuthority(const TwoPartyRun& run, v1::Identity* identity) {
  ASSERT_EQ(mkdir((run.folder + "/other").c_str(), 0700), 0);
  ASSERT_EQ(run.Tool({"certificates", "--out=" + run.folder + "/other", "--label=label-party.example",
                      "--nonlabel=nonlabel-party.example"}),
            0);
  for (std::string* path : {identity->mutable_certificate_path(), identity->mutable_private_key_path(),
                            identity->mutable_authority_path()}) {
    *path = "other/" + *path;
  }
}

TEST(TwoProcessesTest, TrainToTheEndAndRecordTheSameLeakOnBothSides) {
  TwoPartyRun run;
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();

  const nlohmann::json result = Result(run.label->Output());
  ASSERT_TRUE(result.is_object()) << run.label->Output();
  for (const char* key : {"run_id", "protection", "aligned_examples", "epochs", "steps", "train_log_loss",
                          "test_log_loss", "test_auc", "test_calibration_error", "train_seconds", "examples_per_second",
                          "bytes_sent", "bytes_received", "sum_kl_mean", "auc_bound_p95", "leak"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  for (const char* layer : {"cut", "first"}) {
    for (const char* attack : {"norm", "cosine"}) {
      EXPECT_TRUE(result["leak"][layer][attack]["p95"].is_number()) << layer << " " << attack;
    }
    EXPECT_TRUE(result["leak"][layer]["strongest"]["attack"].is_string()) << layer;
  }
  // Without protection the cosine attack reads every label at the cut (Li et al., ICLR 2022, Figure 2e).
  EXPECT_GT(result["leak"]["cut"]["cosine"]["p95"].get<double>(), 0.99);
  EXPECT_GT(result["test_auc"].get<double>(), 0.55);
  // Every figure is in the file beside the ledger, the main ones in the table.
  const nlohmann::json full = FullResult(run);
  EXPECT_EQ(full["ended"], "completed");
  EXPECT_NEAR(full["test_auc"].get<double>(), result["test_auc"].get<double>(), 1e-6);
  EXPECT_TRUE(full["epoch_leak"]["cut"]["cosine"]["auc"].is_number());
  EXPECT_FALSE(result.contains("epoch_leak"));
  EXPECT_THAT(run.label->Errors(), HasSubstr("completed at the label party"));
  EXPECT_THAT(run.label->Errors(), HasSubstr("  verdict         nothing claimed\n"));

  for (const char* party : {"label_party", "nonlabel_party"}) {
    const std::string ledger = run.ledger(party);
    EXPECT_EQ(Query(ledger, "SELECT count(*) FROM run WHERE status = 'completed' AND finished_at IS NOT NULL"), 1);
    EXPECT_EQ(Query(ledger, "SELECT count(*) FROM step"), result["steps"].get<double>());
    EXPECT_EQ(Query(ledger, "SELECT count(*) FROM event WHERE kind = 'disclosure'"), 1);
  }
  // The attack module's leak AUC at the cut, computed from its scores, is the label party's own audit of the bytes
  // sent.
  const std::string mean = "SELECT avg(auc) FROM leak WHERE layer = 'cut' AND attack = 'norm' AND observer = ";
  const double judged = Query(run.ledger("label_party"), mean + "'nonlabel_party'");
  EXPECT_NEAR(judged, Query(run.ledger("label_party"), mean + "'label_party'"), 1e-6);
  EXPECT_NEAR(judged, Query(run.ledger("nonlabel_party"), mean + "'nonlabel_party'"), 1e-9);
}

// What is made of ids, labels and what leaks of them, by the tool and by both parties, whatever the umask.
TEST(TwoProcessesTest, EveryFileOfARunIsItsOwnersAloneButForCertificates) {
  const mode_t before = umask(0);
  TwoPartyRun run(200);
  for (auto* party : {run.label_config.mutable_party(), run.nonlabel_config.mutable_party()}) {
    party->set_export_dir("export");
    party->set_checkpoint_path("checkpoint." + party->ledger_path());
  }
  run.label_config.set_result_path("result.json");
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
  run.Tool({"report", "--ledger=" + run.ledger("label_party"), "--out=" + run.folder + "/report.html"});
  umask(before);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.folder)) {
    const std::string kind = entry.path().extension();
    if (entry.is_regular_file() && kind != ".pem" && kind != ".textproto") {  // The latter are this test's.
      EXPECT_EQ(entry.status().permissions(), std::filesystem::perms(0600)) << entry.path();
      ++files;
    }
  }
  EXPECT_GE(files, 16);
}

TEST(TwoProcessesTest, LogsCarryNoIdAndNoCategoryValue) {
  TwoPartyRun run;
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  std::string logs = run.label->Errors() + run.label->Output() + run.nonlabel->Errors() + run.nonlabel->Output();
  for (const char* party : {"label_party", "nonlabel_party"}) {
    logs += ReadWholeFile(run.ledger(party));  // Text in SQLite pages is stored as it is.
  }
  int planted = 0;
  const std::shared_ptr<const Dataset> prepared = *Dataset::Open(run.folder + "/nonlabel_party.data");
  for (size_t row = 0; row < prepared->ids().size(); ++row) {
    ASSERT_EQ(logs.find(std::string(prepared->ids()[row])), std::string::npos);
    ++planted;
  }
  // Category values as they stand in the table that the data were prepared from.
  std::ifstream data(run.folder + "/data.tsv");
  std::string line;
  while (std::getline(data, line)) {
    for (const auto& cell : absl::StrSplit(line, '\t')) {
      if (cell.size() >= 8) {  // Shorter ones occur by chance.
        ASSERT_EQ(logs.find(std::string(cell)), std::string::npos);
        ++planted;
      }
    }
  }
  EXPECT_GT(planted, 10000);
  const std::string key = ReadWholeFile(run.folder + "/label_party.key");
  ASSERT_GT(key.size(), 100);
  EXPECT_EQ(logs.find(key.substr(40, 40)), std::string::npos);
}

TEST(TwoProcessesTest, MarvellLowersTheLeak) {
  TwoPartyRun run;
  run.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const nlohmann::json result = Result(run.label->Output());
  EXPECT_LT(result["leak"]["cut"]["norm"]["mean"].get<double>(), 0.65);
  EXPECT_LT(result["leak"]["cut"]["cosine"]["mean"].get<double>(), 0.85);
  EXPECT_LT(result["sum_kl_mean"].get<double>(), 4);
  EXPECT_EQ(Query(run.ledger("label_party"), "SELECT count(*) FROM protection WHERE sum_kl IS NULL"), 0);
}

TEST(TwoProcessesTest, DifferentAgreementsAreRefusedByBothNamingTheField) {
  TwoPartyRun run(200);
  run.nonlabel_agreement.set_batch_size(128);
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 4);
  EXPECT_EQ(run.label->Wait(), 4);
  EXPECT_THAT(run.nonlabel->Errors(), HasSubstr("batch_size"));
  EXPECT_THAT(run.label->Errors(), HasSubstr("batch_size"));
}

TEST(TwoProcessesTest, PeerOfAnotherAuthorityIsRefusedAndSendsNothing) {
  TwoPartyRun run(200);
  UseOtherAuthority(run, run.nonlabel_config.mutable_party()->mutable_identity());
  run.label_agreement.mutable_deadlines()->set_connect_seconds(5);
  run.nonlabel_agreement = run.label_agreement;
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 4) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 3) << run.label->Errors();
  EXPECT_THAT(run.label->Errors(), Not(HasSubstr("opened")));
  EXPECT_THAT(run.label->Errors(),
              HasSubstr("connections failed before they showed the certificate of nonlabel-party.example: check that "
                        "its certificate comes from the authority"));
  EXPECT_EQ(ReadWholeFile(run.ledger("nonlabel_party")), "");
}

TEST(TwoProcessesTest, ServerOfAnotherAuthorityIsRefused) {
  TwoPartyRun run(200);
  UseOtherAuthority(run, run.label_config.mutable_party()->mutable_identity());
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 4) << run.nonlabel->Errors();
  EXPECT_THAT(run.label->Errors(), Not(HasSubstr("opened")));
}

TEST(TwoProcessesTest, PeerWithAnotherIdentityOfTheSameAuthorityIsRefused) {
  TwoPartyRun run(200);
  // The label party expects another name than the one the non-label party can prove.
  run.label_config.mutable_party()->mutable_identity()->set_peer_name("somebody.example");
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 4) << run.nonlabel->Errors();
  EXPECT_THAT(run.label->Errors(),
              HasSubstr("refused a call: certificate of the caller: expected name somebody.example, "
                        "found nonlabel-party.example"));
  EXPECT_THAT(run.label->Errors(), Not(HasSubstr("opened")));
}

TEST(TwoProcessesTest, AbsentPeerIsGivenUpAfterTheDeadline) {
  TwoPartyRun run(200);
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->mutable_deadlines()->set_connect_seconds(1);
  }
  run.StartLabelParty();
  run.label->Signal(SIGKILL);
  EXPECT_EQ(run.label->Wait(), 128 + SIGKILL);
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 3) << run.nonlabel->Errors();
  run.StartLabelParty();  // Nobody comes.
  EXPECT_EQ(run.label->Wait(), 3) << run.label->Errors();
  EXPECT_EQ(Lines(run.nonlabel->Errors().substr(run.nonlabel->Errors().find("error:"))), 1);
}

TEST(TwoProcessesTest, TerminateEndsTheRunCleanlyOnBothSides) {
  TwoPartyRun run;
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(100000);
  }
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_TRUE(run.nonlabel->WaitForError("training")) << run.nonlabel->Errors();
  run.nonlabel->Signal(SIGTERM);
  EXPECT_EQ(run.nonlabel->Wait(), 6) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 3) << run.label->Errors();
  EXPECT_EQ(Query(run.ledger("nonlabel_party"), "SELECT count(*) FROM run WHERE status = 'stopped'"), 1);
  EXPECT_EQ(Query(run.ledger("label_party"), "SELECT count(*) FROM run WHERE status = 'failed'"), 1);
  EXPECT_EQ(FullResult(run)["ended"], "failed");
}

TEST(TwoProcessesTest, TerminatedLabelPartyEndsCleanlyAndThePeerSaysWhy) {
  TwoPartyRun run;
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(100000);
  }
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_TRUE(run.nonlabel->WaitForError("training")) << run.nonlabel->Errors();
  run.label->Signal(SIGTERM);
  EXPECT_EQ(run.label->Wait(), 6) << run.label->Errors();
  EXPECT_EQ(run.nonlabel->Wait(), 3) << run.nonlabel->Errors();
  EXPECT_EQ(Query(run.ledger("label_party"), "SELECT count(*) FROM run WHERE status = 'stopped'"), 1);
  EXPECT_EQ(FullResult(run)["ended"], "stopped");
  EXPECT_FALSE(Result(run.label->Output()).is_object());  // Only a complete run has a RESULT.
}

TEST(TwoProcessesTest, ReleaseGateHaltsBothParties) {
  TwoPartyRun run;
  run.label_config.mutable_release()->set_max_step_auc_bound(0.6);  // No protection has no bound below 1.
  run.label_config.mutable_release()->set_action(v1::HALT);
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 5) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 5) << run.label->Errors();
  EXPECT_EQ(Query(run.ledger("label_party"), "SELECT count(*) FROM event WHERE kind = 'gate_halt'"), 1);
  EXPECT_EQ(Query(run.ledger("nonlabel_party"), "SELECT count(*) FROM step"), 0);
  EXPECT_EQ(FullResult(run)["ended"], "halted");
}

TEST(TwoProcessesTest, TheLabelPartyStopsTheTrainingEarlyAndBothComplete) {
  TwoPartyRun run(1000);
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(9);
  }
  run.label_config.mutable_early_stopping()->set_patience(2);
  run.label_config.mutable_early_stopping()->set_min_delta(1);  // Nothing improves as much.
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
  EXPECT_THAT(run.nonlabel->Errors(), HasSubstr("the label party stops the training early, after epoch 3"));
  EXPECT_THAT(run.nonlabel->Errors(), Not(HasSubstr("error:")));
  const nlohmann::json result = Result(run.label->Output());
  ASSERT_TRUE(result.is_object()) << run.label->Output();
  EXPECT_EQ(result["epochs"], 3);
  for (const char* party : {"label_party", "nonlabel_party"}) {
    const std::string ledger = run.ledger(party);
    EXPECT_EQ(Query(ledger, "SELECT count(*) FROM run WHERE status = 'completed'"), 1) << party;
    EXPECT_EQ(Query(ledger, "SELECT count(*) FROM event WHERE kind = 'early_stopping'"), 1) << party;
    EXPECT_EQ(Query(ledger, "SELECT max(epoch) FROM step"), 2) << party;
    EXPECT_EQ(Query(ledger, "SELECT count(*) FROM step"), result["steps"].get<double>()) << party;
  }
}

TEST(TwoProcessesTest, CheckRefusesToRaiseNoiseWhereThereIsNone) {
  TwoPartyRun run(200);
  run.StartLabelParty();  // Writes the files; its protection is none.
  const std::string agreement = "--agreement=" + run.folder + "/label_run.textproto";
  for (const auto& [action, exit_code] : {std::pair{"FREEZE_BOTTOM", 0}, {"RAISE_NOISE", 2}}) {
    const std::string config = absl::StrCat(run.folder, "/", action, ".textproto");
    std::ofstream(config) << std::ifstream(run.folder + "/label_party.textproto").rdbuf()
                          << "\nrelease { action: " << action << " }\n";
    EXPECT_EQ(Program("label_party", {"--check", agreement, "--config=" + config}), exit_code) << action;
  }
}

TEST(TwoProcessesTest, RunBudgetTakesItsEpochsFromTheAgreement) {
  TwoPartyRun run;
  run.label_config.mutable_protection()->mutable_marvell()->mutable_run_budget()->set_max_run_auc_bound(0.65);
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const nlohmann::json result = Result(run.label->Output());
  EXPECT_EQ(result["protection"], "marvell(max_run_auc_bound=0.65)");
  EXPECT_TRUE(result["frozen_after_epoch"].is_null());
  // Phi(sqrt(0.94) Phi^-1(0.65)): 94% of the budget is spent.
  EXPECT_NEAR(result["run_auc_bound"].get<double>(), 0.6456, 1e-4);
  EXPECT_EQ(result["gate"]["release"], result["steps"]);
}

TEST(TwoProcessesTest, StatusIsAnsweredToThePartyItself) {
  TwoPartyRun run(200);
  run.StartLabelParty();
  EXPECT_EQ(run.Tool({"status", "--role=label_party", "--config=" + run.folder + "/label_party.textproto"}), 0);
}

TEST(TwoProcessesTest, CheckValidatesWithoutRunning) {
  TwoPartyRun run(200);
  run.StartLabelParty();  // Writes the files.
  const std::string config = "--config=" + run.folder + "/label_party.textproto";
  EXPECT_EQ(Program("label_party", {"--check", "--agreement=" + run.folder + "/label_run.textproto", config}), 0);
  std::ofstream(run.folder + "/bad.textproto") << "run_name: \"x\"\ncut_width: 16\nbatch_sise: 4\n";
  RunningProgram bad("label_party", {"--check", "--agreement=" + run.folder + "/bad.textproto", config}, run.folder);
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_THAT(bad.Errors(), HasSubstr("bad.textproto:3:"));
  EXPECT_THAT(bad.Errors(), HasSubstr("batch_sise"));
  EXPECT_EQ(Lines(bad.Errors()), 1);
  EXPECT_EQ(Program("label_party", {"--no_such_flag"}), 2);
  EXPECT_EQ(Program("label_party", {}), 2);
}

TEST(TwoProcessesTest, SeveralLargeBatchesInFlightDoNotBlockEachOther) {
  TwoPartyRun run(8000);
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(1);
    agreement->set_batch_size(2048);
    agreement->set_cut_width(1024);  // 8 MB a message: far more than gRPC takes in before it is read.
    agreement->set_in_flight_batches(3);
    agreement->mutable_audit()->clear_layers();
  }
  run.nonlabel_config.mutable_model()->mutable_layers(1)->set_units(1024);
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
  EXPECT_GE(Query(run.ledger("nonlabel_party"), "SELECT count(*) FROM step"), 3);
}

TEST(TwoProcessesTest, TerminateEndsTheWaitForAnAbsentPeerCleanly) {
  TwoPartyRun run(200);
  run.StartLabelParty();
  run.label->Signal(SIGKILL);
  EXPECT_EQ(run.label->Wait(), 128 + SIGKILL);
  run.StartNonLabelParty();
  ASSERT_TRUE(run.nonlabel->WaitForError("serves status")) << run.nonlabel->Errors();
  run.nonlabel->Signal(SIGTERM);
  EXPECT_EQ(run.nonlabel->Wait(absl::Seconds(10)), 6) << run.nonlabel->Errors();
  EXPECT_THAT(run.nonlabel->Errors(),
              HasSubstr("error: stopped on request, before the wait for the label party was complete"));
}

TEST(TwoProcessesTest, TerminateEndsAnAlignmentCleanly) {
  TwoPartyRun run(30000);
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->mutable_alignment()->set_chunk_ids(8);  // Some seconds of alignment.
  }
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_TRUE(run.nonlabel->WaitForError("opened")) << run.nonlabel->Errors();
  run.nonlabel->Signal(SIGTERM);
  EXPECT_EQ(run.nonlabel->Wait(), 6) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 3) << run.label->Errors();
  EXPECT_EQ(Query(run.ledger("nonlabel_party"), "SELECT count(*) FROM run WHERE status = 'stopped'"), 1);
  EXPECT_EQ(Query(run.ledger("nonlabel_party"), "SELECT count(*) FROM event WHERE kind = 'aligned'"), 0);
}

}  // namespace
}  // namespace splitveil::testing
