//! Being asked to stop, on every system.

#[cfg(unix)]
pub(crate) use crate::interrupt::Interrupts;

/// Where there are no signals: Ctrl-C.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Interrupts(());

#[cfg(not(unix))]
impl Interrupts {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self(()))
    }

    pub(crate) async fn next(&mut self) -> i32 {
        const SIGINT: i32 = 2;
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SIGINT
    }
}
