#include "deploy/operator/preparation/table_schema.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status Check(const std::string& text) {
  v1::TableSchema schema;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schema)) << text;
  return CheckTableSchema(schema);
}

constexpr char kLabel[] = "columns { name: 'y' kind: LABEL } ";
constexpr char kClassLabel[] = "columns { name: 'y' kind: CLASS_LABEL } ";
constexpr char kTarget[] = "columns { name: 'y' kind: TARGET } ";
constexpr char kNone[] = "columns { name: 'a' kind: NUMERIC } ";
constexpr char kClasses[] = "classes: ['a', 'b', 'c'] ";
constexpr char kRange[] = "target_minimum: -1 target_maximum: 1 ";

std::string Classes(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "classes: '", i, "' ");
  }
  return text;
}

TEST(TableSchemaTest, TakesOneKindOfLabelWithWhatItNeeds) {
  for (const std::string& schema : std::vector<std::string>{
           kNone, absl::StrCat(kNone, kLabel), absl::StrCat(kLabel, "positive: 'y' negative: 'n'"),
           absl::StrCat(kNone, kClassLabel, kClasses), absl::StrCat(kClassLabel, Classes(256)),
           absl::StrCat(kTarget, kRange), absl::StrCat(kTarget, "target_minimum: 0 target_maximum: 1e308")}) {
    EXPECT_EQ(Check(schema), absl::OkStatus()) << schema;
  }
}

TEST(TableSchemaTest, TakesAttributesWithValuesOfTheirOwn) {
  std::string values;
  for (int i = 0; i < 254; ++i) {
    absl::StrAppend(&values, "values: '", i, "' ");
  }
  const auto attribute = [](const std::string& fields) {
    return absl::StrCat(kLabel, "columns { name: 's' kind: ATTRIBUTE ", fields, " }");
  };
  EXPECT_EQ(Check(attribute("values: ['a', 'b']")), absl::OkStatus());
  EXPECT_EQ(Check(attribute("values: ['a', 'b'] also_feature: true holder: NONLABEL_PARTY")), absl::OkStatus());
  EXPECT_EQ(Check(attribute(values)), absl::OkStatus());
  for (const auto& [schema, message] : std::vector<std::pair<std::string, std::string>>{
           {attribute(""), "columns: s: values: expected 2 to 254 texts of an ATTRIBUTE, found 0"},
           {attribute("values: 'a'"), "found 1"},
           {attribute(absl::StrCat(values, "values: 'x'")), "found 255"},
           {attribute("values: ['a', 'b', 'a']"), "columns: s: values: expected distinct texts, found \"a\" twice"},
           {attribute("values: ['a', '']"), "columns: s: values: expected no empty text"},
           {"columns { name: 's' kind: CATEGORICAL values: 'a' }",
            "values, also_feature: only an ATTRIBUTE has them, this column is of kind CATEGORICAL"},
           {"columns { name: 's' kind: NUMERIC also_feature: true }",
            "only an ATTRIBUTE has them, this column is of kind NUMERIC"}}) {
    const absl::Status status = Check(schema);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << schema;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << schema;
  }
}

