#include "engine/avoid.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/evidence.hpp"
#include "engine/learn.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr std::uint64_t most_redraws = 40;
constexpr double least_share = 0.25;  // share of the key's failures that nothing explains
constexpr double least_bits = 6;      // saved by a predicate, its own length paid for
constexpr std::size_t learned_at_once = 4;
constexpr std::uint64_t redraw_stream = 0x61766F6964, confirm_stream = 0x636F6E6669;
constexpr double most_time = 0.1;  // for deaths and errors that there are rules for, of the time that all else takes
constexpr std::uint64_t rarest = 4096;
constexpr std::uint64_t confirmed_one_in = 8;

bool learnable(const FailureKey& key) {
  const Law* law = find_law(key.property);
  return key.kind != VerdictKind::flaky && law != nullptr;
}

}  // namespace

bool AvoidRule::explains(const FailureKey& failure, const Row& row) const {
  return !costly && failure == key && predicate.holds(row);
}

std::string to_text(const AvoidRule& rule) {
  if (rule.problems) return to_text(rule.predicate);
  return "law==" + rule.key.property + (rule.predicate.atoms.empty() ? "" : " && " + to_text(rule.predicate));
}

// Cases of one plan look together: one of them alone would need another plan.
bool Avoidance::looks_inside(const AvoidRule& rule, std::uint64_t plan) const noexcept {
  return below(extend(extend(mix(seed_), redraw_stream), plan), rule.one_in) == 0;
}

bool Avoidance::avoided(const Problem& problem, std::uint64_t plan) const {
  return std::ranges::any_of(rules, [&](const AvoidRule& rule) {
    return rule.problems && applies(rule) && !looks_inside(rule, plan) && rule.predicate.holds(problem, supports_);
  });
}

std::uint64_t Avoidance::seed_after(std::uint64_t redraws) const noexcept {
  return redraws == 0 ? seed_ : extend(extend(mix(seed_), redraw_stream), redraws);
}

Problem Avoidance::drawn_before(const Domain& domain, std::uint64_t number, std::uint64_t repeat,
                                std::uint64_t redraws) const {
  return domain.draw(seed_after(redraws), number, repeat).problem;
}

Avoidance::Drawn Avoidance::draw(const Domain& domain, std::uint64_t number, std::uint64_t repeat,
                                 const std::function<bool(std::uint64_t)>& turned_away) const {
  Drawn drawn;
  const auto draw = [&] {
    Drawing drawing = domain.draw(seed_after(drawn.redraws), number, repeat);
    drawn.problem = std::move(drawing.problem);
    drawn.rejected += drawing.rejected;
  };
  while (drawn.redraws < most_redraws && turned_away && turned_away(drawn.redraws)) ++drawn.redraws;
  draw();
  while (drawn.redraws < most_redraws &&
         ((turned_away && turned_away(drawn.redraws)) || avoided(drawn.problem, number / repeat))) {
    ++drawn.redraws;
    draw();
  }
  return drawn;
}

std::size_t Avoidance::leave_out(std::vector<std::size_t>& laws, const Problem& problem, std::uint64_t number,
                                 std::uint64_t repeat) const {
  return std::erase_if(laws, [&](std::size_t law) {
    return std::ranges::any_of(rules, [&](const AvoidRule& rule) {
      return !rule.problems && applies(rule) && rule.key.property == all_laws()[law].name &&
             !looks_inside(rule, number / repeat) && rule.predicate.holds(problem, supports_);
    });
  });
}

std::uint64_t Avoidance::boundary_after(std::uint64_t number) noexcept {
  std::uint64_t octave = 16;
  if (number < octave) return octave;
  while (number >= 2 * octave) octave *= 2;
  return number < octave + octave / 2 ? octave + octave / 2 : 2 * octave;
}

void Avoidance::count(const CaseRow& row) {
  for (AvoidRule& rule : rules) {
    const bool failed = row.fails(rule.key);
    if ((!failed && !row.holds(rule.key.property)) || !rule.predicate.holds(row.traits)) continue;
    ++rule.asked;
    rule.failing += failed;
  }
}

