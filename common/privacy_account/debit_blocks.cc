#include "common/privacy_account/debit_blocks.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Example = std::array<uint8_t, 12>;

// Of a block: SQLite keeps a row of up to 1,002 bytes in its page of 4,096, and four of these fill one. Larger rows
// take less time by little, and a debit of few examples rewrites more.
constexpr size_t kMaxBlockBytes = 960;
// Of a transaction. Of blocks a page each and its copy in the journal are written: 160 MB.
constexpr size_t kMaxExamples = 1'000'000;
constexpr int64_t kMaxBlocks = 20'000;

absl::Status Damaged() {
  return absl::DataLossError(
      "a block of debits cannot be read: the file is damaged; restore its latest backup, and count again what was "
      "released since");
}

// The examples of a block, one after the other.
class BlockReader {
 public:
  explicit BlockReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  bool done() const { return done_; }
  const Example& example() const { return example_; }
  std::vector<CountedDraws>& debits() { return debits_; }

  // To the first, and each next one. Error: DataLoss.
  absl::Status Next() {
    done_ = bytes_.empty();
    if (done_) {
      return absl::OkStatus();
    }
    if (bytes_.size() < example_.size()) {
      return Damaged();
    }
    const Example earlier = std::exchange(example_, Example());
    std::copy_n(bytes_.begin(), example_.size(), example_.begin());
    bytes_.remove_prefix(example_.size());
    bool valid = debits_.empty() || earlier < example_;
    const uint64_t count = Number(valid);
    debits_.clear();
    for (uint64_t i = 0; i < count && valid; ++i) {
      const auto next = [&] { return static_cast<int64_t>(Number(valid)); };
      CountedDraws debit;
      debit.release = next();
      debit.draws = next();
      debit.label = next();
      debits_.push_back(debit);
      valid = valid && debit.draws > 0;
    }
    // An example without a debit has no place in the table.
    return valid && count > 0 ? absl::OkStatus() : Damaged();
  }

 private:
  uint64_t Number(bool& valid) {
    uint64_t number = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const uint8_t byte = bytes_.front();
      bytes_.remove_prefix(1);
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return number;
      }
    }
    valid = false;
    return 0;
  }

  absl::Span<const uint8_t> bytes_;
  bool done_ = false;
  Example example_ = {};
  std::vector<CountedDraws> debits_;
};

// The examples of a block, or of several that are to take its place.
class BlockWriter {
 public:
  void Add(const Example& example, absl::Span<const CountedDraws> debits) {
    if (debits.empty()) {
      return;
    }
    bytes_.insert(bytes_.end(), example.begin(), example.end());
    Number(debits.size());
    for (const CountedDraws& debit : debits) {
      for (const int64_t number : {debit.release, debit.draws, debit.label}) {
        Number(static_cast<uint64_t>(number));
      }
    }
    ends_.push_back(bytes_.size());
  }

  // Calls `write` with where each block begins, the first at `first`, and its bytes. Halves of one that was too large
  // are of one size, so that either has room for what comes.
  template <typename Write>
  absl::Status Finish(const Example& first, const Write& write) const {
    const size_t even = bytes_.size() / (bytes_.size() / kMaxBlockBytes + 1);
    size_t begin = 0;
    for (size_t i = 0; i < ends_.size(); ++i) {
      const bool is_last = i + 1 == ends_.size();
      if (is_last || ends_[i] - begin >= even || ends_[i + 1] - begin > kMaxBlockBytes) {
        const absl::Span<const uint8_t> block = absl::MakeConstSpan(bytes_).subspan(begin, ends_[i] - begin);
        SPLITVEIL_RETURN_IF_ERROR(write(begin == 0 ? absl::MakeConstSpan(first) : block.first(first.size()), block));
        begin = ends_[i];
      }
    }
    return absl::OkStatus();
  }

 private:
  void Number(uint64_t number) {
    for (; number >= 0x80; number >>= 7) {
      bytes_.push_back(static_cast<uint8_t>(number | 0x80));
    }
    bytes_.push_back(static_cast<uint8_t>(number));
  }

  std::vector<uint8_t> bytes_;
  std::vector<size_t> ends_;  // Of each example.
};

struct Block {
  Example first = {};
  std::vector<uint8_t> bytes;
  bool is_last = true;
  Example end = {};  // Where the next one begins.

  bool Covers(const Example& example) const { return is_last || example < end; }
};

