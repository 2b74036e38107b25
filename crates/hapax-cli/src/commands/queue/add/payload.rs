//! One payload.

use crate::{exit::Exit, failure::Failure};
use bytes::Bytes;
use hapax::queue::raw::MAX_PAYLOAD;
use std::{
    ffi::OsStr,
    io::{self, IsTerminal, Read},
};

/// The bytes of a PAYLOAD: itself, or what stands on standard input.
pub(in super::super) fn read(given: Option<&OsStr>) -> Result<Bytes, Failure> {
    if let Some(payload) = given.filter(|payload| *payload != "-") {
        return Ok(payload.as_encoded_bytes().to_vec().into());
    }
    let stdin = io::stdin();
    if given.is_none() && stdin.is_terminal() {
        return Err(
            Failure::usage("no payload was given").help("write it behind the queue, or `-` to type it")
        );
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_PAYLOAD).unwrap_or(u64::MAX);
    let read = stdin.lock().take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Failure::input(format!("standard input cannot be read: {error}")))?;
    if bytes.len() > MAX_PAYLOAD {
        // How much more there is, nobody has to read.
        return Err(Failure::new(
            Exit::Invalid,
            "queue.payload_too_large",
            "the payload is larger than 1 MiB",
        ));
    }
    Ok(bytes.into())
}
