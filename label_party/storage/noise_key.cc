#include "label_party/storage/noise_key.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <openssl/crypto.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kNoiseKeySuffix[] = ".noise_key";
// Read, write and execute for group and others.
constexpr mode_t kOthers = 077;
using KeyBytes = std::array<uint8_t, 32>;

// NotFound if there is none.
absl::StatusOr<SecretKey> Read(const std::string& path) {
  struct stat found = {};
  // Checked before it is read: a key that others could read may already be known.
  if (stat(path.c_str(), &found) == 0 && (found.st_mode & kOthers) != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: users other than its owner may read this key (mode %03o): chmod 600, if none of them has read it", path,
        found.st_mode & 0777));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::string contents, ReadFile(path));
  KeyBytes bytes = {};
  const bool fits = contents.size() == bytes.size();
  if (fits) {
    std::copy(contents.begin(), contents.end(), bytes.begin());
  }
  SecretKey key(bytes);
  // Copies of the secret are wiped whether or not it fits.
  OPENSSL_cleanse(bytes.data(), bytes.size());
  OPENSSL_cleanse(contents.data(), contents.size());
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a noise key of ", sizeof(KeyBytes), " bytes, found ", contents.size()));
  }
  return key;
}

}  // namespace

// Beside the checkpoints and with their lifetime: move both together.
std::string NoiseKeyPath(const std::string& checkpoint_path) {
  return checkpoint_path.empty() ? "" : checkpoint_path + kNoiseKeySuffix;
}

absl::StatusOr<SecretKey> OpenNoiseKey(const std::string& path, bool continues) {
  absl::StatusOr<SecretKey> kept = Read(path);
  if (!absl::IsNotFound(kept.status())) {
    return kept;
  }
  // A new key here would be a second draw of noise on gradients that the peer already has (rule 2).
  if (continues) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": the noise key of the run that was interrupted is missing: without it, steps that were sent "
                     "would be sent again with a different draw of noise; restore it, or set restart"));
  }
  // Only for a new run: nothing has been drawn under a different key that could be averaged with this one.
  const SecretKey key = SecretKey::Generate();
  const absl::Status made =
      CreateFile(path, {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()}, kOwnerOnly);
  // Another process may have made one at the same time: what has the name is the key of both.
  return made.ok() || absl::IsAlreadyExists(made) ? Read(path) : made;
}

absl::Status CheckNoiseKey(const std::string& path) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  const absl::Status status = Read(path).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace splitveil
