#include <gtest/gtest.h>
#include <string>

#include "absl/strings/escaping.h"

#include "common/schedule/schedule.h"

namespace splitveil {
namespace {

// first, first + 1, ..., 32 bytes.
std::string Counting(uint8_t first) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) {
    bytes.push_back(static_cast<char>(first + i));
  }
  return bytes;
}

std::string Flipped(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

class SeedExchangeTest : public ::testing::Test {
 protected:
  absl::StatusCode CombineCode(const std::string& commitment, const std::string& reveal) {
    return label_.Combine(commitment, reveal).status().code();
  }

  const SeedExchange label_ = *SeedExchange::Create(SeedRole::kLabelParty, Counting(0));
  const SeedExchange nonlabel_ = *SeedExchange::Create(SeedRole::kNonLabelParty, Counting(100));
};

// Expected values: computed with Python's hashlib from the definition in the header.
TEST_F(SeedExchangeTest, MatchesAnIndependentImplementation) {
  EXPECT_EQ(absl::BytesToHexString(label_.commitment()),
            "870047da0bb49b0ab318082eaf0949ba22b8c19f7f6c713519c588fdd964a4af");
  EXPECT_EQ(absl::BytesToHexString(nonlabel_.commitment()),
            "919384edd17d3e0f6ff7b0a30278f8c145b96501ce05f706d32211c0891f52ff");
  EXPECT_EQ(absl::BytesToHexString(AsBytes(*label_.Combine(nonlabel_.commitment(), nonlabel_.reveal()))),
            "4b4696dd89d56ab29cbbafd5fb3172ac09e769c7cf9a2f9f5f46b98ab108dd53");
}

TEST_F(SeedExchangeTest, BothPartiesGetTheSameSeed) {
  const absl::StatusOr<JointSeed> at_label = label_.Combine(nonlabel_.commitment(), nonlabel_.reveal());
  const absl::StatusOr<JointSeed> at_nonlabel = nonlabel_.Combine(label_.commitment(), label_.reveal());
  ASSERT_TRUE(at_label.ok() && at_nonlabel.ok());
  EXPECT_EQ(*at_label, *at_nonlabel);
}

TEST_F(SeedExchangeTest, EachContributionChangesTheSeed) {
  const JointSeed seed = *label_.Combine(nonlabel_.commitment(), nonlabel_.reveal());
  const auto other_label = *SeedExchange::Create(SeedRole::kLabelParty, Flipped(Counting(0), 31));
  const auto other_nonlabel = *SeedExchange::Create(SeedRole::kNonLabelParty, Flipped(Counting(100), 0));
  EXPECT_NE(*other_label.Combine(nonlabel_.commitment(), nonlabel_.reveal()), seed);
  EXPECT_NE(*label_.Combine(other_nonlabel.commitment(), other_nonlabel.reveal()), seed);
}

TEST_F(SeedExchangeTest, CreateFailsForAnotherLength) {
  for (size_t bytes : {0, 31, 33, 64}) {
    EXPECT_EQ(SeedExchange::Create(SeedRole::kLabelParty, std::string(bytes, 'x')).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bytes;
  }
}

TEST_F(SeedExchangeTest, CombineFailsForATamperedReveal) {
  for (size_t at : {0, 15, 31}) {
    EXPECT_EQ(CombineCode(nonlabel_.commitment(), Flipped(nonlabel_.reveal(), at)),
              absl::StatusCode::kPermissionDenied);
  }
}

TEST_F(SeedExchangeTest, CombineFailsForATamperedCommitment) {
  for (size_t at : {0, 15, 31}) {
    EXPECT_EQ(CombineCode(Flipped(nonlabel_.commitment(), at), nonlabel_.reveal()),
              absl::StatusCode::kPermissionDenied);
  }
}

TEST_F(SeedExchangeTest, CombineFailsForAPeerThatEchoesUs) {
  EXPECT_EQ(CombineCode(label_.commitment(), label_.reveal()), absl::StatusCode::kPermissionDenied);
}

TEST_F(SeedExchangeTest, CombineFailsForTwoPartiesOfTheSameRole) {
  const auto other_label = *SeedExchange::Create(SeedRole::kLabelParty, Counting(100));
  EXPECT_EQ(CombineCode(other_label.commitment(), other_label.reveal()), absl::StatusCode::kPermissionDenied);
}

TEST_F(SeedExchangeTest, CombineFailsForAnotherLength) {
  for (size_t bytes : {0, 31, 33}) {
    const std::string wrong = (nonlabel_.reveal() + "x").substr(0, bytes);
    EXPECT_EQ(CombineCode(nonlabel_.commitment(), wrong), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_EQ(CombineCode((nonlabel_.commitment() + "x").substr(0, bytes), nonlabel_.reveal()),
              absl::StatusCode::kInvalidArgument)
        << bytes;
  }
}

TEST_F(SeedExchangeTest, ErrorsNeverQuoteAContribution) {
  const std::string planted = "planted-contribution-of-32-bytes";
  const absl::Status status = label_.Combine(nonlabel_.commitment(), planted).status();
  EXPECT_EQ(status.message().find("planted"), absl::string_view::npos);
}

}  // namespace
}  // namespace splitveil
