#include "common/privacy_account/debit_blocks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/account_contents.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

std::string BytesOf(const NoiseRow& row) { return {row.bytes().begin(), row.bytes().end()}; }

absl::Span<const uint8_t> SpanOf(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

std::vector<NoiseRow> Ids(int count) {
  std::vector<NoiseRow> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back(NoiseRow::OfId(absl::StrCat("id-", i)));
  }
  return rows;
}

class DebitBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(database_->Execute("PRAGMA synchronous = OFF").ok());
    ASSERT_TRUE(database_->Execute(kDebitTable).ok());
  }

  using Visit = std::function<absl::Status(uint32_t, std::vector<CountedDraws>&)>;
  // In one transaction: how many it has taken.
  absl::StatusOr<size_t> ForEach(const std::vector<NoiseRow>& rows, bool writes, const Visit& visit) {
    EXPECT_TRUE(database_->Execute("BEGIN").ok());
    const std::vector<uint32_t> order = InTableOrder(rows);
    absl::Span<const uint32_t> left = order;
    const absl::Status status = ForEachExample(*database_, rows, writes, visit, left);
    EXPECT_TRUE(database_->Execute("COMMIT").ok());
    return status.ok() ? absl::StatusOr<size_t>(rows.size() - left.size()) : status;
  }
  absl::Status Read(const std::vector<NoiseRow>& rows) {
    return ForEach(rows, false, [](uint32_t, std::vector<CountedDraws>&) { return absl::OkStatus(); }).status();
  }
  int64_t Number(const char* sql) { return *database_->QueryInt64(sql); }

  const ScratchFolder folder_;
  const std::string path_ = folder_.Path("account.db");
  const std::unique_ptr<SqliteDatabase> database_ = *SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
};

