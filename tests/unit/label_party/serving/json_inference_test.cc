// JSON of the Open Inference Protocol, well and badly formed.
#include "label_party/serving/json_inference.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMaxValues = 1000;

absl::StatusOr<inference::ModelInferRequest> Read(const std::string& body) {
  return InferRequestOfJson(body, kMaxValues);
}

TEST(JsonInferenceTest, ReadsARequest) {
  const auto request = Read(R"({"id":"q","parameters":{"a":1},"inputs":[{"name":"id","datatype":"BYTES","shape":[3,1],)"
                            R"("parameters":{},"data":[["a"],["\u00fc"],""]}],"outputs":[{"name":"found"}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->id(), "q");
  ASSERT_EQ(request->inputs_size(), 1);
  EXPECT_EQ(request->inputs(0).name(), "id");
  EXPECT_EQ(request->inputs(0).datatype(), "BYTES");
  EXPECT_THAT(request->inputs(0).shape(), ElementsAre(3, 1));
  EXPECT_THAT(request->inputs(0).contents().bytes_contents(), ElementsAre("a", "\xc3\xbc", ""));
  ASSERT_EQ(request->outputs_size(), 1);
  EXPECT_EQ(request->outputs(0).name(), "found");
}

TEST(JsonInferenceTest, ReadsNumbersAndWhereTheyAreMissing) {
  const auto request = Read(R"({"inputs":[{"name":"a","datatype":"FP64","shape":[3],"data":[16777217,[null],-0.5]},)"
                            R"({"name":"b","datatype":"FP32","shape":[1],"data":[1]}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& numbers = request->inputs(0).contents().fp64_contents();
  ASSERT_EQ(numbers.size(), 3);
  EXPECT_EQ(numbers[0], 16777217);
  EXPECT_TRUE(std::isnan(numbers[1]));
  EXPECT_EQ(numbers[2], -0.5);
  EXPECT_THAT(request->inputs(1).contents().fp32_contents(), ElementsAre(1));
  for (const char* const element : {R"("1")", "true", "[[1]]", "{}"}) {
    EXPECT_THAT(std::string(Read(absl::StrCat(R"({"inputs":[{"name":"a","datatype":"FP64","shape":[1],"data":[)",
                                              element, "]}]}"))
                                .status()
                                .message()),
                HasSubstr("inputs[0].data: expected numbers, or null where one is missing"));
  }
}

TEST(JsonInferenceTest, RefusesWhatIsNone) {
  const std::string deep = std::string(100'000, '[');
  for (const std::string& body :
       {std::string(),
        std::string("{"),
        std::string("7"),
        std::string("[]"),
        std::string("{}"),
        deep,
        R"({"inputs":[],"parameters":{"a":)" + std::string(20, '[') + std::string(20, ']') + "}}",
        std::string(R"({"inputs":[{"name":"id","shape":[1e3],"data":["a"]}]})"),
        std::string(R"({"inputs":[{"name":"id","shape":[1],"data":[NaN]}]})"),
        std::string(R"({"id":7,"inputs":[]})"),
        std::string(R"({"inputs":{}})"),
        std::string(R"({"inputs":[[]]})"),
        std::string(R"({"inputs":[],"outputs":7})"),
        std::string(R"({"inputs":[],"outputs":[7]})"),
        std::string(R"({"inputs":[{"name":7,"shape":[],"data":[]}]})"),
        std::string(R"({"inputs":[{"name":"id","shape":1,"data":[]}]})"),
        std::string(R"({"inputs":[{"name":"id","shape":["1"],"data":[]}]})"),
        std::string(R"({"inputs":[{"name":"id","shape":[1.5],"data":[]}]})"),
        std::string(R"({"inputs":[{"name":"id","shape":[1],"data":[[["a"]]]}]})"),
        std::string(R"({"inputs":[{"name":"id","shape":[1],"data":[null]}]})")}) {
    EXPECT_EQ(Read(body).status().code(), absl::StatusCode::kInvalidArgument) << body.substr(0, 80);
  }
  EXPECT_THAT(std::string(Read(R"({"inputs":[{"name":"id","shape":[1],"data":[1]}]})").status().message()),
              HasSubstr("inputs[0].data: expected strings"));
}

// Else the parser looks at all objects of a list for each of them: minutes for a body of the largest size.
TEST(JsonInferenceTest, RefusesMoreObjectsThanARequestHas) {
  std::string body = R"({"inputs":[{"name":"id","datatype":"BYTES","shape":[1],"data":["a"]}],"parameters":{"a":[{})";
  ASSERT_TRUE(Read(body + "]}}").ok());
  for (int i = 0; i < 1'000'000; ++i) {
    body += ",{}";
  }
  EXPECT_EQ(Read(body + "]}}").status().code(), absl::StatusCode::kInvalidArgument);
}

// A string without content has three bytes there, and sixty in memory.
TEST(JsonInferenceTest, RefusesMoreValuesThanARequestHas) {
  const auto with = [](int values, const std::string& value) {
    std::string body = R"({"inputs":[{"name":"id","datatype":"BYTES","shape":[1],"data":["a")";
    for (int i = 0; i < values; ++i) {
      body += "," + value;
    }
    return body + "]}]}";
  };
  EXPECT_TRUE(Read(with(990, R"("")")).ok());
  EXPECT_TRUE(Read(with(490, R"([""])")).ok());
  for (const std::string& body :
       {with(1000, R"("")"), with(500, R"([""])"), with(1'000'000, R"("")"), with(1000, "[]"), with(1000, "0")}) {
    EXPECT_THAT(std::string(Read(body).status().message()), HasSubstr("no more ids than one request may have"));
  }
}

TEST(JsonInferenceTest, WritesAResponse) {
  inference::ModelInferResponse response;
  response.set_model_name("m\"");
  response.set_model_version("3");
  auto& values = *response.add_outputs();
  values.set_name("probability");
  values.set_datatype("FP32");
  values.add_shape(2);
  values.mutable_contents()->add_fp32_contents(0.1F);
  values.mutable_contents()->add_fp32_contents(std::numeric_limits<float>::quiet_NaN());
  auto& found = *response.add_outputs();
  found.set_name("found");
  found.set_datatype("BOOL");
  found.add_shape(2);
  found.mutable_contents()->add_bool_contents(true);
  found.mutable_contents()->add_bool_contents(false);
  const nlohmann::json json = nlohmann::json::parse(JsonOf(response));
  EXPECT_EQ(json["model_name"], "m\"");
  EXPECT_EQ(json["model_version"], "3");
  EXPECT_FALSE(json.contains("id"));
  EXPECT_EQ(json["outputs"][0]["data"][0].get<float>(), 0.1F);
  EXPECT_TRUE(json["outputs"][0]["data"][1].is_null());
  EXPECT_EQ(json["outputs"][1]["data"], nlohmann::json({true, false}));
}

}  // namespace
}  // namespace splitveil::testing
