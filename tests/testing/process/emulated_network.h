// Two network namespaces and a link between them: programs on two machines, as far as their transport can tell.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_EMULATED_NETWORK_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_EMULATED_NETWORK_H_

#include <cstdio>
#include <string>

#include "absl/time/time.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {

struct EmulatedLink {
  double round_trip_ms = 0;
  double mbps = 0;
  double loss_percent = 0;
};

// Needs root, and SPLITVEIL_WAN_EMULATOR: a program that connects network namespaces,
// `PROGRAM NAMESPACE:DEVICE:ADDRESS/BITS:DELAY_MS:JITTER_MS:MBIT:LOSS_PERCENT ...` with what each adds in one
// direction, prints "ready" and then reads `down PORT` and `up PORT` on standard input. One at a time in a process.
class EmulatedNetwork {
 public:
  // What is missing; empty: nothing is.
  static std::string Missing();

  explicit EmulatedNetwork(const EmulatedLink& link);
  // Back to the namespace that this was made in.
  ~EmulatedNetwork();
  EmulatedNetwork(const EmulatedNetwork&) = delete;
  EmulatedNetwork& operator=(const EmulatedNetwork&) = delete;

  // What this thread starts from now on is there.
  void EnterLabel() const;
  void EnterNonLabel() const;
  // Nothing passes for so long; nobody is told.
  void Part(absl::Duration length);

  static constexpr char kLabelAddress[] = "10.97.31.1";

 private:
  void Send(const char* command);

  const int own_;  // The namespace's descriptor.
  const TempFolder files_;
  const std::string label_, nonlabel_;
  std::FILE* commands_ = nullptr;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_EMULATED_NETWORK_H_
