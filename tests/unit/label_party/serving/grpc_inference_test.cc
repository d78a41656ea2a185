// What a stranger, and a caller who means no good, gets from the gRPC half: by calls whose bytes are written here from
// proto/inference/grpc_service.proto, in part or not at all. No version is needed for that.
#include "label_party/serving/grpc_inference.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/transport/client_call.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr char kToken[] = "0123456789abcdef", kShop[] = "fedcba9876543210";
constexpr int64_t kMaxFields = 1000;
constexpr int64_t kMaxMemory = int64_t{32} << 20;
constexpr int kCallsOfAConnection = 16;

// A field with a length, whose number and type are one byte of tag.
std::string Field(int number, const std::string& content) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  for (size_t size = content.size(); true; size >>= 7) {
    field.push_back(static_cast<char>((size & 127) | (size > 127 ? 128 : 0)));
    if (size <= 127) {
      return field + content;
    }
  }
}

std::string Repeat(const std::string& what, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += what;
  }
  return all;
}

// A call whose message is sent when the test says so.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const std::string& token,
          grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    context_.set_deadline(GrpcDeadline(SteadyAfter(absl::Seconds(20))));
    context_.set_compression_algorithm(compression);
    if (!token.empty()) {
      context_.AddMetadata("authorization", "Bearer " + token);
    }
    const char* const service = method == "Check" ? "/grpc.health.v1.Health/" : "/inference.GRPCInferenceService/";
    call_ = grpc::GenericStub(channel).PrepareCall(&context_, service + method, &queue_);
    call_->StartCall(this);
    Await();
  }
  ~RawCall() {
    context_.TryCancel();
    queue_.Shutdown();
    while (Await()) {
    }
  }
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  // `message`, so many times.
  RawCall& Send(const std::string& message, size_t times = 1) {
    const std::vector<grpc::Slice> slices(times, grpc::Slice(message));
    call_->Write(grpc::ByteBuffer(slices.data(), slices.size()), this);
    Await();
    return *this;
  }
  // Empty: there is none.
  std::optional<std::string> Answer() {
    grpc::ByteBuffer bytes;
    grpc::Slice slice;
    call_->Read(&bytes, this);
    return Await() && bytes.DumpToSingleSlice(&slice).ok()
               ? std::optional(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()))
               : std::nullopt;
  }
  grpc::Status End() {
    while (Answer().has_value()) {
    }
    grpc::Status status;
    call_->Finish(&status, this);
    Await();
    return status;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class GrpcInferenceTest : public ::testing::Test {
 protected:
  GrpcInferenceTest() {
    v1::ServingConfig config;
    for (const auto& [name, token] : {std::pair("app", kToken), {"shop", kShop}}) {
      std::ofstream(files_.File(name)) << token << "\n";
      std::filesystem::permissions(files_.File(name), std::filesystem::perms::owner_read);
      v1::Caller& caller = *config.add_callers();
      caller.set_name(name);
      caller.set_token_path(files_.File(name));
    }
    callers_ = *Callers::Create(config, {});
    queue_ = *RequestQueue::Create({100, absl::ZeroDuration(), 1000}, &metrics_);
    versions_ = std::make_unique<ServedVersions>(VersionsIn(ServedVersion::Training(), files_.File("versions")));
    protocol_ = std::make_unique<OpenInference>(OpenInference::Options{"m", std::nullopt, ""}, versions_.get(),
                                                queue_.get(), callers_.get(), &metrics_);
    GrpcInference::Options options;
    options.max_fields = kMaxFields;
    options.request_limit = absl::Seconds(1);
    service_ = std::make_unique<GrpcInference>(protocol_.get(), options);
    running_ = *StartServer({"127.0.0.1:0",
                             int64_t{4} << 20,
                             {service_.get(), service_->reflection()},
                             [this](const auto& call) { return service_->IsCallers(call); },
                             kMaxMemory},
                            grpc::InsecureServerCredentials());
  }
  ~GrpcInferenceTest() override { running_.server->Shutdown(GrpcDeadline(SteadyNow())); }

  // One connection each.
  std::shared_ptr<grpc::Channel> Channel() {
    grpc::ChannelArguments own;
    own.SetInt("connection", ++connections_);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", running_.port), grpc::InsecureChannelCredentials(),
                                     own);
  }
  grpc::Status Ask(const std::string& method, const std::string& message, const std::string& token) {
    return RawCall(Channel(), method, token).Send(message).End();
  }

  const TempFolder files_;
  ServingMetrics metrics_;
  std::unique_ptr<Callers> callers_;
  std::unique_ptr<RequestQueue> queue_;
  std::unique_ptr<ServedVersions> versions_;
  std::unique_ptr<OpenInference> protocol_;
  std::unique_ptr<GrpcInference> service_;
  RunningServer running_;
  int connections_ = 0;
};

