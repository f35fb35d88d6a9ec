#include "framework/comm/verbs_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

// Looks functions up until one is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    if (*function == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* const library_;
  const char* missing_ = nullptr;
};

absl::StatusOr<VerbsLibrary> Open() {
  // It stays: its threads and those of its providers may outlive whoever asked for it.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(dlerror());
  VerbsLibrary found;
  Finder finder(library);
  finder.Find("ibv_get_device_list", &found.get_device_list);
  finder.Find("ibv_free_device_list", &found.free_device_list);
  finder.Find("ibv_get_device_name", &found.get_device_name);
  finder.Find("ibv_open_device", &found.open_device);
  finder.Find("ibv_close_device", &found.close_device);
  finder.Find("ibv_query_device", &found.query_device);
  finder.Find("ibv_query_port", &found.query_port);
  finder.Find("_ibv_query_gid_ex", &found.query_gid);
  finder.Find("ibv_port_state_str", &found.port_state_str);
  finder.Find("ibv_alloc_pd", &found.alloc_pd);
  finder.Find("ibv_dealloc_pd", &found.dealloc_pd);
  finder.Find("ibv_reg_mr", &found.reg_mr);
  finder.Find("ibv_dereg_mr", &found.dereg_mr);
  finder.Find("ibv_create_comp_channel", &found.create_comp_channel);
  finder.Find("ibv_destroy_comp_channel", &found.destroy_comp_channel);
  finder.Find("ibv_create_cq", &found.create_cq);
  finder.Find("ibv_destroy_cq", &found.destroy_cq);
  finder.Find("ibv_get_cq_event", &found.get_cq_event);
  finder.Find("ibv_ack_cq_events", &found.ack_cq_events);
  finder.Find("ibv_get_async_event", &found.get_async_event);
  finder.Find("ibv_ack_async_event", &found.ack_async_event);
  finder.Find("ibv_create_qp", &found.create_qp);
  finder.Find("ibv_modify_qp", &found.modify_qp);
  finder.Find("ibv_destroy_qp", &found.destroy_qp);
  finder.Find("ibv_wc_status_str", &found.wc_status_str);
  finder.Find("ibv_event_type_str", &found.event_type_str);
  if (finder.missing() == nullptr) return found;
  return absl::NotFoundError(
      absl::StrCat(kLibrary, ": it has no ", finder.missing(), ", rdma-core 32 or later has"));
}

}  // namespace

absl::StatusOr<const VerbsLibrary*> VerbsLibrary::Load() {
  static const absl::StatusOr<VerbsLibrary> library = Open();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace sluice
