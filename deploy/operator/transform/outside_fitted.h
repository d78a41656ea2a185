// How far new rows lie outside of what the preprocessing was fitted on.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_OUTSIDE_FITTED_H_
#define SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_OUTSIDE_FITTED_H_

#include <string>

#include "common/dataset/dataset.h"

namespace splitveil {

// One aligned line for each column: the share of the rows whose number was clipped, or whose category is none that was
// seen in training. A column whose categories are hashed has none unseen. "" without columns.
std::string OutsideFittedTable(const Dataset& data);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_OUTSIDE_FITTED_H_
