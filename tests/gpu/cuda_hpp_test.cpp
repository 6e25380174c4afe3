// attest/cuda.hpp over the runtime of host/, whose streams are queues: tests the results that must come back, the
// errors that must be told, and the memory that is kept.
#include <attest/cuda.hpp>

#include <gtest/gtest.h>

#include <array>

#include "core/tensor.hpp"
#include "tests/subjects/small_call.hpp"

namespace {

using attest::Index;
using attest::Tensor;
using attest::testing::SmallCall;

// Enqueued like a kernel.
void launch(cudaStream_t stream, std::function<void()> kernel) { host_cuda::enqueue(stream, std::move(kernel)); }

void fill(const attest::TensorView& tensor, float value) {
  const auto view = tensor.as<float>();
  for (Index i = 0; i < tensor.size(3); ++i) view(0, 0, 0, i) = value;
}

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override { host_cuda::device().reset(); }

  // Puts the call of `small` to the device.
  template <class Kernel>
  static void run(attest::cuda::Device& gpu, const SmallCall& small, Kernel kernel) {
    const attest_attention call = small.call();
    gpu.on_device(attest::Attention(call), kernel);
  }
  template <class Kernel>
  static std::string said(attest::cuda::Device& gpu, const SmallCall& small, Kernel kernel) {
    try {
      run(gpu, small, kernel);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  static bool idle(const attest::Attention&, cudaStream_t) { return true; }
};

// ---- what goes over and comes back ----------------------------------------------------------------------------------

TEST_F(Cuda, GoesOverAndComesBackInOneCopy) {
  attest::cuda::Device gpu;
  const SmallCall small(5);
  run(gpu, small, [](const attest::Attention& call, cudaStream_t stream) {
    launch(stream, [q = call.q.as<float>(), v = call.v.as<float>(), out = call.out.as<float>()] {
      for (Index d = 0; d < 5; ++d) out(0, 0, 0, d) = v(0, 0, 1, d) + q(0, 0, 0, 0);
    });
  });
  for (Index d = 0; d < 5; ++d) EXPECT_EQ(small.out.at(0, 0, 0, d), static_cast<double>(d) + 2);
  EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
  EXPECT_EQ(host_cuda::device().copies, 3u);  // there; as the stream saw it; as it is
  EXPECT_GT(gpu.elapsed_ns(), 0);
}

TEST_F(Cuda, KeepsStridesAddressesAndPoison) {
  attest::cuda::Device gpu;
  for (const Index offset : {0, 1, 5, 63}) {
    SmallCall small(8);
    const std::array<Index, 4> strides{99, 77, 33, 3};
    small.out = Tensor(attest::DType::f32, std::array<Index, 4>{1, 1, 1, 8}, strides, offset);
    small.out.poison();
    const attest_attention given = small.call();
    const auto address = [](const attest_tensor& tensor) {
      return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
    };
    gpu.on_device(attest::Attention(given), [&](const attest::Attention& call, cudaStream_t stream) {
      for (const auto field :
           {&attest_attention::q, &attest_attention::k, &attest_attention::v, &attest_attention::out}) {
        const attest_tensor &here = given.*field, &there = call.raw().*field;
        EXPECT_NE(address(here), address(there));
        EXPECT_EQ(address(here) % 256, address(there) % 256);
        EXPECT_EQ(here.strides, there.strides);
        EXPECT_EQ(there.device.type, 2);
      }
      launch(stream, [out = call.out.raw()] {
        std::uint32_t before = 0;
        std::memcpy(&before, static_cast<const char*>(out.data) + out.byte_offset - 4, sizeof before);
        EXPECT_EQ(before, 0xFFFFFFFFU);
        float poison = 0;
        std::memcpy(&poison, static_cast<const char*>(out.data) + out.byte_offset, sizeof poison);
        EXPECT_NE(poison, poison);
        for (Index d = 0; d < 8; ++d) attest_store(&out, 0, 0, 0, d, 1);
      });
    });
    EXPECT_EQ(small.out.at(0, 0, 0, 7), 1);
    EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
  }
}

TEST_F(Cuda, BringsWhatWasWrittenElsewhere) {
  attest::cuda::Device gpu;
  const SmallCall small;
  run(gpu, small, [](const attest::Attention& call, cudaStream_t stream) {
    launch(stream, [q = call.q.as<float>(), out = call.out.as<float>()] {
      for (Index d = 0; d < 9; ++d) out.data()[d] = 1;  // one too many
      q(0, 0, 0, 3) = 42;
    });
  });
  EXPECT_EQ(small.out.damage(), Tensor::Damage::after);
  EXPECT_EQ(small.q.at(0, 0, 0, 3), 42);
}

TEST_F(Cuda, AnInputThatIsSharedShowsItsChange) {
  attest::cuda::Device gpu;
  const SmallCall small;
  attest_attention call = small.call();
  call.v = call.k;
  gpu.on_device(attest::Attention(call), [](const attest::Attention& there, cudaStream_t stream) {
    launch(stream, [k = there.k.as<float>()] { k(0, 0, 0, 0) = 42; });
  });
  EXPECT_EQ(small.k.at(0, 0, 0, 0), 42);
}

TEST_F(Cuda, TakesEmptyAndAbsentTensors) {
  attest::cuda::Device gpu;
  SmallCall small(4);
  small.k = Tensor(attest::DType::f32, std::array<Index, 4>{1, 1, 0, 4});
  small.v = Tensor(attest::DType::f32, std::array<Index, 4>{1, 1, 0, 4});
  run(gpu, small, [](const attest::Attention& call, cudaStream_t stream) {
    EXPECT_TRUE(call.k);
    EXPECT_FALSE(call.bias);
    launch(stream, [out = call.out] { fill(out, 3); });
  });
  EXPECT_EQ(small.out.at(0, 0, 0, 3), 3);
  EXPECT_EQ(small.k.damage(), Tensor::Damage::none);
}

TEST_F(Cuda, TakesPartsThatLieFarApartWithoutWhatIsBetween) {
  attest::cuda::Device gpu;
  SmallCall small(4);
  const Index apart = Index{1} << 30;  // elements: 12 GiB in all
  small.out = Tensor(attest::DType::f32, std::array<Index, 4>{4, 1, 1, 4}, std::array<Index, 4>{apart, 4, 4, 1});
  small.out.poison();
  run(gpu, small, [apart](const attest::Attention& call, cudaStream_t stream) {
    EXPECT_EQ(call.out.stride(0), apart);
    launch(stream, [out = call.out.as<float>()] {
      for (Index b = 0; b < 4; ++b)
        for (Index d = 0; d < 4; ++d) out(b, 0, 0, d) = static_cast<float>(10 * b + d);
    });
  });
  for (Index b = 0; b < 4; ++b) EXPECT_EQ(small.out.at(b, 0, 0, 3), static_cast<double>(10 * b + 3));
  EXPECT_EQ(small.out.damage(), Tensor::Damage::none);
  EXPECT_LE(host_cuda::device().copies, 12u);
  EXPECT_EQ(gpu.kept_on_device(), 0u);
}

TEST_F(Cuda, KnowsTheGuardsThatAttestLays) {
  for (const Index width : {1, 8, 300, 70000})
    for (const Index stride : {0, 1, 7}) {
      const Tensor tensor(attest::DType::f16, std::array<Index, 4>{1, 1, 2, width},
                          std::array<Index, 4>{0, 0, 8 * width, stride});
      EXPECT_EQ(attest::cuda::guard_bytes(tensor.view()), attest::guard_bytes(tensor.view())) << width << ' ' << stride;
    }
}

TEST_F(Cuda, AKernelThatTakesNoStreamHasTheDefaultOne) {
  attest::cuda::Device gpu;
  const SmallCall small;
  run(gpu, small, [](const attest::Attention& call) { launch(nullptr, [out = call.out] { fill(out, 7); }); });
  EXPECT_EQ(small.out.at(0, 0, 0, 7), 7);
}

// ---- what is told ---------------------------------------------------------------------------------------------------

TEST_F(Cuda, AResultThatComesLateIsTold) {
  attest::cuda::Device gpu;
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  const auto on = [&](bool mine) {
    return [=](const attest::Attention& call, cudaStream_t stream) {
      launch(mine ? stream : other, [out = call.out] { fill(out, 2); });
    };
  };
  const SmallCall late, in_time;
  EXPECT_EQ(said(gpu, in_time, on(true)), "");
  EXPECT_THROW(run(gpu, late, on(false)), attest::cuda::OutOfOrder);
  EXPECT_EQ(late.out.at(0, 0, 0, 0), 2);  // the content in the end
  EXPECT_EQ(said(gpu, in_time, on(true)), "");
}

TEST_F(Cuda, AnErrorBelongsToItsCallAndEndsTheProcessIfTheDeviceIsLost) {
  attest::cuda::Device gpu;
  const SmallCall small;
  EXPECT_EQ(said(gpu, small, idle), "");
  EXPECT_THROW(run(gpu, small,
                   [](const attest::Attention&, cudaStream_t stream) {
                     launch(stream, [] { host_cuda::device().lose(cudaErrorIllegalAddress); });
                   }),
               attest::Lost);
  EXPECT_THROW(run(gpu, small, idle), attest::Lost);
}

TEST_F(Cuda, AnErrorThatTheDeviceSurvivesIsToldOnce) {
  attest::cuda::Device gpu;
  const SmallCall small;
  const auto wrong = [](const attest::Attention&, cudaStream_t stream) {
    host_cuda::device().last = cudaErrorInvalidConfiguration;  // a launch that was none
    (void)stream;
  };
  const std::string text = said(gpu, small, wrong);
  EXPECT_NE(text.find("not launched"), std::string::npos) << text;
  EXPECT_NE(text.find("cudaErrorInvalidConfiguration"), std::string::npos) << text;
  EXPECT_EQ(text.find("lost"), std::string::npos) << text;
  EXPECT_EQ(said(gpu, small, idle), "");
}

TEST_F(Cuda, AnErrorThatWasThereBeforeIsToldAsSuch) {
  attest::cuda::Device gpu;
  const SmallCall small;
  host_cuda::device().last = cudaErrorInvalidValue;
  EXPECT_NE(said(gpu, small, idle).find("left before this call"), std::string::npos);
}

TEST_F(Cuda, WhatAKernelThrowsIsItsOwnUnlessTheDeviceIsLost) {
  attest::cuda::Device gpu;
  const SmallCall small;
  const auto throws = [](bool loses) {
    return [=](const attest::Attention&, cudaStream_t stream) {
      if (loses) launch(stream, [] { host_cuda::device().lose(cudaErrorIllegalAddress); });
      throw std::runtime_error("my own check");
    };
  };
  EXPECT_EQ(said(gpu, small, throws(false)), "my own check");
  EXPECT_THROW(run(gpu, small, [](const attest::Attention&, cudaStream_t) { throw attest::Unsupported("not this"); }),
               attest::Unsupported);
  EXPECT_EQ(said(gpu, small, idle), "");
  EXPECT_THROW(run(gpu, small, throws(true)), attest::Lost);
}

TEST_F(Cuda, ADeviceWithoutRoomSkipsTheCall) {
  attest::cuda::Device gpu;
  const SmallCall small;
  host_cuda::device().room = 1000;
  EXPECT_THROW(run(gpu, small, idle), attest::Unsupported);
  host_cuda::device().room = std::size_t{1} << 30;
  EXPECT_EQ(said(gpu, small, idle), "");
}

TEST_F(Cuda, NoDeviceRefusesToOpen) {
  EXPECT_NO_THROW(attest::cuda::open());
  host_cuda::device().count = 0;
  EXPECT_THROW(attest::cuda::open(), std::runtime_error);
}

TEST_F(Cuda, AsASubjectItSaysThatItIsLost) {
  static bool loses = false;
  const attest::Plugin plugin{
      attest::cuda::subject("mine", "{}", [](const attest::Attention& call, cudaStream_t stream) {
        launch(stream, [out = call.out] { loses ? host_cuda::device().lose(cudaErrorIllegalAddress) : fill(out, 1); });
      })};
  std::size_t count = 0;
  const attest_subject* const subject = plugin.table(ATTEST_ABI, &count);
  char message[1024] = "";
  const SmallCall small;
  const attest_attention call = small.call();
  EXPECT_EQ(subject->open(subject->self, "{}", message, sizeof message), ATTEST_DONE);
  EXPECT_EQ(subject->attention(subject->self, &call, message, sizeof message), ATTEST_DONE);
  EXPECT_EQ(small.out.at(0, 0, 0, 0), 1);
  loses = true;
  EXPECT_EQ(subject->attention(subject->self, &call, message, sizeof message), ATTEST_LOST);
  EXPECT_NE(std::string(message).find("cudaErrorIllegalAddress"), std::string::npos) << message;
}

// ---- what is kept ---------------------------------------------------------------------------------------------------

TEST_F(Cuda, TenThousandCallsTakeNoMoreMemoryThanTheLargest) {
  const host_cuda::Device& host = host_cuda::device();
  const std::size_t held = host.held, blocks = host.blocks.size(), host_blocks = host.host_blocks.size();
  const std::size_t streams = host.streams.size(), events = host.events.size();
  {
    attest::cuda::Device gpu;
    std::vector<SmallCall> calls;
    for (Index width : {3, 100, 20000, 7, 9000}) calls.emplace_back(width);
    for (int n = 0; n < 10000; ++n) run(gpu, calls[n < 20 ? 0 : static_cast<std::size_t>(n) % calls.size()], idle);
    EXPECT_LE(host.allocations, 2u);
    EXPECT_LE(host.host_allocations, 3u);
    EXPECT_EQ(host.streams.size(), streams + 1);
    EXPECT_EQ(host.events.size(), events + 2);
    EXPECT_EQ(host.held, held + gpu.kept_on_device());
  }
  EXPECT_EQ(host.held, held);
  EXPECT_EQ(host.blocks.size(), blocks);
  EXPECT_EQ(host.host_blocks.size(), host_blocks);
  EXPECT_EQ(host.streams.size(), streams);
  EXPECT_EQ(host.events.size(), events);
}

}  // namespace
