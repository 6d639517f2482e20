//! Finds NCCL's own library.
//!
//! `SYNCLINE_NCCL_LIBRARY` names it. Else it is the one that the process has mapped already, as a dependency of the
//! program before which ours is preloaded; else what the loader finds as `libnccl.so.2`. It is opened by path, with
//! its own symbols before all others (`RTLD_DEEPBIND`), as otherwise its calls of its own functions would find
//! ours. Where it was mapped already they do so all the same, which [`super::is_inside`] deals with.
//!
//! Where ours lies in the place of NCCL's, under its name, the loader finds ours: then there is none, unless it is
//! named.

use std::env;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

/// The library.
pub(crate) struct Library {
    handle: usize,
    path: String,
    version: c_int,
}

/// It, or why there is none. It is looked for once.
pub(crate) fn library() -> Result<&'static Library, &'static str> {
    static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
    FOUND.get_or_init(Library::find).as_ref().map_err(String::as_str)
}

/// `2.21.5` for 22105, `2.8.3` for 2803.
pub(crate) fn version_text(code: c_int) -> String {
    let (major, minor) = if code < 10_000 { (code / 1000, code / 100 % 10) } else { (code / 10_000, code / 100 % 100) };
    format!("{major}.{minor}.{}", code % 100)
}

impl Library {
    /// The code of its version.
    pub(crate) fn version(&self) -> c_int {
        self.version
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The address of one of its functions.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the library stays loaded.
        let address = unsafe { libc::dlsym(self.handle as *mut c_void, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    fn find() -> Result<Library, String> {
        if let Some(path) = env::var_os("SYNCLINE_NCCL_LIBRARY").filter(|path| !path.is_empty()) {
            let name = path.to_string_lossy().into_owned();
            let path =
                CString::new(path.into_vec()).map_err(|_| "SYNCLINE_NCCL_LIBRARY holds a zero byte".to_owned())?;
            return Library::open(&path).map_err(|why| format!("SYNCLINE_NCCL_LIBRARY is {name}: {why}"));
        }
        match mapped() {
            Some(path) => Library::open(&path),
            None => Library::open(c"libnccl.so.2"),
        }
    }

    fn open(path: &CStr) -> Result<Library, String> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
        // SAFETY: initialisers of the library run, as they do in programs that are linked with it.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        if handle.is_null() {
            // SAFETY: the text is that of the error just now, in this thread.
            let text = unsafe { libc::dlerror() };
            // SAFETY: as above.
            let said = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
            return Err(said.unwrap_or_else(|| "it cannot be loaded".into()));
        }
        let mut library = Library { handle: handle as usize, path: String::new(), version: 0 };
        let get_version = library.symbol(c"ncclGetVersion").ok_or("it has no ncclGetVersion")?;
        let found = object_of(get_version).ok_or("its functions are nowhere")?;
        if Some(found.0) == own_object().map(|own| own.0) {
            return Err("libnccl.so.2 is Syncline's own library; SYNCLINE_NCCL_LIBRARY can name another".into());
        }
        library.path = found.1;
        // SAFETY: this is its type in all versions.
        let get_version =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(get_version) };
        // SAFETY: it writes a number.
        let code = unsafe { get_version(&raw mut library.version) };
        if code == 0 { Ok(library) } else { Err(format!("its ncclGetVersion fails with result {code}")) }
    }
}

/// The file that this is in.
fn own_object() -> Option<(usize, String)> {
    object_of(own_object as *const () as *mut c_void)
}

/// The base address and path of the file that an address is in.
fn object_of(address: *mut c_void) -> Option<(usize, String)> {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: it writes to the structure.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name lives as long as the file is mapped.
    let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy().into_owned();
    Some((found.dli_fbase as usize, path))
}

/// The path of a library of NCCL that is mapped already, other than ours.
fn mapped() -> Option<CString> {
    struct Search {
        own: Option<String>,
        found: Option<CString>,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes its own structure, and what was passed to it.
        let (name, search): (*const c_char, &mut Search) =
            unsafe { ((*info).dlpi_name, &mut *search.cast::<Search>()) };
        if name.is_null() {
            return 0;
        }
        // SAFETY: names end with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        let file = Path::new(OsStr::from_bytes(name.to_bytes())).file_name().unwrap_or_default();
        let is_own = search.own.as_ref().is_some_and(|own| own.as_bytes() == name.to_bytes());
        if !is_own && file.as_bytes().starts_with(b"libnccl.so") {
            search.found = Some(name.to_owned());
            return 1;
        }
        0
    }
    let mut search = Search { own: own_object().map(|own| own.1), found: None };
    // SAFETY: the function gets the search, which lives until all files have been visited.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_and_after_the_change_of_codes() {
        assert_eq!(version_text(22105), "2.21.5");
        assert_eq!(version_text(2803), "2.8.3");
        assert_eq!(version_text(23203), "2.32.3");
    }
}
