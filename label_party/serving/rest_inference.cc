#include "label_party/serving/rest_inference.h"

#include <httplib.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/monitoring/http_listener.h"
#include "common/monitoring/metrics_text.h"
#include "common/status/status_macros.h"
#include "common/transport/client_call.h"
#include "label_party/serving/json_inference.h"

namespace splitveil {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kLive[] = "/v2/health/live", kReady[] = "/v2/health/ready";
constexpr int kOk = 200, kBadRequest = 400, kNotFound = 404;
// cpp-httplib matches paths by std::regex, whose depth grows with the path.
constexpr size_t kMaxPathBytes = 512;
constexpr absl::Duration kRequestLimit = absl::Seconds(30);  // A request of a caller brings no deadline of its own.

int HttpCodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return kBadRequest;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

void Refuse(const absl::Status& status, httplib::Response& response) {
  response.status = HttpCodeOf(status.code());
  // As over gRPC, a path of this machine stays here.
  response.set_content(nlohmann::json({{"error", ToGrpcStatus(status).error_message()}})
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                       kJson);
}

// The specification has 4xx for what is not so.
void PutFlag(const char* name, bool flag, httplib::Response& response) {
  response.status = flag ? kOk : kBadRequest;
  response.set_content(nlohmann::json({{name, flag}}).dump(), kJson);
}

template <typename Message>
void PutMessage(const absl::StatusOr<Message>& made, httplib::Response& response) {
  if (made.ok()) {
    response.set_content(JsonOf(*made), kJson);
  } else {
    Refuse(made.status(), response);
  }
}

// Of /v2/models/NAME[/versions/N]...
template <typename Request>
Request Asked(const httplib::Request& request) {
  Request asked;
  asked.set_name(request.matches[1]);
  asked.set_version(request.matches[2]);
  return asked;
}

// The body, which must have been announced: cpp-httplib would read until the client closes.
absl::StatusOr<std::string> BodyOf(const httplib::Request& request, const httplib::ContentReader& reader) {
  std::string body;
  const bool announced = request.has_header("Content-Length") || request.has_header("Transfer-Encoding");
  const bool read = announced && reader([&](const char* data, size_t size) {
                      body.append(data, size);
                      return true;
                    });
  return read ? absl::StatusOr<std::string>(std::move(body))
              : absl::InvalidArgumentError(
                    "body: is missing, longer than the server takes, or came too slowly: send a JSON object with its "
                    "length");
}

}  // namespace

