//! Bodies and connections as they come over the wire.

use crate::{
    support::{Gate, Runs, answering, counting, layer, until, within},
    wire::{Client, head, say, status},
};
use axum::Router;
use hapax_http::Handlers;
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, sync::oneshot};

/// A server on a port of its own, until it is told to stop.
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Server {
    async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = axum::serve(listener, app).with_graceful_shutdown(async { drop(stopped.await) });
        Self { address, stop, serving: tokio::spawn(serve.into_future()) }
    }

    async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    async fn say(&self, text: &str) -> String {
        say(self.address, text).await
    }
}

async fn server(layer: hapax_http::IdempotencyLayer) -> (Server, Runs) {
    let (app, runs) = counting(layer);
    (Server::start(app).await, runs)
}

#[tokio::test]
async fn an_empty_a_whole_and_a_chunked_body_are_the_same_to_a_handler() {
    let (server, runs) = server(layer()).await;
    let whole = server.say(&(head("content-length: 5\r\n") + "hello")).await;
    assert!(whole.ends_with("run 1: hello"), "{whole}");
    let chunked = head("transfer-encoding: chunked\r\n") + "2\r\nhe\r\n1\r\nl\r\n2\r\nlo\r\n0\r\n\r\n";
    let chunked = server.say(&chunked).await;
    assert!(chunked.contains("idempotent-replayed: true") && chunked.ends_with("run 1: hello"), "{chunked}");
    assert_eq!(status(&server.say(&head("content-length: 0\r\n")).await), "422");
    assert_eq!(status(&server.say(&head("")).await), "422");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn trailers_of_a_request_do_not_tell_it_from_another() {
    let (server, runs) = server(layer()).await;
    let chunked = head("transfer-encoding: chunked\r\n") + "5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n";
    assert!(server.say(&chunked).await.ends_with("run 1: hello"));
    assert!(
        server.say(&(head("content-length: 5\r\n") + "hello")).await.contains("idempotent-replayed: true")
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_before_and_while_it_comes() {
    let (server, runs) = server(layer().max_request_body(8)).await;
    assert!(server.say(&(head("content-length: 8\r\n") + "12345678")).await.ends_with("run 1: 12345678"));
    // Its length is known: nothing of it is read.
    let kept_alive = head("content-length: 9\r\n").replace("connection: close\r\n", "");
    let answer = server.say(&kept_alive).await;
    assert!(status(&answer) == "413" && answer.contains("http.body_too_large"), "{answer}");
    assert!(answer.contains("connection: close"), "who keeps connections is told not to keep this one");
    let chunked = head("transfer-encoding: chunked\r\n") + "8\r\n12345678\r\n1\r\n9\r\n";
    assert_eq!(status(&server.say(&chunked).await), "413");
    assert_eq!(runs.count(), 1);
    // Without a key the layer reads nothing.
    let plain = head("content-length: 9\r\n").replace("idempotency-key: \"k\"\r\n", "");
    assert!(server.say(&(plain + "123456789")).await.ends_with("run 2: 123456789"));
}

#[tokio::test]
async fn a_slow_body_is_waited_for_and_one_that_takes_too_long_is_not() {
    let (server, runs) = server(layer()).await;
    let mut client = server.connect().await;
    client.write(&head("content-length: 5\r\n")).await;
    for byte in ["h", "e", "l", "l", "o"] {
        client.write(byte).await;
    }
    assert!(client.answer().await.ends_with("run 1: hello"));
    assert_eq!(runs.count(), 1);

    let (app, runs) = counting(layer().body_timeout(Duration::from_millis(50)));
    let server = Server::start(app).await;
    let mut client = server.connect().await;
    client.write(&(head("content-length: 5\r\n") + "hel")).await;
    let answer = client.until("http.body_timed_out").await;
    assert_eq!((status(&answer), runs.count()), ("408", 0), "{answer}");
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_its_key_free() {
    let (server, runs) = server(layer()).await;
    let mut client = server.connect().await;
    client.write(&(head("content-length: 5\r\n") + "hel")).await;
    drop(client);
    let broken = server.say(&(head("transfer-encoding: chunked\r\n") + "5\r\nhelloX")).await;
    assert!(status(&broken) == "400", "{broken}");
    assert!(server.say(&(head("content-length: 5\r\n") + "hello")).await.ends_with("run 1: hello"));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_client_that_waits_for_100_is_told_to_go_on_only_where_its_body_is_wanted() {
    let (app, runs) = counting(layer().required().max_request_body(8));
    let server = Server::start(app).await;
    let mut client = server.connect().await;
    client.write(&head("content-length: 5\r\nexpect: 100-continue\r\n")).await;
    client.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    client.write("hello").await;
    assert!(client.answer().await.ends_with("run 1: hello"));
    // Each is refused by its head alone.
    let long = head("content-length: 9\r\nexpect: 100-continue\r\n");
    let keyless =
        head("content-length: 5\r\nexpect: 100-continue\r\n").replace("idempotency-key: \"k\"\r\n", "");
    let bare = head("content-length: 5\r\nexpect: 100-continue\r\n").replace("\"k\"", "k");
    for (request, expected) in [(long, "413"), (keyless, "400"), (bare, "400")] {
        assert_eq!(status(&server.say(&request).await), expected);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_finds_its_effect_and_its_record() {
    let gate = Gate::new();
    let handlers = Handlers::default();
    let server = Server::start(gate.routes(layer().handled_by(&handlers))).await;
    let mut client = server.connect().await;
    client.write(&(head("content-length: 5\r\n") + "hello")).await;
    gate.began().await;
    drop(client);
    let second = server.say(&(head("content-length: 5\r\n") + "hello")).await;
    assert!(status(&second) == "409" && second.contains("retry-after: 1"), "{second}");
    gate.let_go();
    within(handlers.finished()).await;
    let retry = server.say(&(head("content-length: 5\r\n") + "hello")).await;
    assert!(retry.contains("idempotent-replayed: true") && retry.ends_with("run 1"), "{retry}");
    assert_eq!(gate.runs.count(), 1);
}

#[tokio::test]
async fn a_server_that_stops_waits_for_handlers_whose_clients_have_gone() {
    let gate = Gate::new();
    let handlers = Handlers::default();
    let server = Server::start(gate.routes(layer().handled_by(&handlers))).await;
    let mut client = server.connect().await;
    client.write(&(head("content-length: 5\r\n") + "hello")).await;
    gate.began().await;
    drop(client);
    let Server { stop, serving, .. } = server;
    drop(stop);
    // The connections are gone; the handler is not.
    within(serving).await.unwrap().unwrap();
    assert_eq!(handlers.running(), 1);
    gate.let_go();
    within(handlers.finished()).await;
    assert_eq!((gate.runs.count(), handlers.running()), (1, 0));
}

#[tokio::test]
async fn responses_to_head_and_304_have_no_body_on_the_wire() {
    let all = [http::Method::POST, http::Method::HEAD];
    let (app, runs) =
        answering(layer().methods(all.clone()), |_| ([("content-type", "text/plain")], "hello"));
    let server = Server::start(app).await;
    let asked = head("").replace("POST", "HEAD");
    let (first, second) = (server.say(&asked).await, server.say(&asked).await);
    assert!(second.contains("idempotent-replayed: true"), "{second}");
    for answer in [first, second] {
        assert!(answer.contains("content-length: 5\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    }
    assert_eq!(runs.count(), 1);

    let (app, _) = answering(layer().methods(all), |_| (http::StatusCode::NOT_MODIFIED, [("etag", "\"v\"")]));
    let server = Server::start(app).await;
    server.say(&head("")).await;
    let second = server.say(&head("")).await;
    assert!(
        status(&second) == "304"
            && second.contains("idempotent-replayed: true")
            && second.ends_with("\r\n\r\n")
    );
}

#[tokio::test]
async fn trailers_of_a_response_are_on_the_wire_of_its_replay() {
    let (app, _) = answering(layer(), |_| {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "7".parse().unwrap());
        let frames = [
            http_body::Frame::data(bytes::Bytes::from_static(b"hello")),
            http_body::Frame::trailers(trailers),
        ];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
        ([("trailer", "x-sum")], axum::body::Body::new(http_body_util::StreamBody::new(frames)))
    });
    let server = Server::start(app).await;
    let asked = head("te: trailers\r\n");
    for is_replayed in [false, true] {
        let answer = server.say(&asked).await;
        assert!(answer.ends_with("hello\r\n0\r\nx-sum: 7\r\n\r\n"), "{answer}");
        assert_eq!(answer.contains("idempotent-replayed: true"), is_replayed);
    }
}

#[tokio::test]
async fn requests_come_one_after_the_other_on_one_connection() {
    let (server, runs) = server(layer()).await;
    let mut client = server.connect().await;
    let asked = head("content-length: 5\r\n").replace("connection: close\r\n", "") + "hello";
    for _ in 0..3 {
        client.write(&asked).await;
        client.until("run 1: hello").await;
    }
    let refused = asked.replace("\"k\"", "k");
    client.write(&refused).await;
    client.until("http.key_invalid").await;
    client.write(&asked).await;
    client.until("run 1: hello").await;
    until("one ran", || runs.count() == 1).await;
}
