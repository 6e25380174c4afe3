#include "engine/assume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace attest::engine {

// One node of the expression. Truth is 1 or 0.
struct Assumption::Node {
  // The operation that joins two nodes, so that nobody compares texts for each problem.
  enum class Operation : std::uint8_t {
    conjunction,
    disjunction,
    equal,
    unequal,
    less,
    at_most,
    more,
    at_least,
    sum,
    difference,
    product,
    remainder,
    quotient
  };
  enum class Kind : std::uint8_t { number, field, label, form, negate, logical_not, binary };
  Kind kind = Kind::number;
  double number = 0;
  const Field* field = nullptr;
  Operation operation = Operation::conjunction;  // the operator of a binary node, as `text` has it
  std::string text;                              // the text of a label or an operator
  FormChoice form;                               // the choice compared, by == or !=
  std::size_t position = 0;
  std::shared_ptr<Node> left, right;
};

namespace {

using Node = Assumption::Node;
using NodePtr = std::shared_ptr<Node>;

constexpr int deepest_nesting = 64;
constexpr std::size_t longest = 4096;  // a chain of operators is as deep as it is long

// Returns the operation of an operator, which the grammar must have.
Node::Operation operation_of(std::string_view op) {
  using Operation = Node::Operation;
  constexpr std::pair<std::string_view, Operation> all[] = {
      {"&&", Operation::conjunction}, {"||", Operation::disjunction}, {"==", Operation::equal},
      {"!=", Operation::unequal},     {"<", Operation::less},         {"<=", Operation::at_most},
      {">", Operation::more},         {">=", Operation::at_least},    {"+", Operation::sum},
      {"-", Operation::difference},   {"*", Operation::product},      {"%", Operation::remainder},
      {"/", Operation::quotient}};
  return std::ranges::find(all, op, &std::pair<std::string_view, Operation>::first)->second;
}

bool is_comparison(std::string_view op) {
  return op == "==" || op == "!=" || op == "<" || op == "<=" || op == ">" || op == ">=";
}

// Tells whether a form has this value in a problem. A form that the problem does not choose and that no offer names has
// none.
bool has_value(const FormChoice& form, const Problem& problem, std::span<const FormOffer> offers) {
  const auto& forms = forms_of(problem);
  const auto chosen = std::ranges::find(forms, form.name, &FormChoice::name);
  if (chosen != forms.end()) return chosen->value == form.value;
  const auto offer = std::ranges::find(offers, form.name, &FormOffer::name);
  return offer != offers.end() && offer->values.front() == form.value;
}

double evaluate(const Node& node, const Problem& problem, std::span<const FormOffer> offers) {
  switch (node.kind) {
    case Node::Kind::number:
    case Node::Kind::label:
      return node.number;
    case Node::Kind::field:
      return node.field->number(problem);
    case Node::Kind::form:
      return has_value(node.form, problem, offers) == (node.text == "==") ? 1 : 0;
    case Node::Kind::negate:
      return -evaluate(*node.left, problem, offers);
    case Node::Kind::logical_not:
      return evaluate(*node.left, problem, offers) == 0 ? 1 : 0;
    case Node::Kind::binary:
      break;
  }
  const double a = evaluate(*node.left, problem, offers);
  using Operation = Node::Operation;
  if (node.operation == Operation::conjunction) return a != 0 && evaluate(*node.right, problem, offers) != 0;
  if (node.operation == Operation::disjunction) return a != 0 || evaluate(*node.right, problem, offers) != 0;
  const double b = evaluate(*node.right, problem, offers);
  switch (node.operation) {
    case Operation::equal:
      return a == b;
    case Operation::unequal:
      return a != b;
    case Operation::less:
      return a < b;
    case Operation::at_most:
      return a <= b;
    case Operation::more:
      return a > b;
    case Operation::at_least:
      return a >= b;
    case Operation::sum:
      return a + b;
    case Operation::difference:
      return a - b;
    case Operation::product:
      return a * b;
    case Operation::remainder:
      return std::fmod(a, b);
    default:
      return a / b;
  }
}

class Parser {
 public:
  Parser(std::string_view text, const Op& op) : text_(text), op_(op) { advance(); }

