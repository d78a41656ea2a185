// Runs the real `splitveil`.
#ifndef SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_OPERATOR_TOOL_H_
#define SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_OPERATOR_TOOL_H_

#include <string>
#include <vector>

#include "tests/testing/process/child_process.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {

// `splitveil` with `arguments`; `standard_input` is what it may read.
ChildResult RunTool(const std::vector<std::string>& arguments, const std::string& standard_input = "");

// Runs it, expects success in silence on standard error, and returns its output.
std::string ExpectDone(const std::vector<std::string>& arguments, const std::string& standard_input = "");

// Runs it and expects this exit code, nothing on standard output and one line "splitveil ...: error: MESSAGE" on
// standard error; returns MESSAGE.
std::string ExpectError(int exit_code, const std::vector<std::string>& arguments,
                        const std::string& standard_input = "");

// Writes `contents` to `path`; the test fails where it cannot.
void WriteText(const std::string& path, const std::string& contents);

// A configuration of either role, valid, with certificates beside it (not made). `tail` is added at its end.
std::string LabelConfig(const std::string& tail = "");
std::string NonLabelConfig(const std::string& tail = "");

// Names in them.
inline constexpr char kLabelName[] = "label.example";
inline constexpr char kNonLabelName[] = "nonlabel.example";

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_OPERATOR_TOOL_H_
