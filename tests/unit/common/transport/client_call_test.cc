#include "common/transport/client_call.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

#include "common/config/text_config.h"
#include "common/process/exit_code.h"

#include "splitveil/v1/options.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

TEST(StatusMapperTest, OkMapsBothWays) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(FromGrpcStatus(grpc::Status::OK), absl::OkStatus());
  EXPECT_FALSE(RefusedByPeer(FromGrpcStatus(grpc::Status::OK)));
}

TEST(StatusMapperTest, WhereFilesLieStaysHere) {
  const auto sent = [](const char* message) { return ToGrpcStatus(absl::InternalError(message)).error_message(); };
  EXPECT_EQ(sent("/srv/run/a.db: cannot be written"), "a file: cannot be written");
  EXPECT_EQ(sent("ledger:/srv/My Data/a b.db: full [/tmp/x]"), "ledger:a file b.db: full [a file]");
  EXPECT_EQ(sent("it broke off (/srv/run/a.db), \"/etc/x y\" (path=/b)"),
            "it broke off (a file), \"a file y\" (path=a file)");
  for (const char* const plain : {"", "/", "resumed_from: demo-12/3+4 at the label party", "3 / 4 of https://a/b"}) {
    EXPECT_EQ(sent(plain), plain);
  }
}

// Sets every file and folder that a configuration can name.
void NameEveryFile(google::protobuf::Message& message, int depth = 0) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const std::string name = absl::StrCat("deep down/", field.name(), " of ours.bin");
    if (field.options().GetExtension(v1::path)) {
      field.is_repeated() ? reflection.AddString(&message, &field, name) : reflection.SetString(&message, &field, name);
    } else if (field.message_type() != nullptr && depth < 5) {
      NameEveryFile(
          field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field),
          depth + 1);
    }
  }
}

// Everything that either service tells a peer goes through ToGrpcStatus. The folder has a blank and is relative.
template <typename Config>
void ExpectNoFileIsTold() {
  Config config;
  NameEveryFile(config);
  ResolvePaths("../the bank/party.textproto", config);
  const std::vector<ConfigPath> paths = ListPaths(config);
  EXPECT_GT(paths.size(), 8);
  std::vector<std::string> told = {"../the bank/party.textproto:3:1: expected a number",
                                   "../the bank/unnamed.db: cannot be opened"};
  for (const ConfigPath& path : paths) {
    for (const std::string& file : {path.path, path.path + "-wal", path.path + ".answered.0123456789abcdef",
                                    path.path + "/checkpoint.3", std::filesystem::absolute(path.path).string()}) {
      told.insert(told.end(), {file + ": cannot be written: No space left on device",
                               absl::StrCat("party.ledger_path: expected a file, found \"", file, "\": a folder"),
                               absl::StrCat("restore it (", file, "), or delete ", file),
                               absl::StrCat("path=", file, ", ", file, ";", file)});
    }
  }
  for (const std::string& message : told) {
    const std::string sent = ToGrpcStatus(absl::InternalError(message)).error_message();
    EXPECT_THAT(sent, ::testing::Not(::testing::AnyOf(::testing::HasSubstr("the bank"), ::testing::HasSubstr("deep"),
                                                      ::testing::HasSubstr("down"), ::testing::HasSubstr("ours"))));
    EXPECT_THAT(sent, ::testing::HasSubstr("a file"));
  }
}

TEST(StatusMapperTest, NoErrorTellsAPeerWhereAPartyKeepsItsFiles) {
  ExpectNoFileIsTold<v1::LabelPartyConfig>();
  ExpectNoFileIsTold<v1::NonLabelPartyConfig>();
  // What is no path stays.
  EXPECT_EQ(ToGrpcStatus(absl::InternalError("label party: model.layers[1]")).error_message(),
            "label party: model.layers[1]");
}

TEST(StatusMapperTest, EveryErrorKeepsCodeAndMessageThereAndBack) {
  for (int code = 1; code <= 16; ++code) {
    if (code == static_cast<int>(absl::StatusCode::kUnknown)) {
      continue;  // No party says so: WhatGrpcHasNoCodeForIsALostConnection.
    }
    const absl::Status status(static_cast<absl::StatusCode>(code), "batch: expected 3, found 4");
    const grpc::Status sent = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(sent.error_code()), code);
    EXPECT_EQ(sent.error_message(), "batch: expected 3, found 4");
    const absl::Status received = FromGrpcStatus(sent);
    EXPECT_EQ(received.code(), status.code());
    EXPECT_EQ(received.message(), status.message());
  }
}

TEST(StatusMapperTest, HaltStaysAHaltThereAndBack) {
  const absl::Status halt = AsHalt(absl::ResourceExhaustedError("release gate: step 7"));
  const absl::Status received = FromGrpcStatus(ToGrpcStatus(halt));
  EXPECT_TRUE(IsHalt(received));
  EXPECT_TRUE(RefusedByPeer(received));
  EXPECT_EQ(ExitCodeFor(received), ExitCode::kHalted);
  EXPECT_EQ(received.message(), "release gate: step 7");
}

