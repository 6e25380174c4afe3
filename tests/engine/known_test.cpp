// The defects of a campaign that a corpus knows: by buckets, laws and conditions, not by what there was time to shrink.
#include "engine/known.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "engine/campaign.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

const FailureKey bound{"policy-bound", VerdictKind::fail, "finite"},
    of_class{"result-class", VerdictKind::fail, "finite"}, padded{"pad-keys", VerdictKind::fail, "finite"};

Predicate says(const char* text) { return *predicate_from_text(text, *ops::all_ops().front()); }

Finding finding(const FailureKey& key, const char* problem, const std::string& bucket) {
  Finding found;
  found.entry.subject = "external:mine";
  found.entry.problem = ops::problem_from_text(problem);
  found.entry.property = key.property;
  found.entry.bucket = bucket;
  found.entry.evidence.emplace();
  found.entry.evidence->wrong = Wrong::finite;
  return found;
}

constexpr const char *causal = "b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=4 dtype=f32 causal=1 values=normal seed=1",
                     *plain = "b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=4 dtype=f32 values=normal seed=1";

// One defect of one finding.
Summary of(const FailureKey& key, const char* problem, const char* predicate, std::uint64_t failing) {
  Summary all;
  all.findings.push_back(finding(key, problem, "another"));
  Defect& defect = all.defects.emplace_back();
  defect.findings = {0};
  defect.key = key;
  if (predicate) defect.predicate = says(predicate);
  defect.counts = {failing, failing, 0, 100};
  return all;
}

Entry entry(const FailureKey& key, const char* problem, const char* predicate, std::uint64_t asked = 20) {
  Entry known = finding(key, problem, "its own").entry;
  if (predicate) known.explained = Explained{key, predicate, {20, asked, 0, 100}};
  return known;
}

using Reproduced = decltype(KnownQuestions::reproduced);

std::vector<KnownEntry> corpus_of(const std::vector<Entry>& entries) {
  std::vector<KnownEntry> corpus;
  for (const Entry& one : entries) corpus.push_back({one, {}});
  return corpus;
}

bool known(Summary all, const std::vector<Entry>& entries, const Reproduced& reproduced = {}) {
  const std::vector<KnownEntry> corpus = corpus_of(entries);
  Known(corpus, attest::Supports::everything(), {{}, reproduced, {}}).mark(all);
  EXPECT_EQ(all.defects[0].known, all.findings[0].known);
  return all.defects[0].known;
}

TEST(Known, ByTheConditionOfTheDefect) {
  EXPECT_TRUE(known(of(bound, causal, "causal==1", 20), {entry(bound, causal, nullptr)}));
  EXPECT_FALSE(known(of(bound, causal, "causal==1", 20), {entry(bound, plain, nullptr)}));    // elsewhere
  EXPECT_FALSE(known(of(bound, causal, "causal==1", 20), {entry(padded, causal, nullptr)}));  // a law of other calls
  EXPECT_TRUE(
      known(of(bound, causal, "causal==1", 20), {entry(of_class, causal, nullptr)}));       // another of the same call
  EXPECT_FALSE(known(of(bound, causal, "causal==1", 3), {entry(bound, causal, nullptr)}));  // learned of too little
  EXPECT_FALSE(known(of(bound, causal, nullptr, 20), {entry(bound, causal, nullptr)}));     // no condition
}

