//! The driver of CUDA, loaded when it is first asked for.
//!
//! Nothing of it is needed to build. Names and types are those of `cuda.h` of CUDA 12.1: where that header gives a function a
//! name with a version (`#define cuMemAlloc cuMemAlloc_v2`), this is the name in the library.

use super::watch::entered;
use crate::bootstrap::{Cause, Failure};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// `CUresult`; 0 is success.
pub(crate) type Code = c_int;
/// `CUdevice`: the number of a GPU.
pub(crate) type Ordinal = c_int;
/// `CUcontext`, `CUstream`, `CUevent`, `CUmodule` and `CUfunction`.
pub(crate) type Handle = *mut c_void;
/// `CUdeviceptr`.
pub(crate) type Address = u64;

/// `CUDA_SUCCESS`.
const SUCCESS: Code = 0;
/// `CUDA_ERROR_NOT_READY`: what an event says whose work is not done.
const NOT_READY: Code = 600;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
const ALREADY_REGISTERED: Code = 712;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and what follows.
pub(crate) mod attribute {
    use std::ffi::c_int;
    /// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
    pub(crate) const PROCESSORS: c_int = 16;
    /// `CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING`.
    pub(crate) const UNIFIED_ADDRESSES: c_int = 41;
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
    pub(crate) const CAPABILITY_MAJOR: c_int = 75;
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
    pub(crate) const CAPABILITY_MINOR: c_int = 76;
    /// `CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM`.
    pub(crate) const SAME_HOST_ADDRESSES: c_int = 91;
}

/// `CU_STREAM_NON_BLOCKING`: the stream does not wait for the stream `NULL`, nor that for it.
pub(crate) const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(crate) const NO_TIMING: c_uint = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: what this thread does is no matter for graphs that other threads make.
pub(crate) const RELAXED: c_int = 2;
/// `CU_STREAM_WAIT_VALUE_GEQ`: until the word, less the value, is not negative as a signed number.
pub(crate) const AT_LEAST: c_uint = 0;
/// `CU_MEMHOSTREGISTER_PORTABLE` and `_DEVICEMAP`.
const FOR_ALL_DEVICES: c_uint = 1 | 2;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
pub(crate) const LAZY_PEER_ACCESS: c_uint = 1;

/// `CUipcMemHandle`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IpcHandle {
    /// Opaque bytes.
    pub(crate) bytes: [u8; 64],
}

