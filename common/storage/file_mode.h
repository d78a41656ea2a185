// Who may read what a party writes.
#ifndef SPLITVEIL_COMMON_STORAGE_FILE_MODE_H_
#define SPLITVEIL_COMMON_STORAGE_FILE_MODE_H_

#include <sys/types.h>

namespace splitveil {

// Permissions of a file that its owner alone reads and writes: most of them tell of ids, labels or what leaks of them.
inline constexpr mode_t kOwnerOnly = 0600;

// Of what others may read: whatever the umask, none but the owner may put another certificate or agreement there.
inline constexpr mode_t kPublicMode = 0644;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_FILE_MODE_H_
