"""Every library that Sluice builds against. third_party/README.md says which version, why and for whom."""

load("//third_party/absl:targets.bzl", "ABSL_TARGETS")
load("//third_party/cuda:toolkit.bzl", "cuda_toolkit")
load("//third_party:system_library.bzl", "system_abseil", "system_library")

def libraries():
    cuda_toolkit(name = "cuda_toolkit")
    system_abseil(
        name = "com_google_absl",
        packages = ["libabsl-dev"],
        targets = ABSL_TARGETS,
    )
    system_library(
        name = "com_google_googletest",
        build_file = "//third_party/googletest:system.BUILD",
        headers = ["gtest", "gmock"],
        packages = ["libgtest-dev", "libgmock-dev"],
    )
    system_library(
        name = "com_google_benchmark",
        build_file = "//third_party/benchmark:system.BUILD",
        headers = ["benchmark"],
        packages = ["libbenchmark-dev"],
    )
    system_library(
        name = "com_google_protobuf",
        build_file = "//third_party/protobuf:system.BUILD",
        headers = ["google/protobuf"],
        packages = ["protobuf-compiler", "libprotobuf-dev"],
        programs = ["protoc"],
    )
    system_library(
        name = "onednn",
        build_file = "//third_party/onednn:system.BUILD",
        headers = ["dnnl.h", "dnnl.hpp", "dnnl_config.h", "dnnl_debug.h", "dnnl_types.h", "dnnl_version.h", "oneapi"],
        packages = ["libdnnl-dev"],
    )
    system_library(
        name = "nlohmann_json",
        build_file = "//third_party/nlohmann_json:system.BUILD",
        headers = ["nlohmann"],
        packages = ["nlohmann-json3-dev"],
    )
    system_library(
        name = "rdma_core",
        build_file = "//third_party/rdma_core:system.BUILD",
        headers = ["infiniband"],
        packages = ["libibverbs-dev"],
    )
    system_library(
        name = "random123",
        build_file = "//third_party/random123:system.BUILD",
        headers = ["Random123"],
        packages = ["librandom123-dev"],
    )
    system_library(
        name = "xxhash",
        build_file = "//third_party/xxhash:system.BUILD",
        headers = ["xxhash.h", "xxh3.h"],
        packages = ["libxxhash-dev"],
    )
    system_library(
        name = "libjpeg_turbo",
        build_file = "//third_party/libjpeg_turbo:system.BUILD",
        headers = ["jconfig.h", "jerror.h", "jmorecfg.h", "jpeglib.h"],
        packages = ["libjpeg62-turbo-dev"],
    )
    system_library(
        name = "giflib",
        build_file = "//third_party/giflib:system.BUILD",
        headers = ["gif_lib.h"],
        packages = ["libgif-dev"],
    )
    system_library(
        name = "libtiff",
        build_file = "//third_party/libtiff:system.BUILD",
        headers = ["tiff.h", "tiffconf.h", "tiffio.h", "tiffvers.h"],
        packages = ["libtiff-dev"],
    )
    system_library(
        name = "libwebp",
        build_file = "//third_party/libwebp:system.BUILD",
        headers = ["webp"],
        packages = ["libwebp-dev"],
    )
    system_library(
        name = "libmagic",
        build_file = "//third_party/libmagic:system.BUILD",
        headers = ["magic.h"],
        packages = ["libmagic-dev"],
    )
    system_library(
        name = "libpng",
        build_file = "//third_party/libpng:system.BUILD",
        headers = ["png.h", "pngconf.h", "pnglibconf.h"],
        packages = ["libpng-dev"],
    )
    system_library(
        name = "zlib",
        build_file = "//third_party/zlib:system.BUILD",
        headers = ["zlib.h", "zconf.h"],
        packages = ["zlib1g-dev"],
    )
    system_library(
        name = "zstd",
        build_file = "//third_party/zstd:system.BUILD",
        headers = ["zstd.h", "zstd_errors.h"],
        packages = ["libzstd-dev"],
    )
    system_library(
        name = "freetype",
        build_file = "//third_party/freetype:system.BUILD",
        headers = ["freetype2/ft2build.h", "freetype2/freetype"],
        packages = ["libfreetype-dev"],
    )
    system_library(
        name = "utf8proc",
        build_file = "//third_party/utf8proc:system.BUILD",
        headers = ["utf8proc.h"],
        packages = ["libutf8proc-dev"],
    )
    system_library(
        name = "openssl",
        build_file = "//third_party/openssl:system.BUILD",
        headers = ["openssl"],
        packages = ["libssl-dev"],
    )
