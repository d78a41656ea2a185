// Ends the process where going on would be unsafe: a broken invariant of our own code, or failed entropy.
#ifndef SPLITVEIL_COMMON_CRYPTO_INVARIANT_H_
#define SPLITVEIL_COMMON_CRYPTO_INVARIANT_H_

#include <cstdio>
#include <cstdlib>

namespace splitveil {

// Aborts with one line on standard error unless `holds`. Never for anything a peer or a file can cause: that is a
// Status. `what`: what should have held; no secret.
inline void CheckInvariant(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "splitveil: broken invariant: %s\n", what);
    std::abort();
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_INVARIANT_H_
