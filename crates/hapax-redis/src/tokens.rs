//! Tokens, some at a time: to ask the system for each is a tenth of what a replay costs this process.
//!
//! A token must never come twice. A process that was forked draws anew; and what was drawn is used at once or not at all,
//! so that a machine which is copied while it runs takes no store of tokens along. One that a call has in hand at that
//! moment is in both copies in any case.

use hapax_core::{BootTime, Clock, StoreError, StoreErrorKind, StoreResult, SystemClock, Token};
use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

const DRAWN: usize = 16;

#[derive(Default)]
pub(crate) struct Tokens(Mutex<Option<Drawn>>);

struct Drawn {
    bytes: [[u8; 16]; DRAWN],
    left: usize,
    process: u32,
    /// The millisecond in which they are used.
    at: BootTime,
}

impl Tokens {
    pub(crate) fn next(&self) -> StoreResult<Token> {
        let mut drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, process) = (SystemClock.boot(), std::process::id());
        let usable = |drawn: &&mut Drawn| drawn.left > 0 && drawn.process == process && drawn.at == now;
        let drawn = match drawn.as_mut().filter(usable) {
            Some(drawn) => drawn,
            None => drawn.insert(Drawn { bytes: draw()?, left: DRAWN, process, at: now }),
        };
        drawn.left -= 1;
        let bytes = drawn.bytes.get_mut(drawn.left).map(std::mem::take);
        Ok(Token::from_bytes(bytes.unwrap_or_else(|| unreachable!("some are left"))))
    }
}

fn draw() -> StoreResult<[[u8; 16]; DRAWN]> {
    let mut bytes = [[0; 16]; DRAWN];
    getrandom::fill(bytes.as_flattened_mut()).map_err(|error| {
        let reason = "the system gave no random bytes";
        StoreError::new(StoreErrorKind::Internal, "hapax", "make a token", reason).with_source(error)
    })?;
    Ok(bytes)
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, time::Duration};

    #[test]
    fn none_comes_twice() {
        let tokens = Tokens::default();
        let drawn: HashSet<_> = (0..1000).map(|_| tokens.next().unwrap()).collect();
        assert_eq!(drawn.len(), 1000);
    }

    #[test]
    fn what_was_drawn_is_not_kept() {
        let changes: [fn(&mut Drawn); 2] =
            [|drawn| drawn.process ^= 1, |drawn| drawn.at = drawn.at.before(Duration::from_millis(1))];
        for change in changes {
            let tokens = Tokens::default();
            tokens.next().unwrap();
            let mut drawn = tokens.0.lock().unwrap();
            change(drawn.as_mut().unwrap());
            let left = drawn.as_ref().unwrap().bytes;
            drop(drawn);
            let next = tokens.next().unwrap();
            assert!(!left.contains(next.as_bytes()));
        }
    }
}
