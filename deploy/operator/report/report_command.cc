#include "deploy/operator/report/report.h"

#include <cstdio>
#include <string>

#include "deploy/operator/command.h"

namespace splitveil {
namespace {

absl::Status Report(const Flags& flags) {
  const std::string out = flags.Get("out");
  absl::Status written = WriteReport(flags.GetList("ledger"), out);
  if (written.ok()) {
    std::printf("%s\n", out.c_str());
  }
  return written;
}

}  // namespace

Command ReportCommand() {
  return {"report",
          "Write a page on the runs that ledgers recorded; it opens offline.",
          {{"ledger", "", "Ledger of either party.", /*required=*/true, /*is_switch=*/false, /*is_list=*/true},
           {"out", "", "HTML file to write.", /*required=*/true}},
          Report};
}

}  // namespace splitveil
