//! How the connection comes about.

use super::options::Place;
use async_trait::async_trait;
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// A connection. A write that fails has written nothing, as [`std::io::Write::write`] has it.
pub trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Io for T {}

/// Opens connections, in place of TCP: through a proxy, a tunnel, or to a server within a test.
#[async_trait]
pub trait Dial: Send + Sync + fmt::Debug {
    /// Opens a connection to the server. TLS is not its business.
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Io>>;
}

/// One way to the server; there may be several.
#[derive(Clone, Debug)]
pub(super) enum Way {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(std::path::PathBuf),
    Own(Arc<dyn Dial>),
}

/// An open connection, and the name that this end has there.
pub(super) struct Dialed {
    pub(super) io: Box<dyn Io>,
    pub(super) own_name: String,
}

/// Looks up the name. Several addresses are tried one after another: RFC 5321 §5.1.
pub(super) async fn ways(place: &Place) -> io::Result<Vec<Way>> {
    match place {
        Place::Host { name, port } => {
            let found = tokio::net::lookup_host((name.as_str(), *port)).await?;
            Ok(found.map(Way::Tcp).collect())
        }
        #[cfg(unix)]
        Place::Socket(path) => Ok(vec![Way::Unix(path.clone())]),
    }
}

impl Way {
    pub(super) async fn open(&self, place: &Place) -> io::Result<Dialed> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                // Each write is as large as it can be already.
                stream.set_nodelay(true)?;
                let own_name = literal(stream.local_addr()?.ip());
                Ok(Dialed { io: Box::new(stream), own_name })
            }
            #[cfg(unix)]
            Self::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await?;
                Ok(Dialed { io: Box::new(stream), own_name: "localhost".to_owned() })
            }
            Self::Own(dial) => {
                let (host, port) = place.host_and_port();
                Ok(Dialed { io: dial.dial(host, port).await?, own_name: "localhost".to_owned() })
            }
        }
    }
}

/// Who has no name says its address: RFC 5321 §4.1.4.
fn literal(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("[{ip}]"),
        IpAddr::V6(ip) => format!("[IPv6:{ip}]"),
    }
}

/// Whether the resolver says that there is no such name, rather than that it cannot tell now. The standard library
/// passes on no code, so this goes by the words of the C libraries; others count as *cannot tell*.
pub(super) fn is_unknown_name(error: &io::Error) -> bool {
    let words = error.to_string();
    ["Name or service not known", "nodename nor servname provided", "No address associated"]
        .iter()
        .any(|known| words.contains(known))
}
