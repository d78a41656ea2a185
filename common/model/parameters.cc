#include "common/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kSteps[] = "steps";
constexpr int64_t kStepsBase = int64_t{1} << 24;  // Whole numbers below it are floats.

using ValuesByName = absl::flat_hash_map<std::string, const std::vector<float>*>;

absl::StatusOr<ValuesByName> IndexByName(const NamedParameters& values) {
  ValuesByName by_name;
  for (const auto& [name, numbers] : values) {
    // A name that occurs twice would hide one of its values.
    if (!by_name.emplace(name, &numbers).second) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", name, ": expected once, found twice"));
    }
  }
  return by_name;
}

absl::StatusOr<const std::vector<float>*> Find(const ValuesByName& by_name, const std::string& name) {
  const auto found = by_name.find(name);
  if (found == by_name.end()) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", name, " is missing"));
  }
  return found->second;
}

absl::Status CheckFits(const std::vector<float>& numbers, const ParameterView& parameter, bool fewer_rows) {
  const StridedRows& values = parameter.values;
  const auto found = static_cast<int64_t>(numbers.size());
  if (found == values.size()) {
    return absl::OkStatus();
  }
  // A table may have grown since the state was saved: rows of new categories keep their start values.
  if (!fewer_rows || values.rows == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", parameter.name, ": expected ", values.size(), " values, found ", found));
  }
  if (found > values.size() || found % values.width != 0) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name, ": expected at most ", values.size(),
                                                   " values, in rows of ", values.width, ", found ", found));
  }
  return absl::OkStatus();
}

// All or nothing: everything is checked before the first number is written.
absl::Status Assign(const ValuesByName& by_name, absl::Span<const ParameterView> parameters, bool fewer_rows) {
  for (const ParameterView& parameter : parameters) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float>* numbers, Find(by_name, parameter.name));
    SPLITVEIL_RETURN_IF_ERROR(CheckFits(*numbers, parameter, fewer_rows));
  }
  for (const ParameterView& parameter : parameters) {
    absl::Span<const float> numbers = *by_name.at(parameter.name);
    for (int64_t r = 0; !numbers.empty(); ++r) {
      const absl::Span<float> row = parameter.values.row(r);
      std::copy_n(numbers.begin(), row.size(), row.begin());
      numbers.remove_prefix(row.size());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCount(size_t expected, size_t found) {
  if (expected != found) {
    return absl::InvalidArgumentError(absl::StrCat("parameters: expected ", expected, " names, found ", found));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReadSteps(const std::vector<float>& numbers) {
  const auto is_digit = [](float number) { return number >= 0 && number < kStepsBase && number == std::floor(number); };
  if (numbers.size() != 2 || !std::all_of(numbers.begin(), numbers.end(), is_digit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", kSteps, ": must be two whole numbers below ", kStepsBase));
  }
  return static_cast<int64_t>(numbers[0]) + static_cast<int64_t>(numbers[1]) * kStepsBase;
}

}  // namespace

std::vector<ParameterView> Joined(std::vector<std::vector<ParameterView>> parts) {
  std::vector<ParameterView> joined;
  for (std::vector<ParameterView>& part : parts) {
    std::move(part.begin(), part.end(), std::back_inserter(joined));
  }
  return joined;
}

std::vector<ParameterView> ViewsOf(NamedParameters& copies) {
  std::vector<ParameterView> views;
  views.reserve(copies.size());
  for (auto& [name, values] : copies) {
    views.push_back({name, absl::MakeSpan(values)});
  }
  return views;
}

std::string MomentName(const std::string& parameter, int moment) {
  return absl::StrCat(parameter, ".moment", moment + 1);
}

std::string AverageName(const std::string& parameter) { return absl::StrCat(parameter, ".average"); }

NamedParameters CopyParameters(absl::Span<const ParameterView> parameters) {
  NamedParameters copies;
  copies.reserve(parameters.size());
  for (const ParameterView& parameter : parameters) {
    std::vector<float>& copy = copies.emplace_back(parameter.name, std::vector<float>()).second;
    copy.reserve(static_cast<size_t>(parameter.values.size()));
    for (int64_t r = 0; r < parameter.values.rows; ++r) {
      const absl::Span<const float> row = parameter.values.row(r);
      copy.insert(copy.end(), row.begin(), row.end());
    }
  }
  return copies;
}

absl::Status AssignParameters(const NamedParameters& values, absl::Span<const ParameterView> parameters) {
  SPLITVEIL_ASSIGN_OR_RETURN(const ValuesByName by_name, IndexByName(values));
  absl::Status status = CheckCount(parameters.size(), by_name.size());
  return status.ok() ? Assign(by_name, parameters, /*fewer_rows=*/false) : status;
}

NamedParameters CopyTrainingState(absl::Span<const ParameterView> state, int64_t steps) {
  NamedParameters copies = CopyParameters(state);
  // Two digits, since a float holds whole numbers exactly only up to 2^24.
  const int64_t high = steps / kStepsBase;
  copies.emplace_back(kSteps, std::vector<float>{static_cast<float>(steps % kStepsBase), static_cast<float>(high)});
  return copies;
}

absl::StatusOr<int64_t> AssignTrainingState(const NamedParameters& values, absl::Span<const ParameterView> state) {
  SPLITVEIL_ASSIGN_OR_RETURN(const ValuesByName by_name, IndexByName(values));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float>* numbers, Find(by_name, kSteps));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t steps, ReadSteps(*numbers));
  // As many as expected: a name too many would be silently dropped.
  absl::Status status = CheckCount(state.size() + 1, by_name.size());
  if (status.ok()) {
    status = Assign(by_name, state, /*fewer_rows=*/true);
  }
  if (!status.ok()) {
    return status;
  }
  return steps;
}

}  // namespace splitveil