void Avoidance::learn(const CaseTable& table, std::uint64_t repeat) {
  for (AvoidRule& rule : rules) rule.retired = rule.retired || (!rule.costly && rule.failing < rule.asked);
  if (learns_) {
    learn_conditions(table, repeat);
    leave_out_costly(table);
  }
  share_time();
}

void Avoidance::learn_conditions(const CaseTable& table, std::uint64_t repeat) {
  // The keys with the most failures that nothing explains come first; each plan counts by its first failure.
  struct Unexplained {
    FailureKey key;
    std::vector<const Row*> failing, first_of_plans;
    std::uint64_t last_plan = 0;
  };
  std::map<std::string, Unexplained> open;
  for (const CaseRow& row : table.rows())
    for (const FailureKey& key : row.failures)
      if (learnable(key) && std::ranges::none_of(rules, [&](const AvoidRule& rule) {
            return !rule.retired && rule.explains(key, row.traits);
          })) {
        Unexplained& entry = open[to_text(key)];
        const std::uint64_t plan = row.number / repeat;
        if (entry.failing.empty() || entry.last_plan != plan) entry.first_of_plans.push_back(&row.traits.row());
        entry.failing.push_back(&row.traits.row());
        entry.key = key;
        entry.last_plan = plan;
      }
  std::vector<const Unexplained*> keys;
  for (const auto& [text, entry] : open)
    if (entry.first_of_plans.size() >= least_explained) keys.push_back(&entry);
  std::ranges::stable_sort(
      keys, [](const auto* a, const auto* b) { return a->first_of_plans.size() > b->first_of_plans.size(); });
  if (keys.size() > learned_at_once) keys.resize(learned_at_once);
  for (const auto* entry : keys) {
    const auto& [key, every, failing, plan] = *entry;
    const std::vector<const Row*> passing = table.holding(key.property);
    const Learned learned =
        engine::learn(failing, thinned_out(passing), {}, {.pure = true, .of_layout = key.property == "layout"});
    const Separation all = separation(learned.predicate, failing, passing);
    if (all.failing < least_explained || all.failing < all.asked ||
        static_cast<double>(all.failing) < least_share * static_cast<double>(failing.size()))
      continue;
    const bool problems = find_law(key.property)->base_call();
    // A law that nothing ever passed needs no predicate to be left out; a whole campaign would.
    if (learned.predicate.atoms.empty() ? problems : learned.bits < least_bits) continue;
    const std::uint64_t inside = separation(learned.predicate, every, {}).failing;
    rules.push_back({key, learned.predicate, problems, false, inside, inside, false});
    if (const auto spent = open_.find(to_text(key)); spent != open_.end()) {
      const double share = static_cast<double>(all.failing) / static_cast<double>(failing.size());
      rules.back().seconds = share * spent->second.seconds;
      spent->second.seconds -= rules.back().seconds;
    }
  }
}

// A law whose own calls end the subject now and then, under conditions of these calls that no predicate of the problem
// says.
void Avoidance::leave_out_costly(const CaseTable& table) {
  for (auto& [text, spent] : open_) {
    const Law* law = find_law(spent.key.property);
    if (law->base_call() || spent.failing < least_explained || spent.seconds < most_time * clean_seconds_ ||
        std::ranges::any_of(rules,
                            [&key = spent.key](const AvoidRule& rule) { return rule.costly && rule.key == key; }))
      continue;
    const std::uint64_t held = table.holding(spent.key.property).size();
    AvoidRule rule{spent.key, {}, false, false, spent.failing, spent.failing + held, false};
    rule.one_in = 1;
    rule.costly = true;
    rule.seconds = std::exchange(spent.seconds, 0);
    rules.push_back(std::move(rule));
  }
}

// Each the same part of what deaths and errors may take.
void Avoidance::share_time() {
  if (clean_seconds_ <= 0) return;
  const auto costs = [](const AvoidRule& rule) { return !rule.retired && rule.seconds > 0; };
  const auto count = static_cast<double>(std::ranges::count_if(rules, costs));
  for (AvoidRule& rule : rules)
    if (costs(rule)) {
      const double one_in = std::ceil(rule.seconds * count / (most_time * clean_seconds_));
      rule.one_in = std::clamp(static_cast<std::uint64_t>(std::min(one_in, static_cast<double>(rarest))),
                               rule.costly ? 1 : inside_one_in, rarest);
    }
}