TEST(Known, ByTheConditionOfTheEntry) {
  EXPECT_TRUE(known(of(bound, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));
  EXPECT_TRUE(
      known(of(of_class, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));  // another of the same call
  EXPECT_FALSE(known(of(of_class, plain, nullptr, 1), {entry(bound, causal, "causal==1")}));     // does not meet it
  EXPECT_FALSE(known(of(padded, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));      // a law of other calls
  EXPECT_FALSE(known(of(bound, plain, nullptr, 1), {entry(bound, causal, "causal==1")}));        // does not meet it
  EXPECT_FALSE(known(of(bound, causal, nullptr, 1), {entry(bound, causal, "causal==1", 200)}));  // fails in one of ten
  FailureKey crash = bound;
  crash.kind = VerdictKind::crash;
  EXPECT_FALSE(known(of(crash, causal, nullptr, 1), {entry(bound, causal, "causal==1")}));
  Entry other = entry(bound, causal, "causal==1");
  other.subject = "external:other";
  EXPECT_FALSE(known(of(bound, causal, nullptr, 1), {other}));
}

TEST(Known, ByALawThatIsAsked) {
  const std::vector<Entry> corpus{entry(bound, causal, "causal==1")};
  int asked = 0;
  const auto shows = [&](const FailureKey& key, const char* problem) -> Reproduced {
    return [&asked, key, shrunk = std::string(problem)](const Problem&, const std::string& law) {
      ++asked;
      return law == key.property ? std::optional(finding(key, shrunk.c_str(), "shrunk").entry) : std::nullopt;
    };
  };
  EXPECT_TRUE(known(of(padded, causal, nullptr, 1), corpus, shows(bound, causal)));
  EXPECT_FALSE(known(of(padded, causal, nullptr, 1), corpus, shows(bound, plain)));    // another failure of that law
  EXPECT_FALSE(known(of(padded, causal, nullptr, 1), corpus, shows(padded, causal)));  // the law holds there
  EXPECT_GT(asked, 2);
}

// A law that fails everywhere fails on the problem of every entry.
TEST(Known, NotByItsOwnLawOnAnEntry) {
  const Reproduced shows = [](const Problem&, const std::string& law) {
    return law == padded.property ? std::optional(finding(padded, plain, "another").entry) : std::nullopt;
  };
  EXPECT_FALSE(known(of(padded, plain, nullptr, 1), {entry(bound, causal, "causal==1")}, shows));
}

// A failure that was grouped with a known one is told by the corpus itself, or is new.
TEST(Known, AFailureThatIsClusteredWronglyIsNotHidden) {
  Summary all = of(bound, causal, "causal==1", 20);
  all.findings.push_back(finding(padded, plain, "new"));
  all.defects[0].findings.push_back(1);
  const std::vector<KnownEntry> corpus = corpus_of({entry(bound, causal, "causal==1")});
  Known(corpus, attest::Supports::everything()).mark(all);
  EXPECT_FALSE(all.defects[0].known);
  EXPECT_EQ(all.defects[0].findings.front(), 1u);
  EXPECT_TRUE(all.findings[0].known);
  EXPECT_EQ(all.exit(), Exit::found);
}

TEST(Known, ByTheBucketsOfTheDefect) {
  Summary all = of(bound, causal, nullptr, 1);
  all.findings[0].entry.bucket = "its own";
  const std::vector<KnownEntry> corpus = corpus_of({entry(bound, plain, nullptr)});
  Known(corpus, attest::Supports::everything()).mark(all);
  EXPECT_TRUE(all.defects[0].known);
  EXPECT_EQ(all.exit(), Exit::held);
}

TEST(Known, ByTheNameOfTheEntryThatTellsIt) {
  Summary all = of(bound, causal, nullptr, 1);
  const std::vector<KnownEntry> corpus{{entry(padded, plain, nullptr), "findings/other-1.json"},
                                       {all.findings[0].entry, "findings/mine-2.json"}};
  Known(corpus, attest::Supports::everything()).mark(all);
  EXPECT_EQ(all.findings[0].known_as, "mine-2");
  EXPECT_EQ(all.known_as(all.defects[0]), std::set<std::string>{"mine-2"});
  Known({}, attest::Supports::everything()).mark(all);
  EXPECT_EQ(all.findings[0].known_as, "");
}

TEST(Known, NotByAnEntryThatShowsNoMore) {
  Summary all = of(bound, causal, nullptr, 1);
  all.findings[0].entry.bucket = "its own";
  const std::vector<KnownEntry> corpus = corpus_of({entry(bound, causal, "causal==1")});
  Known(corpus, attest::Supports::everything(), {[](const Entry&) { return false; }, {}, {}}).mark(all);
  EXPECT_FALSE(all.defects[0].known);
  EXPECT_EQ(all.exit(), Exit::found);
}

// ---- campaigns -----------------------------------------------------------------------------------------------------

using Where = std::function<bool(const attest_attention&)>;

// A kernel whose first number is wrong there.
std::unique_ptr<test::FakeFactory> wrong(const SubjectFactory& right, Where where) {
  return test::meddled(right, [where = std::move(where)](const attest_attention& call, CallResult result) {
    const auto* shape = call.out.shape;
    if (shape[0] * shape[1] * shape[2] * shape[3] > 0 && where(call)) *static_cast<float*>(call.out.data) += 1;
    return result;
  });
}
bool is_causal(const attest_attention& call) { return call.causal != 0 && call.k.shape[2] > 3; }
bool is_capped(const attest_attention& call) { return call.softcap > 0 && call.q.shape[2] > 1; }

// One campaign of a kernel whose corpus is in a folder, to which its reproducers come.
Summary night(const SubjectFactory& subject, std::uint64_t seed, const std::filesystem::path& corpus,
              std::uint64_t cases = 400) {
  CampaignOptions options;
  options.subject = "./mine.so";
  options.policy = Policy();
  options.cases = cases;
  options.seed = seed;
  options.jobs = 2;
  options.corpus = corpus;
  std::filesystem::create_directories(corpus);
  options.known = known_entries(corpus);
  const auto peer = builtin_subject("builtin:explicit", {});
  Observer silent;
  return run_campaign(subject, peer.get(), options, silent);
}

TEST(KnownNights, OneDefectIsNewOnce) {
  const auto right = builtin_subject("builtin:fused", {});
  const auto subject = wrong(*right, is_causal);
  const test::TemporaryFolder folder;
  std::size_t told_otherwise = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::set<std::string> before = seed > 1 ? buckets_of(known_entries(folder.path())) : std::set<std::string>();
    const Summary summary = night(*subject, seed, folder.path(), seed == 1 ? 50 : 1200);
    EXPECT_EQ(summary.exit(), seed == 1 ? Exit::found : Exit::held) << seed;
    EXPECT_FALSE(summary.findings.empty());
    for (const Finding& finding : summary.findings)
      told_otherwise += seed > 1 && !is_known(before, finding.entry.bucket);
  }
  EXPECT_GT(told_otherwise, 0u) << "the later nights had no bucket that was new: nothing was tried";
}

// A corpus whose defect was mended tells nothing of another that fails on its problems too.
TEST(KnownNights, ADefectInPlaceOfAKnownOneIsNew) {
  const auto right = builtin_subject("builtin:fused", {});
  const test::TemporaryFolder folder;
  night(*wrong(*right, is_causal), 1, folder.path());
  const auto zeros = test::meddled(*right, [](const attest_attention& call, CallResult result) {
    const auto* shape = call.out.shape;
    if (shape[0] * shape[1] * shape[2] * shape[3] > 0 && is_causal(call)) *static_cast<float*>(call.out.data) = -1000;
    return result;
  });
  EXPECT_EQ(night(*zeros, 2, folder.path()).exit(), Exit::found);
}

TEST(KnownNights, AnotherDefectBesideAKnownOneIsNew) {
  const auto right = builtin_subject("builtin:fused", {});
  for (const bool causal_is_known : {true, false}) {
    const Where first = causal_is_known ? is_causal : is_capped, second = causal_is_known ? is_capped : is_causal;
    const test::TemporaryFolder folder;
    for (const std::uint64_t seed : {1, 2}) night(*wrong(*right, first), seed, folder.path());
    const auto both =
        wrong(*right, [first, second](const attest_attention& call) { return first(call) || second(call); });
    const Summary summary = night(*both, 3, folder.path());
    EXPECT_EQ(summary.exit(), Exit::found);
    for (const Finding& finding : summary.findings) {
      if (finding.known) continue;
      const attest::Problem& problem = finding.entry.problem.as<attest::Problem>();
      EXPECT_TRUE(causal_is_known ? problem.softcap > 0 : problem.causal) << finding.entry.bucket;
    }
    EXPECT_EQ(night(*both, 4, folder.path()).exit(), Exit::held);
  }
}

}  // namespace
}  // namespace attest::engine
