// `splitveil align` in several buckets: parties are killed and connections cut at any moment, and both go on.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "tests/testing/process/running_program.h"
#include "tests/testing/process/tcp_proxy.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

constexpr int kIds = 3000, kFirstOfNonLabel = 1000;

class KilledAlignmentTest : public ::testing::Test {
 protected:
  KilledAlignmentTest() {
    run_.label_agreement.mutable_alignment()->set_bucket_ids(300);  // Sixteen buckets.
    Write("run.textproto", run_.label_agreement);
    Write("label_party.textproto", run_.label_config);
    WriteIds("label_party", 0);
    WriteIds("nonlabel_party", kFirstOfNonLabel);
  }

  void Write(const std::string& name, const google::protobuf::Message& message) const {
    std::string text;
    google::protobuf::TextFormat::PrintToString(message, &text);
    std::ofstream(run_.folder + "/" + name) << text;
  }

  void WriteIds(const std::string& party, int first) const {
    std::ofstream table(run_.folder + "/" + party + ".csv");
    table << "id\n";
    for (int i = 0; i < kIds; ++i) {
      table << "planted-" << first + i << "\n";
    }
  }

  std::unique_ptr<RunningProgram> Start(const std::string& party) const {
    return std::make_unique<RunningProgram>(
        "splitveil",
        std::vector<std::string>{"align", "--agreement=" + run_.folder + "/run.textproto",
                                 "--config=" + run_.folder + "/" + party + ".textproto",
                                 "--ids=" + run_.folder + "/" + party + ".csv", "--key=id", "--out=" + Shared(party)},
        run_.folder + "/" + party);
  }
  std::string Shared(const std::string& party) const { return run_.folder + "/" + party + ".shared"; }

  // Both, through a proxy of their own, which resets their connections after so many bytes each.
  void StartBoth(const std::vector<int64_t>& cut_after = {}) {
    for (const std::string party : {"label_party", "nonlabel_party"}) {
      std::filesystem::create_directory(run_.folder + "/" + party);
    }
    proxy_ = std::make_unique<TcpProxy>();
    proxy_->CutAfter(cut_after);
    label_ = Start("label_party");
    const std::string marker = "listens on port ";
    ASSERT_TRUE(label_->WaitForError(marker) && label_->WaitForError("\n")) << label_->Errors();
    const std::string log = label_->Errors();
    const std::vector<std::string> lines = absl::StrSplit(log.substr(log.find(marker) + marker.size()), '\n');
    int port = 0;
    ASSERT_TRUE(absl::SimpleAtoi(lines.front(), &port));
    proxy_->ForwardTo(port);
    run_.nonlabel_config.set_peer_address(absl::StrCat("127.0.0.1:", proxy_->port()));
    Write("nonlabel_party.textproto", run_.nonlabel_config);
    nonlabel_ = Start("nonlabel_party");
  }

  std::vector<int> Rows(const std::string& party) const {
    std::vector<int> rows;
    for (const absl::string_view line : absl::StrSplit(ReadWholeFile(Shared(party)), '\n', absl::SkipEmpty())) {
      rows.push_back(0);
      EXPECT_TRUE(absl::SimpleAtoi(line, &rows.back()));
    }
    return rows;
  }

  // Both end well, with the same ids in the same order, and nothing is left of the way there.
  void ExpectBothFinish() {
    ASSERT_EQ(nonlabel_->Wait(), 0) << nonlabel_->Errors();
    ASSERT_EQ(label_->Wait(), 0) << label_->Errors();
    std::vector<int> ours = Rows("label_party");
    const std::vector<int> theirs = Rows("nonlabel_party");
    ASSERT_EQ(ours.size(), kIds - kFirstOfNonLabel);
    ASSERT_EQ(theirs.size(), ours.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i], theirs[i] + kFirstOfNonLabel);
    }
    std::sort(ours.begin(), ours.end());
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i], kFirstOfNonLabel + i);
    }
    for (const std::string party : {"label_party", "nonlabel_party"}) {
      EXPECT_FALSE(std::filesystem::exists(run_.ledger(party) + ".spill"));
    }
  }

  TwoPartyRun run_{600};
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<RunningProgram> label_, nonlabel_;
};

TEST_F(KilledAlignmentTest, BothGoOnAfterTwentyKillsAndFiveCuts) {
  StartBoth();
  ExpectBothFinish();
  const std::string summary = label_->Output();
  int64_t sent = 0;
  ASSERT_TRUE(absl::SimpleAtoi(absl::StripAsciiWhitespace(summary.substr(
                                   summary.find(" s, ") + 4, summary.find(" bytes sent") - summary.find(" s, ") - 4)),
                               &sent))
      << summary;
  std::mt19937 random(20261127);
  int resumed = 0;
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    StartBoth({1 + static_cast<int64_t>(random() % static_cast<uint64_t>(2 * sent * 19 / 20))});
    ASSERT_TRUE(proxy_->WaitForCut());
    if (round < 20) {
      (round % 2 == 0 ? label_ : nonlabel_)->Signal(SIGKILL);
    }
    for (RunningProgram* const party : {label_.get(), nonlabel_.get()}) {
      const int code = party->Wait();
      EXPECT_TRUE(code == 3 || code == 128 + SIGKILL) << code << party->Errors();
    }
    resumed += std::filesystem::exists(run_.ledger("label_party") + ".spill") &&
                       std::filesystem::exists(run_.ledger("nonlabel_party") + ".spill")
                   ? 1
                   : 0;
    StartBoth();
    ExpectBothFinish();
  }
  EXPECT_GE(resumed, 15);  // The others were cut before the first masked point.
}

}  // namespace
}  // namespace splitveil::testing
