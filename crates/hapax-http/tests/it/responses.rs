//! What is kept of a response, and what comes back.

use crate::support::{Answer, answering, ask, layer, send, with};
use axum::{
    Extension, Router,
    body::{Body, Bytes},
    response::{AppendHeaders, IntoResponse},
};
use futures_util::stream;
use hapax_core::Namespace;
use hapax_http::Keep;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
};
use tower::ServiceExt;

/// Sends a request twice; the second answer is a replay, the same but for the fields of the layer.
async fn twice(app: &Router) -> (Answer, Answer) {
    let (first, second) = (send(app, ask("\"k\"", "a")).await, send(app, ask("\"k\"", "a")).await);
    assert!(second.is_replayed() && !first.is_replayed(), "{second:?}");
    assert_eq!((first.status, &first.body, &first.trailers), (second.status, &second.body, &second.trailers));
    (first, second)
}

#[tokio::test]
async fn status_fields_and_body_come_back_byte_for_byte() {
    // A body that is no text, as of a compressed response, and fields that are none, or stand more than once.
    let body: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let sent = body.clone();
    let (app, runs) = answering(layer(), move |_| {
        let fields = AppendHeaders([
            ("link", HeaderValue::from_static("</a>; rel=next")),
            ("x-opaque", HeaderValue::from_bytes(b"\xff\xfe").unwrap()),
            ("link", HeaderValue::from_static("</b>; rel=prev")),
            ("content-encoding", HeaderValue::from_static("gzip")),
            ("content-type", HeaderValue::from_static("application/octet-stream")),
            ("x-empty", HeaderValue::from_static("")),
            ("link", HeaderValue::from_static("</c>")),
            ("date", HeaderValue::from_static("Tue, 01 Dec 2026 00:00:00 GMT")),
        ]);
        (StatusCode::ACCEPTED, fields, sent.clone())
    });
    let (first, second) = twice(&app).await;
    assert_eq!(first.own_headers(), second.own_headers());
    assert_eq!((first.headers.get_all("link").iter().count(), &*second.body), (3, &*body));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_empty_response_comes_back_empty() {
    let (app, _) = answering(layer(), |_| StatusCode::NO_CONTENT);
    let (_, second) = twice(&app).await;
    assert!(second.body.is_empty());
}

#[tokio::test]
async fn a_response_to_head_and_a_304_keep_the_size_that_they_tell() {
    let with_size = |status: StatusCode| {
        answering(layer().methods([Method::POST, Method::HEAD]), move |_| {
            (status, [("content-length", "4711"), ("etag", "\"v1\"")], Body::empty())
        })
    };
    let (app, runs) = with_size(StatusCode::OK);
    let head = || {
        let request = Request::head("/pay").header("x-user", "ada").header("idempotency-key", "\"k\"");
        request.body(Body::empty()).unwrap()
    };
    let (first, second) = (send(&app, head()).await, send(&app, head()).await);
    assert!(second.is_replayed());
    assert_eq!(first.own_headers(), second.own_headers());
    assert_eq!((second.header("content-length"), second.body.len()), (Some("4711"), 0));
    assert_eq!(runs.count(), 1);

    let (app, _) = with_size(StatusCode::NOT_MODIFIED);
    let (_, second) = twice(&app).await;
    assert_eq!((second.status.as_u16(), second.header("etag")), (304, Some("\"v1\"")));
}

#[tokio::test]
async fn trailers_come_back() {
    let (app, runs) = answering(layer(), |_| {
        let mut trailers = HeaderMap::new();
        trailers.append("grpc-status", HeaderValue::from_static("0"));
        trailers.append("x-part", HeaderValue::from_static("1"));
        trailers.append("x-part", HeaderValue::from_static("2"));
        let frames = [Frame::data(Bytes::from_static(b"ab")), Frame::data(Bytes::from_static(b"c"))];
        let frames = frames.into_iter().chain([Frame::trailers(trailers)]).map(Ok::<_, Infallible>);
        let body = Body::new(StreamBody::new(stream::iter(frames.collect::<Vec<_>>())));
        ([("trailer", "grpc-status, x-part"), ("content-type", "application/grpc")], body)
    });
    let (first, second) = twice(&app).await;
    assert_eq!((second.text(), second.trailers.as_ref().unwrap().len()), ("abc", 3));
    assert_eq!(first.own_headers(), second.own_headers());
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn fields_of_the_connection_and_cookies_are_not_replayed_unless_asked() {
    let answer = |_| {
        AppendHeaders([
            ("set-cookie", "session=1"),
            ("set-cookie", "theme=dark"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("x-trace", "t1"),
            ("x-id", "7"),
        ])
    };
    let names = |answer: &Answer| -> Vec<String> {
        answer
            .own_headers()
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| name != "content-length")
            .collect()
    };
    let (app, _) = answering(layer().without_headers([http::HeaderName::from_static("x-trace")]), answer);
    let (first, second) = twice(&app).await;
    assert_eq!(first.headers.get_all("set-cookie").iter().count(), 2, "the first client has all of it");
    assert_eq!(first.header("x-trace"), Some("t1"));
    assert_eq!(names(&second), ["x-id"]);

    let (app, _) = answering(layer().keep_cookies(), answer);
    let (_, second) = twice(&app).await;
    let cookies: Vec<_> = second.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["session=1", "theme=dark"]);
    assert_eq!(second.header("x-hop"), None);
}

#[tokio::test]
async fn final_refusals_are_kept_and_errors_of_the_server_are_not() {
    for (code, is_kept) in [
        (402, true),
        (404, true),
        (409, true),
        (303, true),
        (429, false),
        (401, false),
        (500, false),
        (503, false),
    ] {
        let (app, runs) = answering(layer(), move |n| (StatusCode::from_u16(code).unwrap(), format!("{n}")));
        send(&app, ask("\"k\"", "a")).await;
        let again = send(&app, ask("\"k\"", "a")).await;
        let expected = if is_kept { (true, "1", 1) } else { (false, "2", 2) };
        assert_eq!((again.is_replayed(), again.text(), runs.count()), expected, "{code}");
        assert_eq!(again.header("idempotent-expires").is_some(), is_kept);
    }
}

#[tokio::test]
async fn a_rule_of_the_service_and_the_handler_itself_say_what_is_kept() {
    let rule = |response: &http::response::Parts| match response.status.as_u16() {
        504 => Keep::Unknown,
        500..=599 => Keep::Response,
        _ => Keep::Nothing,
    };
    let status = |code: u16| move |_| StatusCode::from_u16(code).unwrap();
    let (app, runs) = answering(layer().keep_when(rule), status(500));
    assert_eq!(twice(&app).await.1.status, 500);
    assert_eq!(runs.count(), 1);

    let (app, runs) = answering(layer().keep_when(rule), status(504));
    let first = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((first.status.as_u16(), first.body.len()), (504, 0), "the handler's own answer");
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "idempotency.unknown");
    assert_eq!(runs.count(), 1);

    for (keep, runs_then, code) in
        [(Keep::Response, 1, 502), (Keep::Nothing, 2, 502), (Keep::Unknown, 1, 500), (Keep::Done, 1, 409)]
    {
        let (app, runs) = answering(layer(), move |_| (StatusCode::BAD_GATEWAY, Extension(keep)));
        assert_eq!(send(&app, ask("\"k\"", "a")).await.status, 502);
        let again = send(&app, ask("\"k\"", "a")).await;
        assert_eq!((again.status.as_u16(), runs.count()), (code, runs_then), "{keep:?}");
    }
}

