//! A server that does not answer the driver may be another program: asks what it says by itself.

use crate::options::PostgresOptions;
use hapax_core::stranger;
use std::{future, io, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// What kind of server it is, if it is known to be another. Asks after `patience`, and otherwise never ends.
pub(crate) async fn known(options: &PostgresOptions, patience: Duration) -> &'static str {
    let Some(address) = options.address() else { return future::pending().await };
    tokio::time::sleep(patience).await;
    match hear(address).await {
        Ok(said) => match stranger::kind(&said) {
            Some(kind) => kind,
            None => future::pending().await,
        },
        Err(_) => future::pending().await,
    }
}

async fn hear(address: (&str, u16)) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(stranger::QUESTION).await?;
    let mut said = vec![0; 64];
    let count = stream.read(&mut said).await?;
    said.truncate(count);
    Ok(said)
}
