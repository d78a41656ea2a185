#include "common/workers/worker_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>

namespace splitveil {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::optional<WorkerPlace>> Find(const std::map<std::string, std::string>& variables) {
  return FindWorkerPlace([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(FindWorkerPlaceTest, ReadsWhatEachLauncherSets) {
  for (const auto& [rank, size] : {std::pair("RANK", "WORLD_SIZE"),
                                   {"JOB_COMPLETION_INDEX", "WORLD_SIZE"},
                                   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const auto place = Find({{rank, "2"}, {size, "4"}, {"MASTER_ADDR", "leader"}, {"MASTER_PORT", "29500"}});
    ASSERT_TRUE(place.ok()) << place.status();
    ASSERT_TRUE(place->has_value()) << rank;
    EXPECT_EQ((*place)->rank, 2);
    EXPECT_EQ((*place)->size, 4);
    EXPECT_EQ((*place)->leader_address, "leader:29500");
    EXPECT_FALSE((*place)->leads());
  }
}

TEST(FindWorkerPlaceTest, IsAloneWithoutThem) {
  EXPECT_EQ(*Find({}), std::nullopt);
  EXPECT_EQ(*Find({{"RANK", "0"}}), std::nullopt);
  EXPECT_EQ(*Find({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), std::nullopt);
}

TEST(FindWorkerPlaceTest, PutsBracketsAroundAnAddressOfIpv6) {
  const auto place = Find({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ((*place)->leader_address, "[fd00::1]:1");
  EXPECT_EQ(
      (*Find({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "[::1]"}, {"MASTER_PORT", "1"}}))->leader_address,
      "[::1]:1");
}

TEST(FindWorkerPlaceTest, NamesTheVariableThatIsWrong) {
  const std::map<std::string, std::string> right = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "leader"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : {std::pair("RANK", "2"),
                                    {"RANK", "-1"},
                                    {"RANK", "one"},
                                    {"WORLD_SIZE", "65"},
                                    {"WORLD_SIZE", "0"},
                                    {"MASTER_ADDR", ""},
                                    {"MASTER_PORT", "0"},
                                    {"MASTER_PORT", "65536"}}) {
    std::map<std::string, std::string> wrong = right;
    wrong[name] = value;
    const auto place = Find(wrong);
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument) << name << " " << value;
    EXPECT_THAT(place.status().message(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace splitveil
