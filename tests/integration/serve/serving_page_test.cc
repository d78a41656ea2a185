// What the pages of both servers, say of how requests fare and of drift.
#include <csignal>
#include <cstdlib>
#include <gmock/gmock.h>

#include "absl/strings/str_format.h"

#include "tests/integration/serve/live_fixture.h"
#include "tests/integration/serve/noon_clock.h"

namespace splitveil::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPageToken[] = "correct-horse-battery-staple";
constexpr int kSkipped = 77;

class ServingPageTest : public LiveTest {
 protected:
  ServingPageTest() : LiveTest(/*rows=*/3000) { WriteToken("page_token", kPageToken); }

  // Both servers, each with a page.
  void StartBoth() {
    StartPeer("monitoring { listen_address: '127.0.0.1:0' }");
    StartLive("STORED", " monitoring { listen_address: '127.0.0.1:0' token_path: 'page_token' }");
    ASSERT_TRUE(server->WaitForError(", with a token")) << server->Errors();
  }

  // 77: there is no browser.
  int Watch(const RunningProgram& program, const std::string& token, const std::string& name,
            const std::vector<std::string>& words) const {
    const char* const kept = std::getenv("SPLITVEIL_SCREENSHOTS");
    std::vector<std::string> command = {"/usr/bin/python3",
                                        WATCH_SERVING,
                                        absl::StrCat("http://127.0.0.1:", PagePort(program), "/"),
                                        token,
                                        kept == nullptr ? run.folder : kept,
                                        name};
    command.insert(command.end(), words.begin(), words.end());
    ChildOptions options;
    options.limit_seconds = 120;
    const ChildResult watched = RunChild(command, options);
    EXPECT_THAT(watched.exit_code, AnyOf(0, kSkipped)) << watched.out << watched.err;
    return watched.exit_code;
  }
};

TEST_F(ServingPageTest, ThePagesShowServingAndNothingOfATraining) {
  TrainAndPublish();
  const std::vector<std::string> ids = Ids();
  const NoonClock noon(run.files.File("clock"));
  StartBoth();
  for (size_t first = 0; first + 100 <= 600; first += 100) {
    Ask({ids.begin() + static_cast<int64_t>(first), ids.begin() + static_cast<int64_t>(first + 100)});
  }
  EXPECT_EQ(CodeOf(""), grpc::StatusCode::OK);
  inference::ModelInferResponse response;
  EXPECT_EQ(Infer(Request({ids[0]}, "7"), &response).error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string rows = absl::StrCat(predicted.size() / 1000, ",", absl::StrFormat("%03d", predicted.size() % 1000));
  if (Watch(*server, kPageToken, "label_party_serve",
            {"Label party", "Answers with model test", "The other party answers.", "NOT_FOUND", rows, "600",
             "Predictions", "Today"}) == kSkipped) {
    GTEST_SKIP() << "no Chromium";
  }
  Watch(*peer_, "", "nonlabel_party_serve", {"Non-label party", "Answers with model test", rows, "600", "I1"});
  EXPECT_THAT(PeerMetrics(), Not(HasSubstr("splitveil_steps_total")));
  peer_->Signal(SIGKILL);
  peer_->Wait();
  Ask({ids[0]});
  EXPECT_EQ(Metric("splitveil_live_fallback{fallback=\"STORED\"}"), 1);
  Watch(*server, kPageToken, "label_party_serve_alone",
        {"The other party did not answer the latest request: stored activations answer meanwhile."});
}

// Its figures say how predictions are distributed.
TEST_F(ServingPageTest, TheLabelPartysPageNeedsAToken) {
  run.WriteLabelPartyFiles();
  WriteServing(
      "rest_address: 'unix:rest.sock' monitoring { listen_address: '127.0.0.1:0' } callers { name: 'app' "
      "token_path: 'token' }");
  const ChildResult child =
      RunChild({BinDir() + "/label_party", "serve", "--config=" + run.files.File("serving.textproto")});
  EXPECT_EQ(child.exit_code, 2);
  EXPECT_EQ(
      child.err,
      absl::StrCat("label_party serve: error: ", run.files.File("serving.textproto"),
                   ": monitoring.token_path: expected a token file, found none: only those who may see predictions "
                   "may read the page\n"));
}

}  // namespace
}  // namespace splitveil::testing