TEST_F(DebitBlocksTest, ExamplesAreInTheOrderOfTheirBytes) {
  std::vector<NoiseRow> rows = Ids(3'000);
  const std::vector<NoiseRow> numbered = NumberedNoiseRows(300);
  rows.insert(rows.end(), numbered.rbegin(), numbered.rend());
  const std::vector<uint32_t> order = InTableOrder(rows);
  std::vector<std::string> ordered, sorted;
  for (const uint32_t i : order) {
    ordered.push_back(BytesOf(rows[i]));
  }
  for (const NoiseRow& row : rows) {
    sorted.push_back(BytesOf(row));
  }
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(ordered, sorted);
  EXPECT_TRUE(InTableOrder({}).empty());
}

// Transactions of a few and of many examples, some of them twice, that add debits and raise them: each finds what a map
// has of its examples, and the file has the same.
TEST_F(DebitBlocksTest, HasWhatAMapOfTheExamplesHas) {
  const std::vector<NoiseRow> rows = Ids(2'000);
  std::mt19937 random(20261128);
  AccountContents expected;
  for (int transaction = 0; transaction < 120; ++transaction) {
    std::vector<NoiseRow> some;
    for (uint32_t count = transaction % 5 == 0 ? 1'500 : random() % 20; count > 0; --count) {
      some.push_back(rows[random() % rows.size()]);
    }
    const int64_t large = int64_t{1} << random() % 62;
    const absl::StatusOr<size_t> taken =
        ForEach(some, /*writes=*/true, [&](uint32_t i, std::vector<CountedDraws>& debits) {
          auto& known = expected[BytesOf(some[i])];
          EXPECT_EQ(debits.size(), known.size());
          for (size_t j = 0; j < std::min(debits.size(), known.size()); ++j) {
            EXPECT_EQ((std::array<int64_t, 3>{debits[j].release, debits[j].draws, debits[j].label}), known[j]);
          }
          if (known.empty() || random() % 4 == 0) {
            known.push_back({transaction * (large / 1'000), large, static_cast<int64_t>(random())});
            debits.push_back({known.back()[0], known.back()[1], known.back()[2]});
          } else {
            debits.back().draws = known.back()[1] = large;
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(*taken, some.size());
    ASSERT_EQ(ReadAccount(path_), expected) << transaction;
  }
  EXPECT_GT(Number("SELECT count(*) FROM debit"), 50);
}

TEST_F(DebitBlocksTest, AnExampleThatNothingWasReleasedOfIsNotThere) {
  const std::vector<NoiseRow> rows = Ids(100);
  const auto of_some = [&](uint32_t i, std::vector<CountedDraws>& debits) {
    if (i % 10 == 3) {
      debits.push_back({1, 1, 0});
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(ForEach(rows, /*writes=*/true, of_some).ok());
  EXPECT_EQ(ReadAccount(path_).size(), 10);
  ASSERT_TRUE(ForEach(rows, /*writes=*/false, [](uint32_t, std::vector<CountedDraws>& debits) {
                debits.push_back({2, 1, 0});
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(ReadAccount(path_).size(), 10);  // Not written.
}

// A full block becomes two halves, whichever of its examples come late, and no row passes what a page holds in itself.
TEST_F(DebitBlocksTest, BlocksStaySmallAndAreFull) {
  const std::vector<NoiseRow> rows = Ids(20'000);
  const auto once = [](uint32_t, std::vector<CountedDraws>& debits) {
    debits.push_back({static_cast<int64_t>(debits.size()) + 1, 1, 0});
    return absl::OkStatus();
  };
  const auto widest = [&] { return Number("SELECT max(length(examples)) FROM debit"); };
  const auto average = [&] { return Number("SELECT sum(length(examples)) / count(*) FROM debit"); };
  ASSERT_TRUE(ForEach(rows, /*writes=*/true, once).ok());
  EXPECT_LE(widest(), 980);
  EXPECT_GE(average(), 930);
  for (int release = 0; release < 5; ++release) {
    ASSERT_TRUE(ForEach(rows, /*writes=*/true, once).ok());
    EXPECT_LE(widest(), 980);
    EXPECT_GE(average(), 480);
  }
  ASSERT_TRUE(database_->Execute("BEGIN").ok());
  for (const NoiseRow& row : Ids(21'000)) {  // One by one.
    const uint32_t first = 0;
    absl::Span<const uint32_t> left = {&first, 1};
    ASSERT_TRUE(ForEachExample(*database_, {row}, /*writes=*/true, once, left).ok());
  }
  ASSERT_TRUE(database_->Execute("COMMIT").ok());
  EXPECT_LE(widest(), 980);
  EXPECT_GE(average(), 480);
  EXPECT_EQ(ReadAccount(path_).size(), 21'000);
}

// With a block for each example: what comes after 20,000 blocks is left to the next transaction, and none is missed.
TEST_F(DebitBlocksTest, ATransactionTakesSoManyBlocksAndTheNextOneTheRest) {
  const std::vector<NoiseRow> rows = NumberedNoiseRows(45'000);
  SqliteStatement insert = *database_->Prepare("INSERT OR REPLACE INTO debit VALUES (?1, ?2)");
  ASSERT_TRUE(database_->Execute("BEGIN").ok());
  for (const NoiseRow& row : rows) {
    const std::string block = BytesOf(row) + std::string("\1\1\1\0", 4);
    ASSERT_TRUE(insert.Run(absl::MakeConstSpan(row.bytes()), SpanOf(block)).ok());
  }
  ASSERT_TRUE(database_->Execute("COMMIT").ok());
  for (const bool writes : {false, true}) {
    std::vector<int> visits(rows.size());
    std::vector<NoiseRow> left = rows;
    std::vector<size_t> taken;
    while (!left.empty()) {
      const size_t first = rows.size() - left.size();
      taken.push_back(*ForEach(left, writes, [&](uint32_t i, std::vector<CountedDraws>& debits) {
        ++visits[first + i];
        debits.front().draws += 1;
        return absl::OkStatus();
      }));
      left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(taken.back()));
    }
    EXPECT_EQ(taken, (std::vector<size_t>{20'000, 20'000, 5'000}));
    EXPECT_THAT(visits, ::testing::Each(1));
    EXPECT_THAT(ReadAccount(path_), ::testing::SizeIs(rows.size()));
    EXPECT_EQ(DrawsOf(ReadAccount(path_).begin()->second), writes ? 2 : 1);
  }
}

TEST_F(DebitBlocksTest, ABlockThatIsDamagedIsAnError) {
  const std::vector<NoiseRow> rows = Ids(3);
  ASSERT_TRUE(ForEach(rows, /*writes=*/true, [](uint32_t, std::vector<CountedDraws>& debits) {
                debits.push_back({200, 1, 0});  // 17 bytes.
                return absl::OkStatus();
              }).ok());
  ASSERT_TRUE(Read(rows).ok());
  const std::vector<uint8_t> bytes = [&] {
    SqliteStatement select = *database_->Prepare("SELECT examples FROM debit");
    EXPECT_TRUE(*select.Next());
    return select.Blob(0);
  }();
  ASSERT_EQ(bytes.size(), 3 * 17);
  SqliteStatement update = *database_->Prepare("UPDATE debit SET examples = ?1");
  const auto read = [&](absl::Span<const uint8_t> block) {
    EXPECT_TRUE(update.Run(block).ok());
    return Read(NumberedNoiseRows(1)).ok() ? Read(rows) : Read(NumberedNoiseRows(1));
  };
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(absl::IsDataLoss(read(absl::MakeConstSpan(bytes).first(size))), size % 17 != 0) << size;
  }
  const auto changed = [&](size_t at, uint8_t value) {
    std::vector<uint8_t> other = bytes;
    other[at] = value;
    return read(other);
  };
  EXPECT_TRUE(absl::IsDataLoss(changed(12, 0)));                                 // No debit.
  EXPECT_TRUE(absl::IsDataLoss(changed(15, 0)));                                 // No draw.
  EXPECT_TRUE(absl::IsDataLoss(changed(17, bytes[0] == 0 ? 0 : bytes[0] - 1)));  // Out of order.
  const std::string endless = BytesOf(rows[0]) + "\1\1\1" + std::string(11, '\xff');
  EXPECT_TRUE(absl::IsDataLoss(read(SpanOf(endless))));
  ASSERT_TRUE(database_->Execute("DELETE FROM debit").ok());
  EXPECT_TRUE(absl::IsDataLoss(Read(rows)));
}

}  // namespace
}  // namespace splitveil
