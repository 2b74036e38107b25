//! What a supervisor is told: the notify protocol of systemd, a datagram to the socket that `NOTIFY_SOCKET` names.

#[cfg(unix)]
pub(crate) use unix::Notifier;

#[cfg(unix)]
mod unix {
    use std::{
        ffi::OsStr,
        io,
        os::unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    };

    /// Tells nobody where there is no supervisor that listens.
    #[derive(Debug, Default)]
    pub(crate) struct Notifier(Option<(UnixDatagram, SocketAddr)>);

    impl Notifier {
        pub(crate) fn from_env() -> Self {
            let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
                return Self(None);
            };
            let socket = address(&name).and_then(|address| {
                let socket = UnixDatagram::unbound()?;
                // A supervisor that does not read holds up nobody.
                socket.set_nonblocking(true)?;
                Ok((socket, address))
            });
            Self(socket.inspect_err(warn).ok())
        }

        /// Lines of `NAME=value`.
        pub(crate) fn tell(&self, lines: &str) {
            if let Self(Some((socket, address))) = self
                && let Err(error) = socket.send_to_addr(lines.as_bytes(), address)
            {
                warn(&error);
            }
        }
    }

    fn warn(error: &io::Error) {
        tracing::warn!(%error, "the supervisor cannot be told");
    }

    fn address(name: &OsStr) -> io::Result<SocketAddr> {
        match name.as_bytes() {
            [b'@', name @ ..] => abstract_address(name),
            [b'/', ..] => SocketAddr::from_pathname(name),
            _ => Err(io::Error::other("NOTIFY_SOCKET is neither a path nor begins with @")),
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
        #[cfg(target_os = "android")]
        use std::os::android::net::SocketAddrExt as _;
        #[cfg(target_os = "linux")]
        use std::os::linux::net::SocketAddrExt as _;
        SocketAddr::from_abstract_name(name)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// There is no such supervisor.
#[cfg(not(unix))]
#[derive(Debug, Default)]
pub(crate) struct Notifier;

#[cfg(not(unix))]
impl Notifier {
    pub(crate) fn from_env() -> Self {
        Self
    }

    pub(crate) fn tell(&self, _: &str) {}
}
