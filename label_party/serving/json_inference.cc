#include "label_party/serving/json_inference.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 8;       // A request has five: body, inputs, input, data, and a row of data.
constexpr int kMaxObjects = 1024;  // A request has the body, inputs, two outputs and their parameters.

absl::Status Unfit(absl::string_view field, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected));
}

// Discarded: the body is no JSON, or has more levels, objects or values than any request: each bracket would cost a
// hundred bytes, and each object a look at all before it.
json Parse(absl::string_view body, int64_t max_values) {
  bool too_much = false;
  int objects = 0;
  int64_t values = 0;
  json parsed = json::parse(
      body.begin(), body.end(),
      [&](int depth, json::parse_event_t event, const json&) {
        objects += event == json::parse_event_t::object_start ? 1 : 0;
        values += event == json::parse_event_t::value || event == json::parse_event_t::array_start ? 1 : 0;
        too_much = too_much || depth > kMaxDepth || objects > kMaxObjects || values > max_values;
        return !too_much;
      },
      /*allow_exceptions=*/false);
  return too_much ? json(json::value_t::discarded) : parsed;
}

// The list in `object`; null: there is none.
const json* ListIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

// Of an object's member; empty where it is missing. Errors: InvalidArgument where it is something else.
absl::StatusOr<std::string> TextIn(const json& object, const char* name, absl::string_view field) {
  const auto found = object.find(name);
  if (found == object.end()) {
    return std::string();
  }
  return found->is_string() ? absl::StatusOr<std::string>(found->get<std::string>())
                            : Unfit(absl::StrCat(field, ".", name), "a string");
}

// Lists nested once, as of a shape [n, 1]; deeper ones no tensor here has.
absl::Status AddElements(const json& data, bool nested, absl::string_view field,
                         inference::ModelInferRequest::InferInputTensor& input) {
  const std::string& type = input.datatype();
  const bool is_number = type == "FP64" || type == "FP32";
  inference::InferTensorContents& to = *input.mutable_contents();
  for (const json& element : data) {
    if (element.is_array() && !nested) {
      SPLITVEIL_RETURN_IF_ERROR(AddElements(element, true, field, input));
    } else if (is_number && (element.is_number() || element.is_null())) {
      // JSON has no NaN, by which a number is missing.
      const double number = element.is_null() ? std::numeric_limits<double>::quiet_NaN() : element.get<double>();
      type == "FP64" ? to.add_fp64_contents(number) : to.add_fp32_contents(static_cast<float>(number));
    } else if (!is_number && element.is_string()) {
      to.add_bytes_contents(element.get<std::string>());
    } else {
      return Unfit(absl::StrCat(field, ".data"), is_number ? "numbers, or null where one is missing" : "strings");
    }
  }
  return absl::OkStatus();
}

absl::Status AddInput(const json& tensor, const std::string& field, inference::ModelInferRequest& request) {
  if (!tensor.is_object()) {
    return Unfit(field, "an object");
  }
  auto& input = *request.add_inputs();
  SPLITVEIL_ASSIGN_OR_RETURN(*input.mutable_name(), TextIn(tensor, "name", field));
  SPLITVEIL_ASSIGN_OR_RETURN(*input.mutable_datatype(), TextIn(tensor, "datatype", field));
  const json *const shape = ListIn(tensor, "shape"), *const data = ListIn(tensor, "data");
  if (shape == nullptr || data == nullptr) {
    return Unfit(field, "shape and data, both lists");
  }
  for (const json& size : *shape) {
    if (!size.is_number_integer()) {
      return Unfit(field + ".shape", "integers");
    }
    input.add_shape(size.get<int64_t>());
  }
  return AddElements(*data, false, field, input);
}

std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

template <typename Tensor>
json Described(const Tensor& tensor) {
  return {{"name", tensor.name()},
          {"datatype", tensor.datatype()},
          {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())}};
}

}  // namespace

absl::StatusOr<inference::ModelInferRequest> InferRequestOfJson(absl::string_view body, int64_t max_values) {
  const json parsed = Parse(body, max_values);
  if (!parsed.is_object()) {
    return Unfit("body", "a JSON object, with no more ids than one request may have");
  }
  inference::ModelInferRequest request;
  SPLITVEIL_ASSIGN_OR_RETURN(*request.mutable_id(), TextIn(parsed, "id", "body"));
  const json *const inputs = ListIn(parsed, "inputs"), *const outputs = ListIn(parsed, "outputs");
  if (inputs == nullptr || (outputs == nullptr && parsed.contains("outputs"))) {
    return Unfit("body", "inputs and, if there are any, outputs to be lists");
  }
  for (size_t i = 0; i < inputs->size(); ++i) {
    SPLITVEIL_RETURN_IF_ERROR(AddInput((*inputs)[i], absl::StrCat("inputs[", i, "]"), request));
  }
  for (size_t i = 0; outputs != nullptr && i < outputs->size(); ++i) {
    const std::string field = absl::StrCat("outputs[", i, "]");
    if (!(*outputs)[i].is_object()) {
      return Unfit(field, "an object");
    }
    SPLITVEIL_ASSIGN_OR_RETURN(*request.add_outputs()->mutable_name(), TextIn((*outputs)[i], "name", field));
  }
  return request;
}

std::string JsonOf(const inference::ModelInferResponse& response) {
  json body = {{"model_name", response.model_name()}, {"model_version", response.model_version()}};
  if (!response.id().empty()) {
    body["id"] = response.id();
  }
  body["outputs"] = json::array();
  for (const auto& tensor : response.outputs()) {
    json output = Described(tensor);
    output["data"] = json::array();
    for (const bool value : tensor.contents().bool_contents()) {
      output["data"].push_back(value);
    }
    for (const float value : tensor.contents().fp32_contents()) {
      output["data"].push_back(value);  // Written as null where it is not finite.
    }
    body["outputs"].push_back(std::move(output));
  }
  return Dump(body);
}

std::string JsonOf(const inference::ModelMetadataResponse& response) {
  json body = {{"name", response.name()},
               {"versions", std::vector<std::string>(response.versions().begin(), response.versions().end())},
               {"platform", response.platform()},
               {"inputs", json::array()},
               {"outputs", json::array()}};
  for (const auto& tensor : response.inputs()) {
    body["inputs"].push_back(Described(tensor));
  }
  for (const auto& tensor : response.outputs()) {
    body["outputs"].push_back(Described(tensor));
  }
  return Dump(body);
}

std::string JsonOf(const inference::ServerMetadataResponse& response) {
  return Dump({{"name", response.name()}, {"version", response.version()}, {"extensions", json::array()}});
}

}  // namespace splitveil