#[tokio::test]
async fn a_response_that_is_too_large_goes_to_its_client_and_is_not_kept() {
    let chunk = |n: usize| Ok::<_, Infallible>(Bytes::from(vec![u8::try_from(n).unwrap(); 10]));
    for (bytes, is_kept) in [(40, true), (50, false), (60, false)] {
        let streamed = move |_: usize| Body::from_stream(stream::iter((0..bytes / 10).map(chunk)));
        let sized = move |_: usize| vec![7; bytes];
        let limit = || layer().max_response_body(49);
        for (app, runs) in [answering(limit(), streamed), answering(limit(), sized)] {
            let first = send(&app, ask("\"k\"", "a")).await;
            assert_eq!((first.status.as_u16(), first.body.len()), (200, bytes));
            assert_eq!(first.header("idempotent-kept"), (!is_kept).then_some("false"));
            let again = send(&app, ask("\"k\"", "a")).await;
            assert!(again.is_replayed());
            if is_kept {
                assert_eq!(again.body, first.body);
            } else {
                assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "http.response_not_kept"));
                assert_eq!(again.header("retry-after"), None);
            }
            assert_eq!(runs.count(), 1);
        }
    }
}

#[tokio::test]
async fn a_mebibyte_is_kept_by_default_and_a_byte_more_is_not() {
    for (bytes, code) in [(1 << 20, 200), ((1 << 20) + 1, 409)] {
        let (app, _) = answering(layer(), move |_| vec![0; bytes]);
        assert_eq!(send(&app, ask("\"k\"", "a")).await.body.len(), bytes);
        assert_eq!(send(&app, ask("\"k\"", "a")).await.status, code);
    }
}

