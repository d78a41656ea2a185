// One row of a user's table, read but not yet encoded.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_ROW_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_ROW_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/config/row_time.h"
#include "common/dataset/features.h"
#include "common/dataset/task.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// What the table's files hold of what its schema names; features in the order of the schema.
struct TableColumns {
  struct Feature {
    std::string name;
    v1::TableSchema::Holder holder;
    v1::TableSchema::Scaling scaling = v1::TableSchema::ROBUST;  // Of numbers.
  };
  // Of the column that says what is to be predicted.
  struct Label {
    Task task;
    std::vector<std::string> classes;  // Of several classes: their texts, by label.
    double minimum = 0, maximum = 0;   // Of a regression: where its targets lie.
  };
  struct Attribute {
    std::string name;
    v1::TableSchema::Holder holder;
    std::vector<std::string> values;  // Texts by number.
  };
  bool has_id = false, has_group = false, has_time = false;
  std::optional<Label> label;
  std::vector<Feature> numeric, categorical;  // With attributes that are features, too.
  std::vector<Attribute> attributes;
  ImageShape image;  // No channels: none.
  v1::TableSchema::Holder image_holder = v1::TableSchema::BOTH;
};

// Why a row cannot be used.
enum class RowFault {
  kNone,
  kFile,
  kQuotes,
  kColumnCount,
  kNumber,
  kLabel,
  kTarget,
  kId,
  kRepeatedId,
  kImage,
  kAttribute,
  kGroup,
  kTime,
};
// For people, by number.
inline constexpr std::array<const char*, 13> kRowFaultNames = {"none",
                                                               "damaged file",
                                                               "bad quotes",
                                                               "wrong column count",
                                                               "unparsable number",
                                                               "unknown label",
                                                               "unparsable target",
                                                               "missing id",
                                                               "repeated id",
                                                               "bad image",
                                                               "unknown attribute",
                                                               "missing group",
                                                               "unparsable time"};

struct TableRow {
  absl::string_view id;                       // Empty if the table has none.
  uint8_t label = 0;                          // Below the number of classes; 0 if the table has none.
  double target = 0;                          // Of a regression: finite, as the table has it; else 0.
  std::vector<double> numeric;                // Finite; NaN if missing.
  std::vector<absl::string_view> categories;  // Empty if missing.
  std::vector<uint8_t> attributes;            // Numbers of values, or kUnknownAttribute.
  absl::string_view group;                    // Empty if the table has none.
  RowTime time;                               // 0 if the table has none.
  absl::string_view image_name;               // Empty if the table names none.
  std::vector<uint8_t> pixels;                // [channels, height, width] or empty.
  // Unless kNone, `error` says where and why, and the rest of the row is not to be used.
  RowFault fault = RowFault::kNone;
  absl::Status error;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_ROW_H_
