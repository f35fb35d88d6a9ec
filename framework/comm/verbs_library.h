// libibverbs, which is loaded when it is asked for: a program starts, and is started faster, on a
// machine that does not have it. Any thread.
#ifndef SLUICE_FRAMEWORK_COMM_VERBS_LIBRARY_H_
#define SLUICE_FRAMEWORK_COMM_VERBS_LIBRARY_H_

#include <infiniband/verbs.h>

#include "absl/status/statusor.h"

namespace sluice {

// Its functions, by their names without "ibv_". What is called for each transfer (ibv_post_send,
// ibv_poll_cq, ibv_req_notify_cq) the header finds in the device that was opened.
struct VerbsLibrary {
  // The same each time. NotFound says what is missing.
  static absl::StatusOr<const VerbsLibrary*> Load();

  decltype(&ibv_get_device_list) get_device_list = nullptr;
  decltype(&ibv_free_device_list) free_device_list = nullptr;
  decltype(&ibv_get_device_name) get_device_name = nullptr;
  decltype(&ibv_open_device) open_device = nullptr;
  decltype(&ibv_close_device) close_device = nullptr;
  decltype(&ibv_query_device) query_device = nullptr;
  decltype(&ibv_query_port) query_port = nullptr;
  decltype(&_ibv_query_gid_ex) query_gid = nullptr;
  decltype(&ibv_port_state_str) port_state_str = nullptr;
  decltype(&ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&ibv_reg_mr) reg_mr = nullptr;
  decltype(&ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&ibv_create_cq) create_cq = nullptr;
  decltype(&ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&ibv_get_async_event) get_async_event = nullptr;
  decltype(&ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&ibv_create_qp) create_qp = nullptr;
  decltype(&ibv_modify_qp) modify_qp = nullptr;
  decltype(&ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&ibv_wc_status_str) wc_status_str = nullptr;
  decltype(&ibv_event_type_str) event_type_str = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_VERBS_LIBRARY_H_
