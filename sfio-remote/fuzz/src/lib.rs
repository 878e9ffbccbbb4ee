//! What all targets share: an allocator that counts, so that hostile bytes cannot make a decoder take much memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts what is taken and not given back while a decoder works.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static BOUND: AtomicUsize = AtomicUsize::new(usize::MAX);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        give(layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn take(bytes: usize) {
    if COUNTS.load(Ordering::Relaxed) {
        let taken = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken > BOUND.load(Ordering::Relaxed) {
            COUNTS.store(false, Ordering::Relaxed);
            eprintln!("{taken} bytes are taken, {} are allowed", BOUND.load(Ordering::Relaxed));
            std::process::abort();
        }
    }
}

fn give(bytes: usize) {
    if COUNTS.load(Ordering::Relaxed) {
        // What was taken before the count began is given back, too.
        let _ = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken.saturating_sub(bytes)));
    }
}

/// Lets a decoder work on `bytes`; it may hold `times` as much memory as they, and `more` bytes.
pub fn bounded(bytes: &[u8], times: usize, more: usize, decode: impl FnOnce(&[u8])) {
    TAKEN.store(0, Ordering::Relaxed);
    BOUND.store(bytes.len() * times + more, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    decode(bytes);
    COUNTS.store(false, Ordering::Relaxed);
}
