// What a run will need, before it is started.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_EXPECTATION_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_EXPECTATION_H_

#include <cstdint>
#include <string>

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Estimates, from what deploy/OPERATIONS.md ("Sizing") measured with Wide & Deep on two virtual processors that both
// parties shared, scaled by rows, epochs, cut width and processors; the peer is taken to have as many rows, all of them
// shared. Right within a factor of two or so on such hardware; slower models, attacks on every batch and a slow link
// take longer.
struct RunExpectation {
  int64_t peak_memory_bytes = 0;  // At the end of the alignment.
  double alignment_seconds = 0;
  double training_seconds = 0;  // Without the network.
  double bytes_each_way = 0;    // Of activations, and of gradients.
};

// `embedding_rows`: of the party's data (Preprocessing.embedding_rows); `processors`: at least 1. Thread-safe.
RunExpectation ExpectRun(const v1::RunAgreement& agreement, int64_t rows, int64_t embedding_rows, int processors);

// One line for people.
std::string RunExpectationText(const RunExpectation& expected);

// Memory that this machine can still give, in bytes, as the kernel says (MemAvailable); 0: not known.
int64_t AvailableMemoryBytes();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_EXPECTATION_H_
