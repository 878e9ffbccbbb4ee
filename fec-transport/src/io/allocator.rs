//! What becomes of freed memory.

/// For programs, at their start, before any other thread: how much freed memory the process keeps. Elsewhere than with
/// glibc it does nothing.
///
/// glibc raises the size from which pieces are given back at once whenever one is freed, up to 32 MiB. Blocks of a megabyte
/// then share the heaps with small things, and a session that holds 20 MiB sits in a process of 300. The other way round it
/// gives back the end of a heap as soon as 128 KiB are free there: at 10 Gbit/s a fifth of a receiver's time went into page
/// faults.
#[allow(unsafe_code, reason = "nobody wraps mallopt")]
pub fn tune_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGE: i32 = 1_000_000;
        const KEPT: i32 = 8 << 20;
        // SAFETY: mallopt takes two integers. It changes what other threads' allocations read (MT-Unsafe const:mallopt),
        // so programs call it first.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}
