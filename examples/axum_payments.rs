//! A service that takes payments: each once per `Idempotency-Key`, and so many a minute from one address.
//! `cargo run -p hapax --features http --example axum_payments [STORE [ADDRESS]]`
//!
//! STORE is any URL of a store, `sqlite:payments.db` by default; ADDRESS is `127.0.0.1:8080`. Instead of a bank there are
//! cards: `declined` is refused, `slow` takes a second to say that it has paid, `lost` breaks down in the middle of the payment, `busy` is
//! put off once, and every other one pays.
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use axum::{
    Extension, Json, Router,
    extract::{ConnectInfo, MatchedPath, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hapax::{
    Hapax, Lease, Quota, Secret, WhenDown, define_limit,
    http::{Handlers, IdempotencyLayer, RateLimitLayer, client_ip},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

const MINUTE: Duration = Duration::from_mins(1);

define_limit! {
    /// A hundred requests a minute from one address.
    fn by_address(ip: IpAddr) = "payments:{ip:ip}", Quota::sliding_window(100, MINUTE);
}

#[derive(Deserialize)]
struct Payment {
    card: String,
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    id: String,
    cents: u64,
}

/// Pays at most once for each key that it is given.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    charges: usize,
    put_off: HashSet<String>,
}

impl Bank {
    /// `key` is the same for each attempt of a payment: a real bank would refuse a second charge under it.
    async fn charge(&self, payment: &Payment, key: &str) -> Result<String, StatusCode> {
        {
            let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match payment.card.as_str() {
                "declined" => return Err(StatusCode::PAYMENT_REQUIRED),
                "busy" if book.put_off.insert(key.to_owned()) => return Err(StatusCode::SERVICE_UNAVAILABLE),
                _ => book.charges += 1,
            }
        }
        assert!(payment.card != "lost", "the line to the bank broke after the charge");
        if payment.card == "slow" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(format!("ch_{}", key.get(..12).unwrap_or(key)))
    }

    fn charges(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).charges
    }
}

async fn pay(
    State(bank): State<Bank>,
    Extension(lease): Extension<Lease>,
    Json(payment): Json<Payment>,
) -> Response {
    match bank.charge(&payment, lease.provider_key()).await {
        Ok(id) => (StatusCode::CREATED, Json(Receipt { id, cents: payment.cents })).into_response(),
        // Nothing was charged: 402 is final, and kept; 503 is not, and the same key may be tried again.
        Err(refused) => refused.into_response(),
    }
}

/// Who pays: whoever has the token. The store sees a digest of it.
fn payer(request: &Parts) -> Option<Secret<String>> {
    let token = request.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    Some(Secret(token.to_owned()))
}

/// The route as it is written below.
fn route(request: &Parts) -> Option<String> {
    Some(request.extensions.get::<MatchedPath>()?.as_str().to_owned())
}

/// The address of the connection. Behind proxies of yours, say how many: `client_ip(request, peer, 1)`.
fn address(request: &Parts) -> IpAddr {
    let peer = request.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    client_ip(request, peer, 0)
}

fn app(hapax: &Hapax, handlers: &Handlers) -> Result<Router, hapax::IdempotencyError> {
    let once = IdempotencyLayer::new(&hapax.idempotency("payments"), payer)
        .required()
        .route(route)
        .ttl(Duration::from_hours(48))
        .handled_by(handlers)
        .check()?;
    // A store that is down must not stop who only looks: keys are refused by the other layer.
    let limit = RateLimitLayer::new(&hapax.limits(), |request| by_address(address(request)))
        .when_down(WhenDown::Open);
    let charges = async |State(bank): State<Bank>| bank.charges().to_string();
    Ok(Router::new()
        .route("/payments", post(pay).layer(once))
        .route("/charges", get(charges))
        .layer(limit)
        .with_state(Bank::default()))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let store = args.next().unwrap_or("sqlite:payments.db".into());
    serve(&store, &args.next().unwrap_or("127.0.0.1:8080".into())).await
}

pub(crate) async fn serve(store: &str, address: &str) -> anyhow::Result<()> {
    let (hapax, handlers) = (hapax::connect(store).await?, Handlers::default());
    let app = app(&hapax, &handlers)?.into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(told_to_stop()).await?;
    // Handlers whose clients have gone; then what the store has not taken yet.
    handlers.finished().await;
    anyhow::ensure!(hapax.close().await.is_clean(), "a response could not be stored");
    Ok(())
}

/// Ctrl-C, or SIGTERM, by which supervisors stop a service.
async fn told_to_stop() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    drop(tokio::signal::ctrl_c().await);
}
