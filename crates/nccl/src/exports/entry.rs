//! The way into the library: what all exported functions have in common.

use crate::abi::result;
use crate::error::{Error, last};
use crate::{group, log};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does what a function is for, and makes a code of NCCL of what comes of it. No panic gets out.
pub(crate) fn enter(name: &str, body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(|| {
        log::trace(|| format!("{name} ..."));
        let done = body();
        if let Err(error) = &done {
            group::refuse(error);
            let text = format!("{name}: {}", error.message);
            log::info(|| format!("{text} (result {})", error.code));
            last::set(&text);
        }
        let code = done.unwrap_or_else(|error| error.code);
        log::trace(|| format!("{name}: result {code}"));
        code
    }));
    done.unwrap_or_else(|_| {
        // A panic while the text is set would be one more that must not get out.
        let _ = catch_unwind(|| last::set(&format!("{name}: internal error of the library: please report it")));
        result::INTERNAL
    })
}

/// Exports functions that return a code, each under its two names: that of a program (`nccl...`) and that of a
/// profiler, which offers the first and calls the second (`pnccl...`).
///
/// In a body, `Function` is the function's type and `in_nccl()` is NCCL's function of that name. While this thread is
/// inside a call of NCCL, which then calls itself, calls go straight to it.
macro_rules! exports {
    ($($(#[$about:meta])* fn $name:ident / $alias:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        const _: () = {
            type Function = unsafe extern "C" fn($($type),*) -> ::std::ffi::c_int;

            fn in_nccl() -> Result<Function, $crate::error::Error> {
                static FOUND: ::std::sync::OnceLock<Function> = ::std::sync::OnceLock::new();
                if let Some(found) = FOUND.get() {
                    return Ok(*found);
                }
                const NAME: &::std::ffi::CStr = $crate::exports::entry::c_name(concat!(stringify!($name), "\0"));
                let found = $crate::executors::nccl::function::<Function>(NAME)?;
                Ok(*FOUND.get_or_init(|| found))
            }

            unsafe extern "C" fn call($($argument: $type),*) -> ::std::ffi::c_int {
                if $crate::executors::nccl::is_inside() && let Ok(function) = in_nccl() {
                    // SAFETY: NCCL calls its own function, with arguments of that function.
                    return unsafe { function($($argument),*) };
                }
                $crate::exports::entry::enter(stringify!($name), || $body)
            }

            $(#[$about])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> ::std::ffi::c_int {
                // SAFETY: the program's promise.
                unsafe { call($($argument),*) }
            }

            $(#[$about])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $alias($($argument: $type),*) -> ::std::ffi::c_int {
                // SAFETY: the program's promise.
                unsafe { call($($argument),*) }
            }
        };
    )*};
}

pub(crate) use exports;

/// A name that ends with a zero, for C.
pub(crate) const fn c_name(name: &'static str) -> &'static std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("names of functions end with their only zero"),
    }
}

/// That an argument is not null.
pub(crate) fn not_null<T>(name: &str, pointer: *const T) -> Result<(), Error> {
    if pointer.is_null() { Err(Error::argument(name, "NULL", "where a result can be written")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error() {
        assert_eq!(enter("ncclTest", || panic!("as it should")), result::INTERNAL);
        // SAFETY: the text is that of this thread, and ends with a zero.
        let text = unsafe { std::ffi::CStr::from_ptr(last::get()) };
        assert_eq!(text.to_str(), Ok("ncclTest: internal error of the library: please report it"));
    }
}
