#include "deploy/operator/report/page.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/report/embedded.h"

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

// A content security policy's source expression for an inline element with exactly this text.
std::string HashSource(absl::string_view text) {
  return absl::StrCat("'sha256-", absl::Base64Escape(AsBytes(Sha256(text))), "'");
}

}  // namespace

std::string RenderPage(const PageParts& parts, absl::string_view json) {
  // Only the embedded scripts run, whatever a ledger holds, and nothing is loaded.
  const std::string policy = absl::StrCat(
      "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src ",
      HashSource(EmbeddedChartJs()), " ", HashSource(parts.script), "; style-src ", HashSource(parts.style));
  // One pass: what is put in is not searched again.
  return absl::StrReplaceAll(parts.html, {{"{{policy}}", policy},
                                          {"{{style}}", parts.style},
                                          {"{{chart}}", EmbeddedChartJs()},
                                          {"{{data}}", json},
                                          {"{{script}}", parts.script}});
}

std::string RenderPage(absl::string_view json) {
  return RenderPage({EmbeddedReportHtml(), EmbeddedReportCss(), EmbeddedReportJs()}, json);
}

}  // namespace splitveil
