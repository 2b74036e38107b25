//! Both layers around services that are no routers: one of hyper on its own connection, and one of tonic.

use crate::{
    support::{Runs, keys, limiter, user_of, within},
    wire::{Client, head, say, status},
};
use bytes::{Buf, BufMut, Bytes};
use hapax_core::BoxFuture;
use hapax_engine::{define_limit, limit::Quota};
use hapax_http::{Body, IdempotencyLayer, Keep, Problem, RateLimitLayer};
use http::{Request, Response, response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::UnaryService,
};
use tower::{ServiceBuilder, ServiceExt};

define_limit! {
    fn three() = "three", Quota::fixed_window(3, Duration::from_mins(1));
}

fn limits() -> RateLimitLayer {
    RateLimitLayer::new(&limiter().0, |_| three())
}

/// Answers what it is sent, as it comes, with the trailers.
fn echo(runs: &Runs, request: Request<Body<Incoming>>) -> Response<Body<Incoming>> {
    let mut response = Response::new(request.into_body());
    response.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    response.headers_mut().insert("x-run", runs.add().into());
    response
}

/// A server of hyper alone.
async fn serve() -> (SocketAddr, Runs) {
    let runs = Runs::default();
    let echo = {
        let runs = runs.clone();
        tower::service_fn(move |request| std::future::ready(Ok::<_, Infallible>(echo(&runs, request))))
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

/// Messages that are text: what a generated codec would do, without a generator.
#[derive(Clone, Copy, Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        String::from_utf8(bytes.to_vec()).map(Some).map_err(|_| Status::invalid_argument("no text"))
    }
}

/// Pays, and says so in metadata and trailers.
#[derive(Clone)]
struct Pay(Runs);

impl UnaryService<String> for Pay {
    type Response = String;
    type Future = BoxFuture<'static, Result<tonic::Response<String>, Status>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let n = self.0.add();
        Box::pin(async move {
            match request.into_inner().as_str() {
                "declined" => Err(Status::failed_precondition("the card is declined")),
                "busy" if n == 1 => Err(Status::unavailable("come back later")),
                card => {
                    let mut response = tonic::Response::new(format!("paid {card}"));
                    response.metadata_mut().insert("x-run", n.to_string().parse().unwrap());
                    Ok(response)
                }
            }
        })
    }
}

/// Errors of gRPC have the status 200: their own says whether they are final.
fn of_grpc(response: &response::Parts) -> Keep {
    match Status::from_header_map(&response.headers).map(|status| status.code()) {
        None | Some(Code::Ok) => Keep::by_status(response.status),
        Some(Code::Unknown | Code::DeadlineExceeded | Code::DataLoss) => Keep::Unknown,
        Some(
            Code::Cancelled
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::Unauthenticated,
        ) => Keep::Nothing,
        Some(_) => Keep::Response,
    }
}

/// A refusal that a client of gRPC reads, too: without it the client would take the problem for a message, and fail.
fn refusal(problem: &Problem) -> Response<Bytes> {
    let code = match problem.status.as_u16() {
        400 | 413 => Code::InvalidArgument,
        403 => Code::PermissionDenied,
        408 | 503 => Code::Unavailable,
        409 => Code::Aborted,
        422 => Code::FailedPrecondition,
        429 => Code::ResourceExhausted,
        _ => Code::Unknown,
    };
    Status::new(code, problem.detail.clone()).into_http()
}

type Answered = Result<tonic::Response<String>, Status>;

/// Calls `shop.Payments/Pay` through both layers.
async fn grpc(cards: &[&str]) -> (Vec<Answered>, Runs) {
    let runs = Runs::default();
    let pay = {
        let runs = runs.clone();
        tower::service_fn(move |request: Request<Body<tonic::body::Body>>| {
            let pay = Pay(runs.clone());
            async move { Ok::<_, Infallible>(tonic::server::Grpc::new(Text).unary(pay, request).await) }
        })
    };
    let service = ServiceBuilder::new()
        .layer(limits().problems_as(refusal))
        .layer(IdempotencyLayer::new(&keys().0, user_of).keep_when(of_grpc).problems_as(refusal))
        .service(pay);
    let mut client = tonic::client::Grpc::new(service);
    let mut answers = Vec::new();
    for card in cards {
        let mut request = tonic::Request::new((*card).to_owned());
        request.metadata_mut().insert("x-user", "ada".parse().unwrap());
        request.metadata_mut().insert("idempotency-key", "\"k\"".parse().unwrap());
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/shop.Payments/Pay");
        answers.push(within(client.unary(request, path, Text)).await);
    }
    (answers, runs)
}

#[tokio::test]
async fn around_a_service_of_tonic_messages_and_trailers_come_back() {
    let (answers, runs) = grpc(&["visa", "visa", "amex", "visa"]).await;
    let replayed = |answer: &tonic::Response<String>| {
        // The status of gRPC stands in the trailers, which tonic adds to the metadata.
        assert_eq!(answer.metadata().get("x-run").unwrap(), "1");
        answer.metadata().get("idempotent-replayed").is_some_and(|value| value == "true")
    };
    let (first, again) = (answers[0].as_ref().unwrap(), answers[1].as_ref().unwrap());
    assert_eq!((first.get_ref().as_str(), replayed(first)), ("paid visa", false));
    assert_eq!((again.get_ref().as_str(), replayed(again)), ("paid visa", true));
    let refused = |at: usize| answers[at].as_ref().unwrap_err();
    assert_eq!(refused(2).code(), Code::FailedPrecondition);
    assert!(refused(2).message().contains("Use a key of its own"), "{}", refused(2));
    assert_eq!(refused(3).code(), Code::ResourceExhausted);
    assert!(refused(3).metadata().contains_key("retry-after"));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn around_a_service_of_tonic_its_own_status_says_what_is_final() {
    let (answers, runs) = grpc(&["declined", "declined"]).await;
    for answer in &answers {
        let status = answer.as_ref().unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "the card is declined"));
    }
    assert_eq!(runs.count(), 1);
    let (answers, runs) = grpc(&["busy", "busy"]).await;
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::Unavailable);
    assert_eq!((answers[1].as_ref().unwrap().get_ref().as_str(), runs.count()), ("paid busy", 2));
}