// A server that waited for the message would wait for the deadline: none is ever sent.
TEST_F(GrpcInferenceTest, AStrangersMessageIsNotRead) {
  for (const char* method : {"ModelInfer", "ModelMetadata", "ModelReady", "ServerMetadata"}) {
    for (const char* token : {"", "0123456789abcdeg"}) {
      EXPECT_EQ(RawCall(Channel(), method, token).End().error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
    }
  }
  const std::shared_ptr<grpc::Channel> channel = Channel();
  RawCall live(channel, "ServerLive", ""), ready(channel, "ServerReady", "");
  EXPECT_EQ(live.Answer(), std::string("\x08\x01"));  // Field 1, bool: true.
  EXPECT_TRUE(live.End().ok());
  EXPECT_EQ(ready.Answer(), "");  // Nothing is stored: all fields have their default.
  EXPECT_TRUE(ready.End().ok());
  EXPECT_THAT(protocol_->Metrics(*callers_->Admit({true, "", {}})).value(),
              HasSubstr("splitveil_requests_total{code=\"UNAUTHENTICATED\",version=\"\"} 8"));
}

TEST_F(GrpcInferenceTest, NamesAndVersionsAreForCallers) {
  EXPECT_EQ(Ask("ModelReady", Field(1, "m"), "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(Ask("ModelReady", Field(1, "m"), kToken).ok());
  EXPECT_EQ(Ask("ModelReady", Field(1, "other"), kToken).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ask("ModelReady", Field(1, "m") + Field(2, "7"), kToken).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Ask("ServerMetadata", "", kToken).ok());
}

// Each of these takes ten to a hundred times its bytes once it is parsed.
TEST_F(GrpcInferenceTest, AMessageOfManyElementsIsRefusedBeforeItIsParsed) {
  const auto infer = [this](const std::string& message) { return Ask("ModelInfer", message, kToken); };
  const auto input = [](const std::string& content) { return Field(1, "m") + Field(5, content); };
  const std::string id = Field(8, "");  // Of bytes_contents.
  const auto with_ids = [&](int ids) { return input(Field(1, "id") + Field(5, Repeat(id, ids))); };
  const std::string sum = "more elements than the server takes";
  EXPECT_EQ(infer(with_ids(990)).error_code(), grpc::StatusCode::UNAVAILABLE);  // No version: it has been parsed.
  for (const std::string& message :
       {with_ids(1001), with_ids(1'000'000), Repeat(Field(5, ""), 1001), Repeat(Field(6, ""), 1001),
        Repeat(Field(7, ""), 1001), Repeat(Field(4, Field(1, "")), 600),  // parameters
        input(Field(3, std::string(1001, '\1'))),                         // shape, packed
        input(Field(5, Field(1, std::string(1001, '\1')))),               // bool_contents, packed
        input(Field(5, Field(7, std::string(8 * 1001, '\1')))),           // fp64_contents
        Repeat("\x08\x01", 1001), Repeat(Field(15, ""), 1001),            // unknown fields
        input(Repeat(Field(15, ""), 500)) + input(Repeat(Field(15, ""), 500)), std::string("\x0b\x0c"),
        Repeat("\x7b", 100'000)}) {  // Groups, and some that never end.
    const grpc::Status status = infer(message);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << message.size();
    EXPECT_THAT(status.error_message(), HasSubstr(sum)) << message.size();
  }
  // What is no message: cut off, a length beyond its end or of more than the message around it, no such type.
  for (const std::string& message :
       {std::string("\x0a"), std::string("\x0a\x05m"), std::string("\x0f"), Field(5, "\x0a\x05"),
        Field(5, "\x2a\x7f") + std::string(200, '\0'), std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        std::string(8, '\0')}) {
    EXPECT_EQ(infer(message).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(Ask("ModelMetadata", Repeat(Field(1, ""), 1001), kToken).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

class Reflected {
 public:
  Reflected(const std::shared_ptr<grpc::Channel>& channel, const std::string& token)
      : stub_(grpc::reflection::v1alpha::ServerReflection::NewStub(channel)) {
    if (!token.empty()) {
      context_.AddMetadata("authorization", "Bearer " + token);
    }
    stream_ = stub_->ServerReflectionInfo(&context_);
  }

  // The answer to a request with one field; without an answer, an empty one.
  grpc::reflection::v1alpha::ServerReflectionResponse Ask(int number, const std::string& content) {
    grpc::reflection::v1alpha::ServerReflectionRequest request;
    grpc::reflection::v1alpha::ServerReflectionResponse response;
    EXPECT_TRUE(request.ParseFromString(Field(number, content)));
    stream_->Write(request);
    stream_->Read(&response);
    return response;
  }
  // Without a further message.
  grpc::StatusCode End(bool says_so = true) {
    if (says_so) {
      stream_->WritesDone();
    }
    return stream_->Finish().error_code();
  }

 private:
  const std::unique_ptr<grpc::reflection::v1alpha::ServerReflection::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::reflection::v1alpha::ServerReflectionRequest,
                                           grpc::reflection::v1alpha::ServerReflectionResponse>>
      stream_;
};

TEST_F(GrpcInferenceTest, CallersLearnTheCallsByReflection) {
  EXPECT_EQ(Reflected(Channel(), "").End(/*says_so=*/false), grpc::StatusCode::UNAUTHENTICATED);
  Reflected client(Channel(), kToken);
  std::vector<std::string> services;
  const auto listed = client.Ask(7, "");
  for (const auto& service : listed.list_services_response().service()) {
    services.push_back(service.name());
  }
  EXPECT_THAT(services, UnorderedElementsAre("inference.GRPCInferenceService", "grpc.health.v1.Health",
                                             "grpc.reflection.v1alpha.ServerReflection"));
  for (const std::string& service : services) {
    EXPECT_EQ(client.Ask(4, service).file_descriptor_response().file_descriptor_proto_size(), 1) << service;
  }
  // As a client makes a call of what it learns.
  const auto answer = client.Ask(4, "inference.GRPCInferenceService.ModelInfer");
  google::protobuf::FileDescriptorProto file;
  ASSERT_EQ(answer.file_descriptor_response().file_descriptor_proto_size(), 1) << answer.DebugString();
  ASSERT_TRUE(file.ParseFromString(answer.file_descriptor_response().file_descriptor_proto(0)));
  google::protobuf::DescriptorPool pool;
  ASSERT_NE(pool.BuildFile(file), nullptr);
  const auto* const method = pool.FindMethodByName("inference.GRPCInferenceService.ModelInfer");
  ASSERT_NE(method, nullptr);
  EXPECT_EQ(method->input_type()->FindFieldByNumber(5)->name(), "inputs");
  EXPECT_EQ(answer.original_request().file_containing_symbol(), "inference.GRPCInferenceService.ModelInfer");
  EXPECT_TRUE(client.Ask(3, "inference/grpc_service.proto").has_file_descriptor_response());
  // Of the program's other messages it tells nothing.
  for (const auto& [number, name] : {std::pair(4, "splitveil.v1.LabelPartyConfig"),
                                     {3, "splitveil/v1/party.proto"},
                                     {4, ""},
                                     {3, "google/protobuf/descriptor.proto"},
                                     {6, "inference.ModelInferRequest"}}) {
    EXPECT_EQ(client.Ask(number, name).error_response().error_code(), 5) << name;
  }
  EXPECT_EQ(client.End(), grpc::StatusCode::OK);
  // One that says nothing has a request's time.
  Reflected idle(Channel(), kToken);
  EXPECT_TRUE(idle.Ask(7, "").has_list_services_response());
  absl::SleepFor(absl::Seconds(1));
  service_->EndSlowCalls();
  EXPECT_EQ(idle.End(/*says_so=*/false), grpc::StatusCode::CANCELLED);
}

// A thousand times its bytes, before anybody can count anything.
TEST_F(GrpcInferenceTest, CompressedMessagesAreRefused) {
  const std::string zeros(1 << 20, '\0');
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    RawCall call(Channel(), "ModelInfer", kToken, algorithm);
    EXPECT_EQ(call.Send(zeros).End().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
}

// gRPC looks at the size of a message once it has all of it: then it says "larger than max".
TEST_F(GrpcInferenceTest, AMessageWithoutAnEndIsEndedBeforeItIsRead) {
  const std::string part(1 << 20, 'x');
  for (const auto& [method, token] : {std::pair("ModelInfer", kToken), {"Check", ""}}) {
    const grpc::Status status = RawCall(Channel(), method, token).Send(part, 1024).End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << method;
    EXPECT_THAT(status.error_message(), Not(HasSubstr("larger than max"))) << method;
  }
  EXPECT_TRUE(Ask("ModelReady", Field(1, "m"), kToken).ok());
  EXPECT_THAT(Ask("ModelInfer", std::string(5 << 20, 'x'), kToken).error_message(), HasSubstr("larger than max"));
}

TEST_F(GrpcInferenceTest, ACallerThatSendsSlowlyLeavesHalfToOthersAndIsEnded) {
  std::atomic<int> refused{0}, ended{0}, others{0};
  std::vector<std::thread> slow;
  for (int connection = 0; connection < 2; ++connection) {
    const std::shared_ptr<grpc::Channel> channel = Channel();
    for (int i = 0; i < kCallsOfAConnection; ++i) {
      slow.emplace_back([&, channel] {
        const grpc::StatusCode code = RawCall(channel, "ModelInfer", kToken).End().error_code();
        ++(code == grpc::StatusCode::RESOURCE_EXHAUSTED ? refused
           : code == grpc::StatusCode::CANCELLED        ? ended
                                                        : others);
      });
    }
  }
  const auto await = [](const std::atomic<int>& count, int expected) {
    const SteadyTime limit = SteadyAfter(absl::Seconds(20));
    while (count < expected && SteadyNow() < limit) {
      absl::SleepFor(absl::Milliseconds(10));
    }
  };
  await(refused, 2 * kCallsOfAConnection - Callers::kMostUnderWay);
  // The others wait for their message.
  EXPECT_TRUE(Ask("ModelReady", Field(1, "m"), kShop).ok());
  EXPECT_EQ(Ask("ModelReady", Field(1, "m"), kToken).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ended, 0);
  absl::SleepFor(absl::Seconds(1));  // Their time.
  service_->EndSlowCalls();
  for (std::thread& thread : slow) {
    thread.join();
  }
  EXPECT_EQ(refused, 2 * kCallsOfAConnection - Callers::kMostUnderWay);
  EXPECT_EQ(ended, Callers::kMostUnderWay);
  EXPECT_EQ(others, 0);
  EXPECT_TRUE(Ask("ModelReady", Field(1, "m"), kToken).ok());
}

// HTTP/2 as RFC 9113 has it: a connection whose streams have no room for an answer.
class WithoutWindow {
 public:
  explicit WithoutWindow(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame('\4', 0, 0, std::string("\0\4\0\0\0\0", 6)));  // The size: 0.
  }
  ~WithoutWindow() { close(descriptor_); }
  WithoutWindow(const WithoutWindow&) = delete;
  WithoutWindow& operator=(const WithoutWindow&) = delete;

  void Ask(int stream, const std::string& path) const {
    std::string header;
    for (const auto& [name, value] : {std::pair<std::string, std::string>{":method", "POST"},
                                      {":scheme", "http"},
                                      {":path", path},
                                      {":authority", "localhost"},
                                      {"content-type", "application/grpc"},
                                      {"te", "trailers"}}) {
      header += std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
    }
    Send(Frame('\1', '\4', stream, header) + Frame('\0', '\1', stream, std::string(5, '\0')));
  }

 private:
  static std::string Frame(char type, char flags, int stream, const std::string& content) {
    const auto size = static_cast<int>(content.size());
    const std::string head = {0, static_cast<char>(size >> 8), static_cast<char>(size), type, flags, 0, 0, 0};
    return head + static_cast<char>(stream) + content;
  }
  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  const int descriptor_;
};

TEST_F(GrpcInferenceTest, StrangersThatTakeNoAnswerLeaveRoomForCallers) {
  std::vector<std::unique_ptr<WithoutWindow>> strangers;
  for (int connection = 0; connection < 4; ++connection) {
    strangers.push_back(std::make_unique<WithoutWindow>(running_.port));
    for (int call = 0; call < kCallsOfAConnection; ++call) {
      strangers.back()->Ask(2 * call + 1, "/inference.GRPCInferenceService/ServerLive");
    }
  }
  // They hold what they can once one more stranger is refused.
  const SteadyTime limit = SteadyAfter(absl::Seconds(20));
  while (Ask("ServerLive", "", "").error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED && SteadyNow() < limit) {
  }
  EXPECT_EQ(Ask("ServerLive", "", "").error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(Ask("ModelReady", Field(1, "m"), kToken).ok());
    EXPECT_TRUE(Ask("ServerLive", "", kToken).ok());
  }
}

}  // namespace
}  // namespace splitveil::testing
