// The columns of the field table must agree with each other.
#include "core/field.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/subject.hpp"

namespace attest {
namespace {

TEST(Field, PlacesAreTakenOnce) {
  std::set<int> traits, words;
  for (const Field& field : fields()) {
    if (field.trait != 0) {
      EXPECT_TRUE(traits.insert(field.trait).second) << field.name;
    }
    EXPECT_EQ(field.word != nullptr, field.word_place != 0) << field.name;
    if (field.word) {
      EXPECT_TRUE(words.insert(field.word_place).second) << field.name;
    }
  }
  EXPECT_EQ(*traits.rbegin(), std::ssize(traits));
  EXPECT_EQ(*words.rbegin(), std::ssize(words));
}

TEST(Field, LaddersLeadToTheSimplest) {
  for (const Field& field : fields()) {
    for (const Index step : field.ladder) {
      EXPECT_GE(step, field.lo) << field.name;
      EXPECT_LE(step, field.hi) << field.name;
    }
    if (!field.ladder.empty()) {
      EXPECT_EQ(field.ladder.front(), field.simplest) << field.name;
    }
    EXPECT_TRUE(field.kind == FieldKind::integer || field.kind == FieldKind::real || field.kind == FieldKind::seed ||
                !field.ladder.empty())
        << field.name;
  }
}

TEST(Field, WhatIsDrawnByLabelHasWeights) {
  for (const Field& field : fields()) {
    if (field.kind != FieldKind::label && field.kind != FieldKind::flag) continue;
    EXPECT_EQ(field.drawn, !field.weights.empty()) << field.name;
  }
}

TEST(Field, OriginsAreFieldsOfTheirOwn) {
  std::size_t extents = 0, origins = 0;
  for (const Field& field : fields()) {
    extents += field.group == FieldGroup::shape;
    origins += field.group == FieldGroup::origin;
    EXPECT_EQ(field.origin.empty(), field.group != FieldGroup::shape) << field.name;
    EXPECT_EQ(field.extent == nullptr, field.group != FieldGroup::shape) << field.name;
    if (field.origin.empty()) continue;
    ASSERT_NE(find_field(field.origin), nullptr) << field.name;
    EXPECT_EQ(find_field(field.origin)->group, FieldGroup::origin) << field.name;
  }
  EXPECT_EQ(extents, origins);
}

// A field that a subject does not offer stays at the value of a problem that does not set it.
TEST(Field, WhatIsNotOfferedStaysAtTheDefault) {
  const Problem defaults;
  for (const Field& field : fields()) {
    EXPECT_EQ(field.offered != nullptr, !field.supports_key.empty()) << field.name;
    if (field.offered && field.drawn) {
      EXPECT_EQ(field.simplest, field.get(defaults)) << field.name;
    }
  }
}

TEST(Field, IsFoundByItsMember) {
  EXPECT_EQ(&field_of<&Problem::keep_axes>(), find_field("keep_axes"));
  EXPECT_EQ(&field_of<&Problem::dv>(), find_field("dv"));
  EXPECT_EQ(&fields()[position(field_of<&Problem::lse>())], find_field("lse"));
}

TEST(Field, OptionsAreWhatADefaultLacks) {
  const Problem defaults;
  for (const Field& field : fields()) {
    if (!field.options) continue;
    EXPECT_EQ(field.options(field, defaults), 0u) << field.name;
  }
  Problem threads;
  threads.threads = 2;
  const Field& row = field_of<&Problem::threads>();
  EXPECT_NE(row.options(row, threads), 0u);
}

}  // namespace
}  // namespace attest
