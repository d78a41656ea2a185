// Entry point of the coverage-guided fuzzer, also driven by alignment_fuzz_test.cc.
#ifndef SPLITVEIL_TESTS_FUZZ_ALIGNMENT_PEER_INBOX_FUZZER_H_
#define SPLITVEIL_TESTS_FUZZ_ALIGNMENT_PEER_INBOX_FUZZER_H_

#include <cstddef>
#include <cstdint>

namespace splitveil {

// What the fuzzer's inbox agrees to.
inline constexpr char kFuzzedRun[] = "run";
inline constexpr uint64_t kFuzzedOwnIds = 2;
inline constexpr uint64_t kFuzzedChunkIds = 3;

}  // namespace splitveil

// Feeds a peer's messages to an inbox, each as one byte of length and as many bytes of a serialised AlignmentMessage.
// Aborts when the inbox breaks a promise.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // SPLITVEIL_TESTS_FUZZ_ALIGNMENT_PEER_INBOX_FUZZER_H_
