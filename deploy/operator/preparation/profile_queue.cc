#include "deploy/operator/preparation/profile_queue.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "common/process/parallel_for.h"

namespace splitveil {
namespace {

constexpr size_t kFewCells = 20'000;  // About a millisecond of work: not worth a thread.

template <typename Word>
void CopyEnds(const absl::string_view from, char* to) {
  std::memcpy(to, from.data(), sizeof(Word));
  std::memcpy(to + from.size() - sizeof(Word), from.data() + from.size() - sizeof(Word), sizeof(Word));
}

// Nearly all cells are short: words that overlap, instead of a call.
void Copy(const absl::string_view from, char* to) {
  if (from.size() > 16) {
    std::memcpy(to, from.data(), from.size());
  } else if (from.size() >= 8) {
    CopyEnds<uint64_t>(from, to);
  } else if (from.size() >= 4) {
    CopyEnds<uint32_t>(from, to);
  } else if (!from.empty()) {
    to[0] = from.front();
    to[from.size() / 2] = from[from.size() / 2];
    to[from.size() - 1] = from.back();
  }
}

}  // namespace

ProfileQueue::ProfileQueue(TableProfile* profile, std::vector<size_t> places)
    : profile_(profile), places_(std::move(places)) {
  waiting_.columns.resize(places_.size());
  profiled_.columns.resize(places_.size());
}

void ProfileQueue::Add(const std::vector<absl::string_view>& cells, int64_t line) {
  for (size_t i = 0; i < cells.size(); ++i) {
    Block::Column& column = waiting_.columns[i];
    const absl::string_view cell = cells[i];
    if (column.bytes.size() - column.used < cell.size()) {
      column.bytes.resize(2 * column.bytes.size() + cell.size());
    }
    Copy(cell, column.bytes.data() + column.used);
    column.used += cell.size();
    column.ends.push_back(column.used);
    waiting_.bytes += cell.size();
  }
  waiting_.lines.push_back(line);
  if (waiting_.lines.size() * places_.size() >= kMaxCells || waiting_.bytes >= kMaxBytes) {
    Start();
  }
}

void ProfileQueue::Start() {
  Wait();
  std::swap(waiting_, profiled_);
  waiting_.lines.clear();
  waiting_.bytes = 0;
  for (Block::Column& column : waiting_.columns) {
    column.ends.clear();
    column.used = 0;
  }
  if (profiled_.lines.size() * places_.size() >= kFewCells && std::thread::hardware_concurrency() > 1) {
    try {
      worker_ = std::thread([this] { Profile(); });
      return;
    } catch (const std::exception&) {
      // No more threads to be had.
    }
  }
  Profile();
}

void ProfileQueue::Profile() {
  const size_t processors = std::max(1U, std::thread::hardware_concurrency()), width = places_.size();
  const size_t threads = profiled_.lines.size() * width < kFewCells ? 1 : std::min({kThreads, processors, width});
  // In turn, as columns of one kind, which cost alike, are often neighbours.
  ParallelFor(threads, threads, [&](size_t thread) {
    for (size_t i = thread; i < width; i += threads) {
      ColumnProfile& profile = profile_->columns[places_[i]];
      const Block::Column& column = profiled_.columns[i];
      size_t begin = 0;
      for (size_t row = 0; row < profiled_.lines.size(); ++row) {
        profile.Add(absl::string_view(column.bytes.data() + begin, column.ends[row] - begin), profiled_.lines[row]);
        begin = column.ends[row];
      }
    }
  });
}

void ProfileQueue::Wait() {
  if (worker_.joinable()) {
    worker_.join();
  }
}

void ProfileQueue::Finish() {
  Start();
  Wait();
}

}  // namespace splitveil
