#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

#include "common/process/file.h"
#include "label_party/protection/marvell_table.h"

namespace splitveil {
namespace {

absl::Status Marvell(const Flags& flags) {
  const std::string input = flags.Get("input");
  std::istringstream file;
  if (!input.empty()) {
    absl::StatusOr<std::string> contents = ReadFile(input);
    if (!contents.ok()) {
      return contents.status();
    }
    file.str(*std::move(contents));
  }
  std::ostringstream solved;
  const absl::Status status = SolveMarvellTable(input.empty() ? std::cin : file, solved);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(input.empty() ? "standard input" : input, ": ", status.message()));
  }
  const std::string table = solved.str();
  if (!flags.Get("out").empty()) {
    return WriteFile(flags.Get("out"), table);
  }
  std::fwrite(table.data(), 1, table.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

Command MarvellCommand() {
  return {"marvell",
          "Solve Marvell's noise for each row d,u,v,g,p,P of a CSV table.",
          {{"input", "", "Table to read; standard input where absent."},
           {"out", "", "Table to write; standard output where absent."}},
          Marvell};
}

}  // namespace splitveil
