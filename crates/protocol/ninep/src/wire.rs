//! Numbers and strings in messages.

use crate::reply::Malformed;
use crate::request::TooLong;
use crate::Qid;

/// A buffer that is being filled.
pub struct Writer<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub fn new(to: &'a mut [u8]) -> Writer<'a> {
        Writer { to, at: 0 }
    }
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<&mut Self, TooLong> {
        let end = self.at.checked_add(bytes.len()).ok_or(TooLong)?;
        self.to.get_mut(self.at..end).ok_or(TooLong)?.copy_from_slice(bytes);
        self.at = end;
        Ok(self)
    }
    pub fn u8(&mut self, value: u8) -> Result<&mut Self, TooLong> {
        self.bytes(&[value])
    }
    pub fn u16(&mut self, value: u16) -> Result<&mut Self, TooLong> {
        self.bytes(&value.to_le_bytes())
    }
    pub fn u32(&mut self, value: u32) -> Result<&mut Self, TooLong> {
        self.bytes(&value.to_le_bytes())
    }
    pub fn u64(&mut self, value: u64) -> Result<&mut Self, TooLong> {
        self.bytes(&value.to_le_bytes())
    }
    pub fn string(&mut self, text: &[u8]) -> Result<&mut Self, TooLong> {
        let length = u16::try_from(text.len()).map_err(|_| TooLong)?;
        self.u16(length)?.bytes(text)
    }
    pub fn qid(&mut self, qid: Qid) -> Result<&mut Self, TooLong> {
        self.u8(qid.kind)?.u32(qid.version)?.u64(qid.path)
    }
    /// Writes the size where it belongs. Returns it.
    pub fn finish(self) -> Result<usize, TooLong> {
        let size = u32::try_from(self.at).map_err(|_| TooLong)?;
        self.to.get_mut(..4).ok_or(TooLong)?.copy_from_slice(&size.to_le_bytes());
        Ok(self.at)
    }
}

/// What is left of a message.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u16()?;
        self.bytes(length.into())
    }
    pub fn qid(&mut self) -> Result<Qid, Malformed> {
        Ok(Qid { kind: self.u8()?, version: self.u32()?, path: self.u64()? })
    }
}
