// The inputs of a request, well and badly formed.
#include "label_party/serving/request_tensors.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using inference::ModelInferRequest;

ModelInferRequest::InferInputTensor& AddInput(const std::string& name, const std::string& datatype,
                                              ModelInferRequest& request) {
  ModelInferRequest::InferInputTensor& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.add_shape(2);
  return input;
}

// Two ids with a column of each type.
ModelInferRequest Whole() {
  ModelInferRequest request;
  auto& small = *AddInput("small", "FP32", request).mutable_contents();
  small.add_fp32_contents(0.5F);
  small.add_fp32_contents(std::numeric_limits<float>::quiet_NaN());
  auto& ids = *AddInput("id", "BYTES", request).mutable_contents();
  ids.add_bytes_contents("a");
  ids.add_bytes_contents("b");
  auto& large = *AddInput("large", "FP64", request).mutable_contents();
  large.add_fp64_contents(16777217);  // No float.
  large.add_fp64_contents(-1);
  auto& words = *AddInput("words", "BYTES", request).mutable_contents();
  words.add_bytes_contents("");
  words.add_bytes_contents("x");
  return request;
}

template <typename Number>
std::string Raw(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

void ExpectWhole(const absl::StatusOr<RequestTensors>& tensors) {
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_THAT(tensors->ids, ElementsAre("a", "b"));
  ASSERT_EQ(tensors->columns.size(), 3);
  EXPECT_EQ(tensors->columns[0].name, "small");
  EXPECT_EQ(tensors->columns[0].numbers[0], 0.5);
  EXPECT_TRUE(std::isnan(tensors->columns[0].numbers[1]));
  EXPECT_THAT(tensors->columns[1].numbers, ElementsAre(16777217, -1));
  EXPECT_FALSE(tensors->columns[2].is_number);
  EXPECT_THAT(tensors->columns[2].values, ElementsAre("", "x"));
}

TEST(RequestTensorsTest, ReadsContentsAndRawContents) {
  ModelInferRequest request = Whole();
  ExpectWhole(ReadTensors(request, 10));
  for (auto& input : *request.mutable_inputs()) {
    input.clear_contents();
  }
  request.add_raw_input_contents(Raw<float>({0.5F, std::numeric_limits<float>::quiet_NaN()}));
  request.add_raw_input_contents(std::string("\1\0\0\0a\1\0\0\0b", 10));
  request.add_raw_input_contents(Raw<double>({16777217, -1}));
  request.add_raw_input_contents(std::string("\0\0\0\0\1\0\0\0x", 9));
  ExpectWhole(ReadTensors(request, 10));
}

TEST(RequestTensorsTest, SaysWhatDoesNotFit) {
  const auto refusal = [](const std::function<void(ModelInferRequest&)>& spoil) {
    ModelInferRequest request = Whole();
    spoil(request);
    const absl::Status status = ReadTensors(request, 10).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(1)->set_name("ids"); }), HasSubstr("inputs: id: "));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(1)->set_datatype("FP32"); }),
              HasSubstr("inputs: id: "));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(3)->set_name("large"); }),
              HasSubstr("inputs[3]: its name is there twice"));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(2)->set_datatype("INT64"); }),
              HasSubstr("inputs[2]: expected datatype \"BYTES\", or of numbers \"FP64\" or \"FP32\""));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(2)->set_datatype("FP32"); }),
              HasSubstr("inputs[2]: expected a value for each of the 2 ids, found 0"));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(0)->set_shape(0, 3); }),
              HasSubstr("inputs[0]: this request has 2 ids: give shape [2]"));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(0)->add_shape(2); }), HasSubstr("inputs[0]"));
  EXPECT_THAT(refusal([](auto& request) { request.mutable_inputs(3)->mutable_contents()->add_bytes_contents("y"); }),
              HasSubstr("inputs[3]: expected a value for each of the 2 ids, found 3"));
  EXPECT_THAT(refusal([](auto& request) {
                request.mutable_inputs(2)->mutable_contents()->set_fp64_contents(
                    0, std::numeric_limits<double>::infinity());
              }),
              HasSubstr("inputs[2]: a number is infinite"));
  EXPECT_THAT(refusal([](auto& request) { request.add_raw_input_contents(""); }), HasSubstr("raw_input_contents: "));
  EXPECT_THAT(refusal([](auto& request) {
                for (auto& input : *request.mutable_inputs()) {
                  input.clear_contents();
                  request.add_raw_input_contents(std::string("\0\0\0\0\0\0\0\0", 8));
                }
                *request.mutable_raw_input_contents(2) = "1234567";  // Of a double, not all.
              }),
              HasSubstr("raw_input_contents: expected whole numbers of 8 bytes each"));
}

}  // namespace
}  // namespace splitveil::testing
