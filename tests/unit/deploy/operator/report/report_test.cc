#include "deploy/operator/report/report.h"

#include <sqlite3.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <openssl/sha.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/ledger/ledger.h"
#include "tests/unit/deploy/operator/report/plausible_ledger.h"

namespace splitveil {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "report_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    label_party_ = folder_ + "/label_party.db";
    nonlabel_party_ = folder_ + "/nonlabel_party.db";
    out_ = folder_ + "/report.html";
    run_.epochs = 2;
    run_.steps_per_epoch = 20;
  }
  ~ReportTest() override { std::filesystem::remove_all(folder_); }

  std::string Page() const {
    std::ifstream stream(out_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  // The text between `begin` and the next `end`.
  static std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
    const size_t from = text.find(begin);
    if (from == std::string::npos) {
      return "";
    }
    const size_t start = from + begin.size();
    return text.substr(start, text.find(end, start) - start);
  }

  std::string DataText() const { return Between(Page(), "id=\"page-data\">", "</script>"); }
  Json Runs() const { return Json::parse(DataText())["runs"]; }

  static int64_t Count(const std::string& text, const std::string& part) {
    int64_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  // Writes a label party's ledger and its report, and returns its only run.
  Json OnlyRun() {
    EXPECT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
    const absl::Status status = WriteReport({label_party_}, out_);
    EXPECT_TRUE(status.ok()) << status;
    return Runs().at(0);
  }

  static Json Leak(const Json& run, const std::string& layer, const std::string& attack, const std::string& observer) {
    for (const Json& leak : run["leaks"]) {
      if (leak["layer"] == layer && leak["attack"] == attack && leak["observer"] == observer) {
        return leak;
      }
    }
    ADD_FAILURE() << "no " << attack << " at " << layer << " by " << observer;
    return Json::object();
  }

  static std::string Fact(const Json& run, const std::string& name) {
    for (const Json& fact : run["parties"][0]["facts"]) {
      if (fact[0] == name) {
        return fact[1];
      }
    }
    return "";
  }

  std::string folder_, label_party_, nonlabel_party_, out_;
  PlausibleRun run_;
};

// A prediction trains nothing and sends no gradient: it is no run beside those that do.
TEST_F(ReportTest, APredictionIsNoRun) {
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  const RunRow prediction = {"predicted", "label_party", "", "", R"({"agreement":{"mode":"PREDICT"}})"};
  ASSERT_TRUE((*Ledger::Create(label_party_, prediction))->Finish("completed").ok());
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  ASSERT_EQ(Runs().size(), 1);
  EXPECT_EQ(Runs()[0]["id"], run_.run_id);
  // By itself it is all that there is to tell.
  ASSERT_TRUE((*Ledger::Create(nonlabel_party_, prediction))->Finish("completed").ok());
  ASSERT_TRUE(WriteReport({nonlabel_party_}, out_).ok());
  ASSERT_EQ(Runs().size(), 1);
  EXPECT_EQ(Runs()[0]["id"], "predicted");
}

TEST_F(ReportTest, TellsWhatCallersOfAServedVersionCanRead) {
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  for (const char* const number : {"1", "2"}) {
    RunRow prediction = {std::string("predicted-") + number, "label_party", "", "",
                         R"({"agreement":{"mode":"PREDICT"}})"};
    prediction.resumed_from = run_.run_id;
    const std::unique_ptr<Ledger> ledger = *Ledger::Create(label_party_, prediction);
    ASSERT_TRUE(ledger->RecordEvent(kStoredVersion, number).ok());
    ASSERT_TRUE(ledger->Record(EvaluationRow{0, "test", 0.5, 0.75, 0.8, 0.01}).ok());
    if (number[0] == '1') {  // The other was stored with other data.
      ASSERT_TRUE(ledger->Record(EvaluationRow{0, "train", 0.5, 0.8125, 0.8, 0.01}).ok());
    }
    ASSERT_TRUE(ledger->Finish("completed").ok());
  }
  ASSERT_TRUE(RecordUnprovedAnswers(label_party_, run_.run_id, "shop", 7, 10).ok());
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  ASSERT_EQ(Runs().size(), 1);
  const std::string details = Runs()[0]["details"].dump();
  EXPECT_THAT(details,
              HasSubstr("Served version 1: its answers on the rows that it was trained on have AUC 0.812 against "
                        "their labels: what a caller could read of them."));
  EXPECT_THAT(details, HasSubstr("Served version 2: what its answers tell of training labels was not measured"));
  EXPECT_THAT(details, HasSubstr("Outside callers: answers left that no bound covers: at most 7."));
}

TEST_F(ReportTest, HoldsEveryRunLayerAndAttack) {
  PlausibleRun second = run_;
  second.run_id = "run-2";
  second.protection = "none";
  second.hidden_layers = {"embedding"};
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, second).ok());
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  const Json runs = Runs();
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0]["id"], "run-1");
  EXPECT_EQ(runs[0]["label"], "marvell(s=4)");
  EXPECT_EQ(runs[1]["label"], "no protection");
  std::set<std::string> measured;
  for (const Json& leak : runs[1]["leaks"]) {
    measured.insert(
        absl::StrCat(std::string(leak["layer"]), "/", std::string(leak["attack"]), "/", std::string(leak["observer"])));
  }
  EXPECT_THAT(measured, IsSupersetOf({"cut/norm/nonlabel_party", "cut/cosine/nonlabel_party", "cut/norm/label_party",
                                      "embedding/norm/nonlabel_party", "embedding/cosine/nonlabel_party"}));
}