  NodePtr parse() {
    NodePtr node = disjunction(0);
    if (!token_.empty()) fail("an operator or the end");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw usage_error(fmt::format("--assume: {} at position {} of '{}': expected {}",
                                  token_.empty() ? "the end" : "'" + token_ + "'", position_ + 1, text_, expected));
  }

  void advance() {
    while (next_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[next_]))) ++next_;
    position_ = next_;
    token_.clear();
    if (next_ == text_.size()) return;
    const auto character = [&](std::size_t at) {
      return at < text_.size() ? static_cast<unsigned char>(text_[at]) : 0;
    };
    const auto is_name = [](int c) { return std::isalnum(c) || c == '_'; };
    if (std::isdigit(character(next_)) || (text_[next_] == '.' && std::isdigit(character(next_ + 1)))) {
      // Digits, hexadecimal digits, a point, and a sign that follows an exponent letter.
      const bool hexadecimal = text_.substr(next_).starts_with("0x") || text_.substr(next_).starts_with("0X");
      const auto exponent = [&](int c) { return hexadecimal ? c == 'p' || c == 'P' : c == 'e' || c == 'E'; };
      while (is_name(character(next_)) || character(next_) == '.' ||
             ((character(next_) == '+' || character(next_) == '-') && exponent(character(next_ - 1))))
        token_ += text_[next_++];
    } else if (is_name(character(next_))) {
      const bool form = text_.substr(next_).starts_with(form_prefix);
      while (is_name(character(next_)) || (form && text_[next_] == '.')) token_ += text_[next_++];
    } else {
      constexpr std::string_view pairs[] = {"&&", "||", "==", "!=", "<=", ">="};
      const std::string_view two = text_.substr(next_, 2);
      token_ = std::ranges::find(pairs, two) != std::end(pairs) ? two : text_.substr(next_, 1);
      next_ += token_.size();
    }
  }

  // Left-associative chain of `next` joined by any of `operators`.
  template <class Next>
  NodePtr chain(int depth, std::initializer_list<std::string_view> operators, Next&& next) {
    NodePtr node = next(depth);
    while (std::ranges::find(operators, token_) != operators.end()) node = binary(std::move(node), depth, next);
    return node;
  }

  template <class Next>
  NodePtr binary(NodePtr left, int depth, Next&& next) {
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::binary;
    node->text = token_;
    node->operation = operation_of(token_);
    node->position = position_;
    advance();
    node->left = std::move(left);
    node->right = next(depth);
    resolve_labels(*node);
    return node;
  }

  NodePtr disjunction(int depth) {
    if (depth > deepest_nesting) fail("fewer parentheses");
    return chain(depth, {"||"}, [this](int d) { return conjunction(d); });
  }
  NodePtr conjunction(int depth) {
    return chain(depth, {"&&"}, [this](int d) { return negation(d); });
  }
  NodePtr negation(int depth) {
    if (token_ != "!") return comparison(depth);
    if (depth > deepest_nesting) fail("fewer negations");
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::logical_not;
    advance();
    node->left = negation(depth + 1);
    return node;
  }
  // form.NAME==VALUE, where a value may look like a number or have a minus in it.
  NodePtr form_comparison() {
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::form;
    node->form.name = token_.substr(form_prefix.size());
    if (!is_form_name(node->form.name)) fail("form.NAME, of small letters, digits and _");
    advance();
    node->text = token_;
    if (token_ != "==" && token_ != "!=") fail("== or != behind a form");
    while (next_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[next_]))) ++next_;
    position_ = next_;
    token_.clear();
    while (next_ < text_.size() && is_form_value(token_ + text_[next_])) token_ += text_[next_++];
    if (token_.empty()) fail("a value of form." + node->form.name);
    node->form.value = token_;
    advance();
    return node;
  }
  NodePtr comparison(int depth) {
    if (token_.starts_with(form_prefix)) return form_comparison();
    NodePtr node = sum(depth);
    if (is_comparison(token_)) node = binary(std::move(node), depth, [this](int d) { return sum(d); });
    if (is_comparison(token_)) fail("&& between two comparisons");
    return node;
  }
  NodePtr sum(int depth) {
    return chain(depth, {"+", "-"}, [this](int d) { return product(d); });
  }
  NodePtr product(int depth) {
    return chain(depth, {"*", "/", "%"}, [this](int d) { return primary(d); });
  }

  NodePtr primary(int depth) {
    if (depth > deepest_nesting) fail("fewer parentheses");
    auto node = std::make_shared<Node>();
    node->position = position_;
    if (token_ == "(") {
      advance();
      NodePtr inner = disjunction(depth + 1);
      if (token_ != ")") fail("')'");
      advance();
      return inner;
    }
    if (token_ == "-") {
      advance();
      node->kind = Node::Kind::negate;
      node->left = primary(depth + 1);
      return node;
    }
    if (token_.empty()) fail("a field, a number or '('");
    if (std::isdigit(static_cast<unsigned char>(token_[0])) || token_[0] == '.') {
      const std::optional<double> number = parse_double(token_);
      if (!number) fail("a number");
      node->number = *number;
    } else if (std::isalpha(static_cast<unsigned char>(token_[0]))) {
      name(*node);
    } else {
      fail("a field, a number or '('");
    }
    advance();
    return node;
  }

  void name(Node& node) {
    node.text = token_;
    node.field = op_.find_field(token_);
    if (node.field) {
      node.kind = Node::Kind::field;
      return;
    }
    const bool known = std::ranges::any_of(op_.fields(), [&](const Field& field) {
      return std::ranges::find(field.labels, token_) != field.labels.end();
    });
    if (!known) fail("a field or a label of one (`attest list generators` names them)");
    node.kind = Node::Kind::label;
  }

  // A label takes its number from the field on the other side of its comparison.
  void resolve_labels(Node& node) {
    for (const auto& [label, other] : {std::pair{node.left, node.right}, std::pair{node.right, node.left}}) {
      if (label->kind != Node::Kind::label) continue;
      const bool comparable = is_comparison(node.text) && other->kind == Node::Kind::field;
      const auto labels = comparable ? other->field->labels : std::span<const std::string_view>{};
      const auto found = std::ranges::find(labels, label->text);
      if (found == labels.end()) {
        token_ = label->text;
        position_ = label->position;
        fail(comparable && !labels.empty() ? fmt::format("one of {}", fmt::join(labels, ", "))
                                           : "a label to stand beside its field in a comparison, as in dtype==f16");
      }
      label->number = static_cast<double>(found - labels.begin());
      label->kind = Node::Kind::number;
    }
  }

 public:
  // A label that no comparison claimed, such as `f16` alone.
  void require_resolved(const Node& node) {
    if (node.kind == Node::Kind::label) {
      token_ = node.text;
      position_ = node.position;
      fail("a label to stand beside its field in a comparison, as in dtype==f16");
    }
    if (node.left) require_resolved(*node.left);
    if (node.right) require_resolved(*node.right);
  }

 private:
  std::string_view text_;
  const Op& op_;
  std::size_t next_ = 0, position_ = 0;
  std::string token_;
};

