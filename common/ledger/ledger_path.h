// Whether a run can record where its configuration says.
#ifndef SPLITVEIL_COMMON_LEDGER_LEDGER_PATH_H_
#define SPLITVEIL_COMMON_LEDGER_LEDGER_PATH_H_

#include <string>

#include "absl/status/status.h"

namespace splitveil {

// OK where `path` is a ledger of this version that may be written, or where a new one can be made. Makes none. Errors:
// NotFound for a folder that does not exist; InvalidArgument for another file, a ledger of another version, or one
// that may not be written, as one line that begins with the path; else as SqliteDatabase.
absl::Status CheckLedgerPath(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_LEDGER_PATH_H_
