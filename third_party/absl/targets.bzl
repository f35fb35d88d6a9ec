"""Abseil's labels that exist here, as upstream names them. Absent on purpose: synchronization (absl::Mutex in an
uninstrumented library makes TSan report every datum it protects: use std::mutex) and log (not in Debian's release)."""

ABSL_TARGETS = {
    "algorithm": ["algorithm", "container"],
    "base": ["base", "config", "core_headers", "endian"],
    "cleanup": ["cleanup"],
    "container": ["btree", "fixed_array", "flat_hash_map", "flat_hash_set", "inlined_vector", "node_hash_map", "node_hash_set"],
    "debugging": ["failure_signal_handler", "stacktrace", "symbolize"],
    "flags": ["config", "flag", "marshalling", "parse", "reflection", "usage", "usage_internal", "commandlineflag"],
    "functional": ["any_invocable", "bind_front", "function_ref"],
    "hash": ["hash"],
    "memory": ["memory"],
    "meta": ["type_traits"],
    "numeric": ["bits", "int128"],
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "time": ["time"],
    "types": ["any", "compare", "optional", "span", "variant"],
    "utility": ["utility"],
}
