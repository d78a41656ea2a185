#include "common/command_line/renamed_flags.h"

namespace splitveil {
namespace {

constexpr RenamedFlag kRenamedFlags[] = {
    {"splitveil marvell", "--max_auc", "--max_run_auc_bound"},
    {"splitveil marvell", "--s_growth", "--noise_growth_per_epoch"},
};

}  // namespace

absl::Span<const RenamedFlag> RenamedFlags() { return kRenamedFlags; }

absl::string_view NewFlagOf(absl::string_view command, absl::string_view flag) {
  for (const RenamedFlag& renamed : kRenamedFlags) {
    if (renamed.command == command && renamed.old_name == flag) {
      return renamed.new_name;
    }
  }
  return "";
}

}  // namespace splitveil
