// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SFIO_H
#define SFIO_H

#include <stddef.h>
#include <stdint.h>

// SFIO for programs in C. Written by cbindgen from sfio-remote/capi/src; a test holds the two together.
//
// Results are 0 or a negative error code, which m_strerror tells in words. Offsets are 64 bits wide. All calls may
// be made from several threads at once. None is collective before m_group; docs/collective.md has an example. The overlay
// is found by m_init, or by the config file that the environment variable SFIO_CONFIG names.
//
// lseek's error counter stays 0: the I/O nodes read and write at positions.

// What a call came to.
typedef enum {
  // It succeeded.
  M_OK = 0,
  // An argument cannot be: a null pointer, a negative offset, a name that is none.
  M_ERR_ARGUMENT = -1,
  // The config file, the overlay or the key cannot be used.
  M_ERR_CONFIG = -2,
  // There is no such file, or subfiles are missing.
  M_ERR_NOT_FOUND = -3,
  // An I/O node cannot be reached, or was lost; a retry may help.
  M_ERR_NETWORK = -4,
  // An I/O node's disk failed, or it refused; of a collective call also: a rank could not do its part.
  M_ERR_IO = -5,
  // An I/O node's disk is full.
  M_ERR_NO_SPACE = -6,
  // The file ends before the last byte that was to be read; those before it were read.
  M_ERR_EOF = -7,
  // The operation was cancelled.
  M_ERR_CANCELLED = -8,
  // A fault of the library itself.
  M_ERR_BUG = -9,
  // A rank of the group has not come, was lost, or broke the rules: the group is of no further use.
  M_ERR_GROUP = -10,
  // A rank of the group is in another call: nothing was read or written, and the group can go on.
  M_ERR_OTHER_CALL = -11,
} MResult;

// What m_isubmit begins.
typedef enum {
  // As mreadb.
  M_READ = 0,
  // As mwriteb.
  M_WRITE = 1,
} MOperation;

// A striped file that is open.
typedef struct MFILE MFILE;

// An operation that was begun.
typedef struct MREQUEST MREQUEST;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The code of the last failure on this thread: why mopen gave NULL.
int m_errno(void);

// What a code means. For the last failure on this thread it names the I/O node and the subfile, too; then the text is
// valid until this thread's next call.
const char *m_strerror(int code);

// Becomes the member that a config file describes. Without this call it is the file that SFIO_CONFIG names.
//
// # Safety
// `config` is null or a text that ends with a NUL.
int m_init(const char *config);

// Leaves the overlay, and the group. Files must have been closed, and requests be done, before. A program that ends
// without this call only leaves it to the I/O nodes to notice.
int m_finalize(void);

// Opens a striped file, "member,path;member,path;…", and creates what does not exist of it. Gives NULL if that fails;
// m_errno says why. Of a group it is collective.
//
// # Safety
// `name` is null or a text that ends with a NUL.
MFILE *mopen(const char *name,
             int64_t stripe_unit);

// Closes a file, which must not be used any more, whatever the result. Requests of m_isubmit on it must be done
// before. Of a file that a group has opened it is collective: all ranks have done with the file when it comes back.
//
// # Safety
// `f` came from mopen and was not closed.
int mclose(MFILE *f);

// Cuts a file, or extends it with zeros. Of a file that a group has opened it is collective.
//
// # Safety
// `f` came from mopen and was not closed.
int mchsize(MFILE *f, int64_t size);

// Makes everything that was written survive a power loss of the I/O nodes. Of a file that a group has opened it is
// collective.
//
// # Safety
// `f` came from mopen and was not closed.
int msync_file(MFILE *f);

// The length up to which a file is whole, and whether its subfiles fit together: 1 in `intact` if they do. Either
// pointer may be NULL.
//
// # Safety
// `f` came from mopen and was not closed; the pointers are null or can be written to.
int m_check(MFILE *f,
            int64_t *length,
            int *intact);

// How the bytes of files that are opened from now on are compressed on their way: "auto" (the default: where that
// makes them arrive sooner), "never", "lz4", "zstd", or "zstd:LEVEL" with a level of -7 to 19. On the disks they are
// raw.
//
// # Safety
// `how` is null or a text that ends with a NUL.
int m_compress(const char *how);

// Removes those subfiles of a file that there are. Of a group it is collective.
//
// # Safety
// `name` is null or a text that ends with a NUL.
int mdelete(const char *name);

// Creates a file; one that exists becomes empty. Of a group it is collective.
//
// # Safety
// `name` is null or a text that ends with a NUL.
int mcreate(const char *name);

// Reads one block, each stripe by a request of its own: the call that mreadc is compared with.
//
// # Safety
// `f` came from mopen and was not closed; `buffer` has `size` bytes.
int mread(MFILE *f, int64_t offset, char *buffer, unsigned int size);

// Writes one block, each stripe by a request of its own: the call that mwritec is compared with.
//
// # Safety
// `f` came from mopen and was not closed; `buffer` has `size` bytes.
int mwrite(MFILE *f, int64_t offset, const char *buffer, unsigned int size);

// Reads one block.
//
// # Safety
// `f` came from mopen and was not closed; `buffer` has `size` bytes.
int mreadc(MFILE *f, int64_t offset, char *buffer, unsigned int size);

