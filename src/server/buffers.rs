//! What a connection has received and not yet begun, and what it has still to send.

use crate::limits::{FRAME_BYTES_MAX, SOCKET_READ_BYTES_MAX, SOCKET_READ_BYTES_MIN};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;

const PREFIX_BYTES: usize = 4;

/// What stands at the front of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// A whole frame of so many bytes, its length prefix left out.
    Complete(usize),
    /// Less than a frame.
    Partial,
    /// A length that no frame can have, as its four bytes.
    Broken([u8; PREFIX_BYTES]),
}

/// Received bytes. Grows only with what arrived, holds nothing when it is empty.
#[derive(Default)]
pub(super) struct Input {
    buffer: BytesMut,
    /// What the next read asks for at least, learned from the reads before.
    read_bytes: usize,
}

impl Input {
    pub(super) fn front(&self) -> Front {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_BYTES>() else { return Front::Partial };
        match usize::try_from(i32::from_be_bytes(*prefix)) {
            Ok(length @ 1..=FRAME_BYTES_MAX) if self.buffer.len() - PREFIX_BYTES >= length => Front::Complete(length),
            Ok(1..=FRAME_BYTES_MAX) => Front::Partial,
            _ => Front::Broken(*prefix),
        }
    }

    /// The bytes of the frame that stands complete at the front.
    pub(super) fn peek_frame(&self, length: usize) -> &[u8] {
        self.buffer.get(PREFIX_BYTES..PREFIX_BYTES + length).unwrap_or_default()
    }

    /// Splits off the frame that stands complete at the front, without copying it.
    pub(super) fn take_frame(&mut self, length: usize) -> Bytes {
        self.buffer.advance(PREFIX_BYTES);
        self.buffer.split_to(length).freeze()
    }

    pub(super) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes of memory behind it.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    pub(super) fn release_if_empty(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// How much the next read should ask for: for a frame under way at most as much again as has arrived of it.
    pub(super) fn read_size(&self) -> usize {
        let usual = self.read_bytes.max(SOCKET_READ_BYTES_MIN);
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_BYTES>() else { return usual };
        let length = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(0).min(FRAME_BYTES_MAX);
        let missing = (PREFIX_BYTES + length).saturating_sub(self.buffer.len());
        missing.min(self.buffer.len()).min(SOCKET_READ_BYTES_MAX).max(usual)
    }

    /// Reads once, up to `size` bytes. Gives how many came, 0 at the end of the stream, and whether there may be more.
    pub(super) fn read_from(&mut self, stream: &TcpStream, size: usize) -> io::Result<(usize, bool)> {
        self.buffer.reserve(size);
        let spare = self.buffer.spare_capacity_mut();
        let asked = spare.len().min(size);
        let spare = spare.get_mut(..asked).expect("asked for at most what is spare");
        let count = loop {
            match SockRef::from(stream).recv(spare) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        // SAFETY: the kernel has filled the first `count` bytes of the spare capacity.
        unsafe { self.buffer.advance_mut(count) };
        let filled = count == asked;
        if filled {
            self.read_bytes = (asked * 2).clamp(SOCKET_READ_BYTES_MIN, SOCKET_READ_BYTES_MAX);
        } else if count * 4 < self.read_bytes {
            self.read_bytes /= 2;
        }
        Ok((count, filled))
    }
}

/// Whole replies in order, the first perhaps half sent.
#[derive(Default)]
pub(super) struct Output {
    queue: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that are sent.
    sent_of_first: usize,
    unsent: usize,
    /// Bytes of all replies that ever were in it.
    pushed: u64,
}

/// Replies given to the kernel in one call.
const SLICES_MAX: usize = 32;

impl Output {
    pub(super) fn push(&mut self, reply: Vec<u8>) {
        self.unsent += reply.len();
        self.pushed += reply.len() as u64;
        self.queue.push_back(reply);
    }

    /// Where the last reply ends, counted from the first byte that ever was in it.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How far it is sent, counted like `pushed`.
    pub(super) fn sent(&self) -> u64 {
        self.pushed - self.unsent as u64
    }

    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Sends what the socket takes now. Gives how many bytes that were.
    pub(super) fn flush(&mut self, mut stream: &TcpStream) -> io::Result<usize> {
        let before = self.unsent;
        while self.unsent > 0 {
            let result = match self.queue.len() {
                1 => stream.write(self.rest_of_first()),
                _ => {
                    let first = std::iter::once(IoSlice::new(self.rest_of_first()));
                    let later = self.queue.iter().skip(1).map(|reply| IoSlice::new(reply));
                    let slices: Vec<IoSlice<'_>> = first.chain(later).take(SLICES_MAX).collect();
                    stream.write_vectored(&slices)
                }
            };
            match result {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(before - self.unsent)
    }

    fn rest_of_first(&self) -> &[u8] {
        self.queue.front().and_then(|first| first.get(self.sent_of_first..)).unwrap_or_default()
    }

    fn advance(&mut self, mut count: usize) {
        self.unsent -= count;
        while let Some(first) = self.queue.front() {
            let left = first.len() - self.sent_of_first;
            if count < left {
                self.sent_of_first += count;
                return;
            }
            count -= left;
            self.sent_of_first = 0;
            self.queue.pop_front();
        }
        // An idle connection holds no memory for what it once had to say.
        if self.queue.capacity() > SLICES_MAX {
            self.queue = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(bytes: &[u8]) -> Input {
        Input { buffer: BytesMut::from(bytes), read_bytes: 0 }
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: Front) {
        assert_eq!(holding(bytes).front(), expected);
    }

    #[test]
    fn a_length_is_judged_before_anything_is_kept_for_it() {
        check(&[], Front::Partial);
        check(&[0, 0, 0], Front::Partial);
        check(&[0, 0, 0, 1], Front::Partial);
        check(&[0, 0, 0, 1, 9], Front::Complete(1));
        check(&[0, 0, 0, 1, 9, 0], Front::Complete(1));
        check(&[0, 0, 0, 0], Front::Broken([0, 0, 0, 0]));
        check(&[0xff; 4], Front::Broken([0xff; 4]));
        check(&[0x7f, 0xff, 0xff, 0xff], Front::Broken([0x7f, 0xff, 0xff, 0xff]));
        let largest = i32::try_from(FRAME_BYTES_MAX).expect("fits a length prefix");
        check(&largest.to_be_bytes(), Front::Partial);
        check(&(largest + 1).to_be_bytes(), Front::Broken((largest + 1).to_be_bytes()));
    }

    #[test]
    fn a_read_asks_in_proportion_to_what_has_arrived() {
        assert_eq!(holding(&FRAME_BYTES_MAX.to_be_bytes()[4..]).read_size(), SOCKET_READ_BYTES_MIN);
        let mut arrived = vec![0; 100_000];
        arrived[..4].copy_from_slice(&50_000_000u32.to_be_bytes());
        assert_eq!(holding(&arrived).read_size(), 100_000);
    }

    #[test]
    fn frames_are_taken_in_order() {
        let mut input = holding(&[0, 0, 0, 2, 1, 2, 0, 0, 0, 1, 3, 0]);
        assert_eq!(input.peek_frame(2), [1, 2]);
        assert_eq!(input.take_frame(2), [1, 2].as_slice());
        assert_eq!(input.front(), Front::Complete(1));
        assert_eq!(input.take_frame(1), [3].as_slice());
        assert_eq!((input.front(), input.len()), (Front::Partial, 1));
    }
}
