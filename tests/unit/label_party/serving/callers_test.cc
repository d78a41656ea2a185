// Who a request is of, and how much a caller may ask for.
#include "label_party/serving/callers.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

class CallersTest : public ::testing::Test {
 protected:
  v1::Caller& Add(const std::string& name, const std::string& token) {
    v1::Caller& caller = *config_.add_callers();
    caller.set_name(name);
    if (!token.empty()) {
      std::ofstream(files_.File(name)) << token << "\n";
      std::filesystem::permissions(files_.File(name), std::filesystem::perms::owner_read);
      caller.set_token_path(files_.File(name));
    }
    return caller;
  }
  absl::StatusOr<std::unique_ptr<Callers>> Create(const v1::GradientProtection& protection = {}) {
    return Callers::Create(config_, protection, [this] { return now_; });
  }
  static std::string NameOf(const Callers& callers, const CallerProof& proof) {
    const absl::StatusOr<Callers::Caller> caller = callers.Admit(proof);
    EXPECT_EQ(callers.Knows(proof), caller.ok());
    return caller.ok() ? caller->name : std::string(absl::StatusCodeToString(caller.status().code()));
  }

  const TempFolder files_;
  v1::ServingConfig config_;
  SteadyTime now_ = SteadyNow();
};

TEST_F(CallersTest, ATokenOrACertificateShowsWho) {
  Add("app", "0123456789abcdef");
  Add("gateway", "").set_certificate_name("gateway.example");
  config_.set_caller_authority_path("authority.pem");
  const auto callers = *Create();
  EXPECT_EQ(NameOf(*callers, {false, "Bearer 0123456789abcdef", {}}), "app");
  EXPECT_EQ(NameOf(*callers, {false, "bearer 0123456789abcdef", {}}), "app");
  EXPECT_EQ(NameOf(*callers, {false, "", {"other.example", "Gateway.example"}}), "gateway");
  EXPECT_EQ(NameOf(*callers, {true, "", {}}), "owner");
  // A token that is shown decides.
  EXPECT_EQ(NameOf(*callers, {false, "Bearer 0123456789abcdef", {"gateway.example"}}), "app");
  for (const CallerProof& proof : {CallerProof{},
                                   {false, "0123456789abcdef", {}},
                                   {false, "Bearer ", {}},
                                   {false, "Bearer 0123456789abcdeg", {}},
                                   {false, "Bearer 0123456789abcdef\n", {}},
                                   {false, "", {"example"}},
                                   {false, "", {""}},
                                   {false, "Bearer wrong", {"gateway.example"}}}) {
    EXPECT_EQ(NameOf(*callers, proof), "UNAUTHENTICATED") << proof.authorization;
  }
}

TEST_F(CallersTest, ADayHasSoManyAnswersAndBeginsWithTheFirst) {
  Add("app", "0123456789abcdef").set_daily_answers(10);
  Add("other", "fedcba9876543210");
  const auto callers = *Create();
  Callers::Caller app = *callers->Admit({false, "Bearer 0123456789abcdef", {}});
  EXPECT_TRUE(callers->Charge(app, 7).ok());
  EXPECT_EQ(callers->Charge(app, 4).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(callers->Charge(app, 3).ok());
  now_ += std::chrono::hours(23);
  EXPECT_EQ(callers->Charge(app, 1).code(), absl::StatusCode::kResourceExhausted);
  for (const CallerProof& proof : {CallerProof{false, "Bearer fedcba9876543210", {}}, {true, "", {}}}) {
    Callers::Caller unlimited = *callers->Admit(proof);
    EXPECT_TRUE(callers->Charge(unlimited, 1'000'000'000).ok());
    callers->GiveBack(unlimited, 1'000'000'000);
  }
  callers->GiveBack(app, 2);  // Of a request that got no answer.
  EXPECT_EQ(callers->Charge(app, 3).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(callers->Charge(app, 2).ok());
  Callers::Caller yesterdays = *callers->Admit({false, "Bearer 0123456789abcdef", {}});
  yesterdays.charged = app.charged;
  now_ += std::chrono::hours(1);
  EXPECT_TRUE(callers->Charge(app, 10).ok());
  callers->GiveBack(yesterdays, 2);
  EXPECT_EQ(callers->Charge(app, 1).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CallersTest, ACallerHasSoManyRequestsUnderWay) {
  Add("app", "0123456789abcdef");
  Add("other", "fedcba9876543210");
  const auto callers = *Create();
  const CallerProof app = {false, "Bearer 0123456789abcdef", {}}, socket = {true, "", {}};
  std::vector<Callers::Caller> under_way, own;
  for (int i = 0; i < Callers::kMostUnderWay; ++i) {
    under_way.push_back(*callers->Admit(app));
    own.push_back(*callers->Admit(socket));
  }
  EXPECT_EQ(callers->Admit(app).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(callers->Knows(app));
  EXPECT_TRUE(callers->Admit({false, "Bearer fedcba9876543210", {}}).ok());
  EXPECT_TRUE(callers->Admit(socket).ok());  // Nobody else can open it.
  under_way.pop_back();
  EXPECT_TRUE(callers->Admit(app).ok());
  under_way.clear();
  EXPECT_TRUE(callers->Admit(app).ok());
}

// Fails closed: every protection, of today and to come, but the one whose head learns from noised labels alone.
TEST_F(CallersTest, OutsideNeedsAHeadThatLearnsFromNoisedLabels) {
  Add("shop", "0123456789abcdef").set_outside(true);
  v1::GradientProtection protection;
  EXPECT_FALSE(Create(protection).ok());
  const google::protobuf::OneofDescriptor& methods = *v1::GradientProtection::descriptor()->oneof_decl(0);
  EXPECT_GE(methods.field_count(), 8);
  for (int i = 0; i < methods.field_count(); ++i) {
    protection.GetReflection()->MutableMessage(&protection, methods.field(i));
    EXPECT_EQ(Create(protection).status().code(), absl::StatusCode::kInvalidArgument) << methods.field(i)->name();
  }
  // Or limits on what nothing bounds.
  config_.mutable_unproved_answers();
  EXPECT_TRUE((*Create(protection))->Admit({false, "Bearer 0123456789abcdef", {}})->outside);
  config_.mutable_callers(0)->clear_outside();
  EXPECT_EQ(Create(protection).status().message(), "unproved_answers: no caller is outside: remove it, or mark one");
  config_.mutable_callers(0)->set_outside(true);
  config_.clear_unproved_answers();

  protection.mutable_gaussian_label_dp()->set_sigma(4);
  EXPECT_EQ(Create(protection).status().code(), absl::StatusCode::kInvalidArgument);
  protection.mutable_gaussian_label_dp()->set_release_head_predicts(true);
  const auto callers = Create(protection);
  ASSERT_TRUE(callers.ok()) << callers.status();
  EXPECT_TRUE((*callers)->Admit({false, "Bearer 0123456789abcdef", {}})->outside);
}

TEST_F(CallersTest, ATokenThatOthersMayReadIsRefused) {
  Add("app", "0123456789abcdef");
  std::filesystem::permissions(files_.File("app"), std::filesystem::perms(0644));
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(files_.File("app"));
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace splitveil::testing
