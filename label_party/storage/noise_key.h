// The key of the noise on gradients, if it outlives a run.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_NOISE_KEY_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_NOISE_KEY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/secure_random.h"

namespace splitveil {

// A run that resumes after a crash computes gradients again that were sent before. If the key were lost with the
// process, their noise would be a new draw, and a peer that keeps both could average them. Under the key in this file
// it is the same draw (SecureGaussian::KeyLife::kManyRuns). The file holds 32 secret bytes; only its owner may read it.
// Anyone who reads it can test guesses of a gradient against what was sent, without the noise: it is as secret as the
// labels. Deleting it allows one more draw for everything that is repeated.

// Path of the key, beside the checkpoint of this path; empty if there is none.
std::string NoiseKeyPath(const std::string& checkpoint_path);

// Reads the key. Makes it on first use; it is on the disk (fsync of the file and of its folder) before this returns. A
// file is never replaced: two processes have the same key, or one of them gets an error. `continues`: the run may
// continue an interrupted one, whose key must exist. Errors: InvalidArgument if it does not, if anyone but the owner
// may read the file, if its size is wrong or it cannot be made; Internal if it cannot be written.
absl::StatusOr<SecretKey> OpenNoiseKey(const std::string& path, bool continues);

// Checks that OpenNoiseKey would accept a key file that is there; makes none. OK for an empty path. Errors:
// InvalidArgument, see OpenNoiseKey.
absl::Status CheckNoiseKey(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_NOISE_KEY_H_