// Calls `visit` with each comparison of a form.
template <class Visit>
void for_each_form(const Node& node, Visit&& visit) {
  if (node.kind == Node::Kind::form) visit(node);
  for (const NodePtr& below : {node.left, node.right})
    if (below) for_each_form(*below, visit);
}

// Calls `visit` with each part that must hold for `node` to hold.
template <class Visit>
void for_each_conjunct(const Node& node, Visit&& visit) {
  if (node.kind != Node::Kind::binary || node.text != "&&") return visit(node);
  for_each_conjunct(*node.left, visit);
  for_each_conjunct(*node.right, visit);
}

// Tells whether a problem of which nothing but extents (which have an origin) and dtype is drawn tells what `node` is.
bool is_of_shape(const Node& node) {
  if (node.kind == Node::Kind::form) return false;
  if (node.kind == Node::Kind::field && node.field->origin.empty() && node.field->name != "dtype") return false;
  return (!node.left || is_of_shape(*node.left)) && (!node.right || is_of_shape(*node.right));
}

// The number of nodes from here on.
int size_of(const Node& node) {
  return 1 + (node.left ? size_of(*node.left) : 0) + (node.right ? size_of(*node.right) : 0);
}

// Calls `visit` with the field, the operator and the number where `node` compares these.
template <class Visit>
void for_bound(const Node& node, Visit&& visit) {
  if (node.kind != Node::Kind::binary) return;
  const auto flipped = [](const std::string& op) -> std::string {
    return op == "<" ? ">" : op == "<=" ? ">=" : op == ">" ? "<" : op == ">=" ? "<=" : op;
  };
  if (!is_comparison(node.text)) return;
  const auto constant = [](const Node& n) -> std::optional<double> {
    if (n.kind == Node::Kind::number) return n.number;
    if (n.kind == Node::Kind::negate && n.left->kind == Node::Kind::number) return -n.left->number;
    return std::nullopt;
  };
  if (node.left->kind == Node::Kind::field)
    if (const auto number = constant(*node.right)) visit(*node.left->field, node.text, *number);
  if (node.right->kind == Node::Kind::field)
    if (const auto number = constant(*node.left)) visit(*node.right->field, flipped(node.text), *number);
}

