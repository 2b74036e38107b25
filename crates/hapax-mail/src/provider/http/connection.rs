//! A connection, and how it is made.

use super::{Answer, Endpoint, Request, Trouble, body::Pieces};
use bytes::{Bytes, BytesMut};
use hapax_core::BoxFuture;
use hyper::{
    body::{Body, Incoming},
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_LENGTH, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
};
use tokio_rustls::TlsConnector;

/// Far more than a provider says about a message, or a batch of them.
const MOST_ANSWERED: usize = 4 * 1024 * 1024;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Why an exchange did not end well.
#[derive(Debug)]
pub(super) enum Broken {
    /// The connection, or what came over it.
    Wire(hyper::Error),
    /// A request that is none, or an answer without end.
    Form(&'static str),
}

impl From<hyper::Error> for Broken {
    fn from(error: hyper::Error) -> Self {
        Self::Wire(error)
    }
}

/// It is driven by whoever asks, so an idle one does nothing.
pub(super) struct Connection {
    sender: SendRequest<Pieces>,
    driver: Option<BoxFuture<'static, Result<(), hyper::Error>>>,
}

impl Connection {
    pub(super) async fn ask(
        &mut self,
        endpoint: &Endpoint,
        request: &Request,
        body: Pieces,
    ) -> Result<Answer, Broken> {
        let whole = endpoint.path(&request.path);
        let mut head = hyper::Request::builder().method(request.method.clone()).uri(whole);
        head = head.header(HOST, endpoint.authority());
        head = head.header(USER_AGENT, concat!("hapax/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &request.headers {
            head = head.header(name, value);
        }
        if !request.body.is_empty() {
            head = head.header(CONTENT_LENGTH, request.body.len());
        }
        let head = head.body(body).map_err(|_| Broken::Form("a header of the request cannot be sent"))?;
        let Self { sender, driver } = self;
        let mut asking = pin!(async move {
            sender.ready().await?;
            let response = sender.send_request(head).await?;
            let (parts, body) = response.into_parts();
            let body = whole_body(body).await?;
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
        });
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = asking.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                match driver.as_mut().map(|driver| driver.as_mut().poll(cx)) {
                    // It has ended: what is asked learns of it.
                    Some(Poll::Ready(_)) => *driver = None,
                    Some(Poll::Pending) | None => return Poll::Pending,
                }
            }
        })
        .await
    }

    pub(super) fn is_reusable(&self) -> bool {
        self.driver.is_some() && !self.sender.is_closed()
    }
}

async fn whole_body(body: Incoming) -> Result<Bytes, Broken> {
    let mut body = pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            if whole.len() + data.len() > MOST_ANSWERED {
                return Err(Broken::Form("the answer is longer than 4 MiB"));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

/// Makes connections to one place.
pub(super) struct Dialer {
    endpoint: Endpoint,
    tls: OnceCell<TlsConnector>,
}

impl Dialer {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, tls: OnceCell::new() }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) async fn dial(&self) -> Result<Connection, Trouble> {
        let (host, port) = self.endpoint.address();
        let addresses: Vec<_> = match tokio::net::lookup_host((host, port)).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => return Err(Trouble::dns(&error)),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut stream = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(connected) => {
                    stream = Some(connected);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let Some(stream) = stream else { return Err(Trouble::connect(&last)) };
        // What is small leaves at once.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = if self.endpoint.is_tls() {
            let name = ServerName::try_from(host.to_owned());
            let name = name.map_err(|error| Trouble::tls(&io::Error::other(error)))?;
            let secured = self.tls().await?.connect(name, stream).await;
            Box::new(secured.map_err(|error| Trouble::tls(&error))?)
        } else {
            Box::new(stream)
        };
        let (sender, driver) = handshake(TokioIo::new(stream)).await.map_err(|_| Trouble::handshake())?;
        let driver: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(driver);
        Ok(Connection { sender, driver: Some(driver) })
    }

    async fn tls(&self) -> Result<&TlsConnector, Trouble> {
        let make = || async {
            // Some dozen files are read.
            let config = tokio::task::spawn_blocking(config).await;
            let config =
                config.map_err(|_| Trouble::no_roots("the system's certificates could not be read"))?;
            Ok(TlsConnector::from(Arc::new(config?)))
        };
        self.tls.get_or_try_init(make).await
    }
}

fn config() -> Result<ClientConfig, Trouble> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Trouble::no_roots("the system has no certificates that could prove who a server is"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|_| Trouble::no_roots("TLS cannot be set up"))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
