//! A file system that can be full: in memory, of a fixed size, gone with the process that made it.

use crate::harness::Folder;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub struct SmallDisk {
    /// Its root directory. Nothing is mounted there any more: what holds the file system is this handle.
    root: File,
    path: PathBuf,
}

const FILLING: &str = "filling";

impl SmallDisk {
    /// None where this process may not mount anything.
    #[cfg(target_os = "linux")]
    pub fn new(bytes: u64) -> io::Result<SmallDisk> {
        use std::ffi::CString;
        use std::os::fd::AsRawFd;

        let folder = Folder::new("disk");
        let text = |text: &str| CString::new(text).expect("no zero in it");
        let (kind, size) = (text("tmpfs"), text(&format!("size={bytes}")));
        let place = text(folder.path().to_str().expect("a path of ours is UTF-8"));
        // SAFETY: all pointers are to strings that live until the call returns.
        let mounted = unsafe {
            libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, size.as_ptr().cast::<libc::c_void>())
        };
        if mounted != 0 {
            return Err(io::Error::last_os_error());
        }
        let root = File::open(folder.path());
        // SAFETY: as above. Open files keep the file system alive.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
        let root = root?;
        // By this path its children reach it too.
        let path =
            Path::new("/proc").join(std::process::id().to_string()).join("fd").join(root.as_raw_fd().to_string());
        Ok(SmallDisk { root, path })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn new(_: u64) -> io::Result<SmallDisk> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes up room, until `empty`.
    pub fn fill(&self, bytes: usize) -> io::Result<()> {
        std::fs::write(self.path.join(FILLING), vec![0; bytes])
    }

    pub fn empty(&self) -> io::Result<()> {
        std::fs::remove_file(self.path.join(FILLING))?;
        self.root.sync_all()
    }
}
