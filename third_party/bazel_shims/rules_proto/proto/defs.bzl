"""Stand-in for rules_proto: Bazel 4.2's own rules."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