void Avoidance::spend(const CaseRow& row, double seconds) {
  const auto costs = [](const FailureKey& key) { return key.kind != VerdictKind::fail && learnable(key); };
  const auto key = std::ranges::find_if(row.failures, costs);
  if (key == row.failures.end()) {
    clean_seconds_ += seconds;
    return;
  }
  const auto is_for = [&](const AvoidRule& rule) {
    return !rule.retired && rule.key == *key && (rule.costly || rule.predicate.holds(row.traits));
  };
  if (const auto rule = std::ranges::find_if(rules, is_for); rule != rules.end()) {
    rule->seconds += seconds * static_cast<double>(rule->one_in);
    return;
  }
  Open& spent = open_[to_text(*key)];
  spent.key = *key;
  ++spent.failing;
  spent.seconds += seconds;
}

void Avoidance::settle(const std::function<bool(const AvoidRule&)>& stands) {
  for (AvoidRule& rule : rules)
    rule.settled = !rule.costly && !rule.retired && !rule.doubted && rule.key.kind != VerdictKind::fail &&
                   rule.failing >= least_explained && rule.failing == rule.asked && (rule.settled || stands(rule));
}

bool Avoidance::presumes(const FailureKey& failure, const Row& row, std::uint64_t number) const {
  if (below(extend(extend(mix(seed_), confirm_stream), number), confirmed_one_in) == 0) return false;
  return is_settled(failure, row);
}

bool Avoidance::is_settled(const FailureKey& failure, const Row& row) const {
  return std::ranges::any_of(rules, [&](const AvoidRule& rule) { return rule.settled && rule.explains(failure, row); });
}

void Avoidance::doubt(std::string_view property, const Row& row) {
  for (AvoidRule& rule : rules)
    if (rule.settled && rule.key.property == property && rule.predicate.holds(row)) {
      rule.doubted = true;
      rule.settled = false;
    }
}

const AvoidRule* Avoidance::explanation(const FailureKey& failure, const Row& row) const {
  const auto found =
      std::ranges::find_if(rules, [&](const AvoidRule& rule) { return !rule.retired && rule.explains(failure, row); });
  return found == rules.end() ? nullptr : &*found;
}

std::uint64_t Avoidance::understood(const FailureKey& failure) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      rules, [&](const AvoidRule& rule) { return !rule.retired && !rule.costly && rule.key == failure; }));
}

nlohmann::ordered_json to_json(const AvoidRule& rule) {
  return {{"property", rule.key.property}, {"verdict", name(rule.key.kind)},
          {"what", rule.key.what},         {"predicate", to_text(rule.predicate)},
          {"problems", rule.problems},     {"known", rule.known},
          {"failing", rule.failing},       {"asked", rule.asked},
          {"retired", rule.retired},       {"one_in", rule.one_in},
          {"costly", rule.costly},         {"doubted", rule.doubted}};
}

AvoidRule rule_from_json(const nlohmann::json& object, const Op& op) {
  AvoidRule rule;
  rule.key = {object.at("property").get<std::string>(),
              verdict_kind_from_name(object.at("verdict").get<std::string>()).value_or(VerdictKind::fail),
              object.at("what").get<std::string>()};
  const auto predicate = predicate_from_text(object.at("predicate").get<std::string>(), op);
  if (!predicate) throw usage_error("a predicate that this version of attest cannot read: start a new campaign folder");
  rule.predicate = *predicate;
  rule.problems = object.at("problems").get<bool>();
  rule.known = object.at("known").get<bool>();
  rule.failing = object.at("failing").get<std::uint64_t>();
  rule.asked = object.at("asked").get<std::uint64_t>();
  rule.retired = object.at("retired").get<bool>();
  rule.one_in = std::clamp(object.value("one_in", inside_one_in), std::uint64_t{1}, rarest);
  rule.costly = object.value("costly", false);
  rule.doubted = object.value("doubted", false);
  return rule;
}

}  // namespace attest::engine
