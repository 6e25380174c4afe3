#include "subjects/reply.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

using nlohmann::json;

// A value of each kind, and some that fit no field.
const json kinds[] = {nullptr,
                      true,
                      -1,
                      0,
                      3,
                      18446744073709551615u,
                      1e300,
                      0.5,
                      "",
                      "x\n\x1b[31m",
                      std::string(100000, 'x'),
                      json::array(),
                      json::object(),
                      json::array({json::array({1})}),
                      {{"a", {{"b", nullptr}}}}};

void expect_one_line(const std::string& text) {
  EXPECT_LT(text.size(), 17'000u);  // messages are whole up to 16 KiB
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~') << text;
}

TEST(Reply, ReadsWhatTheProtocolSays) {
  const RunReply ok =
      read_run_reply(R"({"protocol":1,"message":"run","id":7,"call":2,"status":"ok","ns":81250})", 7, 2);
  EXPECT_TRUE(ok.valid && !ok.logged);
  EXPECT_EQ(ok.result.status, CallStatus::done);
  EXPECT_EQ(ok.result.elapsed_ns, 81250);
  const RunReply lost = read_run_reply(
      R"({"protocol":1,"message":"run","id":7,"call":2,"status":"error","text":"lost","logged":true})", 7, 2);
  EXPECT_TRUE(lost.valid && lost.logged);
  const RunReply raised = read_run_reply(
      R"({"protocol":1,"message":"run","id":7,"call":2,"status":"error","text":"no","at":"a\u001b.py:3","traceback":"T\n  t\n"})",
      7, 2);
  EXPECT_EQ(raised.at, "a .py:3");
  EXPECT_EQ(raised.traceback, "T\n  t\n");
  EXPECT_EQ(lost.result.message, "lost");
  EXPECT_FALSE(lost.ends);
  EXPECT_TRUE(read_run_reply(
                  R"({"protocol":1,"message":"run","id":7,"call":2,"status":"error","text":"lost","ends":true})", 7, 2)
                  .ends);
}

TEST(Reply, EveryFieldOfARunReplyMayHoldAnything) {
  const json good = {{"protocol", 1},     {"message", "run"}, {"id", 7},         {"call", 2},
                     {"status", "error"}, {"ns", 5},          {"text", "why"},   {"logged", false},
                     {"ends", false},     {"at", "a.py:1"},   {"traceback", "T"}};
  for (const auto& [key, value] : good.items()) {
    for (const json& kind : kinds) {
      json reply = good;
      reply[key] = kind;
      const RunReply read = read_run_reply(json_text(reply), 7, 2);
      EXPECT_EQ(read.result.status, CallStatus::error) << reply;
      EXPECT_GE(read.result.elapsed_ns, 0) << reply;
      EXPECT_FALSE(read.result.message.empty()) << reply;
      expect_one_line(read.result.message);
      const bool harmless =
          key == "ns" || key == "text" || key == "logged" || key == "ends" || key == "at" || key == "traceback";
      EXPECT_EQ(read.valid, harmless) << reply;
    }
    json absent = good;
    absent.erase(key);
    expect_one_line(read_run_reply(json_text(absent), 7, 2).result.message);
  }
}

TEST(Reply, EveryFieldOfADescriptionMayHoldAnything) {
  const json offer = {{"name", "mine"}, {"version", "1"}, {"describe", {{"ops", {"attention"}}, {"dtypes", {"f32"}}}}};
  const json good = {{"protocol", 1}, {"message", "describe"}, {"subjects", {offer}}};
  EXPECT_EQ(read_description(json_text(good), "./w").offers.at(0).name, "mine");
  const auto expect_sense = [](const json& reply) {
    try {
      const Description description = read_description(json_text(reply), "./w");
      EXPECT_EQ(description.offers.empty(), !description.error.empty()) << reply;
      expect_one_line(description.error);
      for (const Offer& offer : description.offers) {
        expect_one_line(offer.name + offer.version + offer.error);
        subject_info(offer, "./w:mine");
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::no_subject) << error.what();
      expect_one_line(error.what());
    }
  };
  for (const json& kind : kinds) {
    for (const char* key : {"protocol", "message", "subjects", "error", "logged"}) {
      json reply = good;
      reply[key] = kind;
      expect_sense(reply);
    }
    for (const char* key : {"name", "version", "describe", "error"}) {
      json reply = good;
      reply["subjects"][0][key] = kind;
      expect_sense(reply);
    }
  }
}

TEST(Reply, WhatIsNoObjectIsNoAnswer) {
  for (const char* line : {"", "ok", "[1]", "null", "{", "{\"protocol\":1", "\xff\xfe"}) {
    EXPECT_FALSE(read_run_reply(line, 7, 2).valid) << line;
    EXPECT_THROW(read_description(line, "./w"), Error) << line;
  }
}

// ---- the other direction: messages to the host ----------------------------------------------------------------------

json tensor(std::int64_t offset) {
  return {{"offset", offset}, {"dtype", "f32"}, {"shape", {1, 1, 2, 4}}, {"strides", {8, 8, 4, 1}}};
}
json call() {
  return {
      {"op", "attention"}, {"q", tensor(0)},     {"k", tensor(64)}, {"v", tensor(128)},         {"out", tensor(192)},
      {"scale", 0.5},      {"softcap", 0},       {"causal", true},  {"scale_is_default", true}, {"align", 0},
      {"window_left", -1}, {"window_right", -1}, {"threads", 0}};
}

TEST(ReceivedCall, ReadsViewsOfTheArena) {
  std::array<std::byte, 256> arena{};
  const ReceivedCall received(parse_json(json_text(call())), arena.data(), arena.size());
  const auto& read = received.call.as<attest_attention>();
  EXPECT_EQ(read.v.data, arena.data() + 128);
  EXPECT_EQ(read.out.shape[3], 4);
  EXPECT_FALSE(attest_present(&read.bias));
}

TEST(ReceivedCall, RefusesWhatDoesNotLieInTheArena) {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  const std::pair<const char*, json> wrong[] = {
      {"offset", 225},
      {"offset", -64},
      {"offset", 1e300},
      {"offset", "0"},
      {"shape", {1, 1, 99, 4}},
      {"shape", {1, 1, -2, 4}},
      {"shape", {1, 1, 2, 0.5}},
      {"shape", {1, 1, 2}},
      {"shape", json::array()},
      {"shape", {huge, 2, 2, 2}},
      {"shape", 4},
      {"strides", {8, 8, -4, 1}},
      {"strides", {8, 8, huge, 1}},
      {"strides", {huge, 8, huge - 1, huge}},
      {"strides", {8, 8, 61, 1}},
      {"dtype", "f31"},
      {"dtype", 3},
      {"dtype", nullptr},
  };
  std::array<std::byte, 256> arena{};
  for (const auto& [key, value] : wrong) {
    json bad = call();
    bad["q"][key] = value;
    EXPECT_THROW(ReceivedCall(parse_json(json_text(bad)), arena.data(), arena.size()), Error) << key << value;
  }
  for (const char* key : {"op", "align", "threads", "window_left", "window_right", "causal", "scale", "softcap"})
    for (const json& value : {json("1"), json(nullptr), json::array()}) {
      json bad = call();
      bad[key] = value;
      EXPECT_THROW(ReceivedCall(parse_json(json_text(bad)), arena.data(), arena.size()), Error) << key << value;
    }
  for (const char* key : {"align", "threads", "window_left"}) {
    json bad = call();
    bad[key] = 1e300;
    EXPECT_THROW(ReceivedCall(parse_json(json_text(bad)), arena.data(), arena.size()), Error) << key;
  }
}

}  // namespace
}  // namespace attest