TEST_F(ReportTest, SummarisesInFiguresAndInWords) {
  const Json run = OnlyRun();
  const Json leak = Leak(run, "cut", "norm", "nonlabel_party");
  EXPECT_EQ(leak["title"], "Gradient length");
  EXPECT_EQ(leak["steps"], 40);
  EXPECT_NEAR(leak["mean"][0], 0.53, 0.02);
  EXPECT_GT(leak["p95"], leak["mean"][0]);
  EXPECT_GE(leak["auc"], leak["p95"]);
  EXPECT_THAT(std::string(run["details"][1]), HasSubstr("Strongest, "));
  EXPECT_THAT(run["details"].dump(), HasSubstr("Test AUC of the model: 0."));
  EXPECT_EQ(run["evaluations"][0]["epoch"], 1);
  EXPECT_EQ(run["evaluations"][1]["epoch"], 2);
  EXPECT_EQ(run["solver"]["sum_kl"]["curve"]["line"].size(), 40);
  const double sum_kl = run["solver"]["sum_kl"]["curve"]["line"][7][1];  // Gaussian AUC: Phi(sqrt(sum_kl / 2)).
  EXPECT_NEAR(run["solver"]["gaussian_auc_bound"]["curve"]["line"][7][1], std::erfc(-std::sqrt(sum_kl) / 2) / 2, 1e-4);
  EXPECT_EQ(Fact(run, "Agreement SHA-256"), run_.agreement_sha256);
  EXPECT_EQ(Fact(run, "Version of peer_version"), "0.1.0");
  EXPECT_EQ(Fact(run, "Sent"), "21 MB");
  EXPECT_EQ(Fact(run, "Steps"), "40 in 2 epochs");
}

TEST_F(ReportTest, ShowsBothPartiesOfARunTogetherWithTheExactFigures) {
  ASSERT_TRUE(WriteNonLabelPartyLedger(nonlabel_party_, run_).ok());
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  ASSERT_TRUE(WriteReport({nonlabel_party_, label_party_}, out_).ok());
  const Json runs = Runs();
  ASSERT_EQ(runs.size(), 1);
  ASSERT_EQ(runs[0]["parties"].size(), 2);
  EXPECT_EQ(runs[0]["parties"][0]["role"], "label party");
  EXPECT_EQ(runs[0]["parties"][1]["role"], "non-label party");
  EXPECT_EQ(runs[0]["label"], "marvell(s=4)");
  EXPECT_EQ(Leak(runs[0], "cut", "cosine", "nonlabel_party")["steps"], 40);
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  EXPECT_EQ(Runs()[0]["leaks"], runs[0]["leaks"]);
}

