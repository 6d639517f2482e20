//! stand-in
#![allow(missing_docs, clippy::missing_safety_doc)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    Float32,
}
impl DataType {
    pub fn code(self) -> u32 {
        7
    }
    pub fn from_code(c: u32) -> Option<DataType> {
        (c == 7).then_some(DataType::Float32)
    }
    pub fn size(self) -> usize {
        4
    }
    pub fn name(self) -> &'static str {
        "float32"
    }
}
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic;
impl Arithmetic {
    pub fn code(&self) -> u32 {
        0
    }
    pub fn name_of(_: u32) -> &'static str {
        "sum"
    }
    pub fn data_type(&self) -> DataType {
        DataType::Float32
    }
    pub fn scales(&self) -> bool {
        false
    }
    pub fn divides(&self) -> bool {
        false
    }
    pub unsafe fn scale(&self, dst: *mut u8, src: *const u8, bytes: usize) {
        unsafe { std::ptr::copy(src, dst, bytes) }
    }
    pub unsafe fn reduce(&self, dst: *mut u8, a: *const u8, b: *const u8, bytes: usize) {
        unsafe {
            let (d, a, b) = (dst.cast::<f32>(), a.cast::<f32>(), b.cast::<f32>());
            for i in 0..bytes / 4 {
                d.add(i).write_unaligned(a.add(i).read_unaligned() + b.add(i).read_unaligned());
            }
        }
    }
    pub unsafe fn reduce_scaled(&self, dst: *mut u8, a: *const u8, b: *const u8, bytes: usize) {
        unsafe { self.reduce(dst, a, b, bytes) }
    }
    pub unsafe fn divide(&self, _d: *mut u8, _b: usize) {}
}

#[derive(Clone, Copy, Debug)]
pub enum Reduction {
    Sum,
}
impl Arithmetic {
    pub fn new(_: DataType, _: Reduction, _: u32) -> Result<Arithmetic, String> {
        Ok(Arithmetic)
    }
}
