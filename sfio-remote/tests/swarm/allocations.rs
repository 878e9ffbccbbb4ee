//! How much memory a piece of work holds at most: an allocator that counts, for each thread by itself.
#![allow(unsafe_code, reason = "an allocator cannot be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// What the work holds now, and has held at most; none if nobody counts.
    static HELD: Cell<Option<(i64, i64)>> = const { Cell::new(None) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(bytes: i64) {
    // A thread that ends has no counter any more.
    let _ = HELD.try_with(|held| {
        if let Some((now, most)) = held.get() {
            held.set(Some((now + bytes, most.max(now + bytes))));
        }
    });
}

/// What `work` gives, and how many bytes it has held at most beside what there was before.
pub(crate) fn most_held<T>(work: impl FnOnce() -> T) -> (T, u64) {
    HELD.set(Some((0, 0)));
    let done = work();
    let most = HELD.take().map_or(0, |(_, most)| most);
    (done, most.max(0) as u64)
}
