//! Whether a connection leads to the server itself, or to a pooler, which may give each transaction another session.
//!
//! The server tells both ends of the connection that it has. If its end is the address that this process connects to, and
//! one of this process's own sockets has the same two ends, there is nothing in between that could give the session away: a
//! pooler's connection to the server is a socket of the pooler's, and a pooler within this process has another address.
//! Only Linux tells a process about its sockets by name; elsewhere, and over a socket in a folder, nothing is known.

use crate::options::PostgresOptions;
use sqlx::{Error, PgConnection, Row as _};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// Names of hosts are known by now, so an answer is quick; a call must not wait for one that is not.
const PATIENCE: Duration = Duration::from_millis(50);
const ENDS: &str = "SELECT pg_catalog.host(pg_catalog.inet_client_addr()) AS here, \
    pg_catalog.inet_client_port() AS here_port, pg_catalog.host(pg_catalog.inet_server_addr()) AS there, \
    pg_catalog.inet_server_port() AS there_port";

/// Whether it is certain that nothing stands in between.
pub(crate) async fn is_direct(conn: &mut PgConnection, options: &PostgresOptions) -> Result<bool, Error> {
    let Some(address) = options.address() else { return Ok(false) };
    let row = sqlx::raw_sql(ENDS).fetch_one(conn).await?;
    let end = |address, port| -> Result<_, Error> {
        let address: Option<IpAddr> =
            row.try_get::<Option<&str>, _>(address)?.and_then(|text| text.parse().ok());
        let port = row.try_get::<Option<i32>, _>(port)?.and_then(|port| u16::try_from(port).ok());
        Ok(address.zip(port).map(SocketAddr::from))
    };
    let (Some(here), Some(there)) = (end("here", "here_port")?, end("there", "there_port")?) else {
        return Ok(false);
    };
    let meant = tokio::time::timeout(PATIENCE, tokio::net::lookup_host(address)).await;
    let is_meant = meant.is_ok_and(|meant| meant.is_ok_and(|mut ends| ends.any(|end| end == there)));
    // Where a machine has very many sockets the list of them takes its time.
    Ok(is_meant && tokio::task::spawn_blocking(move || sockets::has(here, there)).await.unwrap_or(false))
}

#[cfg(target_os = "linux")]
mod sockets {
    use std::{
        fmt::Write as _,
        fs,
        io::{BufRead as _, BufReader},
        net::{IpAddr, SocketAddr},
    };

    /// Whether a socket of this process has these two ends.
    pub(super) fn has(here: SocketAddr, there: SocketAddr) -> bool {
        let list = if here.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
        let Ok(list) = fs::File::open(list) else { return false };
        let found =
            BufReader::new(list).lines().map_while(Result::ok).find_map(|line| inode(&line, here, there));
        found.is_some_and(|inode| is_ours(&inode))
    }

    /// The number of the socket that a line is about, if it has these two ends.
    pub(super) fn inode(line: &str, here: SocketAddr, there: SocketAddr) -> Option<String> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let has_ends = words.next() == Some(&written(here)) && words.next() == Some(&written(there));
        has_ends.then(|| words.nth(6).map(str::to_owned)).flatten()
    }

    /// As the kernel writes an end: the words of the address as this machine has numbers, and the port.
    pub(super) fn written(end: SocketAddr) -> String {
        let octets = match end.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let words = octets.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_ne_bytes);
        let mut written = String::new();
        for word in words {
            // A string takes everything.
            let _ = write!(written, "{word:08X}");
        }
        let _ = write!(written, ":{:04X}", end.port());
        written
    }

    fn is_ours(inode: &str) -> bool {
        let (Ok(files), name) = (fs::read_dir("/proc/self/fd"), format!("socket:[{inode}]")) else {
            return false;
        };
        files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == &*name))
    }
}

#[cfg(not(target_os = "linux"))]
mod sockets {
    pub(super) fn has(_: std::net::SocketAddr, _: std::net::SocketAddr) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_of_this_process_is_found_by_its_ends() {
        for host in ["127.0.0.1", "::1"] {
            let listener = TcpListener::bind((host, 0)).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (here, there) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert!(sockets::has(here, there), "{here} {there}");
            // Nobody has accepted it yet, so this end belongs to no process.
            assert!(!sockets::has(there, here));
            let mut elsewhere = there;
            elsewhere.set_port(there.port() ^ 1);
            assert!(!sockets::has(here, elsewhere));
        }
    }

    #[test]
    fn a_socket_of_another_process_is_not_ours() {
        // A line of another's, as the kernel writes it.
        let line = format!(
            "   0: {} {} 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 100 0 0 10 0",
            sockets::written(SocketAddr::from(([127, 0, 0, 1], 7))),
            sockets::written(SocketAddr::from(([10, 0, 0, 9], 5432))),
        );
        let (here, there) = (SocketAddr::from(([127, 0, 0, 1], 7)), SocketAddr::from(([10, 0, 0, 9], 5432)));
        assert_eq!(sockets::inode(&line, here, there).as_deref(), Some("1"));
        assert_eq!(sockets::inode(&line, there, here), None);
        assert_eq!(sockets::inode("  sl  local_address rem_address   st", here, there), None);
    }
}
