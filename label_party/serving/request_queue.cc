#include "label_party/serving/request_queue.h"

#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace splitveil {

absl::StatusOr<std::unique_ptr<RequestQueue>> RequestQueue::Create(const Options& options, ServingMetrics* metrics) {
  std::unique_ptr<RequestQueue> queue = absl::WrapUnique(new RequestQueue(options, metrics));
  try {
    queue->thread_ = std::thread([started = queue.get()] { started->Run(); });
  } catch (const std::system_error& error) {
    return absl::InternalError(absl::StrCat("serving: no thread could be started: ", error.what()));
  }
  return queue;
}

RequestQueue::~RequestQueue() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  delay_.Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

absl::StatusOr<Answers> RequestQueue::Ask(std::shared_ptr<AnswerSource> version, const AskedIds& question,
                                          SteadyTime deadline, const std::string& caller) {
  const auto rows = static_cast<int64_t>(question.ids.size());
  if (rows < 1 || rows > options_.max_batch_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs: id: expected 1 to ", options_.max_batch_rows, " ids, found ", rows));
  }
  Request request;
  request.version = std::move(version);
  request.question = question;
  request.deadline = deadline;
  request.caller = caller;
  request.arrived = SteadyNow();
  bool full = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (stopping_) {
      return absl::UnavailableError("the server is stopping");
    }
    // A request that nobody else makes wait is taken however large it is.
    if (rows_ > 0 && rows_ + rows > options_.max_queued_rows) {
      return absl::ResourceExhaustedError(
          absl::StrCat("too many requests: ", rows_, " rows wait already, at most ", options_.max_queued_rows, " may"));
    }
    const auto own = rows_of_.find(caller);
    if (own != rows_of_.end() && own->second + rows > options_.max_queued_rows / 2) {
      return absl::ResourceExhaustedError(absl::StrCat("too many requests: ", own->second,
                                                       " rows of this caller wait already, at most ",
                                                       options_.max_queued_rows / 2, " may"));
    }
    waiting_.push_back(&request);
    rows_of_[caller] += rows;
    rows_ += rows;
    metrics_->SetWaitingRows(rows_);
    full = rows_ >= options_.max_batch_rows;
  }
  if (full) {
    delay_.Wake();
  }
  request.done.WaitForNotification();
  return std::move(request.answers);
}

std::vector<RequestQueue::Request*> RequestQueue::Take() {
  SteadyTime until;
  {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](RequestQueue* queue)
             ABSL_NO_THREAD_SAFETY_ANALYSIS { return queue->stopping_ || !queue->waiting_.empty(); },
        this));
    if (waiting_.empty()) {
      return {};
    }
    until = SteadyAfter(options_.max_delay, waiting_.front()->arrived);
    if (stopping_ || rows_ >= options_.max_batch_rows) {
      until = SteadyTime::min();
    }
  }
  if (until > SteadyNow()) {
    delay_.Until(until);
  }
  const absl::MutexLock lock(&mutex_);
  std::vector<Request*> batch;
  int64_t rows = 0;
  const SteadyTime now = SteadyNow();
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    Request& next = **place;
    const auto more = static_cast<int64_t>(next.question.ids.size());
    const bool late = next.deadline < now;
    // Those of another version wait together, so that who asks for both in turn does not make a batch of each request.
    if (!late && !batch.empty() && next.version != batch.front()->version) {
      ++place;
      continue;
    }
    if (!late && !batch.empty() && rows + more > options_.max_batch_rows) {
      break;
    }
    place = waiting_.erase(place);
    rows_ -= more;
    if (const auto own = rows_of_.find(next.caller); (own->second -= more) == 0) {
      rows_of_.erase(own);
    }
    metrics_->ObserveQueue(std::chrono::duration<double>(now - next.arrived).count());
    if (late) {  // Nobody waits for it any more.
      next.answers = absl::DeadlineExceededError("the request waited longer than its deadline allows");
      next.done.Notify();
    } else {
      batch.push_back(&next);
      rows += more;
    }
  }
  metrics_->SetWaitingRows(rows_);
  return batch;
}

void RequestQueue::Run() {
  while (true) {
    const std::vector<Request*> batch = Take();
    if (!batch.empty()) {
      Compute(batch);
      continue;
    }
    const absl::MutexLock lock(&mutex_);
    if (stopping_ && waiting_.empty()) {
      return;
    }
  }
}

void RequestQueue::Compute(const std::vector<Request*>& batch) {
  const SteadyTime start = SteadyNow();
  std::vector<AskedIds> questions;
  int64_t rows = 0;
  for (const Request* request : batch) {
    questions.push_back(request->question);
    rows += static_cast<int64_t>(request->question.ids.size());
  }
  std::vector<absl::StatusOr<Answers>> answers = batch.front()->version->Answer(questions);
  metrics_->ObserveBatch(rows, SecondsSince(start));
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i]->answers = std::move(answers[i]);
    batch[i]->done.Notify();  // Its caller may be gone from here on.
  }
}

}  // namespace splitveil