// Calls `visit` with each operand of a chain of one operation.
template <class Visit>
void for_each_operand(const Node& node, Node::Operation operation, Visit&& visit) {
  if (node.kind != Node::Kind::binary || node.operation != operation) return visit(node);
  for_each_operand(*node.left, operation, visit);
  for_each_operand(*node.right, operation, visit);
}

// Tells whether `node` is b*hq*lq*lk*(d+dv), in any order.
bool is_work(const Node& node) {
  std::vector<std::string_view> fields, widths;
  bool others = false;
  for_each_operand(node, Node::Operation::product, [&](const Node& factor) {
    if (factor.kind == Node::Kind::field) return fields.push_back(factor.field->name);
    others |= !widths.empty();
    for_each_operand(factor, Node::Operation::sum, [&](const Node& term) {
      others |= term.kind != Node::Kind::field;
      if (term.kind == Node::Kind::field) widths.push_back(term.field->name);
    });
  });
  std::ranges::sort(fields);
  std::ranges::sort(widths);
  return !others && std::ranges::equal(fields, std::array<std::string_view, 4>{"b", "hq", "lk", "lq"}) &&
         std::ranges::equal(widths, std::array<std::string_view, 2>{"d", "dv"});
}

// The bound that `node` puts on the multiply-adds, where it compares them with a number.
struct WorkBound {
  bool from_below;
  double number;
};
std::optional<WorkBound> work_bound(const Node& node) {
  using Operation = Node::Operation;
  constexpr double exact = 0x1p52;  // whatever order its factors come in, a product below it is not rounded
  if (node.kind != Node::Kind::binary) return std::nullopt;
  const bool above = node.operation == Operation::at_least || node.operation == Operation::more,
             below = node.operation == Operation::at_most || node.operation == Operation::less;
  if (!above && !below) return std::nullopt;
  const auto tells = [](const Node& product, const Node& number) {
    return number.kind == Node::Kind::number && number.number < exact && is_work(product);
  };
  if (tells(*node.left, *node.right)) return WorkBound{above, node.right->number};
  if (tells(*node.right, *node.left)) return WorkBound{below, node.left->number};
  return std::nullopt;
}

}  // namespace

