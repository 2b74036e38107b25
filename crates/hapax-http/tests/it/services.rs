//! Both layers around a service that is no router: one of hyper, on its own connection.

use crate::{
    support::{Runs, keys, limiter, user_of},
    wire::{Client, head, say, status},
};
use hapax_engine::{define_limit, limit::Quota};
use hapax_http::{Body, IdempotencyLayer, RateLimitLayer};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tower::{ServiceBuilder, ServiceExt};

define_limit! {
    fn three() = "three", Quota::fixed_window(3, Duration::from_mins(1));
}

fn limits() -> RateLimitLayer {
    RateLimitLayer::new(&limiter().0, |_| three())
}

/// Answers what it is sent, as it comes, with the trailers.
async fn echo(runs: Runs, request: Request<Body<Incoming>>) -> Result<Response<Body<Incoming>>, Infallible> {
    let mut response = Response::new(request.into_body());
    response.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    response.headers_mut().insert("x-run", runs.add().into());
    Ok(response)
}

/// A server of hyper alone.
async fn serve() -> (SocketAddr, Runs) {
    let runs = Runs::default();
    let echo = {
        let runs = runs.clone();
        tower::service_fn(move |request| echo(runs.clone(), request))
    };
    let service =
        ServiceBuilder::new().layer(limits()).layer(IdempotencyLayer::new(&keys().0, user_of)).service(echo);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let call = hyper::service::service_fn(move |request| service.clone().oneshot(request));
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), call));
        }
    });
    (address, runs)
}

#[tokio::test]
async fn around_a_service_of_hyper_bodies_and_trailers_come_through_and_back() {
    let (address, runs) = serve().await;
    let asked = head("te: trailers\r\ntransfer-encoding: chunked\r\n");
    let asked = asked + "2\r\nhe\r\n3\r\nllo\r\n0\r\nx-sum: 7\r\n\r\n";
    for (is_replayed, left) in [(false, 2), (true, 1)] {
        let answer = say(address, &asked).await;
        assert!(status(&answer) == "200" && answer.contains("x-run: 1\r\n"), "{answer}");
        assert!(answer.ends_with("5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"), "{answer}");
        assert_eq!(answer.contains("idempotent-replayed: true"), is_replayed);
        assert!(answer.contains(&format!("ratelimit: \"three\";r={left}")), "{answer}");
    }
    let other = say(address, &(head("content-length: 3\r\n") + "bye")).await;
    assert!(status(&other) == "422" && other.contains("ratelimit: \"three\";r=0"), "{other}");
    let limited = say(address, &asked).await;
    assert!(status(&limited) == "429" && limited.contains("\"violated-policies\":[\"three\"]"), "{limited}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn around_a_service_of_hyper_a_stream_without_a_key_passes_both_ways_as_it_comes() {
    let (address, runs) = serve().await;
    let mut client = Client::connect(address).await;
    let asked = head("te: trailers\r\ntransfer-encoding: chunked\r\n");
    client.write(&asked.replace("idempotency-key: \"k\"\r\n", "")).await;
    for part in ["first", "later"] {
        client.write(&format!("5\r\n{part}\r\n")).await;
        // It is back before the next has left.
        client.until(part).await;
    }
    client.write("0\r\nx-sum: 7\r\n\r\n").await;
    client.until("x-sum: 7\r\n\r\n").await;
    assert_eq!(runs.count(), 1);
}
