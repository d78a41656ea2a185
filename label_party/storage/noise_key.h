// The key of the noise on gradients, where it outlives a run.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_NOISE_KEY_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_NOISE_KEY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/secure_random.h"

namespace splitveil {

// A run that is repeated after a crash computes gradients again that were sent before. Under a key that was lost
// with the process their noise would be another draw, and who keeps both could average; under the key in this file it
// is the same (SecureGaussian::KeyLife::kManyRuns). The file is 32 secret bytes, its owner's alone. Who reads it can
// test guesses of a gradient against what left, without the noise: it is as secret as the labels. Who deletes it allows
// one more draw of what is repeated.

// Beside the checkpoint of this path; empty where there is none.
std::string NoiseKeyPath(const std::string& checkpoint_path);

// Reads the key; makes it on first use, on the disk (fsync, that of its folder included) before it returns. A file is
// never replaced: two processes have the same key, or one of them none. `continues`: the run may be one that was
// interrupted, whose key must be there. Errors: InvalidArgument where it is not, others than the owner may read the
// file, it has another size, or cannot be made; Internal where it cannot be written.
absl::StatusOr<SecretKey> OpenNoiseKey(const std::string& path, bool continues);

// That OpenNoiseKey would find nothing wrong with a file that is there; makes none. OK for an empty path.
absl::Status CheckNoiseKey(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_NOISE_KEY_H_
