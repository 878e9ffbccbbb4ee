// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef BMI_H
#define BMI_H

#include <stdint.h>

#include "bmi-types.h"

// The Buffered Message Interface of PVFS2, as a library of its own (P. Carns, W. Ligon, R. Ross, P. Wyckoff, "BMI: A
// Network Abstraction Layer for Parallel I/O", 2005), over networks of this project.
//
// An operation is posted, and tested until it is complete. Posts give 1 if the operation is complete already: then there
// is nothing to test. Else they give 0, and it will complete in its context. Tests give 1 if something is complete, and
// else 0. A failure is a negative code, from a post as well as from a test; how an operation has ended that was pending
// is told by the test that takes it. A receive gets the next message of its sender and tag; an unexpected message needs
// no receive. A message may lie in any number of pieces on both sides, and others on one than on the other.
//
// What is posted is not sent again by this library: if a peer is lost, all that is pending with it fails with
// -BMI_ECONNRESET, on both sides. The next operation connects anew.
//
// All functions may be called from several threads at once. A buffer belongs to the library from the post to the
// completion. No call waits longer than it is told to, but for one case: how a long send has failed is told once the
// network has let go of its memory, which takes it an instant.
//
// Networks, and how their addresses look (docs/bmi.md has the whole story):
//   memory://NAME               between threads of one process
//   fec://MEMBER                over all paths of an overlay, with forward error correction
//   quic://MEMBER@HOST:PORT     over one connection between two addresses
//
// Not supported, and answered with -BMI_ENOSYS:
//   BMI_get_info: BMI_GET_METH_ADDR, BMI_DROP_ADDR_QUERY (both lead to the inside of PVFS2's modules)
//   BMI_set_info: BMI_TRUSTED_CONNECTION, BMI_TCP_BUFFER_SEND_SIZE, BMI_TCP_BUFFER_RECEIVE_SIZE, BMI_TCP_CLOSE_SOCKET,
//     BMI_TCP_CHECK_UNEXPECTED, BMI_ZOID_POST_TIMEOUT (modules that are not here)
//   either of them with an option of the other, or with an unknown one
// Not there at all: message classes (BMI_..._class), bmi_errno_to_pvfs, and the interface between BMI and its modules.
// Without effect: hints, the type of a buffer, BMI_TCP_BIND_SPECIFIC, BMI_FORCEFUL_CANCEL_MODE (a cancelled operation
// completes at once anyway), BMI_OPTIMISTIC_BUFFER_REG (nothing needs to be registered).

#ifdef __cplusplus
extern "C" {
#endif

// An unexpected message.
struct BMI_unexpected_info {
  // Always 0: only whole messages are given.
  bmi_error_code_t error_code;
  // Its sender, to whom a reply goes.
  BMI_addr_t addr;
  // The message; BMI_unexpected_free releases it.
  void *buffer;
  bmi_size_t size;
  bmi_msg_tag_t tag;
};

// Begins. A server gives the networks that it uses, "bmi_fec,bmi_quic", or NULL for those of its addresses; the
// addresses to listen at, separated by commas, at most one for each network; and BMI_INIT_SERVER. A client gives NULL,
// NULL and 0, or the networks. Whoever calls it again in the same process shares what is there, whatever is given, and
// calls BMI_finalize as often.
//
// The environment variable BMI_CONFIG names a TOML file with `overlay`, `member` and `key`, as members of an overlay have
// it. fec and quic cannot be used without.
//
// Gives -BMI_EINVAL (arguments), -BMI_ENOPROTOOPT (a network that is not there), -BMI_EADDRINUSE, -BMI_EADDRNOTAVAIL
// (addresses that cannot be listened at) or -BMI_EDEVINIT (the file, or a network that does not start).
int BMI_initialize(const char *method_list, const char *listen_addr, int flags);

// Ends; what is pending is given up. Sends that are complete arrive first, if that takes no longer than a second. No
// other call may be under way.
int BMI_finalize(void);

// Opens a context: its operations complete in it, and whoever tests another one does not see them.
int BMI_open_context(bmi_context_id *context_id);

// Closes a context. What is pending there is cancelled; completions that nobody has taken are gone. When it returns, the
// memory of all of them is the caller's again.
void BMI_close_context(bmi_context_id context_id);

// Memory that suits the network. NULL if there is none, or the size is not positive.
void *BMI_memalloc(BMI_addr_t addr, bmi_size_t size, enum bmi_op_type send_recv);

// Releases memory of BMI_memalloc.
int BMI_memfree(BMI_addr_t addr, void *buffer, bmi_size_t size, enum bmi_op_type send_recv);

// Finds the peer of an address, or of several separated by commas, which are tried in that order. Nothing is connected
// yet. The same text gives the same peer, with one more reference to it.
//
// Gives -BMI_EINVAL (no address), -BMI_ENOPROTOOPT (no network of this process) or -BMI_EADDRNTFD (no place of its
// network).
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string);

