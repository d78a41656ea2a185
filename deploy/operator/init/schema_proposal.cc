#include "deploy/operator/init/schema_proposal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/init/id_proposal.h"
#include "deploy/operator/preparation/number_scaling.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

constexpr const char* kPositives[] = {"1", "1.0", "+1", "yes", "y", "true", "t", "positive", "pos"};
constexpr const char* kNegatives[] = {"0", "0.0", "-1", "no", "n", "false", "f", "negative", "neg"};
// A code in fewer training rows says less of the label than of these rows (deploy/EXPERIMENTS.md).
constexpr int kRareBelow = 20;

template <typename List>
bool Has(const List& list, const std::string& text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// That flags name columns of the table, each in one role.
absl::Status CheckNames(const std::string& path, const ProfiledTable& table, const SchemaFlags& flags) {
  std::set<std::string> named;
  const auto check = [&](const char* flag, const std::string& name) {
    if (FindColumn(table, name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("command line: ", flag, ": expected a column of ", path, " (",
                                                     QuotedNames(table.layout.names), "), found \"", name, "\""));
    }
    return named.insert(name).second
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(
                     "command line: ", flag, ": expected each column in one flag, found \"", name, "\" in two"));
  };
  if (!flags.id.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(check("--id", flags.id));
  }
  if (!flags.label.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(check("--label", flags.label));
  }
  for (const auto& [flag, name] : {std::pair("--group", &flags.group), std::pair("--time", &flags.time)}) {
    if (!name->empty()) {
      SPLITVEIL_RETURN_IF_ERROR(check(flag, *name));
    }
  }
  for (const auto& [flag, names] : {std::pair("--categorical", &flags.categorical),
                                    std::pair("--numeric", &flags.numeric), std::pair("--ignore", &flags.ignore)}) {
    for (const std::string& name : *names) {
      SPLITVEIL_RETURN_IF_ERROR(check(flag, name));
    }
  }
  return absl::OkStatus();
}

// The column by which rows are split; empty: by the id.
absl::StatusOr<std::string> FindSplitColumn(const std::string& path, const ProfiledTable& table, const std::string& id,
                                            const SchemaFlags& flags) {
  const std::string& named = flags.split == Schema::GROUP ? flags.group : flags.time;
  if (flags.split == Schema::KIND_UNSPECIFIED || !named.empty()) {
    return named;
  }
  const bool by_group = flags.split == Schema::GROUP;
  std::vector<std::string> found;
  // A name tells more than a shape: a postcode beside patient_nbr is no second candidate.
  for (const bool by_name : {true, false}) {
    for (const ColumnProfile& column : table.profile.columns) {
      if (column.name() != id && column.name() != flags.label &&
          (by_group ? LooksLikeGroup(column, by_name) : IsOfDates(column))) {
        found.push_back(column.name());
      }
    }
    if (!found.empty()) {
      break;
    }
  }
  if (found.size() == 1) {
    return found.front();
  }
  return Unclear(
      path, "",
      absl::StrCat("the rows are to be split by ", by_group ? "groups (split_by_group)" : "time (test_after)",
                   ", so this table needs the column with ", by_group ? "the same groups" : "the same times",
                   " as the other party's; ",
                   found.empty() ? "none looks like it" : absl::StrCat("several look like it: ", QuotedNames(found)),
                   ". Set --", by_group ? "group" : "time", "=COLUMN, or agree on another split"));
}

std::string Columns(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat("; columns with two values: ", QuotedNames(names));
}

absl::Status CheckLabelGiven(const std::string& path, const ProfiledTable& table, const SchemaFlags& flags) {
  if (!flags.label.empty()) {
    return absl::OkStatus();
  }
  std::vector<std::string> candidates;
  for (const ColumnProfile& column : table.profile.columns) {
    if (column.distinct() == 2) {
      candidates.push_back(column.name());
    }
  }
  return Unclear(path, "",
                 absl::StrCat("expected --label=COLUMN, the column to be predicted, found none", Columns(candidates)));
}

