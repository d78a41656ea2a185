// A system that has no threads left.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_NO_THREADS_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_NO_THREADS_H_

#include <pthread.h>

#include <cstddef>
#include <gtest/gtest.h>

namespace splitveil::testing {

// While one lives, starting a thread fails: each would need a stack larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(pthread_getattr_default_np(&huge), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_NO_THREADS_H_
