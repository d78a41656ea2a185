// Requests that wait together are computed together; what cannot be computed is refused at once.
#include "label_party/serving/request_queue.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers each id's length; waits at a gate, if it is closed.
class Lengths final : public AnswerSource {
 public:
  explicit Lengths(int64_t number = 1) : number_(number) {}

  int64_t number() const { return number_; }
  std::vector<absl::StatusOr<Answers>> Answer(absl::Span<const AskedIds> questions) override {
    int64_t rows = 0;
    std::vector<absl::StatusOr<Answers>> answers;
    for (const AskedIds& question : questions) {
      Answers answer;
      for (const absl::string_view id : question.ids) {
        answer.values.push_back(static_cast<float>(id.size()));
        answer.values.push_back(static_cast<float>(number_));
        answer.found.push_back(!id.empty());
      }
      rows += static_cast<int64_t>(question.ids.size());
      answers.push_back(question.ids[0] == "bad" ? absl::StatusOr<Answers>(absl::InternalError("the model failed"))
                                                 : std::move(answer));
    }
    const absl::MutexLock lock(&mutex_);
    batches_.push_back(rows);
    mutex_.Await(absl::Condition(&open_));
    return answers;
  }

  void SetOpen(bool open) {
    const absl::MutexLock lock(&mutex_);
    open_ = open;
  }
  std::vector<int64_t> Batches() {
    const absl::MutexLock lock(&mutex_);
    return batches_;
  }
  void AwaitBatches(size_t count) {
    while (Batches().size() < count) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

 private:
  const int64_t number_;
  absl::Mutex mutex_;
  bool open_ = true;
  std::vector<int64_t> batches_;
};

class RequestQueueTest : public ::testing::Test {
 protected:
  void Start(const RequestQueue::Options& options) { queue_ = *RequestQueue::Create(options, &metrics_); }

  absl::StatusOr<Answers> Ask(const std::vector<absl::string_view>& ids, const std::shared_ptr<AnswerSource>& version,
                              absl::Duration limit = absl::Minutes(1), const std::string& caller = "one") {
    return queue_->Ask(version, {ids, &terms_}, SteadyAfter(limit), caller);
  }

