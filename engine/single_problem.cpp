// --problem: one problem, as given, with every law that the options ask for.
#include <utility>

#include "engine/bucket.hpp"
#include "engine/campaign.hpp"
#include "engine/closing.hpp"
#include "engine/cluster.hpp"
#include "engine/corpus.hpp"
#include "engine/effective.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
#include "engine/instance.hpp"
#include "engine/known.hpp"
#include "engine/restated.hpp"
#include "engine/stream.hpp"

namespace attest::engine {
namespace {

// The failure as it was seen: an entry that nothing was shrunk of.
Entry seen_entry(const Problem& problem, const SubjectInfo& info, const CaseOutcome& outcome,
                 const CampaignOptions& options) {
  const Verdict& verdict = outcome.finding()->verdict;
  Entry entry;
  entry.subject = portable_subject(options.subject);
  entry.problem = problem;
  entry.contract = contract_for_problem(info_judged_by(info, outcome.as_probed), options.policy, problem);
  entry.as_probed = outcome.as_probed;
  entry.property = outcome.key().property;
  entry.bucket = bucket_of(outcome.key(), entry.subject, policy_of(entry.contract), problem);
  entry.policy_given = options.policy.has_value();
  entry.seen = verdict.kind;
  entry.reason = verdict.reason;
  entry.evidence = verdict.evidence;
  return entry;
}

}  // namespace

Summary run_problem(const Problem& problem, const SubjectFactory& subject, const SubjectFactory& peer,
                    const CampaignOptions& options) {
  if (!options.corpus.empty()) require_writable(options.corpus);
  const SubjectInfo& info = subject.info();
  const Contract contract = contract_for_problem(info, options.policy, problem);
  const auto laws = choose_laws(options.laws, problem, contract, info, seed_of(problem), 0);
  Station station(subject, &peer, options.subject_b.has_value());
  const Bench bench = station.bench();
  const CaseOutcome outcome = check_confirmed(problem, contract, bench, laws);

  Summary summary = begun(options, info, peer.info());
  summary.seed = seed_of(problem);
  summary.add(problem, outcome);
  if (!outcome.finding()) return summary;
  Finding finding;
  finding.cases_to_first = 1;
  if (options.corpus.empty()) {
    finding.entry = seen_entry(problem, info, outcome, options);
  } else {
    finding.entry = reproduce({problem, outcome, seed_of(problem), {}}, bench, options.subject, options.policy,
                              {info, problem.op().dtypes(info), {}}, options.shrink, {});
    name_subjects(options, finding.entry);
    finding.reproducer = write_entry(finding.entry, options.corpus).string();
  }
  summary.findings.push_back(std::move(finding));
  const Supports supports = info;
  summary.defects = cluster(summary.findings, {CaseTable(supports), {}, {}});
  Known(options.known, supports).mark(summary);
  for (Defect& defect : summary.defects) defect.effective = effective_precision(subject, summary, defect);
  explain_defects(summary, station, {info, problem.op().dtypes(info), {}}, options);
  return summary;
}

}  // namespace attest::engine