// The column's texts, the most frequent first.
std::vector<std::pair<std::string, Occurrences>> ByFrequency(const ColumnProfile& column) {
  const std::map<std::string, Occurrences> counts = column.counts();
  std::vector<std::pair<std::string, Occurrences>> texts(counts.begin(), counts.end());
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.second.rows > b.second.rows; });
  return texts;
}

// A label with more than two values, or fewer.
absl::Status NotTwoValues(const std::string& path, const ColumnProfile& column) {
  const auto texts = ByFrequency(column);
  const bool many = texts.size() > 2;
  return Unclear(
      path, column.name(),
      absl::StrCat(
          "expected a label of two values, found ", column.distinct(),
          many ? absl::StrCat(", the rarest in ", texts.back().second.rows, " of ", column.rows(),
                              " rows, first in line ", texts.back().second.first_line)
               : "",
          "; --label names another column, --class=TEXT (once a class) makes it one of several classes, "
          "--target_minimum and --target_maximum a number to be predicted",
          many ? ", --skip_bad_rows leaves the others out, up to 5% of the rows or as --min_usable_share says" : ""));
}

// Texts of a label of two values into the schema; what is said of it.
absl::StatusOr<std::string> TwoValues(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                      Schema& schema) {
  auto texts = ByFrequency(column);
  if (texts.size() == 1 && column.markers().size() == 1) {  // "-" beside "+" is no missing label.
    const auto& [marker, rows] = *column.markers().begin();
    texts.push_back({marker, {rows, 0, 0}});
  }
  if (texts.size() < 2) {
    return NotTwoValues(path, column);
  }
  const auto& [first, first_found] = texts[0];
  const auto& [second, second_found] = texts[1];
  const int64_t labels = first_found.rows + second_found.rows;
  const int64_t others = std::max<int64_t>(column.texts() - labels, 0);
  if (!MayLeaveOut(others, column, flags)) {
    return NotTwoValues(path, column);
  }
  std::string positive = flags.positive, negative;
  if (positive.empty()) {
    const auto is = [](const auto& list, const std::string& text) { return Has(list, absl::AsciiStrToLower(text)); };
    positive = is(kPositives, first) && is(kNegatives, second)   ? first
               : is(kPositives, second) && is(kNegatives, first) ? second
                                                                 : "";
    if (positive.empty()) {
      return Unclear(path, column.name(),
                     "expected a label such as 1 and 0 or yes and no, found two other values; --positive=TEXT says "
                     "which is the positive one");
    }
  }
  if (positive != first && positive != second) {
    return Unclear(path, column.name(),
                   "expected --positive to be one of the label's two values, found a different text");
  }
  negative = positive == first ? second : first;
  schema.add_positive(positive);
  schema.add_negative(negative);
  return absl::StrFormat(
      "two values, %.1f%% positive%s",
      100.0 * static_cast<double>((positive == first ? first_found : second_found).rows) / static_cast<double>(labels),
      LeftOut(others));
}

absl::StatusOr<std::string> AddClasses(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                       Schema& schema) {
  int64_t others = column.texts();
  const std::map<std::string, Occurrences> counts = column.counts();
  for (const std::string& text : flags.classes) {
    schema.add_classes(text);
    const auto found = counts.find(text);
    others -= found == counts.end() ? 0 : found->second.rows;
  }
  if (MayLeaveOut(others, column, flags)) {
    return absl::StrCat(flags.classes.size(), " classes", LeftOut(others));
  }
  int64_t first_line = 0;
  for (const auto& [text, found] : counts) {
    if (!Has(flags.classes, text) && (first_line == 0 || found.first_line < first_line)) {
      first_line = found.first_line;
    }
  }
  return Unclear(
      path, column.name(),
      absl::StrCat("expected every label to be one of the ", flags.classes.size(), " classes of --class, found ",
                   others, " rows with others", first_line > 0 ? absl::StrCat(", first in line ", first_line) : ""));
}

