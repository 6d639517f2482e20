//! A GPU that a communicator works on, by a context of the program on it.

use super::driver::{Driver, Handle, Ordinal, attribute, call};
use crate::bootstrap::{Cause, Failure};
use crate::value::{DataType, Reduction};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The kernels, as PTX (`kernels/build.py` makes it), with the zero that ends it for the driver.
const KERNELS: &str = concat!(include_str!("../../kernels/reduce.ptx"), "\0");
/// The least compute capability that they are compiled for.
const LEAST_CAPABILITY: (c_int, c_int) = (7, 5);
/// Threads of a block of a kernel.
const BLOCK: c_uint = 256;

/// A GPU, with kernels that have been loaded there.
#[derive(Clone)]
pub struct Gpu {
    context: Context,
    ordinal: Ordinal,
    bus_id: String,
    /// The greatest priority of streams.
    priority: c_int,
    /// How many blocks of a kernel are enough.
    most_blocks: c_uint,
    kernels: Arc<Kernels>,
}

/// A context of CUDA, with the driver.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    handle: usize,
}

impl Context {
    /// A number that no other context of the process has.
    pub(crate) fn number(&self) -> usize {
        self.handle
    }

    /// Does something while it is current in this thread.
    pub(crate) fn within<T>(&self, action: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        // A context of the program, which keeps it as long as it has communicators there.
        call!(self.driver, push_context(self.handle as Handle))?;
        let done = action();
        let mut popped = ptr::null_mut();
        // What has been pushed is popped.
        let after = call!(self.driver, pop_context(&raw mut popped));
        let done = done?;
        after.map(|()| done)
    }
}

/// The kernels in a context.
struct Kernels {
    context: Context,
    module: usize,
    /// By data type and [`Kernel`].
    functions: BTreeMap<(u32, Kernel), usize>,
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    Add,
    Mul,
    Larger,
    Smaller,
    /// Adds the product of an input and a factor.
    ScaledAdd,
    Scale,
    Divide,
}

impl Kernel {
    const ALL: [Kernel; 7] =
        [Kernel::Add, Kernel::Mul, Kernel::Larger, Kernel::Smaller, Kernel::ScaledAdd, Kernel::Scale, Kernel::Divide];

    /// The one that combines what is received with what is local.
    pub(crate) fn of(reduction: Reduction) -> Kernel {
        match reduction {
            Reduction::Sum | Reduction::Avg | Reduction::PreMulSum(_) => Kernel::Add,
            Reduction::Prod => Kernel::Mul,
            Reduction::Max => Kernel::Larger,
            Reduction::Min => Kernel::Smaller,
        }
    }

    /// Its name in `reduce.cu`; none, if the data type has no such kernel.
    fn name(self, data_type: DataType) -> Option<String> {
        let of = data_type.name();
        Some(match self {
            Kernel::Add => format!("reduce_{of}_add"),
            Kernel::Mul => format!("reduce_{of}_mul"),
            Kernel::Larger => format!("reduce_{of}_larger"),
            Kernel::Smaller => format!("reduce_{of}_smaller"),
            Kernel::ScaledAdd => format!("scaled_{of}_add"),
            Kernel::Scale => format!("scale_{of}"),
            Kernel::Divide if data_type.is_float() => return None,
            Kernel::Divide => format!("divide_{of}"),
        })
    }
}

impl Kernels {
    /// Those of a context, loaded if no communicator has them already.
    fn of(context: Context) -> Result<Arc<Kernels>, Failure> {
        static LOADED: Mutex<BTreeMap<usize, Weak<Kernels>>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = loaded.get(&context.handle).and_then(Weak::upgrade) {
            return Ok(kernels);
        }
        let kernels = Arc::new(context.within(|| Kernels::load(context))?);
        loaded.insert(context.handle, Arc::downgrade(&kernels));
        Ok(kernels)
    }

    /// All are looked up now: one that the driver loads when it is first used could wait for work that waits for it.
    fn load(context: Context) -> Result<Kernels, Failure> {
        let driver = context.driver;
        let mut module = ptr::null_mut();
        // The text ends with a zero.
        call!(driver, load_module(&raw mut module, KERNELS.as_ptr().cast::<c_void>()))?;
        let mut kernels = Kernels { context, module: module as usize, functions: BTreeMap::new() };
        for data_type in DataType::ALL {
            for kernel in Kernel::ALL {
                let Some(name) = kernel.name(data_type) else { continue };
                let name = CString::new(name).expect("names have no zeros");
                let mut function = ptr::null_mut();
                // It writes a function, which lives as long as the module.
                call!(driver, module_function(&raw mut function, module, name.as_ptr()))?;
                kernels.functions.insert((data_type.code(), kernel), function as usize);
            }
        }
        Ok(kernels)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // A context that the program has destroyed has taken them along; there is nobody to tell.
        let _ = self.context.within(|| call!(self.context.driver, unload_module(self.module as Handle)));
    }
}