TEST_F(ReportTest, ShowsTheNonLabelPartysLedgerAlone) {
  ASSERT_TRUE(WriteNonLabelPartyLedger(nonlabel_party_, run_).ok());
  ASSERT_TRUE(WriteReport({nonlabel_party_}, out_).ok());
  EXPECT_EQ(Runs()[0]["label"], "run-1");
  EXPECT_EQ(Leak(Runs()[0], "first", "norm", "nonlabel_party")["steps"], 40);
  EXPECT_TRUE(Leak(Runs()[0], "first", "norm", "nonlabel_party")["pooled"].is_null());
  EXPECT_TRUE(Runs()[0]["cumulative"].is_null());
  EXPECT_TRUE(Runs()[0]["distributions"].is_null());
  EXPECT_EQ(Runs()[0]["answer"]["headline"], "Not known from this ledger");
  EXPECT_EQ(Runs()[0]["answer"]["figures"].size(), 3);  // No test AUC.
  EXPECT_EQ(Runs()[0]["answer"]["figures"][0]["value"], "not known");
}

TEST_F(ReportTest, TellsRunsOfOneProtectionApart) {
  PlausibleRun second = run_;
  second.run_id = "run-2";
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, second).ok());
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  EXPECT_NE(Runs()[0]["label"], Runs()[1]["label"]);
}

TEST_F(ReportTest, ShowsARunThatHasOnlyBegun) {
  run_.epochs = 0;
  run_.status = "running";
  const Json run = OnlyRun();
  EXPECT_THAT(std::string(run["answer"]["sentence"]), HasSubstr("No gradient was sent to the partner"));
  EXPECT_EQ(run["status"], "running");
}

TEST_F(ReportTest, KeepsThePageSmallForALongRun) {
  run_.epochs = 1;
  run_.steps_per_epoch = 4000;
  run_.attacks = {"norm", "cosine"};
  EXPECT_LE(OnlyRun()["loss"]["points"].size(), 600);
  EXPECT_LT(DataText().size(), 400000);
}

TEST_F(ReportTest, IsTheSameForTheSameLedgers) {
  OnlyRun();
  const std::string first = Page();
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  EXPECT_EQ(Page(), first);
}

TEST_F(ReportTest, LoadsNothing) {
  OnlyRun();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* reference : {" src=", " href=", "url(", "@import", "importScripts", "XMLHttpRequest", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(reference))) << reference;
  }
}

TEST_F(ReportTest, LetsOnlyItsOwnScriptsRun) {
  OnlyRun();
  const std::string page = Page();
  const std::string policy = Between(page, "Content-Security-Policy\" content=\"", "\"");
  std::string rest = page;
  for (int script = 0; script < 2; ++script) {
    const std::string text = Between(rest, "<script>", "</script>");
    ASSERT_FALSE(text.empty());
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
    const std::string hash = absl::Base64Escape({reinterpret_cast<const char*>(digest), sizeof(digest)});
    EXPECT_THAT(policy, HasSubstr("'sha256-" + hash + "'"));
    rest = rest.substr(rest.find("<script>") + 8);
  }
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(Count(page, "<script"), 3);
}

TEST_F(ReportTest, PutsPlantedMarkupIntoNoElement) {
  const std::string planted = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{data}}&amp;\xe2\x80\xa8";
  run_.run_id = run_.protection = planted;
  run_.hidden_layers = {planted};
  const Json run = OnlyRun();
  EXPECT_EQ(run["id"], planted);
  EXPECT_EQ(run["label"], planted);
  EXPECT_TRUE(std::any_of(run["leaks"].begin(), run["leaks"].end(),
                          [&](const Json& leak) { return leak["layer"] == planted; }));
  const std::string page = Page();
  EXPECT_EQ(Count(page, "<script"), 3);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</")));
}

