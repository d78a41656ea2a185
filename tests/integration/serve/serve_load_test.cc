// `label_party serve` while much happens: what is answered is right, and what is not is refused by the code that says
// so.
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <thread>

#include "tests/integration/serve/serve_fixture.h"

namespace splitveil::testing {
namespace {

constexpr int kIdsOfARequest = 16;
constexpr int kLastCopy = 11;  // The number of the last version that is a copy.

class ServeLoadTest : public ServeTest {
 protected:
  ~ServeLoadTest() override { Stop(); }

  // Clients in threads of their own, each of which asks again and again, until Stop.
  void Load(int clients, absl::Duration pause = absl::ZeroDuration()) {
    const std::vector<std::string> all = Ids();
    for (int client = 0; client < clients; ++client) {
      threads_.emplace_back([this, all, client, pause] {
        const size_t places = all.size() - kIdsOfARequest;
        for (auto first = static_cast<int64_t>(client); !stop_; first = (first + 31) % static_cast<int64_t>(places)) {
          AskOnce({all.begin() + first, all.begin() + first + kIdsOfARequest});
          absl::SleepFor(pause);
        }
      });
    }
  }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }
  // At the same port, so that the clients find it again.
  void RestartServing() {
    WriteServing(absl::StrCat("listen_address: '127.0.0.1:", port, "' callers { name: 'app' token_path: 'token' }"));
    server = std::make_unique<RunningProgram>(
        "label_party", std::vector<std::string>{"serve", "--config=" + run.files.File("serving.textproto")},
        run.folder);
    ASSERT_TRUE(server->WaitForError("by gRPC on port ")) << server->Errors();
  }
  bool Await(const std::atomic<int>& count, int expected) const {
    const SteadyTime limit = SteadyAfter(absl::Seconds(120));
    while (count < expected && SteadyNow() < limit) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return count >= expected;
  }

  // By the number of the version that answers: what splitveil predict has written of that model. The copies take
  // turns; what is published after them is of the second model.
  const std::map<std::string, double>& Truth(const std::string& version) const {
    int number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(version, &number)) << version;
    return number <= kLastCopy && number % 2 == 1 ? predicted : other_;
  }
  // The number of the newest version that is published.
  int Newest() const {
    int newest = 0, number = 0;
    for (const auto& entry : std::filesystem::directory_iterator(versions)) {
      newest = absl::SimpleAtoi(entry.path().filename().string(), &number) ? std::max(newest, number) : newest;
    }
    return newest;
  }

  std::map<std::string, double> other_;
  std::atomic<int> answered_{0}, wrong_{0}, unavailable_{0}, refused_{0}, lost_{0};

 private:
  void AskOnce(const std::vector<std::string>& ids) {
    inference::ModelInferResponse response;
    const grpc::Status status = Infer(Request(ids), &response);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      ++unavailable_;
      absl::SleepFor(absl::Milliseconds(10));  // As a client does that asks again.
      return;
    }
    if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      ++refused_;
      return;
    }
    if (!status.ok()) {
      ++lost_;
      ADD_FAILURE() << status.error_code() << " " << status.error_message() << " " << status.error_details();
      return;
    }
    const std::map<std::string, double>& truth = Truth(response.model_version());
    for (int i = 0; i < kIdsOfARequest; ++i) {
      if (!(std::abs(response.outputs(0).contents().fp32_contents(i) - truth.at(ids[static_cast<size_t>(i)])) < 1e-6)) {
        ++wrong_;
      }
    }
    ++answered_;
  }

  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Versions of two models take turns, so that an answer of parts of two would show. The publications are copies, which
// appear as `splitveil predict` has them appear, but for one, whose other party is killed and started again.
TEST_F(ServeLoadTest, TenThousandRequestsTenPublicationsAndARestartOfEachParty) {
  constexpr int kRequests = 10'000, kFirstCopy = 3;
  TrainAndPublish();
  std::swap(predicted, other_);
  for (const char* file : {"/label_party.checkpoint", "/nonlabel_party.checkpoint"}) {
    std::filesystem::remove(run.folder + file);
  }
  predicted.clear();
  run.label_config.mutable_party()->set_reproducible_seed(9);
  TrainAndPublish();
  std::swap(predicted, other_);
  const std::string id = Ids()[0];
  ASSERT_GT(std::abs(predicted.at(id) - other_.at(id)), 1e-5) << "the models must differ";
  StartServing();
  Load(3, absl::Milliseconds(1));
  for (int version = kFirstCopy; version <= kLastCopy; ++version) {
    ASSERT_TRUE(Await(answered_, (version - kFirstCopy + 1) * kRequests / 10));
    const std::string made = absl::StrCat(versions, "/.made");
    std::filesystem::copy(absl::StrCat(versions, "/", 2 - version % 2), made, std::filesystem::copy_options::recursive);
    std::filesystem::rename(made, absl::StrCat(versions, "/", version));
    EXPECT_TRUE(server->WaitForError(absl::StrCat("version ", version, ": answers for"))) << server->Errors();
    if (version == 6) {
      server->Signal(SIGTERM);
      EXPECT_EQ(server->Wait(), 0) << server->Errors();
      RestartServing();
      EXPECT_TRUE(Await(answered_, answered_ + 100));
    }
  }
  EXPECT_EQ(refused_ + lost_, 0);
  const int unavailable = unavailable_;
  StartPublication();
  ASSERT_TRUE(label->WaitForError("aligned")) << label->Errors();
  nonlabel->Signal(SIGKILL);
  nonlabel->Wait();
  label->Signal(SIGTERM);
  label->Wait();
  Publish();  // One version more if the one before was published before it was killed.
  EXPECT_THAT(Newest(), ::testing::AnyOf(kLastCopy + 1, kLastCopy + 2));
  EXPECT_TRUE(server->WaitForError(absl::StrCat("version ", Newest(), ": answers for"))) << server->Errors();
  EXPECT_TRUE(Await(answered_, std::max(kRequests, answered_ + 100)));
  Stop();
  EXPECT_EQ(wrong_, 0);
  EXPECT_EQ(lost_ + refused_, 0);
  EXPECT_EQ(unavailable_, unavailable) << "by the other party's restart";
}

// At most 64 rows wait, 50 ms each, and sixteen clients ask for 16 at once, again and again: four of them fit.
TEST_F(ServeLoadTest, MoreThanFitsIsRefusedAndWhatIsTakenIsAnswered) {
  TrainAndPublish();
  other_ = predicted;
  StartServing("max_delay_ms: 50 max_queued_rows: 64");
  Load(16);
  EXPECT_TRUE(Await(answered_, 200));
  Stop();
  EXPECT_EQ(wrong_, 0);
  EXPECT_EQ(lost_, 0);  // None past its deadline.
  EXPECT_EQ(unavailable_, 0);
  EXPECT_GT(refused_, 0);
}

}  // namespace
}  // namespace splitveil::testing