impl Gpu {
    /// The GPU of a context (`CUcontext`), if there is one.
    ///
    /// # Errors
    /// A [`Failure`], if there is no driver or no context, or if the GPU lacks what is needed; the message says what.
    pub fn of_context(handle: Option<usize>) -> Result<Gpu, Failure> {
        let refused = |message: String| Failure::new(Cause::Device, message);
        let driver = Driver::get().map_err(|why| refused(why.into()))?;
        let Some(handle) = handle.filter(|handle| *handle != 0) else {
            return Err(refused("no context of CUDA is current in the thread that joins".into()));
        };
        let context = Context { driver, handle };
        let (ordinal, bus_id, priority, most_blocks) = context.within(|| {
            let mut ordinal = 0;
            // It writes the number of the GPU of the current context.
            call!(driver, context_device(&raw mut ordinal))?;
            let attribute = |attribute| {
                let mut value = 0;
                // It writes a number.
                call!(driver, device_attribute(&raw mut value, attribute, ordinal)).map(|()| value)
            };
            let capability = (attribute(attribute::CAPABILITY_MAJOR)?, attribute(attribute::CAPABILITY_MINOR)?);
            if capability < LEAST_CAPABILITY {
                let ((major, minor), (least, least_minor)) = (capability, LEAST_CAPABILITY);
                let message = format!("GPU {ordinal} has compute capability {major}.{minor}");
                return Err(refused(format!("{message}; accepted: {least}.{least_minor} and more")));
            }
            for (number, what) in [
                (attribute::UNIFIED_ADDRESSES, "unified addresses"),
                (attribute::SAME_HOST_ADDRESSES, "memory of the host under its addresses there"),
            ] {
                if attribute(number)? == 0 {
                    return Err(refused(format!("GPU {ordinal} does not have {what}, which is needed")));
                }
            }
            let (mut least, mut priority) = (0, 0);
            // It writes two numbers. The greatest priority is the lowest number.
            call!(driver, priorities(&raw mut least, &raw mut priority))?;
            if priority >= least {
                return Err(refused(format!("GPU {ordinal} has no priorities of streams, which are needed")));
            }
            let mut text = [0 as c_char; 32];
            // It writes a text of so many bytes at most, with its zero.
            call!(driver, device_bus_id(text.as_mut_ptr(), text.len() as c_int, ordinal))?;
            let bytes = text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
            let bus_id = String::from_utf8(bytes).map_err(|_| refused("a GPU's PCI bus id is no text".into()))?;
            Ok((ordinal, bus_id, priority, 2 * attribute(attribute::PROCESSORS)?.max(1) as c_uint))
        })?;
        let kernels = Kernels::of(context)?;
        Ok(Gpu { context, ordinal, bus_id, priority, most_blocks, kernels })
    }

    /// The context (`CUcontext`) that a program's GPU has by default, by the number of the GPU.
    ///
    /// # Errors
    /// A [`Failure`], if there is no driver or no such GPU.
    pub fn default_context(number: i32) -> Result<usize, Failure> {
        let driver = Driver::get().map_err(|why| Failure::new(Cause::Device, why))?;
        let (mut ordinal, mut handle) = (0, ptr::null_mut());
        // It writes the GPU.
        call!(driver, device_get(&raw mut ordinal, number))?;
        // It writes the context, which is kept from now on.
        call!(driver, primary_context(&raw mut handle, ordinal))?;
        Ok(handle as usize)
    }

    /// Its number among those of the process.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Where it is on the PCI bus, such as `0000:3b:00.0`.
    pub fn bus_id(&self) -> &str {
        &self.bus_id
    }

    /// Memory of the GPU that is current in this thread, as an address.
    ///
    /// # Errors
    /// A [`Failure`], if there is no driver, or it has no such memory.
    pub fn allocate(bytes: usize) -> Result<u64, Failure> {
        let driver = Driver::get().map_err(|why| Failure::new(Cause::Device, why))?;
        let mut address = 0;
        // It writes an address.
        call!(driver, allocate(&raw mut address, bytes.max(1)))?;
        Ok(address)
    }

    /// Gives memory back.
    ///
    /// # Errors
    /// A [`Failure`], if there is no driver, or this is no such memory.
    pub fn free(address: u64) -> Result<(), Failure> {
        let driver = Driver::get().map_err(|why| Failure::new(Cause::Device, why))?;
        // The driver knows its memory.
        call!(driver, free(address))
    }

    /// The greatest priority of streams, above that of a program that does not ask for one.
    pub(crate) fn priority(&self) -> c_int {
        self.priority
    }

    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Gives a kernel to a stream. Parameters are those of the kernel, in order.
    ///
    /// # Safety
    /// The context is current, the parameters are of the kernel's types, and what they point to is memory that the GPU reaches.
    pub(crate) unsafe fn launch(
        &self,
        (data_type, kernel): (DataType, Kernel),
        parameters: &mut [*mut c_void],
        elements: u64,
        stream: Handle,
    ) -> Result<(), Failure> {
        let function = self.kernels.functions.get(&(data_type.code(), kernel));
        let function = *function.expect("all kernels that there are have been loaded") as Handle;
        let blocks = elements.div_ceil(BLOCK.into()).min(self.most_blocks.into()) as c_uint;
        let (parameters, none) = (parameters.as_mut_ptr(), ptr::null_mut());
        // The caller's promise; parameters are read before it returns.
        call!(self.context.driver, launch(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, parameters, none))
    }

    /// Lets the GPU reach memory of the host.
    pub(crate) fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<Registered, Failure> {
        let context = self.context;
        context.within(|| {
            let pointer = start.as_ptr().cast::<c_void>();
            // SAFETY: whoever has the memory keeps it as long as what is returned.
            if !unsafe { context.driver.register(pointer, bytes)? } {
                return Err(Failure::new(Cause::Device, "memory of the host is registered twice"));
            }
            Ok(Registered { context, start: pointer as usize })
        })
    }
}

/// Memory of the host that a GPU reaches, until this is dropped.
pub(crate) struct Registered {
    context: Context,
    start: usize,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Where the context is no more, neither is what was registered there.
        let _ = self.context.within(|| call!(self.context.driver, unregister_host(self.start as *mut c_void)));
    }
}