// Writes one block.
//
// # Safety
// `f` came from mopen and was not closed; `buffer` has `size` bytes.
int mwritec(MFILE *f, int64_t offset, const char *buffer, unsigned int size);

// Reads many blocks in one operation; each has an offset in the file, a buffer and a size in bytes.
//
// # Safety
// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
int mreadb(MFILE *f,
           unsigned int count,
           const int64_t *offsets,
           char *const *buffers,
           const unsigned int *sizes);

// Writes many blocks in one operation. Where they overlap in the file, the later one wins.
//
// # Safety
// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
int mwriteb(MFILE *f,
            unsigned int count,
            const int64_t *offsets,
            char *const *buffers,
            const unsigned int *sizes);

// Begins to read or write many blocks and comes back; operation is M_READ or M_WRITE. The buffers belong to the
// operation until m_test, m_testsome, m_wait or m_cancel says that it is done. Gives NULL if it cannot begin; m_errno
// says why.
//
// # Safety
// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
MREQUEST *m_isubmit(MFILE *f,
                    int operation,
                    unsigned int count,
                    const int64_t *offsets,
                    char *const *buffers,
                    const unsigned int *sizes);

// Whether an operation is done: 1 in `done` if it is. Then the request is freed and set to NULL, and the result is the
// operation's. A request that is NULL is done.
//
// # Safety
// `request` points to null or to a request of m_isubmit that is not done; `done` can be written to.
int m_test(MREQUEST **request,
           int *done);

// Tests `count` requests. The positions of those that are done come into `indices`, their results into `results`,
// their number into `done`; each is freed and set to NULL. Requests that are NULL are passed over.
//
// # Safety
// The arrays have `count` elements; each request is null or one of m_isubmit that is not done.
int m_testsome(unsigned int count,
               MREQUEST **requests,
               unsigned int *done,
               unsigned int *indices,
               int *results);

// Waits until an operation is done; the request is freed and set to NULL, and the result is the operation's.
//
// # Safety
// `request` points to null or to a request of m_isubmit that is not done.
int m_wait(MREQUEST **request);

// Gives an operation up: the I/O nodes forget it, what reached them stays. The request is freed and set to NULL. The
// result is M_ERR_CANCELLED, or the operation's if it was faster.
//
// # Safety
// `request` points to null or to a request of m_isubmit that is not done.
int m_cancel(MREQUEST **request);

// Joins the `size` processes of a parallel program that meet in `folder`, as the one with this rank, counted from 0,
// and waits until all have come, for `patience_ms` at most. All of them run on one machine (m_group_at is for
// several), as any members of the overlay; the folder exists, is the program's alone, and nothing is left in it. From
// then on the calls that are named collective are so: all ranks make them in the same order, and each comes back when
// all have done their part. A rank that makes another call is an error on all (M_ERR_OTHER_CALL, whose words name
// both), and so is a rank that ends (M_ERR_GROUP).
//
// A `size` of 1 needs no folder: what is opened afterwards is the process's own, as without this call. Files that are
// open already stay what they are.
//
// # Safety
// `folder` is a text that ends with a NUL, or null if `size` is 1.
int m_group(const char *folder,
            unsigned int rank,
            unsigned int size,
            unsigned int patience_ms);

// As m_group, for processes on several machines that see one folder, over NFS for example. `host` is the IP address of
// this machine under which the others reach it, over UDP; the ranks encrypt what they say to one another. A process
// that calls m_finalize is lost to the others at once, and one that ends without it, is killed or stopped, or whose
// machine or network fails, within five seconds.
//
// # Safety
// `host` and `folder` are texts that end with a NUL.
int m_group_at(const char *host,
               const char *folder,
               unsigned int rank,
               unsigned int size,
               unsigned int patience_ms);

// Reads many blocks on each rank of the group that has opened the file, as mreadb does, in one collective operation. A
// rank may have none. M_ERR_EOF is the result of those ranks only that have blocks beyond the end.
//
// # Safety
// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
int mreadb_all(MFILE *f,
               unsigned int count,
               const int64_t *offsets,
               char *const *buffers,
               const unsigned int *sizes);

// Writes many blocks from each rank of the group that has opened the file, as mwriteb does, in one collective
// operation: few ranks collect what all have, and write it in large pieces, each over one session. A rank may have
// none. Where blocks of two ranks overlap, and the ranges of their blocks are interleaved, those of the higher rank
// count.
//
// # Safety
// `f` came from mopen and was not closed; the arrays have `count` elements, and each buffer its size.
int mwriteb_all(MFILE *f,
                unsigned int count,
                const int64_t *offsets,
                char *const *buffers,
                const unsigned int *sizes);

// The failed system calls of all I/O nodes, which count from zero again: open, close, creat, unlink, ftruncate, lseek,
// write, read. The I/O nodes are those of the overlay's sites, and of every name that the program has used.
//
// # Safety
// `ioerr` is null or has eight elements.
int merror(unsigned long *ioerr);

// Does what merror does. Of a group it is collective: all ranks get the same, and each I/O node is asked by one of
// them.
//
// # Safety
// `ioerr` is null or has eight elements.
int merrora(unsigned long *ioerr);

// Prints what merrora tells to the standard output, of a group by rank 0, and lets it count from zero again. It is
// collective as merrora is.
int prioerrora(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SFIO_H */
