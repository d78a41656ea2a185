// Workers as threads of one process, which meet over mutual TLS and compute together over the loopback interface.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_WORKERS_WORKER_THREADS_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_WORKERS_WORKER_THREADS_H_

#include <unistd.h>

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/workers/worker_group.h"
#include "tests/unit/common/transport/tls_fixture.h"

namespace splitveil {

// What a worker of a test joins with; change it before Join.
inline WorkerGroup::Options WorkerOptions(int rank, int size, int port) {
  static const CertifiedKey* const authority = new CertifiedKey(NewAuthority());
  static const CertifiedKey* const own = new CertifiedKey(NewCertificate(*authority, kNonLabelName));
  WorkerGroup::Options options;
  options.place = {rank, size, absl::StrCat("127.0.0.1:", port)};
  options.interface = "lo";
  options.identity = IdentityOf(*own, kNonLabelName, kLabelName, *authority);
  options.deadline = SteadyAfter(absl::Seconds(60));
  options.patience = absl::Seconds(60);
  return options;
}

inline int FreePort() {
  int port = 0;
  close(ListenOnFreePort(&port));
  return port;
}

// Joins `size` workers and calls `work` in each, on a thread of its own.
inline void WithWorkers(int size, const std::function<void(WorkerGroup&)>& work) {
  const int port = FreePort();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([rank, size, port, &work] {
      const absl::StatusOr<std::unique_ptr<WorkerGroup>> group = WorkerGroup::Join(WorkerOptions(rank, size, port));
      ASSERT_TRUE(group.ok()) << group.status();
      work(**group);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_WORKERS_WORKER_THREADS_H_
