//! Counts what a thread has allocated, so that a test can say how much memory hostile bytes may cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that were allocated at once while `work` ran, beyond those from before it.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    let peak = PEAK_BYTES.get() - before;
    (peak.unsigned_abs(), result)
}

fn count(bytes: isize) {
    // Past the end of a thread its counters are gone, and nobody asks for them any more.
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).expect("no layout is larger than isize::MAX")
}

// SAFETY: every call goes to the system allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()));
        unsafe { System.realloc(block, layout, size) }
    }
}

#[test]
fn counts_what_is_held_at_once() {
    let (peak, _) = peak_bytes(|| {
        drop(vec![0u8; 1000]);
        vec![0u8; 3000]
    });
    assert_eq!(peak, 3000);
}