class RestInference::Routes : private HttpRoutes {
 public:
  Routes(const HttpPlace& place, size_t max_body_bytes, int64_t max_values, OpenInference* protocol)
      : protocol_(protocol),
        by_socket_(absl::StartsWith(place.listen_address, "unix:")),
        max_body_bytes_(max_body_bytes),
        max_values_(max_values) {
    set_payload_max_length(max_body_bytes);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      ++under_way_;
      reading_.has_request = true;
      const absl::Status admitted = Admit(request);
      if (admitted.ok()) {
        return HandlerResponse::Unhandled;
      }
      Refuse(protocol_->CountRefusal(admitted), response);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        response.set_content(R"({"error":"no such path or method, or a request that cannot be read"})", kJson);
      }
    });
    AddHealth();
    Get("/v2", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(JsonOf(OpenInference::ServerMetadata(*reading_.caller)), kJson);
    });
    Get("/v2/models/([^/]+)(?:/versions/([^/]+))?", [this](const httplib::Request& request,
                                                           httplib::Response& response) {
      PutMessage(protocol_->ModelMetadata(Asked<inference::ModelMetadataRequest>(request), *reading_.caller), response);
    });
    Post("/v2/models/([^/]+)(?:/versions/([^/]+))?/infer",
         [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
           PutMessage(Infer(request, reader), response);
         });
    Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      const absl::StatusOr<std::string> text = protocol_->Metrics(*reading_.caller);
      text.ok() ? response.set_content(*text, kMetricsContentType) : Refuse(text.status(), response);
    });
    Get("/drift", [this](const httplib::Request&, httplib::Response& response) {
      const absl::StatusOr<std::string> text = protocol_->Drift(*reading_.caller);
      text.ok() ? response.set_content(*text, "text/plain; charset=utf-8") : Refuse(text.status(), response);
    });
  }

  void ServeOne(HttpConnection& connection) {
    reading_ = {&connection, false, std::nullopt};
    Serve(connection);
    under_way_ -= reading_.has_request ? 1 : 0;
    reading_.caller.reset();
  }
  int under_way() const { return under_way_; }

 private:
  void AddHealth() {
    Get(kLive, [](const httplib::Request&, httplib::Response& response) { PutFlag("live", true, response); });
    Get(kReady, [this](const httplib::Request&, httplib::Response& response) {
      PutFlag("ready", protocol_->ServerReady(), response);
    });
    Get("/v2/models/([^/]+)(?:/versions/([^/]+))?/ready",
        [this](const httplib::Request& request, httplib::Response& response) {
          const absl::StatusOr<inference::ModelReadyResponse> ready =
              protocol_->ModelReady(Asked<inference::ModelReadyRequest>(request), *reading_.caller);
          ready.ok() ? PutFlag("ready", ready->ready(), response) : Refuse(ready.status(), response);
        });
  }

  // Before the body is read: until here a client has had a stranger's few bytes and seconds. From here on all but
  // health has a caller.
  absl::Status Admit(const httplib::Request& request) {
    if (request.path.size() > kMaxPathBytes) {
      return absl::NotFoundError("path: longer than any here");
    }
    if (request.path == kLive || request.path == kReady) {
      return absl::OkStatus();
    }
    SPLITVEIL_ASSIGN_OR_RETURN(reading_.caller,
                               protocol_->Admit({by_socket_, request.get_header_value("Authorization"), {}}));
    if (request.method != "POST" || !absl::EndsWith(request.path, "/infer")) {
      return absl::OkStatus();
    }
    // cpp-httplib would inflate the first without an end, and ends the second with an exception.
    if (request.has_header("Content-Encoding") || request.is_multipart_form_data()) {
      return absl::InvalidArgumentError("body: send plain JSON, neither compressed nor multipart/form-data");
    }
    // cpp-httplib would first wait for all of it.
    uint64_t announced = 0;
    if (absl::SimpleAtoi(request.get_header_value("Content-Length"), &announced) && announced > max_body_bytes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("body: has more than ", max_body_bytes_, " bytes: ask for fewer ids at a time"));
    }
    reading_.connection->Allow(SteadyAfter(kRequestLimit), HttpConnection::kMaxRequestBytes + max_body_bytes_);
    return absl::OkStatus();
  }

  absl::StatusOr<inference::ModelInferResponse> Infer(const httplib::Request& request,
                                                      const httplib::ContentReader& reader) {
    const SteadyTime deadline = SteadyAfter(kRequestLimit);
    const absl::StatusOr<std::string> body = BodyOf(request, reader);
    absl::StatusOr<inference::ModelInferRequest> asked =
        body.ok() ? InferRequestOfJson(*body, max_values_) : body.status();
    if (!asked.ok()) {
      return protocol_->CountRefusal(asked.status());
    }
    asked->set_model_name(request.matches[1]);
    asked->set_model_version(request.matches[2]);
    return protocol_->ModelInfer(*asked, *reading_.caller, deadline);
  }

  OpenInference* const protocol_;
  const bool by_socket_;
  const size_t max_body_bytes_;
  const int64_t max_values_;
  std::atomic<int> under_way_{0};
  // Of this thread: the connection, whether a request has come by it, and whose it is.
  struct Reading {
    HttpConnection* connection = nullptr;
    bool has_request = false;
    std::optional<Callers::Caller> caller;
  };
  static thread_local Reading reading_;
};

thread_local RestInference::Routes::Reading RestInference::Routes::reading_;

RestInference::RestInference(std::unique_ptr<Routes> routes) : routes_(std::move(routes)) {}

RestInference::~RestInference() = default;

absl::StatusOr<std::unique_ptr<RestInference>> RestInference::Start(const HttpPlace& place, size_t max_body_bytes,
                                                                    int64_t max_values, OpenInference* protocol) {
  std::unique_ptr<RestInference> rest(
      new RestInference(std::make_unique<Routes>(place, max_body_bytes, max_values, protocol)));
  SPLITVEIL_ASSIGN_OR_RETURN(rest->listener_,
                             HttpListener::Start(place, [routes = rest->routes_.get()](HttpConnection& connection) {
                               routes->ServeOne(connection);
                             }));
  return rest;
}

int RestInference::port() const { return listener_->port(); }

int RestInference::under_way() const { return routes_->under_way(); }

}  // namespace splitveil
