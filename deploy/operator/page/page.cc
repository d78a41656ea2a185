#include "deploy/operator/page/page.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/crypto/sha256.h"
#include "common/page/embedded.h"
#include "common/storage/file_system.h"

namespace splitveil {

SPLITVEIL_EMBEDDED(PageCss);
SPLITVEIL_EMBEDDED(PageDataJs);
SPLITVEIL_EMBEDDED(PageJs);
SPLITVEIL_EMBEDDED(ChartJs);
SPLITVEIL_EMBEDDED(PageHtml);

namespace {

constexpr char kPolicy[] = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src ";

// A content security policy's source expression for an inline element with exactly this text.
std::string HashSource(absl::string_view text) {
  return absl::StrCat("'sha256-", absl::Base64Escape(AsBytes(Sha256(text))), "'");
}

}  // namespace

std::string ScriptSafe(const Json& json) {
  return absl::StrReplaceAll(json.dump(-1, ' ', false, Json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

absl::Status CheckOwnPage(const std::string& path) {
  const absl::string_view page = EmbeddedPageHtml();
  return CheckOwnTable(path, absl::StrCat(page.substr(0, page.find("{{policy}}")), kPolicy));
}

std::string RenderPage(const PageParts& parts, const Json& json) {
  const std::string style = absl::StrCat(EmbeddedPageCss(), parts.style);
  const std::string script = absl::StrCat(EmbeddedPageDataJs(), EmbeddedPageJs(), parts.script);
  // Only the embedded scripts run, whatever a ledger holds, and nothing is loaded.
  const std::string policy =
      absl::StrCat(kPolicy, HashSource(EmbeddedChartJs()), " ", HashSource(script), "; style-src ", HashSource(style));
  // The body may name the title too; then one pass: what is put in is not searched again.
  const std::string html = absl::StrReplaceAll(EmbeddedPageHtml(), {{"{{body}}", parts.body}});
  return absl::StrReplaceAll(html, {{"{{policy}}", policy},
                                    {"{{title}}", parts.title},
                                    {"{{style}}", style},
                                    {"{{chart}}", EmbeddedChartJs()},
                                    {"{{data}}", ScriptSafe(json)},
                                    {"{{script}}", script}});
}

}  // namespace splitveil
