//! The process's limit of open files: each connection is one.

use std::io;

/// Files that the process needs beside its clients' connections: store, admin, logs, data.
const BESIDES: u64 = 256;

/// Raises the limit of open files as far as `connections` need it and the system allows; gives how many connections fit.
pub fn allow_connections(connections: usize) -> io::Result<usize> {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(BESIDES);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the struct it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: the call only reads the struct.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let left = limit.rlim_cur.saturating_sub(BESIDES).max(limit.rlim_cur / 2);
    Ok(usize::try_from(left).unwrap_or(usize::MAX))
}
