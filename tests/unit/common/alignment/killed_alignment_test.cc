// Two processes align; one is killed at any moment, and both go on when they are started again.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/alignment/private_set_intersection.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

// Messages over a socket, each after its length.
class SocketChannel : public AlignmentChannel {
 public:
  // Kills the process in place of the answers after the first `answers`.
  SocketChannel(int socket, int answers) : socket_(socket), answers_(answers) {}
  absl::Status Send(const v1::AlignmentMessage& message) override {
    if (message.has_double_masked() && answers_-- == 0) {
      kill(getpid(), SIGKILL);
    }
    const std::string body = message.SerializeAsString();
    const auto size = static_cast<uint32_t>(body.size());
    std::string bytes(sizeof(size), '\0');
    std::memcpy(bytes.data(), &size, sizeof(size));
    bytes += body;
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t more = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) {
        return absl::UnavailableError("gone");
      }
      sent += static_cast<size_t>(more);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    uint32_t size = 0;
    v1::AlignmentMessage message;
    if (recv(socket_, &size, sizeof(size), MSG_WAITALL) != sizeof(size)) {
      return absl::UnavailableError("gone");
    }
    std::string body(size, '\0');
    if (recv(socket_, body.data(), size, MSG_WAITALL) != size || !message.ParseFromString(body)) {
      return absl::UnavailableError("gone");
    }
    return message;
  }

 private:
  const int socket_;
  int answers_;
};

constexpr int kIds = 400, kFirst[] = {0, 150}, kNever = -1;

class KilledAlignmentTest : public ::testing::Test {
 protected:
  std::string Name(int party, const char* what) const { return folder_.Path(absl::StrCat(party, what)); }

  // What one party's process does; its exit code. `answers`: after so many of its messages it is killed.
  int Run(int party, int socket, int answers) const {
    std::vector<std::string> ids;
    for (int i = 0; i < kIds; ++i) {
      ids.push_back(absl::StrCat("user-", kFirst[party] + i));
    }
    AlignmentOptions options;
    options.run_id = "run";
    options.chunk_ids = 32;
    options.threads = 1;
    options.bucket_ids = 60;  // Eight buckets.
    options.spill_path = Name(party, ".spill");
    SocketChannel channel(socket, answers);
    const absl::StatusOr<AlignedIds> aligned = AlignIds(ids, options, channel);
    if (!aligned.ok()) {
      return absl::IsUnavailable(aligned.status()) ? 3 : 1;
    }
    std::ofstream rows(Name(party, ".rows"));
    for (const uint32_t row : aligned->rows) {
      rows << kFirst[party] + row << "\n";
    }
    return 0;
  }

  // Both, until they end; `killed` is killed after `moment`, or in place of the answers after the first `answers`,
  // unless it is none. Their exit codes, -1: killed.
  std::pair<int, int> RunBoth(int killed = -1, absl::Duration moment = absl::ZeroDuration(),
                              int answers = kNever) const {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    pid_t processes[2];
    for (int party = 0; party < 2; ++party) {
      processes[party] = fork();
      if (processes[party] == 0) {
        close(sockets[1 - party]);
        _exit(Run(party, sockets[party], party == killed ? answers : kNever));
      }
    }
    close(sockets[0]);
    close(sockets[1]);
    if (killed >= 0 && answers == kNever) {
      absl::SleepFor(moment);
      kill(processes[killed], SIGKILL);
    }
    int codes[2];
    for (int party = 0; party < 2; ++party) {
      int status = 0;
      waitpid(processes[party], &status, 0);
      codes[party] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return {codes[0], codes[1]};
  }

  // After one of them was killed.
  void ExpectBothFinish() const {
    for (int party = 0; party < 2; ++party) {
      std::filesystem::remove(Name(party, ".rows"));
    }
    ASSERT_EQ(RunBoth(), std::pair(0, 0));
    EXPECT_EQ(Read(0, ".rows"), Read(1, ".rows"));
    std::istringstream lines(Read(0, ".rows"));
    std::vector<int> shared((std::istream_iterator<int>(lines)), std::istream_iterator<int>());
    std::sort(shared.begin(), shared.end());
    ASSERT_EQ(shared.size(), kIds - kFirst[1]);
    for (size_t i = 0; i < shared.size(); ++i) {
      ASSERT_EQ(shared[i], kFirst[1] + i);
    }
    EXPECT_FALSE(std::filesystem::exists(Name(0, ".spill")));
    EXPECT_FALSE(std::filesystem::exists(Name(1, ".spill")));
  }

  std::string Read(int party, const char* what) const { return folder_.Read(absl::StrCat(party, what)); }

  const ScratchFolder folder_;
};

TEST_F(KilledAlignmentTest, EndsWithTheSameRowsInTheSameOrder) {
  const absl::Time begun = absl::Now();
  ASSERT_EQ(RunBoth(), std::pair(0, 0));
  const absl::Duration whole = absl::Now() - begun;
  std::mt19937 random(20261127);
  for (int kill = 0; kill < 20; ++kill) {
    SCOPED_TRACE(kill);
    const auto [first, second] = RunBoth(kill % 2, whole * (static_cast<double>(random() % 1000) / 1000));
    EXPECT_NE(first, 1);
    EXPECT_NE(second, 1);
    ExpectBothFinish();
  }
}

// Where moments are counted in messages, whatever else the machine does, both have something to resume.
TEST_F(KilledAlignmentTest, ResumesOnceAnswersAreSent) {
  for (int answers = 0; answers < 32; answers += 5) {  // Four messages a bucket, at least.
    SCOPED_TRACE(answers);
    const auto [first, second] = RunBoth(answers % 2, absl::ZeroDuration(), answers);
    EXPECT_EQ(answers % 2 == 0 ? first : second, -1);
    EXPECT_EQ(answers % 2 == 0 ? second : first, 3);
    EXPECT_TRUE(std::filesystem::exists(Name(0, ".spill")));
    EXPECT_TRUE(std::filesystem::exists(Name(1, ".spill")));
    ExpectBothFinish();
  }
}

}  // namespace
}  // namespace splitveil
