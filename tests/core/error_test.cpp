#include "core/error.hpp"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(Error, CarriesItsSentenceAndItsStatus) {
  const Error error = usage_error("scale=x: scale must be a number (or \"\u221e\")");
  EXPECT_STREQ(error.what(), "scale=x: scale must be a number (or \"\u221e\")");
  EXPECT_EQ(error.exit(), Exit::usage);
}

TEST(Error, StaysOneLineWhateverItQuotes) {
  const Error error = usage_error(std::string("key 'a\n\x1b[31m\0b\x7f' is unknown", 24));
  EXPECT_STREQ(error.what(), "key 'a  [31m b ' is unkn");
}

TEST(Error, KeepsBothEndsOfALongSentence) {
  const std::string sentence = usage_error("key '" + std::string(100000, 'x') + "' is unknown: use scale").what();
  EXPECT_LT(sentence.size(), 2100u);
  EXPECT_TRUE(sentence.starts_with("key 'xxx"));
  EXPECT_TRUE(sentence.ends_with("' is unknown: use scale"));
  EXPECT_NE(sentence.find(" ... "), std::string::npos);
}

}  // namespace
}  // namespace attest
