// Reports say of each defect where it was met, and leave none out.
#include "report/defects.hpp"

#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "report/html.hpp"
#include "report/observers.hpp"
#include "report/record.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Defect;
using engine::Entry;
using engine::Finding;
using engine::Summary;

constexpr std::size_t defects = 14;

// Defects of two findings each: the second one, which does not stand for it, was met first.
Summary summary() {
  Summary all;
  all.subject = "./mine.so";
  all.verb = "fuzz";
  for (std::size_t i = 0; i < defects; ++i) {
    Defect& defect = all.defects.emplace_back();
    for (const bool first : {false, true}) {
      Finding& finding = all.findings.emplace_back();
      finding.entry.property = "policy-bound";
      finding.entry.bucket = "bucket-" + std::to_string(i) + (first ? "-first" : "-simplest");
      finding.case_number = first ? 7 : 4321;
      finding.seconds_to_first = first ? 0.5 : 99;
      finding.cases_to_first = finding.case_number + 1;
      defect.findings.push_back(all.findings.size() - 1);
    }
  }
  return all;
}

TEST(Defects, AreToldByTheirFirstFailure) {
  const Summary all = summary();
  const std::string text = defects_text(all, {.verbose = true});
  EXPECT_NE(text.find("first in case 7 after " + duration(0.5)), std::string::npos) << text;
  EXPECT_EQ(text.find("4,321"), std::string::npos) << text;
  const nlohmann::json record = summary_json(all);
  EXPECT_EQ(record.at("defects").at(0).at("case"), 7);
  EXPECT_EQ(record.at("defects").at(0).at("seconds_to_first"), 0.5);
  const std::string page = html_page(record);
  EXPECT_NE(page.find("first in case 7 after " + duration(0.5)), std::string::npos);
}

TEST(Defects, OfACorpusSayNoCase) {
  Summary all = summary();
  for (Finding& finding : all.findings) finding.cases_to_first = 0;
  EXPECT_EQ(defects_text(all, {.verbose = true}).find("first in case"), std::string::npos);
  EXPECT_EQ(html_page(summary_json(all)).find("first in case"), std::string::npos);
}

TEST(Defects, AllStandOnTheTerminal) {
  const Summary all = summary();
  const std::string brief = defects_text(all), text = defects_text(all, {.verbose = true});
  for (std::size_t i = 0; i < defects; ++i) {
    const std::string number = "  " + std::to_string(i + 1) + ". ";
    EXPECT_NE(brief.find(number + headline(all, all.defects[i])), std::string::npos) << brief;
    EXPECT_NE(text.find(number + "bucket-" + std::to_string(i) + "-simplest"), std::string::npos) << text;
  }
}

TEST(Defects, SaySoInWords) {
  Summary all = summary();
  Entry& entry = all.findings[all.defects[0].findings.front()].entry;
  const auto words = [&] { return headline(all, all.defects[0]); };
  Evidence& evidence = entry.evidence.emplace();
  evidence.tensor = "lse";
  evidence.wrong = Wrong::nan;
  EXPECT_EQ(words(), "NaN in lse (law policy-bound)");
  evidence.wrong = Wrong::finite;
  EXPECT_EQ(words(), "wrong numbers in lse (law policy-bound)");
  evidence.wrong = Wrong::memory;
  EXPECT_EQ(words(), "wrong memory accesses (law policy-bound)");
  entry.seen = VerdictKind::crash;
  EXPECT_EQ(words(), "a crash");
}

TEST(Defects, OfUntrustedFilesDoNothingToATerminal) {
  Summary all = summary();
  Entry& entry = all.findings[all.defects[0].findings.front()].entry;
  entry.reason = entry.property = entry.bucket = "a\x1b[2Jb\nc";
  for (const bool verbose : {false, true})
    EXPECT_EQ(defects_text(all, {.verbose = verbose}).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace attest::report