#[tokio::test]
async fn an_event_stream_reaches_its_client_as_it_comes() {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let (app, runs) = answering(layer(), move |_| {
        let receiver = receiver.lock().unwrap().take().unwrap();
        let events = stream::unfold(receiver, async |mut receiver| {
            Some((Ok::<_, Infallible>(Bytes::from(receiver.recv().await?)), receiver))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(events))
    });
    let response = app.clone().oneshot(ask("\"k\"", "a")).await.unwrap();
    assert_eq!(response.headers()["idempotent-kept"], "false");
    let mut body = response.into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        // Nothing else is under way: what is read is what was sent.
        sender.send(event).unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), event);
    }
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "http.response_not_kept");
    drop(sender);
    assert!(body.frame().await.is_none());
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_response_for_one_client_passes_unread_and_is_not_kept() {
    let (app, runs) = answering(layer(), |_| (Extension(Keep::Done), "the secret of a new account"));
    let first = send(&app, ask("\"k\"", "a")).await;
    assert_eq!(
        (first.text(), first.header("idempotent-kept")),
        ("the secret of a new account", Some("false"))
    );
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "http.response_not_kept");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_response_that_breaks_off_does_so_for_its_client_and_is_not_carried_out_again() {
    let (app, runs) = answering(layer(), |_| {
        let parts = [Ok(Bytes::from_static(b"half")), Err(io::Error::other("the disk"))];
        Body::from_stream(stream::iter(parts)).into_response()
    });
    let response = app.clone().oneshot(ask("\"k\"", "a")).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    assert!(body.frame().await.unwrap().is_err());
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "http.response_not_kept");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_response_whose_body_panics_is_an_unknown_outcome() {
    let (app, runs) = answering(layer(), |_| {
        let broken = async || -> Result<Bytes, Infallible> { panic!("while it is written") };
        Body::from_stream(stream::once(broken()))
    });
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "idempotency.unknown");
    assert_eq!(send(&app, ask("\"k\"", "a")).await.code(), "idempotency.unknown");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_result_of_another_form_is_not_carried_out_again() {
    let (keys, _) = crate::support::keys();
    let by_hand = hapax_engine::Idempotency::on(keys.keeper().clone(), Ok(Namespace::default()), "http:shop");
    by_hand
        .run(["ada", "k"], hapax_core::Fingerprint::ANY, async || Ok::<_, Infallible>(1))
        .await
        .unwrap()
        .unwrap();
    let (app, runs) = answering(hapax_http::IdempotencyLayer::new(&keys, crate::support::user_of), |_| "run");
    let answer = send(&app, ask("\"k\"", "a")).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, "idempotency.unreadable"));
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_service_that_is_no_router_gets_the_same() {
    // Bodies of other kinds, as services of hyper and tonic have them.
    use http_body_util::Full;
    use tower::Layer;
    let echo = tower::service_fn(async |request: Request<hapax_http::Body<Full<Bytes>>>| {
        let body = request.into_body().collect().await?.to_bytes();
        Ok::<_, Infallible>(http::Response::new(StreamBody::new(stream::iter([Ok::<_, io::Error>(
            Frame::data(body),
        )]))))
    });
    let service = layer().layer(echo);
    for is_replayed in [false, true] {
        let request =
            with(&[("idempotency-key", "\"k\"")], "").map(|_| Full::new(Bytes::from_static(b"said")));
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers().contains_key("idempotent-replayed"), is_replayed);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "said");
    }
}