TEST(StatusMapperTest, ExhaustedResourceOfGrpcIsARefusalAndNoHalt) {
  const absl::Status received = FromGrpcStatus(grpc::Status(grpc::RESOURCE_EXHAUSTED, "splitveil/halted"));
  EXPECT_FALSE(IsHalt(received));
  EXPECT_EQ(ExitCodeFor(received), ExitCode::kRefused);
  const absl::Status unmarked = FromGrpcStatus(ToGrpcStatus(absl::ResourceExhaustedError("no thread left")));
  EXPECT_FALSE(IsHalt(unmarked));
  EXPECT_EQ(ExitCodeFor(unmarked), ExitCode::kRefused);
}

TEST(StatusMapperTest, DetailsThatAreNotTheMarkAreIgnored) {
  const std::string mark = "splitveil/halted";
  for (const std::string& details :
       {std::string(), mark + "2", mark.substr(1), mark + std::string(1, '\0'), std::string(4096, '\xff')}) {
    const absl::Status status = FromGrpcStatus(grpc::Status(grpc::RESOURCE_EXHAUSTED, "no", details));
    EXPECT_EQ(status, MarkRefusedByPeer(absl::ResourceExhaustedError("no")));
  }
}

TEST(StatusMapperTest, MarkOnAnyOtherCodeIsIgnored) {
  for (int code = 1; code <= 16; ++code) {
    if (code == grpc::RESOURCE_EXHAUSTED) {
      continue;
    }
    absl::Status status(static_cast<absl::StatusCode>(code), "no");
    status.SetPayload(kHaltedPayloadUrl, absl::Cord());
    EXPECT_EQ(ToGrpcStatus(status).error_details(), "") << code;
    const grpc::Status sent(static_cast<grpc::StatusCode>(code), "no", kHaltedPayloadUrl);
    EXPECT_FALSE(FromGrpcStatus(sent).GetPayload(kHaltedPayloadUrl).has_value()) << code;
  }
}

TEST(StatusMapperTest, OtherPayloadsStayInThisProcess) {
  absl::Status status = MarkRefusedByPeer(AsHalt(absl::ResourceExhaustedError("")));
  status.SetPayload("splitveil/other", absl::Cord("/home/party"));
  EXPECT_EQ(ToGrpcStatus(status).error_details(), "splitveil/halted");
  EXPECT_EQ(ToGrpcStatus(MarkRefusedByPeer(absl::NotFoundError(""))).error_details(), "");
}

TEST(StatusMapperTest, PeersDecisionIsARefusal) {
  for (const grpc::StatusCode code : {grpc::INVALID_ARGUMENT, grpc::PERMISSION_DENIED, grpc::FAILED_PRECONDITION,
                                      grpc::RESOURCE_EXHAUSTED, grpc::INTERNAL, grpc::UNAUTHENTICATED}) {
    EXPECT_TRUE(RefusedByPeer(FromGrpcStatus(grpc::Status(code, "no")))) << code;
  }
}

TEST(StatusMapperTest, PeersAbsenceIsNoRefusal) {
  for (const grpc::StatusCode code : {grpc::UNAVAILABLE, grpc::DEADLINE_EXCEEDED, grpc::CANCELLED}) {
    EXPECT_FALSE(RefusedByPeer(FromGrpcStatus(grpc::Status(code, "gone")))) << code;
  }
}

TEST(StatusMapperTest, OwnErrorIsNoRefusalUntilMarked) {
  absl::Status status = absl::NotFoundError("certificate");
  status.SetPayload("splitveil/other", absl::Cord("kept"));
  EXPECT_FALSE(RefusedByPeer(status));
  const absl::Status marked = MarkRefusedByPeer(status);
  EXPECT_TRUE(RefusedByPeer(marked));
  EXPECT_EQ(marked.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(marked.message(), "certificate");
  EXPECT_TRUE(marked.GetPayload("splitveil/other").has_value());
  EXPECT_EQ(MarkRefusedByPeer(absl::OkStatus()), absl::OkStatus());
}

// gRPC says so of connections that it lost at certain moments.
TEST(StatusMapperTest, WhatGrpcHasNoCodeForIsALostConnection) {
  for (const char* message : {"Stream removed", "Error in HTTP transport completing operation"}) {
    const absl::Status lost = FromGrpcStatus({grpc::StatusCode::UNKNOWN, message});
    EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(RefusedByPeer(lost));
  }
}

TEST(StatusMapperTest, CodeThatGrpcDoesNotKnowBecomesUnknown) {
  for (const int code : {-1, 17, 31}) {
    const absl::Status status = FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(code), "odd"));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnknown) << code;
    EXPECT_TRUE(RefusedByPeer(status)) << code;
  }
}

TEST(StatusMapperTest, PeersTextStaysOneLineWithoutEscapes) {
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::ABORTED, std::string("a\nb\r\x1b[31mc\0d\x7f", 12)));
  EXPECT_EQ(status.message(), "a b  [31mc d");
}

TEST(JitterTest, IsBetweenHalfOfAPauseAndAllOfIt) {
  std::set<absl::Duration> pauses;
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration pause = Jittered(absl::Seconds(2));
    EXPECT_GE(pause, absl::Seconds(1));
    EXPECT_LT(pause, absl::Seconds(2));
    pauses.insert(pause);
  }
  EXPECT_GT(pauses.size(), 100);  // Of 1000 that are as likely.
  EXPECT_EQ(Jittered(absl::ZeroDuration()), absl::ZeroDuration());
}

}  // namespace
}  // namespace splitveil
