//! One sync of the folder for all that were placed in it meanwhile.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counts what was placed, and how much of it is synced.
#[derive(Debug, Default)]
pub(super) struct GroupSync {
    placed: AtomicU64,
    synced: Mutex<Synced>,
}

#[derive(Debug, Default)]
struct Synced {
    upto: u64,
    /// A sync that failed says nothing good about what was placed before it, even when the next one succeeds.
    failed: Option<(u64, io::ErrorKind)>,
}

impl GroupSync {
    /// To be called after a name was placed, or found: returns once the folder was synced after this moment. Whoever
    /// comes first syncs for all that wait behind it.
    pub(super) fn sync(&self, sync_folder: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mine = self.placed.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((upto, kind)) = synced.failed
            && mine <= upto
        {
            return Err(kind.into());
        }
        if mine <= synced.upto {
            return Ok(());
        }
        let upto = self.placed.load(Ordering::SeqCst);
        match sync_folder() {
            Ok(()) => synced.upto = upto,
            Err(error) => {
                synced.failed = Some((upto, error.kind()));
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, atomic::AtomicUsize};

    #[test]
    fn those_who_wait_share_one_sync() {
        let (group, syncs) = (GroupSync::default(), AtomicUsize::new(0));
        let (entered, go) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let first = || {
                    syncs.fetch_add(1, Ordering::SeqCst);
                    entered.wait();
                    go.wait();
                    Ok(())
                };
                group.sync(first).unwrap();
            });
            // The first is syncing: whoever is placed from now on cannot rely on it.
            entered.wait();
            let waiting: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        group
                            .sync(|| {
                                syncs.fetch_add(1, Ordering::SeqCst);
                                Ok(())
                            })
                            .unwrap();
                    })
                })
                .collect();
            while group.placed.load(Ordering::SeqCst) < 9 {
                std::thread::yield_now();
            }
            go.wait();
            for thread in waiting {
                thread.join().unwrap();
            }
        });
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn failed_sync_fails_for_those_before_it_only() {
        let group = GroupSync::default();
        assert!(group.sync(|| Err(io::ErrorKind::Other.into())).is_err());
        assert!(group.sync(|| Ok(())).is_ok());
    }
}
