// The line format of Criteo's display advertising data (Kaggle, 2014).
#ifndef SPLITVEIL_COMMON_DATASET_CRITEO_ROW_H_
#define SPLITVEIL_COMMON_DATASET_CRITEO_ROW_H_

namespace splitveil {

// A line has no header and 40 cells: label (0 or 1), I1..I13 (integers or empty; I2 may be negative), C1..C26 (8
// hexadecimal digits or empty; an opaque name, although one in eighty reads as a number such as 12345e10).
inline constexpr int kCriteoNumeric = 13;
inline constexpr int kCriteoCategorical = 26;
inline constexpr int kCriteoFeatures = kCriteoNumeric + kCriteoCategorical;
inline constexpr int kCriteoColumns = 1 + kCriteoFeatures;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_CRITEO_ROW_H_
