// Schemas of tables that many people have.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_KNOWN_TABLES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_KNOWN_TABLES_H_

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Criteo's display advertising data (Kaggle, 2014): tab-separated, no header: label, I1..I13 (numbers or empty; I2 may
// be negative), C1..C26 (8 hexadecimal digits or empty: opaque names, although one in eighty reads as a number, such as
// 12345e10).
inline constexpr int kCriteoNumeric = 13;
inline constexpr int kCriteoCategorical = 26;
inline constexpr int kCriteoFeatures = kCriteoNumeric + kCriteoCategorical;
v1::TableSchema CriteoSchema();

// Avazu's click-through data (Kaggle, 2014): comma-separated with a header, categories only. Copies without id or
// device_ip pass too. Of `hour` (YYMMDDHH) the hour of the day counts: days of the test data would all be unseen.
v1::TableSchema AvazuSchema();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_KNOWN_TABLES_H_
