#include "report/wrap.hpp"

#include <gtest/gtest.h>

namespace attest::report {
namespace {

TEST(Wrap, ALineThatFitsStaysAsItIs) {
  EXPECT_EQ(wrapped("  two  gaps   ", 14), "  two  gaps   ");
  EXPECT_EQ(wrapped("", 10), "");
}

TEST(Wrap, FurtherLinesAreIndented) {
  EXPECT_EQ(wrapped("attest: one two three four", 12), "attest: one\n  two three\n  four");
  EXPECT_EQ(wrapped("  said   one two three four", 18), "  said   one two\n         three\n         four");
}

TEST(Wrap, ALastColumnFarToTheRightHasALineOfItsOwn) {
  EXPECT_EQ(wrapped("  a     b     c   why it was so", 20), "  a     b     c\n      why it was so");
  EXPECT_EQ(wrapped("  1. one two three four  in 3 problems", 30), "  1. one two three four\n      in 3 problems");
}

TEST(Wrap, AWordIsNeverBroken) {
  EXPECT_EQ(wrapped("abc /path/that/is/long b", 10), "abc\n  /path/that/is/long\n  b");
  EXPECT_EQ(wrapped("/path/that/is/long", 10), "/path/that/is/long");
}

TEST(Wrap, ProblemsCommandsAndQuotedTextStayWhole) {
  EXPECT_EQ(wrapped("  problem  op=attention b=1 edit=k[0,0]:0x1p+0", 24),
            "  problem  op=attention b=1 edit=k[0,0]:0x1p+0");
  EXPECT_EQ(wrapped("  rerun  attest check a.so --problem 'b=1 d=2'", 24),
            "  rerun  attest check a.so --problem 'b=1 d=2'");
  EXPECT_EQ(wrapped("it says `attest list faults` there", 20), "it says\n  `attest list faults`\n  there");
  EXPECT_EQ(wrapped("where a==0 && b==1 && c==2", 14), "where a==0 &&\n  b==1 && c==2");
}

TEST(Wrap, ColoursAndFurtherBytesOfACharacterTakeNoColumn) {
  EXPECT_EQ(wrapped("\x1b[31mfour\x1b[0m five", 9), "\x1b[31mfour\x1b[0m five");
  EXPECT_EQ(wrapped("\u00e4\u00f6\u00fc \u00e4\u00f6\u00fc", 7), "\u00e4\u00f6\u00fc \u00e4\u00f6\u00fc");
}

}  // namespace
}  // namespace attest::report
