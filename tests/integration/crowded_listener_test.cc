// Strangers without a certificate crowd the port of a label party that may open few files: the run goes on as if they
// were not there.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kOpenFiles = 160;   // Of the label party.
constexpr int kStrangers = 1300;  // Far more than it could hold.

// TCP connections that say nothing, kept open until the end.
class Strangers {
 public:
  ~Strangers() {
    for (const int descriptor : descriptors_) {
      close(descriptor);
    }
  }

  void Connect(int port, int count) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    for (int i = 0; i < count; ++i) {
      descriptors_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_GE(descriptors_.back(), 0);
      // What does not fit the backlog is tried again by the kernel for seconds: it counts as a connection, too.
      (void)connect(descriptors_.back(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    }
  }

 private:
  std::vector<int> descriptors_;
};

class CrowdedListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rlimit files = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 2 * kStrangers) {
      GTEST_SKIP() << "this process may not open enough files";
    }
  }
};

TEST_F(CrowdedListenerTest, APeerComesThroughStrangersThatWereThereFirst) {
  TwoPartyRun run(200);
  run.label_open_files = kOpenFiles;
  run.StartLabelParty();
  Strangers strangers;
  strangers.Connect(run.label_port, kStrangers);
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
}

TEST_F(CrowdedListenerTest, ARunAndItsOperatorGoOnWhileStrangersCome) {
  TwoPartyRun run(1000);
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(100000);
  }
  run.label_open_files = kOpenFiles;
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_TRUE(run.nonlabel->WaitForError("training")) << run.nonlabel->Errors();
  Strangers strangers;
  strangers.Connect(run.label_port, kStrangers);
  const ChildResult status = RunChild(
      {BinDir() + "/splitveil", "status", "--config=" + run.folder + "/label_party.textproto", "--timeout_seconds=30"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("SERVING, training"));
  run.nonlabel->Signal(SIGTERM);
  EXPECT_EQ(run.nonlabel->Wait(), 6) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 3) << run.label->Errors();
  EXPECT_THAT(run.label->Errors(), HasSubstr("the peer ended the run before it was complete"));
}

}  // namespace
}  // namespace splitveil::testing
