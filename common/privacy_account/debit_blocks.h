// The privacy account's table `debit`: what has been released of each example, many examples a row.
#ifndef SPLITVEIL_COMMON_PRIVACY_ACCOUNT_DEBIT_BLOCKS_H_
#define SPLITVEIL_COMMON_PRIVACY_ACCOUNT_DEBIT_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

// How many draws of one strength an example was released with. The same draw released again discloses nothing new, and
// counts once.
struct CountedDraws {
  int64_t release = 0;  // Number in the table `release`.
  int64_t draws = 0;    // At least 1.
  // That the noise was added to. Kept because the same noise on a changed label would reveal the difference.
  int64_t label = 0;
};

// The table `debit`. A row is a block: the examples from `first` up to the `first` of the next block, in ascending
// order of their 12 bytes. An example is these bytes, the number of its releases, and of each its number, draws and
// label, all as varints (7 bits a byte, the lowest first; the high bit on all but the last). With a row for each of
// them a debit takes several times as long.
//
// The table is made with an empty block that begins at zero, so that there is a block for every example.
extern const char kDebitTable[];

// The indices of `examples` in the order of the table, so that a pass over many of them reads it once.
std::vector<uint32_t> InTableOrder(absl::Span<const NoiseRow> examples);

// Calls `visit` with the first indices of `left` (of InTableOrder's, or some of them) and what the table has of these
// examples, and removes them from `left`. `writes`: the table then has what `visit` made of it. A transaction's worth:
// a million examples, or 20,000 blocks, so that other runs on the account need not wait for long. Within a transaction.
// Errors: of `visit`; DataLoss where a block is damaged; as SqliteDatabase.
absl::Status ForEachExample(SqliteDatabase& database, absl::Span<const NoiseRow> examples, bool writes,
                            absl::FunctionRef<absl::Status(uint32_t, std::vector<CountedDraws>&)> visit,
                            absl::Span<const uint32_t>& left);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_ACCOUNT_DEBIT_BLOCKS_H_
