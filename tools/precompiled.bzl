"""A header that gcc has read once, for all the sources that begin with it."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _compile(ctx, cc_toolchain, context, header):
    """The .gch file beside `header`, made with the flags that its readers' sources have."""
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiled = ctx.actions.declare_file(header.basename + ".gch", sibling = header)
    dependencies = ctx.actions.declare_file(header.basename + ".d", sibling = header)
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        source_file = header.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + [
            "-x",
            "c++-header",
            "-MD",  # else -fpch-deps has nothing to tell
            "-MF",
            dependencies.path,
        ],
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = CPP_COMPILE_ACTION_NAME),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([header], transitive = [context.headers, cc_toolchain.all_files]),
        outputs = [compiled, dependencies],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + ctx.file.header.short_path,
    )
    return compiled

def _precompiled_header_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    flags = ctx.actions.declare_file(ctx.label.name + "/flags")
    files = [flags]
    if ctx.attr.enabled and cc_toolchain.compiler_executable.endswith("gcc"):
        header = ctx.actions.declare_file("%s/%s" % (ctx.label.name, ctx.file.header.basename))
        ctx.actions.expand_template(template = ctx.file.header, output = header, substitutions = {})
        files += [header, _compile(ctx, cc_toolchain, deps.compilation_context, header)]

        # Bazel learns what was read; and what gcc cannot use is no mere loss of time. Of copies within a std::string that could not
        # happen gcc 12 is silent in headers of the system, but not in those that it has read so.
        ctx.actions.write(
            flags,
            "-include %s -fpch-deps -Winvalid-pch -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread\n" % header.path,
        )
    else:
        ctx.actions.write(flags, "")
    own = CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset(files)))
    return [DefaultInfo(files = depset(files)), cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [deps])]

# A library to depend on for sources that are compiled with @$(BINDIR)/<package>/<name>/flags: with gcc they begin with the header,
# already read, which is most of what a short source takes. With another compiler, or where `enabled` is false, there are no flags,
# so that build finds a source which does not include what it uses.
precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "of the readers; gcc refuses the file where -O, -m or -fsanitize differ"),
        "deps": attr.label_list(providers = [CcInfo]),
        "enabled": attr.bool(default = True),
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    incompatible_use_toolchain_transition = True,
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