absl::StatusOr<std::string> AddTarget(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                      Schema& schema) {
  double minimum = 0, maximum = 0;
  if (!absl::SimpleAtod(flags.target_minimum, &minimum) || !absl::SimpleAtod(flags.target_maximum, &maximum) ||
      !(minimum < maximum)) {
    return absl::InvalidArgumentError(
        "command line: --target_minimum, --target_maximum: expected two numbers, the first below the second");
  }
  const int64_t others = column.texts() - column.numbers();
  if (!MayLeaveOut(others, column, flags)) {
    return Unclear(path, column.name(), "a target must be a number, and some cells are not");
  }
  schema.set_target_minimum(minimum);
  schema.set_target_maximum(maximum);
  return absl::StrCat("a number to be predicted, in the range that was given", LeftOut(others));
}

absl::StatusOr<std::string> AddLabel(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                     Schema& schema, Schema::Column& into) {
  absl::StatusOr<std::string> why;
  if (!flags.classes.empty()) {
    into.set_kind(Schema::CLASS_LABEL);
    why = AddClasses(path, column, flags, schema);
  } else if (!flags.target_minimum.empty() || !flags.target_maximum.empty()) {
    into.set_kind(Schema::TARGET);
    why = AddTarget(path, column, flags, schema);
  } else {
    into.set_kind(Schema::LABEL);
    why = TwoValues(path, column, flags, schema);
  }
  int64_t without = column.rows() - column.texts();
  for (const auto* texts : {&schema.positive(), &schema.negative(), &schema.classes()}) {
    for (const std::string& text : *texts) {
      const auto marker = column.markers().find(text);
      without -= marker == column.markers().end() ? 0 : marker->second;
    }
  }
  if (why.ok() && without > 0) {
    absl::StrAppend(&*why, "; ", without, " rows without one, which --skip_bad_rows leaves out");
  }
  return why;
}

// Gives skewed numbers a scaling of their own; what is said of it.
std::string ProposeScaling(const ColumnProfile& column, Schema::Column& into) {
  if (into.kind() != Schema::NUMERIC) {
    return "";
  }
  std::vector<double> numbers = column.sample(into.decimal() == Schema::COMMA).numbers();
  double unknown = 0;
  for (const std::string& text : into.missing()) {
    if (ReadNumber(text, {}, unknown)) {
      numbers.erase(std::remove(numbers.begin(), numbers.end(), unknown), numbers.end());
    }
  }
  if (numbers.empty()) {
    return "";
  }
  std::sort(numbers.begin(), numbers.end());
  const Schema::Scaling scaling = ProposedScaling([&numbers](double share) {
    return numbers[static_cast<size_t>(share * static_cast<double>(numbers.size() - 1))];
  });
  if (scaling == Schema::ROBUST) {
    return "";
  }
  into.set_scaling(scaling);
  return scaling == Schema::LOG ? ", skewed: scaled as logarithms" : ", some far out: scaled as ranks";
}

void SetLayout(const ProfiledTable& table, const SchemaFlags& flags, Schema& schema) {
  schema.set_separator(std::string(1, table.layout.separator));
  schema.set_header(table.layout.header);
  schema.set_quotes(table.layout.quotes);
  schema.set_trim(table.layout.trim);
  std::set<std::string> missing(flags.missing.begin(), flags.missing.end());
  for (const ColumnProfile& column : table.profile.columns) {
    for (const auto& [text, count] : column.markers()) {
      missing.insert(text);
    }
  }
  for (const std::string& text : missing) {
    schema.add_missing(text);
  }
}

// What of the numbers to be predicted lies outside their range; warnings go into `proposal`.
std::string DescribeTarget(const ColumnProfile& column, const Schema::Column& into, SchemaProposal& proposal) {
  const bool comma = into.decimal() == Schema::COMMA;
  const double minimum = proposal.schema.target_minimum(), maximum = proposal.schema.target_maximum();
  for (std::string& warning : TargetWarnings(column, comma, minimum, maximum)) {
    proposal.warnings.push_back(std::move(warning));
  }
  const double clipped = ClippedShare(column, comma, minimum, maximum);
  return clipped > 0 ? absl::StrFormat(", %.2g%% clipped to it", 100 * clipped) : "";
}

}  // namespace

