// Drives a label session as the bytes say: an honest peer goes through a run, and between its requests come others, of
// every service, repeated, damaged or made up. Each must be answered, or refused by a code that says so, and at the end
// the honest peer must still complete its run.
#ifndef SPLITVEIL_TESTS_FUZZ_SESSION_REQUEST_SEQUENCE_FUZZ_TARGET_H_
#define SPLITVEIL_TESTS_FUZZ_SESSION_REQUEST_SEQUENCE_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <set>

namespace splitveil {

struct SequenceOutcome {
  bool completed = false;  // Or ended by right: by a request that is of another agreement, alignment or process.
  std::set<int> answered;  // Kinds of the requests between the honest ones that have got an answer.
};

// Aborts where a request gets neither an answer nor a verdict, or the honest peer is refused.
SequenceOutcome RunRequestSequence(const uint8_t* bytes, size_t size);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_FUZZ_SESSION_REQUEST_SEQUENCE_FUZZ_TARGET_H_
