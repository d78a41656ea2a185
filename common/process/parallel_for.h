// Splits a range over threads.
#ifndef SPLITVEIL_COMMON_PROCESS_PARALLEL_FOR_H_
#define SPLITVEIL_COMMON_PROCESS_PARALLEL_FOR_H_

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace splitveil {

// Calls body(i) once for every i in [0, count), on up to `threads` threads (at least 1), and returns when all are done.
// Calls for different i may run at the same time. Threads are started on each call: worth it from a millisecond of
// work. Where the system gives fewer threads, the calling one does the rest. `body` must not throw.
template <typename Body>
void ParallelFor(size_t count, size_t threads, const Body& body) {
  const size_t shares = std::max<size_t>(1, std::min(threads, count));
  const auto run_share = [&](size_t share) {
    for (size_t i = count * share / shares; i < count * (share + 1) / shares; ++i) {
      body(i);
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(shares - 1);  // So that starting a thread is all that can fail below.
  size_t started = 1;
  try {
    for (; started < shares; ++started) {
      workers.emplace_back(run_share, started);
    }
  } catch (const std::exception&) {
    // No more threads to be had.
  }
  run_share(0);
  for (size_t share = started; share < shares; ++share) {
    run_share(share);
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_PARALLEL_FOR_H_
