// From two CSV files to a trained model and a report, with the commands of the tutorial's first section: real programs,
// keys that never leave their party, certificates that each pins of the other.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  std::unique_ptr<RunningProgram> StartLabelParty() {
    auto label = std::make_unique<RunningProgram>("label_party", Arguments("bank"), folder_.path());
    const std::string marker = "listens on port ";
    EXPECT_TRUE(label->WaitForError(marker) && label->WaitForError("\n")) << label->Errors();
    const std::string log = label->Errors();
    const size_t at = log.find(marker) + marker.size();
    const std::string port = log.substr(at, log.find('\n', at) - at);
    const std::string path = At("shop/party.textproto");
    const std::string text =
        absl::StrReplaceAll(ReadWholeFile(path), {{"127.0.0.1:1\"", absl::StrCat("127.0.0.1:", port, "\"")}});
    std::ofstream(path) << text;
    return label;
  }

  // What a program's log says behind "agreement fingerprint ".
  static std::string FingerprintIn(const std::string& log) {
    const std::string marker = "agreement fingerprint ";
    const size_t at = log.find(marker);
    return at == std::string::npos ? "" : log.substr(at + marker.size(), 35);
  }

  const TempFolder folder_;
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
  EXPECT_THAT(label.Errors(), HasSubstr("peer.pem: expected a PEM file, found no file of this name"));
}

}  // namespace
}  // namespace splitveil::testing