/// Declares the functions that are used: the field, the name in the library, and the type.
macro_rules! functions {
    ($($(#[$about:meta])* $field:ident = $name:literal: fn($($argument:ty),* $(,)?);)*) => {
        /// The functions of the driver.
        pub(crate) struct Driver {
            $($(#[$about])* pub(crate) $field: Function<unsafe extern "C" fn($($argument),*) -> Code>,)*
        }

        impl Driver {
            fn of(find: impl Fn(&str) -> Option<*mut c_void>) -> Result<Driver, String> {
                Ok(Driver {
                    $($field: {
                        let address = find($name).ok_or(concat!("the driver of CUDA has no ", $name))?;
                        // SAFETY: this is the function's type, as cuda.h has it.
                        let call = unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> Code>(address)
                        };
                        Function { name: $name, call }
                    },)*
                })
            }
        }
    };
}

/// A function of the driver.
#[derive(Clone, Copy)]
pub(crate) struct Function<F> {
    /// Its name, for what is said of it.
    pub(crate) name: &'static str,
    /// The function.
    pub(crate) call: F,
}

functions! {
    init = "cuInit": fn(c_uint);
    error_name = "cuGetErrorName": fn(Code, *mut *const c_char);
    error_text = "cuGetErrorString": fn(Code, *mut *const c_char);
    device_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, Ordinal);
    device_get = "cuDeviceGet": fn(*mut Ordinal, c_int);
    device_bus_id = "cuDeviceGetPCIBusId": fn(*mut c_char, c_int, Ordinal);
    device_by_bus_id = "cuDeviceGetByPCIBusId": fn(*mut Ordinal, *const c_char);
    can_access_peer = "cuDeviceCanAccessPeer": fn(*mut c_int, Ordinal, Ordinal);
    primary_context = "cuDevicePrimaryCtxRetain": fn(*mut Handle, Ordinal);
    push_context = "cuCtxPushCurrent_v2": fn(Handle);
    pop_context = "cuCtxPopCurrent_v2": fn(*mut Handle);
    context_device = "cuCtxGetDevice": fn(*mut Ordinal);
    priorities = "cuCtxGetStreamPriorityRange": fn(*mut c_int, *mut c_int);
    allocate = "cuMemAlloc_v2": fn(*mut Address, usize);
    free = "cuMemFree_v2": fn(Address);
    copy_async = "cuMemcpyAsync": fn(Address, Address, usize, Handle);
    register_host = "cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint);
    host_address = "cuMemHostGetDevicePointer_v2": fn(*mut Address, *mut c_void, c_uint);
    unregister_host = "cuMemHostUnregister": fn(*mut c_void);
    create_stream = "cuStreamCreateWithPriority": fn(*mut Handle, c_uint, c_int);
    destroy_stream = "cuStreamDestroy_v2": fn(Handle);
    synchronize = "cuStreamSynchronize": fn(Handle);
    capture_mode = "cuThreadExchangeStreamCaptureMode": fn(*mut c_int);
    is_capturing = "cuStreamIsCapturing": fn(Handle, *mut c_int);
    wait_value = "cuStreamWaitValue32_v2": fn(Handle, Address, u32, c_uint);
    create_event = "cuEventCreate": fn(*mut Handle, c_uint);
    destroy_event = "cuEventDestroy_v2": fn(Handle);
    record = "cuEventRecord": fn(Handle, Handle);
    query_event = "cuEventQuery": fn(Handle);
    unload_module = "cuModuleUnload": fn(Handle);
    load_module = "cuModuleLoadData": fn(*mut Handle, *const c_void);
    module_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    launch = "cuLaunchKernel": fn(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
    );
    ipc_handle = "cuIpcGetMemHandle": fn(*mut IpcHandle, Address);
    open_ipc = "cuIpcOpenMemHandle_v2": fn(*mut Address, IpcHandle, c_uint);
    close_ipc = "cuIpcCloseMemHandle": fn(Address);
}

/// Calls a function of the driver: a [`Failure`] with its name and what the driver says, unless it succeeds.
macro_rules! call {
    ($driver:expr, $field:ident($($argument:expr),* $(,)?)) => {{
        let function = &$driver.$field;
        // SAFETY: see the comment at the call.
        let code = crate::device::watch::entered(function.name, || unsafe { (function.call)($($argument),*) });
        $driver.judge(function, code)
    }};
}
pub(crate) use call;

impl Driver {
    /// The driver, or why there is none. It is looked for once.
    pub(crate) fn get() -> Result<&'static Driver, &'static str> {
        static FOUND: OnceLock<Result<Driver, String>> = OnceLock::new();
        FOUND.get_or_init(Driver::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Driver, String> {
        // SAFETY: initialisers of the driver run, as they do in programs that are linked with it. It stays loaded.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: the text is that of the error just now, in this thread, or null.
            let text = unsafe { libc::dlerror() };
            // SAFETY: as above.
            let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
            return Err(format!("no driver of CUDA: {}", text.unwrap_or_else(|| "it cannot be loaded".into())));
        }
        let driver = Driver::of(|name| {
            let name = CString::new(name).ok()?;
            // SAFETY: the library stays loaded.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        })?;
        // It takes no flags.
        call!(driver, init(0)).map_err(|failure| failure.message)?;
        Ok(driver)
    }

    /// A failure, unless a code is that of success.
    pub(crate) fn judge<F>(&self, function: &Function<F>, code: Code) -> Result<(), Failure> {
        if code == SUCCESS { Ok(()) } else { Err(self.failure(function.name, code)) }
    }

    /// Whether the work before an event is done.
    pub(crate) fn is_done(&self, event: Handle) -> Result<bool, Failure> {
        // SAFETY: an event is destroyed by its owner alone.
        match entered(self.query_event.name, || unsafe { (self.query_event.call)(event) }) {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            code => Err(self.failure(self.query_event.name, code)),
        }
    }

    /// Lets GPUs reach memory of the host, which they may do already. Returns whether they did not.
    ///
    /// # Safety
    /// The memory is there until it is unregistered.
    pub(crate) unsafe fn register(&self, start: *mut c_void, bytes: usize) -> Result<bool, Failure> {
        // SAFETY: the caller's promise.
        match entered(self.register_host.name, || unsafe { (self.register_host.call)(start, bytes, FOR_ALL_DEVICES) }) {
            SUCCESS => Ok(true),
            ALREADY_REGISTERED => Ok(false),
            code => Err(self.failure(self.register_host.name, code)),
        }
    }

    fn failure(&self, name: &str, code: Code) -> Failure {
        let said = |function: &Function<unsafe extern "C" fn(Code, *mut *const c_char) -> Code>| {
            let mut text = ptr::null();
            // SAFETY: it writes a text that lives as long as the driver, or null.
            let known = unsafe { (function.call)(code, &raw mut text) } == SUCCESS && !text.is_null();
            // SAFETY: as above.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let number = || format!("error {code}");
        let what = said(&self.error_name).unwrap_or_else(number);
        let text = said(&self.error_text).unwrap_or_else(number);
        Failure::new(Cause::Device, format!("{name} fails with {what}: {text}"))
    }
}
