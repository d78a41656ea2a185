#include "label_party/serving/version_watch.h"

#include <system_error>
#include <utility>

#include "common/telemetry/log.h"

namespace splitveil {

VersionWatch::VersionWatch(ServedVersion::Training training, std::string folder, absl::Duration period)
    : training_(std::move(training)), folder_(std::move(folder)), period_(period) {
  Look();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    LogWarning("versions: no thread could be started, new ones are not seen: ", error.what());
  }
}

VersionWatch::~VersionWatch() {
  stopping_ = true;
  sleep_.Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::shared_ptr<ServedVersion> VersionWatch::Find(std::optional<int64_t> number) const {
  const absl::MutexLock lock(&mutex_);
  if (!number.has_value()) {
    return served_.empty() ? nullptr : served_.rbegin()->second.version;
  }
  const auto found = served_.find(*number);
  return found == served_.end() ? nullptr : found->second.version;
}

std::vector<int64_t> VersionWatch::Numbers() const {
  const absl::MutexLock lock(&mutex_);
  std::vector<int64_t> numbers;
  for (const auto& each : served_) {
    numbers.push_back(each.first);
  }
  return numbers;
}

void VersionWatch::Run() {
  while (!stopping_) {
    sleep_.Until(SteadyAfter(period_));
    if (!stopping_) {
      Look();
    }
  }
}

void VersionWatch::Look() {
  const absl::StatusOr<std::vector<int64_t>> there = ListVersions(folder_);
  if (!there.ok()) {
    return;  // A folder that cannot be read for a moment must not end the service.
  }
  std::map<int64_t, Served> looked_at, served;
  for (auto number = there->rbegin(); number != there->rend() && served.size() < kServed; ++number) {
    const auto known = looked_at_.find(*number);
    Served found = {VersionStamp(folder_, *number), nullptr};
    if (known != looked_at_.end() && known->second.stamp == found.stamp) {
      found = known->second;
    } else if (absl::StatusOr<std::shared_ptr<ServedVersion>> opened = ServedVersion::Open(training_, folder_, *number);
               opened.ok()) {
      found.version = *std::move(opened);
      LogInfo("version ", *number, ": answers for ", found.version->rows(), " examples");
    } else {
      LogWarning("version ", *number, " is not used: ", opened.status().message());
    }
    if (found.version != nullptr) {
      served.emplace(*number, found);
    }
    looked_at.emplace(*number, std::move(found));
  }
  looked_at_ = std::move(looked_at);
  {
    const absl::MutexLock lock(&mutex_);
    served_.swap(served);
  }
  for (const auto& before : served) {  // What goes is freed once the last request has it no more.
    if (Find(before.first) == nullptr) {
      LogInfo("version ", before.first, " is no longer used");
    }
  }
}

}  // namespace splitveil