Assumption::Assumption(std::string_view text, const Op& op) : text_(text) {
  if (text.size() > longest)
    throw usage_error(fmt::format("--assume: {} characters: a predicate may have {}", text.size(), longest));
  Parser parser(text_, op);
  NodePtr root = parser.parse();
  parser.require_resolved(*root);
  root_ = std::move(root);
}

bool Assumption::holds(const Problem& problem) const { return evaluate(*root_, problem, offers_) != 0; }

Assumption Assumption::about(std::span<const FormOffer> offers) const {
  for_each_form(*root_, [&](const Node& node) {
    const auto offer = std::ranges::find(offers, node.form.name, &FormOffer::name);
    if (offer == offers.end()) throw usage_error(fmt::format("--assume: the subject has no form.{}", node.form.name));
    if (std::ranges::find(offer->values, node.form.value) == offer->values.end())
      throw usage_error(fmt::format("--assume: form.{} has no value '{}': it has {}", offer->name, node.form.value,
                                    fmt::join(offer->values, ", ")));
  });
  Assumption bound = *this;
  bound.offers_.assign(offers.begin(), offers.end());
  return bound;
}

std::optional<Assumption> Assumption::of_shape() const {
  Assumption part;
  const auto join = [&part](std::shared_ptr<const Node> node) {
    if (!part.root_) {
      part.root_ = std::move(node);
      return;
    }
    auto both = std::make_shared<Node>();
    both->kind = Node::Kind::binary;
    both->text = "&&";
    both->operation = Node::Operation::conjunction;
    both->left = std::make_shared<Node>(*part.root_);
    both->right = std::make_shared<Node>(*node);
    part.root_ = std::move(both);
  };
  std::vector<const Node*> conjuncts;
  for_each_conjunct(*root_, [&](const Node& node) {
    if (is_of_shape(node) && !work_bound(node)) conjuncts.push_back(&node);
  });
  // Short conjuncts come first: every draw is asked.
  std::ranges::stable_sort(conjuncts, {}, [](const Node* node) { return size_of(*node); });
  for (const Node* node : conjuncts) join(std::make_shared<const Node>(*node));
  if (!part.root_) return std::nullopt;
  return part;
}

Assumption::Work Assumption::work() const {
  Work work{0, std::numeric_limits<double>::infinity()};
  for_each_conjunct(*root_, [&](const Node& node) {
    const std::optional<WorkBound> bound = work_bound(node);
    if (!bound) return;
    if (bound->from_below)
      work.least = std::max(work.least, bound->number);
    else
      work.most = std::min(work.most, bound->number);
  });
  return work;
}

std::vector<Assumption::FormBound> Assumption::form_bounds() const {
  std::vector<FormBound> found;
  for_each_conjunct(*root_, [&](const Node& node) {
    if (node.kind == Node::Kind::form) found.push_back({node.form.name, node.form.value, node.text == "=="});
  });
  return found;
}

std::map<std::string, Assumption::Interval> Assumption::intervals() const {
  std::map<std::string, Interval> found;
  const auto narrow = [&](const Field& field, const std::string& op, double number) {
    if (field.kind == FieldKind::real || field.kind == FieldKind::seed) return;
    Interval& interval = found.try_emplace(std::string(field.name), Interval{field.lo, field.hi}).first->second;
    const double clamped = std::clamp(number, static_cast<double>(field.lo) - 2, static_cast<double>(field.hi) + 2);
    const auto down = static_cast<Index>(std::floor(clamped)), up = static_cast<Index>(std::ceil(clamped));
    if (op == "<" || op == "<=" || op == "==") interval.hi = std::min(interval.hi, op == "<" ? up - 1 : down);
    if (op == ">" || op == ">=" || op == "==") interval.lo = std::max(interval.lo, op == ">" ? down + 1 : up);
  };
  for_each_conjunct(*root_, [&](const Node& node) { for_bound(node, narrow); });
  return found;
}

}  // namespace attest::engine
