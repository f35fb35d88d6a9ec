"""What stands in @cuda_toolkit for a part that this machine does not have: whoever needs it is told so."""

def _cuda_missing_impl(ctx):
    fail(ctx.attr.message)

cuda_missing = rule(
    implementation = _cuda_missing_impl,
    attrs = {"message": attr.string(mandatory = True)},
    provides = [CcInfo],
)