TEST_F(ReportTest, ReplacesTextThatIsNotUtf8) {
  run_.run_id = "run-\xff\xfe";
  EXPECT_EQ(OnlyRun()["id"], "run-\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_F(ReportTest, ShowsAConfigurationThatIsNoJsonAsText) {
  ASSERT_TRUE(Ledger::Create(label_party_, {"run-1", "label_party", "", "none", "{\"version\": oops"}).ok());
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  EXPECT_EQ(Runs()[0]["parties"][0]["config"], "{\"version\": oops");
}

TEST_F(ReportTest, ShortensManyEvents) {
  auto ledger = Ledger::Create(label_party_, {"run-1", "label_party", "", "none", ""});
  ASSERT_TRUE(ledger.ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE((*ledger)->RecordEvent("reconnect", absl::StrCat("attempt ", i)).ok());
  }
  ledger->reset();
  ASSERT_TRUE(WriteReport({label_party_}, out_).ok());
  const Json events = Runs()[0]["events"];
  EXPECT_EQ(events.size(), 201);
  EXPECT_EQ(events[0]["detail"], "attempt 0");
  EXPECT_THAT(std::string(events[100]["detail"]), HasSubstr("800 events not shown"));
  EXPECT_EQ(events[200]["detail"], "attempt 999");
}

TEST_F(ReportTest, KeepsRunsOfDifferentAgreementsApart) {
  PlausibleRun other = run_;
  other.agreement_sha256 = "00";
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  ASSERT_TRUE(WriteNonLabelPartyLedger(nonlabel_party_, other).ok());
  ASSERT_TRUE(WriteReport({label_party_, nonlabel_party_}, out_).ok());
  EXPECT_EQ(Runs().size(), 2);
}

TEST_F(ReportTest, RefusesNoLedger) {
  EXPECT_EQ(WriteReport({}, out_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(ReportTest, RefusesAMissingLedgerAndKeepsTheOldReport) {
  OnlyRun();
  const std::string before = Page();
  const absl::Status status = WriteReport({label_party_, folder_ + "/absent.db"}, out_);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("absent.db"));
  EXPECT_EQ(Page(), before);
}

TEST_F(ReportTest, RefusesAnEmptyFile) {
  std::ofstream(label_party_).close();
  const absl::Status status = WriteReport({label_party_}, out_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("label_party.db"));
}

TEST_F(ReportTest, RefusesAFileThatIsNoLedger) {
  std::ofstream(label_party_) << "id,label\n";
  EXPECT_EQ(WriteReport({label_party_}, out_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ReportTest, RefusesALedgerWithoutARun) {
  ASSERT_TRUE(Ledger::Create(label_party_, {"run-1", "label_party", "", "none", ""}).ok());
  sqlite3* database = nullptr;
  sqlite3_open(label_party_.c_str(), &database);
  sqlite3_exec(database, "DELETE FROM run", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  const absl::Status status = WriteReport({label_party_}, out_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds no run"));
}

TEST_F(ReportTest, RefusesTheSamePartyOfARunTwice) {
  OnlyRun();
  const absl::Status status = WriteReport({label_party_, label_party_}, out_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("run-1"));
}

TEST_F(ReportTest, SaysWhereTheTimeOfBothPartiesWent) {
  ASSERT_TRUE(WriteLabelPartyLedger(label_party_, run_).ok());
  ASSERT_TRUE(WriteNonLabelPartyLedger(nonlabel_party_, run_).ok());
  ASSERT_TRUE(WriteReport({label_party_, nonlabel_party_}, out_).ok());
  const Json times = Runs().at(0)["times"];
  ASSERT_EQ(times.size(), 2);
  const Json phases = Json::parse(DataText())["phases"];
  for (const Json& party : times) {
    ASSERT_EQ(party["phases"].size(), phases.size());
    double sum = 0;
    for (const Json& milliseconds : party["phases"]) {
      sum += milliseconds.get<double>();
    }
    EXPECT_NEAR(sum, 50, 1e-3);
    EXPECT_NEAR(party["step"], 50, 1e-3);
  }
  EXPECT_EQ(
      times[0]["words"],
      "Of a step of 50 ms the label party computed 38%, moved messages 4%, protected 2%, attacked 16% and waited 40%.");
  EXPECT_EQ(times[1]["words"],
            "Of a step of 50 ms the non-label party computed 44%, moved messages 4%, attacked 4% and waited 48%.");
}

TEST_F(ReportTest, ARunThatRecordedNoTimesHasNoneToShow) {
  run_.epochs = 0;
  EXPECT_TRUE(OnlyRun()["times"].empty());
}

TEST_F(ReportTest, RefusesAMissingFolder) {
  OnlyRun();
  EXPECT_EQ(WriteReport({label_party_}, folder_ + "/absent/report.html").code(), absl::StatusCode::kNotFound);
}

TEST_F(ReportTest, RefusesAFolderAndLeavesNothingBehind) {
  OnlyRun();
  std::filesystem::create_directories(folder_ + "/pages/inside");
  EXPECT_FALSE(WriteReport({label_party_}, folder_ + "/pages").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/pages.partial"));
}

}  // namespace
}  // namespace splitveil
