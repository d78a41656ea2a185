#include "deploy/operator/profile/profile_report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/page/page.h"

#include "common/page/embedded.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"

namespace splitveil {

SPLITVEIL_EMBEDDED(ProfileHtml);
SPLITVEIL_EMBEDDED(ProfileCss);
SPLITVEIL_EMBEDDED(ProfileJs);

namespace {

using Schema = v1::TableSchema;

constexpr double kShares[] = {0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1};
constexpr size_t kBars = 24;
constexpr char kTableKey[] = "table";  // The first of the JSON.

// A column of the schema with its profile.
struct Shown {
  const Schema::Column& column;
  const ColumnProfile& profile;

  bool has_numbers() const {
    return column.kind() == Schema::NUMERIC && !profile.extremes(decimal_comma()).least().empty();
  }
  bool decimal_comma() const { return column.decimal() == Schema::COMMA; }
  // Exact at the ends.
  double quantile(double share) const {
    const Extremes& ends = profile.extremes(decimal_comma());
    return share == 0   ? ends.least().front().number
           : share == 1 ? -ends.negated_greatest().front().number
                        : profile.sample(decimal_comma()).Quantile(share);
  }
};

std::vector<Shown> ColumnsOf(const ProfileReport& report) {
  std::vector<Shown> columns;
  for (int i = 0; i < report.schema.columns_size(); ++i) {
    columns.push_back({report.schema.columns(i), report.profile.columns[static_cast<size_t>(i)]});
  }
  return columns;
}

std::string Figure(const Shown& column, double share) {
  return column.has_numbers() ? absl::StrFormat("%.5g", column.quantile(share)) : "-";
}

// "integer 980 (2-1001), text 20 (7-900)".
std::string Forms(const ColumnProfile& profile) {
  std::string text;
  for (size_t form = 0; form < kCellFormNames.size(); ++form) {
    const Occurrences& found = profile.form(static_cast<CellForm>(form));
    if (found.rows > 0) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", kCellFormNames[form], " ", found.rows, " (", found.first_line,
                      "-", found.last_line, ")");
    }
  }
  return text;
}

Json EndJson(const std::vector<Extremes::Extreme>& extremes, double sign) {
  Json json = Json::array();
  for (const Extremes::Extreme& extreme : extremes) {
    json.push_back({{"number", ExactJson(sign * extreme.number)}, {"rows", extreme.rows}});
  }
  return json;
}

void AddNumbers(const Shown& column, Json& json) {
  const NumberSample& sample = column.profile.sample(column.decimal_comma());
  for (const double share : kShares) {
    json["quantiles"][absl::StrCat(share)] = ExactJson(column.quantile(share));
  }
  json["least"] = EndJson(column.profile.extremes(column.decimal_comma()).least(), 1);
  json["greatest"] = EndJson(column.profile.extremes(column.decimal_comma()).negated_greatest(), -1);
  const double from = column.quantile(0.01), to = column.quantile(0.99);
  const std::vector<int64_t> bars = sample.Histogram(kBars, from, to);
  int64_t all = 0;
  for (const int64_t bar : bars) {
    all += bar;
  }
  Json shares = Json::array();
  for (const int64_t bar : bars) {
    shares.push_back(NumberJson(static_cast<double>(bar) / static_cast<double>(all)));
  }
  json["histogram"] = {{"from", ExactJson(from)}, {"to", ExactJson(to)}, {"shares", std::move(shares)}};
}

Json ColumnJson(const Shown& column) {
  const ColumnProfile& profile = column.profile;
  Json forms = Json::object(), words = Json::object();
  for (size_t form = 0; form < kCellFormNames.size(); ++form) {
    const Occurrences& found = profile.form(static_cast<CellForm>(form));
    if (found.rows > 0) {
      forms[kCellFormNames[form]] = {
          {"rows", found.rows}, {"first_line", found.first_line}, {"last_line", found.last_line}};
    }
  }
  for (const auto& [word, rows] : profile.markers()) {
    words[word] = rows;
  }
  Json json = {{"name", column.column.name()},   {"kind", Schema::Kind_Name(column.column.kind())},
               {"rows", profile.rows()},         {"missing", {{"empty", profile.empty()}, {"words", std::move(words)}}},
               {"distinct", profile.distinct()}, {"distinct_is_exact", profile.distinct_is_exact()},
               {"forms", std::move(forms)}};
  if (column.has_numbers()) {
    AddNumbers(column, json);
  }
  return json;
}

}  // namespace

std::string ProfileText(const ProfileReport& report) {
  size_t width = std::string("column").size();
  for (const Schema::Column& column : report.schema.columns()) {
    width = std::max(width, OneLine(column.name()).size());
  }
  const int name_width = static_cast<int>(width);
  std::string text = absl::StrFormat("  %-*s %8s %10s %11s %11s %11s  %s\n", name_width, "column", "missing",
                                     "distinct", "least", "median", "greatest", "forms, rows (first and last line)");
  for (const Shown& column : ColumnsOf(report)) {
    const ColumnProfile& profile = column.profile;
    const double missing = static_cast<double>(profile.rows() - profile.texts()) /
                           static_cast<double>(std::max<int64_t>(profile.rows(), 1));
    absl::StrAppendFormat(&text, "  %-*s %7.1f%% %10s %11s %11s %11s  %s\n", name_width, OneLine(column.column.name()),
                          100 * missing, absl::StrCat(profile.distinct_is_exact() ? "" : "~", profile.distinct()),
                          Figure(column, 0), Figure(column, 0.5), Figure(column, 1), Forms(profile));
  }
  for (const std::string& warning : report.warnings) {
    absl::StrAppend(&text, "WARNING: ", OneLine(warning), "\n");
  }
  return text;
}

Json ProfileJson(const ProfileReport& report) {
  Json columns = Json::array();
  for (const Shown& column : ColumnsOf(report)) {
    columns.push_back(ColumnJson(column));
  }
  const int64_t rows = report.profile.columns.empty() ? 0 : report.profile.columns.front().rows();
  return {{kTableKey, report.table}, {"rows", rows}, {"columns", std::move(columns)}, {"warnings", report.warnings}};
}

absl::Status CheckProfilePath(const std::string& path) {
  return path.empty()                    ? absl::OkStatus()
         : absl::EndsWith(path, ".html") ? CheckOwnPage(path)
                                         : CheckOwnTable(path, absl::StrCat("{\n  \"", kTableKey, "\": \""));
}

absl::Status WriteProfile(const std::string& path, const ProfileReport& report) {
  SPLITVEIL_RETURN_IF_ERROR(CheckProfilePath(path));
  const Json json = ProfileJson(report);
  return WriteFile(path, absl::EndsWith(path, ".html")
                             ? RenderPage({EmbeddedProfileHtml(), "Splitveil: profile of a table", EmbeddedProfileCss(),
                                           EmbeddedProfileJs()},
                                          json)
                             // Cells may be any bytes.
                             : json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace splitveil