absl::StatusOr<SchemaProposal> ProposeSchema(const std::string& path, const ProfiledTable& table, bool has_label,
                                             const SchemaFlags& flags) {
  SPLITVEIL_RETURN_IF_ERROR(CheckNames(path, table, flags));
  if (has_label) {
    SPLITVEIL_RETURN_IF_ERROR(CheckLabelGiven(path, table, flags));
  } else if (!flags.label.empty()) {
    return absl::InvalidArgumentError("command line: --label: the non-label party has no labels: remove it");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string id, FindId(path, table, flags));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string split, FindSplitColumn(path, table, id, flags));
  SchemaProposal proposal;
  SetLayout(table, flags, proposal.schema);
  const Decimals decimals = DecimalsOf(table, flags);
  FeatureWarnings warnings;
  for (const ColumnProfile& column : table.profile.columns) {
    Schema::Column& into = *proposal.schema.add_columns();
    into.set_name(column.name());
    std::string why = "a different value in each row";
    if (column.name() == id) {
      into.set_kind(Schema::ID);
      if (!flags.id_pattern.empty()) {
        into.set_id_pattern(flags.id_pattern);
      }
      SPLITVEIL_ASSIGN_OR_RETURN(const std::set<v1::IdForm> forms, FindIdForms(path, column, flags));
      for (const v1::IdForm form : forms) {
        into.add_id_form(form);
        absl::StrAppend(&why, form == v1::INTEGER     ? "; as whole numbers: 7.0 and 007 are 7"
                              : form == v1::CASE_FOLD ? "; capitals are small letters"
                                                      : "");
      }
    } else if (!split.empty() && column.name() == split) {
      into.set_kind(flags.split);
      if (flags.split == Schema::TIME && !flags.time_zone.empty()) {
        into.set_time_zone(flags.time_zone);
      }
      why = absl::StrCat(
          flags.split == Schema::GROUP ? "all rows of a value on one side of the split" : "later rows are for testing",
          "; no feature");
    } else if (has_label && column.name() == flags.label) {
      SPLITVEIL_ASSIGN_OR_RETURN(why, AddLabel(path, column, flags, proposal.schema, into));
      if (into.kind() == Schema::TARGET) {
        SPLITVEIL_ASSIGN_OR_RETURN(const std::string format, AddFormat(path, column, decimals, into));
        absl::StrAppend(&why, format, DescribeTarget(column, into, proposal));
      }
    } else {
      SPLITVEIL_ASSIGN_OR_RETURN(why, AddFeature(path, column, flags, decimals, into, warnings));
      absl::StrAppend(&why, ProposeScaling(column, into));
    }
    proposal.why.push_back(why);
    proposal.has_categories = proposal.has_categories || into.kind() == Schema::CATEGORICAL;
    proposal.features += into.kind() == Schema::CATEGORICAL || into.kind() == Schema::NUMERIC ? 1 : 0;
  }
  absl::c_move(warnings.Lines(), std::back_inserter(proposal.warnings));
  if (proposal.has_categories) {
    proposal.schema.set_rare_below(kRareBelow);
  }
  if (!has_label && proposal.features == 0) {
    return Unclear(path, "", "expected a column to learn from, found none but the id and columns that tell nothing");
  }
  return proposal;
}

const Schema::Column& IdColumnOf(const SchemaProposal& proposal) {
  return *std::find_if(proposal.schema.columns().begin(), proposal.schema.columns().end(),
                       [](const Schema::Column& column) { return column.kind() == Schema::ID; });
}

std::string ProposalText(const SchemaProposal& proposal) {
  size_t width = std::string("column").size();
  for (const Schema::Column& column : proposal.schema.columns()) {
    width = std::max(width, OneLine(column.name()).size());
  }
  std::string text = absl::StrFormat("  %-*s  %-11s  %s\n", static_cast<int>(width), "column", "kind", "why");
  for (int i = 0; i < proposal.schema.columns_size(); ++i) {
    const Schema::Column& column = proposal.schema.columns(i);
    absl::StrAppendFormat(&text, "  %-*s  %-11s  %s\n", static_cast<int>(width), OneLine(column.name()),
                          Schema::Kind_Name(column.kind()), proposal.why[i]);
  }
  return text;
}

}  // namespace splitveil
