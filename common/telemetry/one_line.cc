#include "common/telemetry/one_line.h"

#include "absl/strings/ascii.h"

namespace splitveil {
namespace {

// U+0080 to U+009F, which some terminals obey as they obey escape sequences.
bool IsC1Control(unsigned char lead, unsigned char trail) { return lead == 0xC2 && trail >= 0x80 && trail <= 0x9F; }

}  // namespace

std::string OneLine(absl::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (absl::ascii_iscntrl(text[i])) {
      line.push_back(' ');
    } else if (i + 1 < text.size() && IsC1Control(text[i], text[i + 1])) {
      line.push_back(' ');
      ++i;
    } else {
      line.push_back(text[i]);
    }
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return line;
}

}  // namespace splitveil
