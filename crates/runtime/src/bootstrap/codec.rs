//! Numbers and byte strings in little-endian order, from and to messages.

/// A message is not what it should be. Whoever reads it says from whom it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends to a message.
#[derive(Debug, Default)]
pub(crate) struct Put(pub Vec<u8>);

impl Put {
    pub fn u8(&mut self, value: u8) -> &mut Put {
        self.raw(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Put {
        self.raw(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Put {
        self.raw(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Put {
        self.raw(&value.to_le_bytes())
    }

    /// A number that may be missing: a byte that says so, and the number.
    pub fn option(&mut self, value: Option<u32>) -> &mut Put {
        self.u8(u8::from(value.is_some())).u32(value.unwrap_or(0))
    }

    /// A string of bytes, behind its length.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Put {
        self.u32(value.len() as u32).raw(value)
    }

    pub fn raw(&mut self, value: &[u8]) -> &mut Put {
        self.0.extend_from_slice(value);
        self
    }
}

/// Takes from the front of a message. Nothing is allocated that is longer than the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn option(&mut self) -> Result<Option<u32>, Malformed> {
        let there = self.bool()?;
        let value = self.u32()?;
        Ok(there.then_some(value))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.raw(length as usize)
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        Ok(std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)?.to_owned())
    }

    /// That nothing is left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