  // By the gauge that an operator sees; -1: there is none.
  int64_t WaitingRows() const {
    const std::string text = metrics_.Text(), gauge = "\nsplitveil_waiting_rows ";
    const size_t at = text.find(gauge);
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + gauge.size()));
  }

  // Asks in a thread of its own, each time as another caller; returns once it waits, or is computed.
  void AskBeside(const std::vector<absl::string_view>& ids, const std::shared_ptr<Lengths>& version) {
    const std::string caller = absl::StrCat("caller ", threads_.size());
    const int64_t waiting = WaitingRows();
    const size_t batches = version->Batches().size();
    threads_.emplace_back([this, ids, version, caller] {
      const absl::StatusOr<Answers> answers = Ask(ids, version, absl::Minutes(1), caller);
      ASSERT_TRUE(answers.ok()) << answers.status();
      ASSERT_EQ(answers->found.size(), ids.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(answers->values[2 * i], static_cast<float>(ids[i].size()));
        EXPECT_EQ(answers->values[2 * i + 1], static_cast<float>(version->number()));
        EXPECT_EQ(answers->found[i], !ids[i].empty());
      }
    });
    while (WaitingRows() <= waiting && version->Batches().size() <= batches) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  void Join() {
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

  const AnswerTerms terms_ = {};
  ServingMetrics metrics_;
  const std::shared_ptr<Lengths> version_ = std::make_shared<Lengths>();
  std::vector<std::thread> threads_;
  std::unique_ptr<RequestQueue> queue_;
};

TEST_F(RequestQueueTest, WhatWaitsIsComputedTogetherAndEachGetsItsOwn) {
  Start({100, absl::ZeroDuration(), 1000});
  version_->SetOpen(false);
  AskBeside({"a"}, version_);  // Is being computed; the others wait meanwhile.
  version_->AwaitBatches(1);
  AskBeside({"bb", ""}, version_);
  AskBeside({"ccc"}, version_);
  version_->SetOpen(true);
  Join();
  EXPECT_THAT(version_->Batches(), ElementsAre(1, 3));
}

TEST_F(RequestQueueTest, ABatchHasOneVersionAndNoMoreRowsThanItMay) {
  Start({3, absl::ZeroDuration(), 1000});
  const auto next = std::make_shared<Lengths>(2);
  version_->SetOpen(false);
  AskBeside({"a"}, version_);
  version_->AwaitBatches(1);
  AskBeside({"a", "b"}, version_);
  AskBeside({"a", "b"}, version_);  // Would be four.
  AskBeside({"a"}, next);
  AskBeside({"a"}, next);
  version_->SetOpen(true);
  Join();
  EXPECT_THAT(version_->Batches(), ElementsAre(1, 2, 2));
  EXPECT_THAT(next->Batches(), ElementsAre(2));
  EXPECT_EQ(Ask({"a", "b", "c", "d"}, version_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask({}, version_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RequestQueueTest, WhoAsksForTwoVersionsInTurnMakesTwoBatches) {
  Start({100, absl::ZeroDuration(), 1000});
  const auto next = std::make_shared<Lengths>(2);
  version_->SetOpen(false);
  AskBeside({"a"}, version_);
  version_->AwaitBatches(1);
  for (const auto& version : {next, version_, next, version_}) {
    AskBeside({"a"}, version);
  }
  version_->SetOpen(true);
  Join();
  EXPECT_THAT(version_->Batches(), ElementsAre(1, 2));
  EXPECT_THAT(next->Batches(), ElementsAre(2));
}

TEST_F(RequestQueueTest, TheFirstWaitsForOthersAsLongAsItMayAndNotOnceTheBatchIsFull) {
  Start({4, absl::Seconds(30), 1000});
  const SteadyTime start = SteadyNow();
  for (int i = 0; i < 4; ++i) {
    AskBeside({"a"}, version_);
  }
  Join();
  EXPECT_LT(SecondsSince(start), 20);
  EXPECT_THAT(version_->Batches(), ElementsAre(4));
  Start({4, absl::Milliseconds(50), 1000});
  const SteadyTime again = SteadyNow();
  EXPECT_TRUE(Ask({"a"}, version_).ok());
  EXPECT_GE(SecondsSince(again), 0.05);
}

TEST_F(RequestQueueTest, AFullQueueRefusesAtOnce) {
  Start({3, absl::ZeroDuration(), 3});
  version_->SetOpen(false);
  AskBeside({"a"}, version_);
  version_->AwaitBatches(1);
  AskBeside({"a", "b"}, version_);
  const SteadyTime start = SteadyNow();
  const absl::Status refused = Ask({"a", "b"}, version_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 rows wait already, at most 3 may"));
  EXPECT_LT(SecondsSince(start), 1);
  version_->SetOpen(true);
  Join();
  EXPECT_TRUE(Ask({"a", "b"}, version_).ok());
}

TEST_F(RequestQueueTest, OneCallerHasHalfOfTheQueue) {
  Start({3, absl::ZeroDuration(), 6});
  version_->SetOpen(false);
  AskBeside({"a"}, version_);  // Is being computed.
  version_->AwaitBatches(1);
  AskBeside({"a", "b"}, version_);
  const absl::Status refused = Ask({"a", "b"}, version_, absl::Minutes(1), "caller 1").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 rows of this caller wait already, at most 3 may"));
  AskBeside({"a", "b", "c"}, version_);  // Of another.
  version_->SetOpen(true);
  Join();
  EXPECT_TRUE(Ask({"a", "b"}, version_, absl::Minutes(1), "caller 1").ok());
}

TEST_F(RequestQueueTest, WhatIsPastItsDeadlineIsNotComputed) {
  Start({100, absl::ZeroDuration(), 100});
  version_->SetOpen(false);
  AskBeside({"a"}, version_);
  version_->AwaitBatches(1);
  std::thread late([this] {
    EXPECT_EQ(Ask({"a", "b"}, version_, absl::Milliseconds(10)).status().code(), absl::StatusCode::kDeadlineExceeded);
  });
  while (WaitingRows() < 2) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  absl::SleepFor(absl::Milliseconds(60));  // Until its deadline has passed.
  version_->SetOpen(true);
  late.join();
  Join();
  EXPECT_THAT(version_->Batches(), ElementsAre(1));
}

TEST_F(RequestQueueTest, AFailureIsThatOfItsRequestAlone) {
  Start({100, absl::ZeroDuration(), 100});
  version_->SetOpen(false);
  AskBeside({"a"}, version_);
  version_->AwaitBatches(1);
  std::thread bad([this] { EXPECT_EQ(Ask({"bad"}, version_).status().code(), absl::StatusCode::kInternal); });
  while (WaitingRows() < 1) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  AskBeside({"good"}, version_);
  version_->SetOpen(true);
  bad.join();
  Join();
  EXPECT_THAT(version_->Batches(), ElementsAre(1, 2));
}

TEST_F(RequestQueueTest, ItsEndComputesWhatWaits) {
  Start({100, absl::Seconds(30), 100});
  AskBeside({"a"}, version_);
  AskBeside({"b"}, version_);
  queue_.reset();
  Join();
  EXPECT_THAT(version_->Batches(), ElementsAre(2));
}

}  // namespace
}  // namespace splitveil::testing
