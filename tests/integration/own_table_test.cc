// From two CSV files to a trained model and a report, with the commands of the tutorial's first section: real programs,
// keys that never leave their party, certificates that each pins of the other.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRefused = 4;

class OwnTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream bank(At("bank.csv")), shop(At("shop.csv"));
    bank << "customer,income,defaulted\n";
    shop << "customer;visits;region\n";
    for (int row = 0; row < 900; ++row) {
      const int visits = row * 7919 % 40;
      if (row < 850) {
        bank << "C" << row << "," << 1000 + row * 104729 % 397 << "," << (visits > 25 ? "yes" : "no") << "\n";
      }
      if (row >= 50) {
        shop << "C" << row << ";" << visits << ";" << (row % 3 == 0 ? "north" : "south") << "\n";
      }
    }
    bank.close();
    shop.close();
    Tool({"init", "--role=label_party", "--table=" + At("bank.csv"), "--label=defaulted", "--own_name=bank.example",
          "--peer_name=shop.example", "--listen_address=127.0.0.1:0", "--epochs=3", "--batch_size=64",
          "--out=" + At("bank")});
    Tool({"init", "--role=nonlabel_party", "--table=" + At("shop.csv"), "--own_name=shop.example",
          "--peer_name=bank.example", "--peer_address=127.0.0.1:1", "--proposal=" + At("bank/run.textproto"),
          "--peer_certificate=" + At("bank/own.pem"), "--out=" + At("shop")});
    Tool({"agreement", "accept", "--proposal=" + At("bank/run.textproto"), "--config=" + At("shop/party.textproto")});
    std::filesystem::copy(At("shop/own.pem"), At("bank/peer.pem"));
  }

  std::string At(const std::string& name) const { return folder_.File(name); }

  std::string Tool(std::vector<std::string> words) const {
    words.insert(words.begin(), BinDir() + "/splitveil");
    const ChildResult result = RunChild(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  std::vector<std::string> Arguments(const std::string& party) const {
    return {"--agreement=" + At(party + "/run.textproto"), "--config=" + At(party + "/party.textproto")};
  }

  // Starts the label party and points the shop at its port.
  std::unique_ptr<RunningProgram> StartLabelParty() { return StartAtBank("label_party", Arguments("bank")); }

  std::unique_ptr<RunningProgram> StartAtBank(const std::string& program, const std::vector<std::string>& arguments) {
    auto label = std::make_unique<RunningProgram>(program, arguments, folder_.path());
    const std::string marker = "listens on port ";
    EXPECT_TRUE(label->WaitForError(marker) && label->WaitForError("\n")) << label->Errors();
    const std::string log = label->Errors();
    const size_t at = log.find(marker) + marker.size();
    const std::string port = log.substr(at, log.find('\n', at) - at);
    const std::string path = At("shop/party.textproto");
    const std::string text = absl::StrReplaceAll(
        ReadWholeFile(path), {{absl::StrCat("127.0.0.1:", port_, "\""), absl::StrCat("127.0.0.1:", port, "\"")}});
    std::ofstream(path) << text;
    port_ = port;
    return label;
  }

  // What a program's log says behind "agreement fingerprint ".
  static std::string FingerprintIn(const std::string& log) {
    const std::string marker = "agreement fingerprint ";
    const size_t at = log.find(marker);
    return at == std::string::npos ? "" : log.substr(at + marker.size(), 35);
  }

  const TempFolder folder_;
  std::string port_ = "1";  // Of the label party, in the shop's configuration.
};

TEST_F(OwnTableTest, TrainsAndReportsWithoutALineWrittenByHand) {
  const auto label = StartLabelParty();
  RunningProgram nonlabel("nonlabel_party", Arguments("shop"), At("shop"));
  EXPECT_EQ(nonlabel.Wait(), 0) << nonlabel.Errors();
  EXPECT_EQ(label->Wait(), 0) << label->Errors();
  EXPECT_THAT(label->Output(), AllOf(HasSubstr("RESULT {"), HasSubstr("\"bound_kind\":\"proved\"")));
  EXPECT_THAT(label->Errors(), HasSubstr("aligned 800 examples"));
  // What both compare by voice is what `agreement show` prints.
  const std::string fingerprint = FingerprintIn(label->Errors());
  EXPECT_EQ(fingerprint.size(), 35);
  EXPECT_EQ(FingerprintIn(nonlabel.Errors()), fingerprint);
  EXPECT_THAT(Tool({"agreement", "show", "--agreement=" + At("shop/run.textproto")}), HasSubstr(fingerprint));
  Tool(
      {"report", "--ledger=" + At("bank/ledger.db"), "--ledger=" + At("shop/ledger.db"), "--out=" + At("report.html")});
  EXPECT_THAT(ReadWholeFile(At("report.html")), HasSubstr("first-run"));
}

// New customers, of whom nobody knows yet, scored by both parties: with the head that predicts, of which no gradient
// ever left, and the account is not opened.
TEST_F(OwnTableTest, PredictsNewRowsThatHaveNoLabels) {
  {
    const auto label = StartLabelParty();
    RunningProgram nonlabel("nonlabel_party", Arguments("shop"), At("shop"));
    ASSERT_EQ(nonlabel.Wait(), 0) << nonlabel.Errors();
    ASSERT_EQ(label->Wait(), 0) << label->Errors();
  }
  std::ofstream bank(At("new_bank.csv")), shop(At("new_shop.csv"));
  bank << "customer,income\n";
  shop << "customer;visits;region\n";
  for (int row = 0; row < 12; ++row) {
    bank << "N" << row << "," << 1000 + 30 * row << "\n";
    shop << "N" << row + 2 << ";" << 3 * row << ";west\n";  // A region that the training has not seen.
  }
  bank.close();
  shop.close();
  Tool({"transform", "--fitted=" + At("bank"), "--party=label_party", "--schema=" + At("bank/schema.textproto"),
        "--unlabelled", "--input=" + At("new_bank.csv"), "--out=" + At("new")});
  Tool({"transform", "--fitted=" + At("shop"), "--party=nonlabel_party", "--schema=" + At("shop/schema.textproto"),
        "--input=" + At("new_shop.csv"), "--allow_changed=region", "--out=" + At("new")});  // Said once, for both.

  std::vector<std::string> arguments = Arguments("bank");
  arguments.insert(arguments.begin(), "predict");
  arguments.insert(arguments.end(), {"--data=" + At("new/label_party.data"), "--out=" + At("predictions.csv")});
  const auto label = StartAtBank("splitveil", arguments);
  arguments = Arguments("shop");
  arguments.insert(arguments.begin(), "predict");
  arguments.push_back("--data=" + At("new/nonlabel_party.data"));
  RunningProgram nonlabel("splitveil", arguments, At("shop"));
  EXPECT_EQ(nonlabel.Wait(), 0) << nonlabel.Errors();
  EXPECT_EQ(label->Wait(), 0) << label->Errors();
  EXPECT_THAT(label->Errors(), Not(HasSubstr("privacy account")));

  std::ifstream predictions(At("predictions.csv"));
  std::string line;
  std::getline(predictions, line);
  EXPECT_EQ(line, "id,probability");
  int rows = 0;
  while (std::getline(predictions, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    double probability = 0;
    ASSERT_TRUE(cells.size() == 2 && cells[0][0] == 'N' && absl::SimpleAtod(cells[1], &probability));
    EXPECT_TRUE(probability > 0 && probability < 1);
    ++rows;
  }
  EXPECT_EQ(rows, 10);  // N2 to N11.
}

TEST_F(OwnTableTest, SomebodyElseUnderThePeersNameIsRefusedAndTheRunGoesOn) {
  const auto label = StartLabelParty();
  Tool({"certificates", "self_signed", "--name=shop.example", "--out=" + At("mallory")});
  for (const char* name : {"party.textproto", "run.textproto", "nonlabel_party.data", "peer.pem"}) {
    std::filesystem::copy(At(std::string("shop/") + name), At(std::string("mallory/") + name));
  }
  RunningProgram mallory("nonlabel_party", Arguments("mallory"), At("mallory"));
  EXPECT_EQ(mallory.Wait(), kRefused) << mallory.Errors();
  EXPECT_THAT(mallory.Errors(), HasSubstr("the peer refused our certificate"));
  EXPECT_FALSE(label->HasEnded());
  RunningProgram nonlabel("nonlabel_party", Arguments("shop"), At("shop"));
  EXPECT_EQ(nonlabel.Wait(), 0) << nonlabel.Errors();
  EXPECT_EQ(label->Wait(), 0) << label->Errors();
}

TEST_F(OwnTableTest, APartyWithoutThePeersCertificateDoesNotStart) {
  std::filesystem::remove(At("bank/peer.pem"));
  RunningProgram label("label_party", Arguments("bank"), folder_.path());
  EXPECT_EQ(label.Wait(), 2);
  EXPECT_THAT(label.Errors(),
              HasSubstr("peer.pem: expected a PEM file, the peer's certificate (the own.pem that it sends)"));
}

}  // namespace
}  // namespace splitveil::testing
