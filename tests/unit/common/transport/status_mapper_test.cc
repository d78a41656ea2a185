#include "common/transport/status_mapper.h"

#include <string>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

TEST(StatusMapperTest, OkMapsBothWays) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(FromGrpcStatus(grpc::Status::OK), absl::OkStatus());
  EXPECT_FALSE(RefusedByPeer(FromGrpcStatus(grpc::Status::OK)));
}

TEST(StatusMapperTest, EveryErrorKeepsCodeAndMessageThereAndBack) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "batch: expected 3, found 4");
    const grpc::Status sent = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(sent.error_code()), code);
    EXPECT_EQ(sent.error_message(), "batch: expected 3, found 4");
    const absl::Status received = FromGrpcStatus(sent);
    EXPECT_EQ(received.code(), status.code());
    EXPECT_EQ(received.message(), status.message());
  }
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

TEST(StatusMapperTest, CodeThatGrpcDoesNotKnowBecomesUnknown) {
  for (const int code : {-1, 17, 99, 1 << 30}) {
    const absl::Status status = FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(code), "odd"));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnknown) << code;
    EXPECT_TRUE(RefusedByPeer(status)) << code;
  }
}

TEST(StatusMapperTest, PeersTextStaysOneLineWithoutEscapes) {
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::ABORTED, std::string("a\nb\r\x1b[31mc\0d\x7f", 12)));
  EXPECT_EQ(status.message(), "a b  [31mc d");
}

}  // namespace
}  // namespace splitveil