TEST(TableSchemaTest, TakesFormsOfNumbersAndRefusesThoseThatContradict) {
  const auto numeric = [](const std::string& form) {
    return Check(absl::StrCat("columns { name: 'a' kind: NUMERIC ", form, " }"));
  };
  for (const char* form : {"decimal: COMMA thousands: '.'", "thousands: ','", "decimal: COMMA thousands: ' '",
                           "strip: ['EUR', '%']", "missing: ['-999999', 'unknown']"}) {
    EXPECT_EQ(numeric(form), absl::OkStatus()) << form;
  }
  for (const auto& [form, message] :
       {std::pair("thousands: '.'", "thousands: expected one of , . ' _ and the blank, and not the decimal (.)"),
        {"decimal: COMMA thousands: ','", "and not the decimal (,)"},
        {"thousands: ''", "thousands: expected"},
        {"thousands: 'x'", "thousands: expected"},
        {"thousands: '..'", "thousands: expected"},
        {"strip: ''", "strip: expected texts without digits, found an empty one"},
        {"strip: 'm2'", "strip: expected texts without digits, found one with digits"},
        {"missing: ''", "missing: expected no empty text"},
        {"missing: ['a', 'a']", "missing: expected distinct texts"}}) {
    EXPECT_THAT(std::string(numeric(form).message()), HasSubstr(message)) << form;
  }
  EXPECT_THAT(std::string(Check("columns { name: 'a' kind: CATEGORICAL decimal: COMMA }").message()),
              HasSubstr("columns: a: decimal, thousands, strip: only a NUMERIC or a TARGET has them"));
  EXPECT_EQ(Check("columns { name: 'a' kind: CATEGORICAL missing: 'none' }"), absl::OkStatus());
}

TEST(TableSchemaTest, RefusesWhatContradictsItself) {
  const std::string again = "columns { name: 'z' kind: ";
  for (const auto& [schema, message] : std::vector<std::pair<std::string, std::string>>{
           {absl::StrCat(kLabel, again, "CLASS_LABEL }", kClasses),
            "one of LABEL, CLASS_LABEL and TARGET, found 0 and 2"},
           {absl::StrCat(kClassLabel, again, "CLASS_LABEL }", kClasses), "found 0 and 2"},
           {absl::StrCat(kTarget, again, "LABEL }", kRange), "found 0 and 2"},
           {kClassLabel, "classes: expected 3 to 256 texts beside a CLASS_LABEL (two classes are a LABEL), found 0"},
           {absl::StrCat(kClassLabel, Classes(2)), "found 2"},
           {absl::StrCat(kClassLabel, Classes(257)), "found 257"},
           {absl::StrCat(kClassLabel, "classes: ['a', 'b', 'a']"),
            "classes: expected distinct texts, found \"a\" twice"},
           {absl::StrCat(kClassLabel, "classes: ['a', '', 'c']"), "classes: expected no empty text"},
           {absl::StrCat(kClassLabel, kClasses, "positive: '1'"),
            "positive, negative: only a LABEL has them, the schema has a CLASS_LABEL"},
           {absl::StrCat(kTarget, kRange, "negative: '0'"),
            "positive, negative: only a LABEL has them, the schema has a TARGET"},
           {absl::StrCat(kClassLabel, kClasses, kRange), "target_minimum, target_maximum: only a TARGET has them"},
           {absl::StrCat(kLabel, "target_maximum: 1"), "only a TARGET has them"},
           {absl::StrCat(kLabel, kClasses), "classes: only a CLASS_LABEL has them, and the schema has none"},
           {absl::StrCat(kNone, kClasses), "classes: only a CLASS_LABEL has them"},
           {absl::StrCat(kTarget, kRange, kClasses), "classes: only a CLASS_LABEL has them"},
           {kTarget, "target_minimum, target_maximum: expected both"},
           {absl::StrCat(kTarget, "target_maximum: 1"), "expected both"},
           {absl::StrCat(kTarget, "target_minimum: 1 target_maximum: 1"), "the first below the second, found 1 and 1"},
           {absl::StrCat(kTarget, "target_minimum: 2 target_maximum: 1"), "found 2 and 1"},
           {absl::StrCat(kTarget, "target_minimum: nan target_maximum: 1"), "two finite numbers"},
           {absl::StrCat(kTarget, "target_minimum: 0 target_maximum: inf"), "two finite numbers"},
           {absl::StrCat(kTarget, "target_minimum: 0 target_maximum: 4.9e-324"), "the first below the second"},
           {absl::StrCat(kLabel, "positive: '0'"), "found one in both"}}) {
    const absl::Status status = Check(schema);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << schema;
    EXPECT_THAT(std::string(status.message()), StartsWith("table schema: ")) << schema;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << schema;
  }
}

}  // namespace
}  // namespace splitveil