Example ExampleOf(const std::vector<uint8_t>& blob) {
  Example example = {};
  std::copy_n(blob.begin(), std::min(blob.size(), example.size()), example.begin());
  return example;
}

constexpr char kFind[] =
    "SELECT first, examples, (SELECT min(first) FROM debit WHERE first > ?1) FROM debit WHERE first <= ?1 "
    "ORDER BY first DESC LIMIT 1";

// The block that has `example`, or would have it. Error: DataLoss where there is none.
absl::StatusOr<Block> FindBlock(SqliteStatement& find, const Example& example) {
  SPLITVEIL_RETURN_IF_ERROR(find.Bind(absl::MakeConstSpan(example)));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool found, find.Next());
  if (!found) {
    return Damaged();
  }
  const std::vector<uint8_t> end = find.Blob(2);
  return Block{ExampleOf(find.Blob(0)), find.Blob(1), end.empty(), ExampleOf(end)};
}

}  // namespace

const char kDebitTable[] = R"sql(
CREATE TABLE debit(
  first BLOB PRIMARY KEY CHECK (length(first) = 12),
  examples BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO debit VALUES (zeroblob(12), zeroblob(0));
)sql";

std::vector<uint32_t> InTableOrder(absl::Span<const NoiseRow> examples) {
  // Shared out by the first two bytes and sorted within a share, which a processor's cache holds: in one sort of tens
  // of millions each comparison would wait for memory.
  const auto share_of = [&](size_t i) { return size_t{examples[i].bytes()[0]} << 8 | examples[i].bytes()[1]; };
  std::vector<size_t> begins(65'537);
  for (size_t i = 0; i < examples.size(); ++i) {
    ++begins[share_of(i) + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<size_t> ends = begins;
  std::vector<uint32_t> order(examples.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    order[ends[share_of(i)]++] = static_cast<uint32_t>(i);
  }
  for (size_t share = 0; share + 1 < begins.size(); ++share) {
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(begins[share]),
              order.begin() + static_cast<std::ptrdiff_t>(begins[share + 1]),
              [&](uint32_t a, uint32_t b) { return examples[a].bytes() < examples[b].bytes(); });
  }
  return order;
}

absl::Status ForEachExample(SqliteDatabase& database, absl::Span<const NoiseRow> examples, bool writes,
                            absl::FunctionRef<absl::Status(uint32_t, std::vector<CountedDraws>&)> visit,
                            absl::Span<const uint32_t>& left) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement find, database.Prepare(kFind));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement replace, database.Prepare("REPLACE INTO debit VALUES (?1, ?2)"));
  const size_t least_left = left.size() - std::min(left.size(), kMaxExamples);
  const auto next = [&]() -> const Example& { return examples[left.front()].bytes(); };
  std::vector<CountedDraws> debits;
  for (int64_t blocks = 0; left.size() > least_left && blocks < kMaxBlocks; ++blocks) {
    SPLITVEIL_ASSIGN_OR_RETURN(const Block block, FindBlock(find, next()));
    BlockReader there(block.bytes);
    BlockWriter written;
    // What the block has below `end`, or all of it.
    const auto keep_until = [&](const Example* end) -> absl::Status {
      while (!there.done() && (end == nullptr || there.example() < *end)) {
        if (writes) {
          written.Add(there.example(), there.debits());
        }
        SPLITVEIL_RETURN_IF_ERROR(there.Next());
      }
      return absl::OkStatus();
    };
    SPLITVEIL_RETURN_IF_ERROR(there.Next());
    while (left.size() > least_left && block.Covers(next())) {
      const Example& example = next();
      SPLITVEIL_RETURN_IF_ERROR(keep_until(&example));
      debits.clear();
      if (!there.done() && there.example() == example) {
        debits = there.debits();
        SPLITVEIL_RETURN_IF_ERROR(there.Next());
      }
      // An example that is there twice is one: its second visit finds what the first has made of it.
      for (; !left.empty() && next() == example; left.remove_prefix(1)) {
        SPLITVEIL_RETURN_IF_ERROR(visit(left.front(), debits));
      }
      if (writes) {
        written.Add(example, debits);
      }
    }
    if (writes) {
      SPLITVEIL_RETURN_IF_ERROR(keep_until(nullptr));
      SPLITVEIL_RETURN_IF_ERROR(written.Finish(
          block.first,
          [&](absl::Span<const uint8_t> first, absl::Span<const uint8_t> bytes) { return replace.Run(first, bytes); }));
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
