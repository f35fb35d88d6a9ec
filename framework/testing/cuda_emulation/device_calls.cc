// Calls about errors and devices.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/call.h"
#include "framework/testing/cuda_emulation/capture.h"

namespace sluice::cuda_emulation {
namespace {

constexpr int kWarp = 32, kRegisters = 65536, kThreadsOfMultiprocessor = 2048;
constexpr int kBlocksOfMultiprocessor = 32, kThreadsOfBlock = 1024;
constexpr size_t kSharedOfMultiprocessor = 228 << 10, kReservedShared = 1 << 10;
constexpr int kL2Bytes = 50 << 20;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define SLUICE_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrorTexts[] = {
    SLUICE_ERROR(cudaSuccess, "no error"),
    SLUICE_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SLUICE_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SLUICE_ERROR(cudaErrorInitializationError, "initialization error"),
    SLUICE_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SLUICE_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    SLUICE_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SLUICE_ERROR(cudaErrorInsufficientDriver,
                 "CUDA driver version is insufficient for CUDA runtime version"),
    SLUICE_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SLUICE_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SLUICE_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SLUICE_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SLUICE_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    SLUICE_ERROR(cudaErrorNotReady, "device not ready"),
    SLUICE_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SLUICE_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SLUICE_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SLUICE_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    SLUICE_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SLUICE_ERROR(cudaErrorTooManyPeers, "peer mapping resources exhausted"),
    SLUICE_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                 "part or all of the requested memory range is already mapped"),
    SLUICE_ERROR(cudaErrorHostMemoryNotRegistered,
                 "pointer does not correspond to a registered "
                 "memory region"),
    SLUICE_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    SLUICE_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    SLUICE_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    SLUICE_ERROR(cudaErrorInvalidAddressSpace,
                 "operation not supported on global/shared address space"),
    SLUICE_ERROR(cudaErrorInvalidPc, "invalid program counter"),
    SLUICE_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SLUICE_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SLUICE_ERROR(cudaErrorNotSupported, "operation not supported"),
    SLUICE_ERROR(cudaErrorStreamCaptureUnsupported,
                 "operation not permitted when stream is capturing"),
    SLUICE_ERROR(cudaErrorStreamCaptureInvalidated,
                 "operation failed due to a previous error during capture"),
    SLUICE_ERROR(cudaErrorStreamCaptureMerge,
                 "operation would result in a merge of separate capture sequences"),
    SLUICE_ERROR(cudaErrorStreamCaptureUnmatched,
                 "capture was not ended in the same stream as it "
                 "began"),
    SLUICE_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SLUICE_ERROR(cudaErrorStreamCaptureIsolation,
                 "dependency created on uncaptured work in another stream"),
    SLUICE_ERROR(cudaErrorStreamCaptureImplicit,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    SLUICE_ERROR(cudaErrorCapturedEvent,
                 "operation not permitted on an event last recorded in a capturing stream"),
    SLUICE_ERROR(cudaErrorStreamCaptureWrongThread,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    SLUICE_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef SLUICE_ERROR

const ErrorText* TextOf(cudaError_t error) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.error == error) return &text;
  }
  return nullptr;
}

bool IsDevice(const Runtime& runtime, int device) {
  return device >= 0 && device < runtime.options.devices;
}

void FillProperties(const Options& options, int device, cudaDeviceProp* properties) {
  cudaDeviceProp& p = *properties;
  std::memset(static_cast<void*>(&p), 0, sizeof(p));
  std::snprintf(p.name, sizeof(p.name), "Emulated CUDA device");
  p.totalGlobalMem = options.bytes_per_device;
  p.sharedMemPerBlock = kDefaultSharedBytes;
  p.regsPerBlock = p.regsPerMultiprocessor = kRegisters;
  p.warpSize = kWarp;
  p.maxThreadsPerBlock = kThreadsOfBlock;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = kThreadsOfBlock;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = options.major;
  p.minor = options.minor;
  p.multiProcessorCount = options.multiprocessors;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = 1;
  p.streamPrioritiesSupported = 1;
  p.pciBusID = device + 1;
  p.asyncEngineCount = 3;
  p.l2CacheSize = kL2Bytes;
  p.maxThreadsPerMultiProcessor = kThreadsOfMultiprocessor;
  p.sharedMemPerMultiprocessor = kSharedOfMultiprocessor;
  p.sharedMemPerBlockOptin = kSharedBytes;
  p.maxBlocksPerMultiProcessor = kBlocksOfMultiprocessor;
  p.reservedSharedMemPerBlock = kReservedShared;
}

cudaError_t AttributeOf(const Options& options, cudaDeviceAttr attribute, int* value) {
  cudaDeviceProp p;
  FillProperties(options, 0, &p);
  const std::pair<cudaDeviceAttr, int64_t> values[] = {
      {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
      {cudaDevAttrWarpSize, p.warpSize},
      {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
      {cudaDevAttrCanMapHostMemory, p.canMapHostMemory},
      {cudaDevAttrL2CacheSize, p.l2CacheSize},
      {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
      {cudaDevAttrUnifiedAddressing, p.unifiedAddressing},
      {cudaDevAttrComputeCapabilityMajor, p.major},
      {cudaDevAttrComputeCapabilityMinor, p.minor},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor},
      {cudaDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin},
      {cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
  };
  for (const auto& [known, its] : values) {
    if (known != attribute) continue;
    *value = static_cast<int>(its);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace
}  // namespace sluice::cuda_emulation

using namespace sluice::cuda_emulation;  // NOLINT: the calls are of the global namespace

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const text = TextOf(error);
  return text == nullptr ? "unrecognized error code" : text->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const text = TextOf(error);
  return text == nullptr ? "unrecognized error code" : text->text;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    *count = runtime.options.devices;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (!IsDevice(runtime, device)) return cudaErrorInvalidDevice;
    ThisThread().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return MakeCall([&](Runtime&, Lock&) {
    *device = ThisThread().device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (!IsDevice(runtime, device)) return cudaErrorInvalidDevice;
    FillProperties(runtime.options, device, prop);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (!IsDevice(runtime, device)) return cudaErrorInvalidDevice;
    return AttributeOf(runtime.options, attr, value);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (!IsDevice(runtime, device)) return cudaErrorInvalidDevice;
    const int written = std::snprintf(pciBusId, len, "0000:%02x:00.0", device + 1);
    return written < len ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return MakeCall([&](Runtime&, Lock&) {
    *leastPriority = 0;
    *greatestPriority = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return MakeCall([&](Runtime& runtime, Lock& lock) {
    const int device = ThisThread().device;
    for (const auto& capture : runtime.captures) {
      if (!capture->Uses(device)) continue;
      capture->Invalidate();
      return cudaErrorStreamCaptureUnsupported;
    }
    if (const cudaError_t error = RefuseInCapture(runtime); error != cudaSuccess) return error;
    runtime.DrainDevice(lock, device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    if (!IsDevice(runtime, device) || !IsDevice(runtime, peerDevice)) return cudaErrorInvalidDevice;
    *canAccessPeer = device != peerDevice;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    const int device = ThisThread().device;
    if (!IsDevice(runtime, peerDevice) || peerDevice == device) return cudaErrorInvalidDevice;
    if (flags != 0) return cudaErrorInvalidValue;
    if (runtime.peers.count({device, peerDevice}) > 0) return cudaErrorPeerAccessAlreadyEnabled;
    // As the programming guide has it of cards without a switch between them.
    constexpr int kMostPeers = 8;
    const auto of_device = [device](const auto& pair) { return pair.first == device; };
    if (std::count_if(runtime.peers.begin(), runtime.peers.end(), of_device) == kMostPeers) {
      return cudaErrorTooManyPeers;
    }
    runtime.peers.insert({device, peerDevice});
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return MakeCall([&](Runtime& runtime, Lock&) {
    *total = runtime.options.bytes_per_device;
    *free = *total - runtime.memory.allocated(ThisThread().device);
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  *driverVersion = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  *runtimeVersion = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void*,
                                                          int blockSize, size_t dynamicSMemSize) {
  return MakeCall([&](Runtime&, Lock&) {
    if (blockSize <= 0 || blockSize > kThreadsOfBlock) return cudaErrorInvalidValue;
    const int by_shared =
        static_cast<int>(kSharedOfMultiprocessor / (dynamicSMemSize + kReservedShared));
    *numBlocks =
        std::min({kThreadsOfMultiprocessor / blockSize, kBlocksOfMultiprocessor, by_shared});
    return cudaSuccess;
  });
}
