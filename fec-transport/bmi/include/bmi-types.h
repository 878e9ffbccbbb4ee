// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef BMI_TYPES_H
#define BMI_TYPES_H

#include <stdint.h>

// Types, constants and error codes of the Buffered Message Interface; bmi.h has the functions. Names and values are those
// of PVFS2's public interface.

// A number of bytes.
typedef int64_t bmi_size_t;
// What tells the messages between two processes apart.
typedef int32_t bmi_msg_tag_t;
// One of the callers that share the interface.
typedef int64_t bmi_context_id;
// An operation that was posted; never 0.
typedef int64_t bmi_op_id_t;
// A peer; never 0.
typedef int64_t BMI_addr_t;
// 0, or one of the codes below with a minus before it.
typedef int32_t bmi_error_code_t;
// Hints of PVFS2. They are not looked at.
typedef struct PVFS_hint_s *bmi_hint;

// Bytes of an address at most, its final NUL included.
#define BMI_MAX_ADDR_LEN 256

// Flags of BMI_initialize.
enum {
  // Others may send unexpected messages to the addresses that are listened at.
  BMI_INIT_SERVER = 1,
  // Listen at the given address of the machine only. It always is so.
  BMI_TCP_BIND_SPECIFIC = 2,
  // Each unexpected message counts as a reference to its sender.
  BMI_AUTO_REF_COUNT = 4
};

// What memory of BMI_memalloc is for.
enum bmi_op_type { BMI_SEND = 1, BMI_RECV = 2 };

// Whether a buffer comes from BMI_memalloc. Both are served alike: no network here needs pinned memory.
enum bmi_buffer_type { BMI_PRE_ALLOC = 1, BMI_EXT_ALLOC = 2 };

// Options of BMI_set_info and BMI_get_info, and what becomes of them: see there.
enum {
  BMI_DROP_ADDR = 1,
  BMI_CHECK_INIT = 2,
  BMI_CHECK_MAXSIZE = 3,
  BMI_GET_METH_ADDR = 4,
  BMI_INC_ADDR_REF = 5,
  BMI_DEC_ADDR_REF = 6,
  BMI_DROP_ADDR_QUERY = 7,
  BMI_FORCEFUL_CANCEL_MODE = 8,
  BMI_TRUSTED_CONNECTION = 9,
  BMI_GET_UNEXP_SIZE = 10,
  BMI_TCP_BUFFER_SEND_SIZE = 11,
  BMI_TCP_BUFFER_RECEIVE_SIZE = 12,
  BMI_TCP_CLOSE_SOCKET = 13,
  BMI_OPTIMISTIC_BUFFER_REG = 14,
  BMI_TCP_CHECK_UNEXPECTED = 15,
  BMI_ZOID_POST_TIMEOUT = 16
};

// What the memory of BMI_OPTIMISTIC_BUFFER_REG will be used for.
enum BMI_io_type { BMI_IO_READ = 1, BMI_IO_WRITE = 2 };

// The argument of BMI_OPTIMISTIC_BUFFER_REG.
struct bmi_optimistic_buffer_info {
  const void *buffer;
  bmi_size_t len;
  enum BMI_io_type rw;
};

// Error codes: a number, the bit that says that it is an error of PVFS2, and the class of BMI's errors. Those that are
// not of the system have one bit more.
enum {
  BMI_ERROR = 0x80,
  BMI_NON_ERRNO_ERROR_BIT = 0x20000000,
  BMI_ERROR_BIT = 0x40000000,
  // Of the system.
  BMI_EPERM = 0x40000081, BMI_ENOENT = 0x40000082, BMI_EINTR = 0x40000083,
  BMI_EIO = 0x40000084, BMI_ENXIO = 0x40000085, BMI_EBADF = 0x40000086,
  BMI_EAGAIN = 0x40000087, BMI_ENOMEM = 0x40000088, BMI_EFAULT = 0x40000089,
  BMI_EBUSY = 0x4000008a, BMI_EEXIST = 0x4000008b, BMI_ENODEV = 0x4000008c,
  BMI_ENOTDIR = 0x4000008d, BMI_EISDIR = 0x4000008e, BMI_EINVAL = 0x4000008f,
  BMI_EMFILE = 0x40000090, BMI_EFBIG = 0x40000091, BMI_ENOSPC = 0x40000092,
  BMI_EROFS = 0x40000093, BMI_EMLINK = 0x40000094, BMI_EPIPE = 0x40000095,
  BMI_EDEADLK = 0x40000096, BMI_ENAMETOOLONG = 0x40000097, BMI_ENOLCK = 0x40000098,
  BMI_ENOSYS = 0x40000099, BMI_ENOTEMPTY = 0x4000009a, BMI_ELOOP = 0x4000009b,
  BMI_EWOULDBLOCK = 0x4000009c, BMI_ENOMSG = 0x4000009d, BMI_EUNATCH = 0x4000009e,
  BMI_EBADR = 0x4000009f, BMI_EDEADLOCK = 0x400000a0, BMI_ENODATA = 0x400000a1,
  BMI_ETIME = 0x400000a2, BMI_ENONET = 0x400000a3, BMI_EREMOTE = 0x400000a4,
  BMI_ECOMM = 0x400000a5, BMI_EPROTO = 0x400000a6, BMI_EBADMSG = 0x400000a7,
  BMI_EOVERFLOW = 0x400000a8, BMI_ERESTART = 0x400000a9, BMI_EMSGSIZE = 0x400000aa,
  BMI_EPROTOTYPE = 0x400000ab, BMI_ENOPROTOOPT = 0x400000ac, BMI_EPROTONOSUPPORT = 0x400000ad,
  BMI_EOPNOTSUPP = 0x400000ae, BMI_EADDRINUSE = 0x400000af, BMI_EADDRNOTAVAIL = 0x400000b0,
  BMI_ENETDOWN = 0x400000b1, BMI_ENETUNREACH = 0x400000b2, BMI_ENETRESET = 0x400000b3,
  BMI_ENOBUFS = 0x400000b4, BMI_ETIMEDOUT = 0x400000b5, BMI_ECONNREFUSED = 0x400000b6,
  BMI_EHOSTDOWN = 0x400000b7, BMI_EHOSTUNREACH = 0x400000b8, BMI_EALREADY = 0x400000b9,
  BMI_EACCES = 0x400000ba, BMI_ECONNRESET = 0x400000bb,
  // BMI's own.
  BMI_ECANCEL = 0x60000081, BMI_EDEVINIT = 0x60000082, BMI_EDETAIL = 0x60000083,
  BMI_EHOSTNTFD = 0x60000084, BMI_EADDRNTFD = 0x60000085, BMI_ENORECVR = 0x60000086,
  BMI_ETRYAGAIN = 0x60000087
};

#endif // BMI_TYPES_H
