#include "nonlabel_party/protection/activation_protection.h"

#include <gtest/gtest.h>
#include <string>

#include "google/protobuf/text_format.h"

#include "common/config/agreement.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

ActivationProtection Parse(const std::string& text) {
  ActivationProtection protection;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &protection)) << text;
  return protection;
}

v1::Preprocessing SexAndRelationship() {
  v1::Preprocessing data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "attributes { name: 'sex' values: ['Female', 'Male'] }"
      "attributes { name: 'relationship' values: ['Husband', 'Wife', 'Unmarried'] }",
      &data));
  return data;
}

TEST(ActivationProtectionTest, FindsTheColumns) {
  const auto found = CheckActivationProtection(
      Parse("pareto { threshold: 0.1 } noise_sigma: 1 attributes: 'relationship'"), SexAndRelationship(), {}, {});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1);
  EXPECT_EQ((*found)[0].column, 1);
  EXPECT_EQ((*found)[0].values, 3);
}

TEST(ActivationProtectionTest, RefusesWhatDoesNotFit) {
  v1::RunAgreement pipelined;
  pipelined.set_in_flight_batches(2);
  v1::ModelSpec torchscript;
  torchscript.set_torchscript_path("model.pt");
  const std::string pareto = "pareto { threshold: 0.1 } noise_sigma: 1 attributes: 'sex'";
  const struct {
    std::string protection;
    v1::RunAgreement agreement;
    v1::ModelSpec model;
    std::string message;
  } cases[] = {
      {"linear { lambda: 1 } noise_sigma: 1", {}, {}, "protection.attributes: expected at least one"},
      {"linear { lambda: 1 } attributes: 'sex'", {}, {}, "protection.noise_sigma: expected at least 0.001"},
      {"pareto { threshold: 0.1 } noise_sigma: 1e-4 attributes: 'sex'", {}, {}, "expected at least 0.001"},
      {"linear { lambda: 1 } noise_sigma: 1 attributes: 'age'", {}, {}, "expected sex, relationship, found age"},
      {"gaussian {} noise_sigma: 1", {}, {}, "protection.clip_norm: expected above 0"},
      {"gaussian {} noise_sigma: 1 clip_norm: 1 attributes: 'sex'", {}, {}, "protection.attributes: expected none"},
      {"none {} noise_sigma: 1", {}, {}, "gaussian in its place"},
      {pareto, pipelined, {}, "in_flight_batches: 1"},
      {pareto, {}, torchscript, "TorchScript"},
  };
  for (const auto& refused : cases) {
    const absl::Status status =
        CheckActivationProtection(Parse(refused.protection), SexAndRelationship(), refused.agreement, refused.model)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << refused.protection;
    EXPECT_NE(status.message().find(refused.message), absl::string_view::npos) << status;
  }
}

TEST(ActivationProtectionTest, CountsTheReleasesOfATrainingExample) {
  v1::RunAgreement agreement;
  agreement.set_epochs(5);
  EXPECT_EQ(ActivationReleases(agreement), 5);
  agreement.set_progressive_validation(true);
  EXPECT_EQ(ActivationReleases(agreement), 6);
  agreement.set_epochs(1);
  EXPECT_EQ(ActivationReleases(agreement), 2);
  agreement.set_mode(v1::RunAgreement::PREDICT);
  Canonicalize(agreement);
  EXPECT_EQ(ActivationReleases(agreement), 1);
}

TEST(ActivationProtectionTest, Names) {
  EXPECT_EQ(ActivationProtectionName({}), "none");
  EXPECT_EQ(ActivationProtectionName(Parse("pareto { threshold: 0.005 } noise_sigma: 1")),
            "pareto(threshold=0.005, slack=0.5, noise_sigma=1)");
  EXPECT_EQ(ActivationProtectionName(Parse("gaussian {} noise_sigma: 2 clip_norm: 0.5")),
            "gaussian(clip_norm=0.5, noise_sigma=2)");
}

}  // namespace
}  // namespace splitveil