// The address of a peer as text, or NULL. The text is valid until the peer is dropped.
const char *BMI_addr_rev_lookup(BMI_addr_t addr);

// The same, for a peer that an unexpected message came from.
const char *BMI_addr_rev_lookup_unexpected(BMI_addr_t addr);

// Whether a peer is in a range: 1, or 0. A range is an address of the peer's network. For hosts with an IP address the
// first `netmask` bits are compared, and ports are not; for names `netmask` means nothing, and a final * stands for
// anything.
int BMI_query_addr_range(BMI_addr_t addr, const char *id_string, int netmask);

// Sends a message for which the peer posts a receive. `*id` is 0 if it is complete already.
int BMI_post_send(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size, enum bmi_buffer_type buffer_type,
                  bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id, bmi_hint hints);

// The same, of several pieces that are one message.
int BMI_post_send_list(bmi_op_id_t *id, BMI_addr_t dest, const void *const *buffer_list, const bmi_size_t *size_list,
                       int list_count, bmi_size_t total_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                       void *user_ptr, bmi_context_id context_id, bmi_hint hints);

// Sends a message that the peer takes by BMI_testunexpected. It has at most BMI_GET_UNEXP_SIZE bytes.
int BMI_post_sendunexpected(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                            enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                            bmi_context_id context_id, bmi_hint hints);

// The same, of several pieces that are one message.
int BMI_post_sendunexpected_list(bmi_op_id_t *id, BMI_addr_t dest, const void *const *buffer_list,
                                 const bmi_size_t *size_list, int list_count, bmi_size_t total_size,
                                 enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                                 bmi_context_id context_id, bmi_hint hints);

// Receives the next message of that sender and tag. It may be shorter than the buffer; `*actual_size` is set if the
// operation is complete already, else the test tells it. A longer one fails with -BMI_EMSGSIZE on both sides.
int BMI_post_recv(bmi_op_id_t *id, BMI_addr_t src, void *buffer, bmi_size_t expected_size, bmi_size_t *actual_size,
                  enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id,
                  bmi_hint hints);

// The same, into several pieces that are filled one after the other.
int BMI_post_recv_list(bmi_op_id_t *id, BMI_addr_t src, void *const *buffer_list, const bmi_size_t *size_list,
                       int list_count, bmi_size_t total_expected_size, bmi_size_t *total_actual_size,
                       enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id,
                       bmi_hint hints);

// Takes the completion of an operation, and waits for it at most that many milliseconds. `user_ptr` may be NULL in all
// tests.
int BMI_test(bmi_op_id_t id, int *outcount, bmi_error_code_t *error_code, bmi_size_t *actual_size, void **user_ptr,
             int max_idle_time_ms, bmi_context_id context_id);

// Takes the completions of those among `incount` operations that are complete; `index_array` tells which. Ids that are 0,
// or whose completion was taken before, are passed over.
int BMI_testsome(int incount, bmi_op_id_t *id_array, int *outcount, int *index_array, bmi_error_code_t *error_code_array,
                 bmi_size_t *actual_size_array, void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);

// Takes up to `incount` completions of a context, in the order in which they came.
int BMI_testcontext(int incount, bmi_op_id_t *out_id_array, int *outcount, bmi_error_code_t *error_code_array,
                    bmi_size_t *actual_size_array, void **user_ptr_array, int max_idle_time_ms,
                    bmi_context_id context_id);

// Takes up to `incount` unexpected messages, in the order in which they came.
int BMI_testunexpected(int incount, int *outcount, struct BMI_unexpected_info *info_array, int max_idle_time_ms);

// Releases the buffer of an unexpected message.
int BMI_unexpected_free(BMI_addr_t addr, void *buffer);

// Gives an operation up. It completes with -BMI_ECANCEL, if it has not completed before; either way it must be tested.
int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id);

// Sets something of a peer, or of the library if `addr` is 0:
//   BMI_DROP_ADDR             forget a peer; what is pending with it is cancelled
//   BMI_INC_ADDR_REF          one more reference to a peer
//   BMI_DEC_ADDR_REF          one less; after the last one it is forgotten, as soon as it is not connected and nothing is
//                             pending with it
//   BMI_FORCEFUL_CANCEL_MODE, BMI_OPTIMISTIC_BUFFER_REG   nothing
int BMI_set_info(BMI_addr_t addr, int option, void *inout_parameter);

// Tells something of a peer, or of all networks if `addr` is 0:
//   BMI_CHECK_INIT       0 if the library is initialized
//   BMI_CHECK_MAXSIZE    an int: bytes of a message at most
//   BMI_GET_UNEXP_SIZE   an int: bytes of an unexpected message at most
int BMI_get_info(BMI_addr_t addr, int option, void *inout_parameter);

// Not of BMI: what the last failure was that this thread was told of, in words. It is valid until the next one.
const char *BMI_words(void);

#ifdef __cplusplus
}
#endif

#endif // BMI_H
