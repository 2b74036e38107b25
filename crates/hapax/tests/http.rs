//! The example of payments as processes of their own: two on one server, and clients in another language.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../../examples/axum_payments.rs"]
#[expect(dead_code, reason = "the example's own main is not run here")]
mod payments;

use hapax_testkit::{missing, python_with_http_clients, redis::Redis};
use libtest_mimic::{Arguments, Completion, Trial};
use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

/// Set in a process that serves: its store.
const SERVE: &str = "HAPAX_TEST_SERVE";

type Case = fn() -> Completion;

fn main() -> ExitCode {
    if let Ok(store) = env::var(SERVE) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(payments::serve(&store, "127.0.0.1:0")).unwrap();
        return ExitCode::SUCCESS;
    }
    let cases: [(&str, Case); 3] = [
        (
            "of_64_equal_requests_to_two_processes_on_one_redis_one_runs",
            of_64_equal_requests_to_two_processes_on_one_redis_one_runs,
        ),
        ("clients_in_another_language_get_all_answers", clients_in_another_language_get_all_answers),
        (
            "a_server_that_stops_carries_out_what_it_has_begun",
            a_server_that_stops_carries_out_what_it_has_begun,
        ),
    ];
    let trials = cases.map(|(name, case)| Trial::ignorable_test(name, move || Ok(case()))).into();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A server in a process of its own, until it is told to stop or dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(store: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .env(SERVE, store)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().to_owned();
        Self { process, address }
    }

    /// Sends a request, and answers status, head and body.
    fn ask(&self, method: &str, path: &str, fields: &str, body: &str) -> (u16, String, String) {
        let mut stream = self.send(method, path, fields, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.get(9..12).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
    }

    fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let size = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {size}\r\n{fields}\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn pay(&self, key: &str, card: &str) -> (u16, String, String) {
        self.ask("POST", "/payments", &fields(key), &payment(card))
    }

    fn charges(&self) -> usize {
        self.ask("GET", "/charges", "", "").2.parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn fields(key: &str) -> String {
    format!("authorization: Bearer ada\r\nidempotency-key: \"{key}\"\r\ncontent-type: application/json\r\n")
}

fn payment(card: &str) -> String {
    format!("{{\"card\":\"{card}\",\"cents\":4200}}")
}

fn of_64_equal_requests_to_two_processes_on_one_redis_one_runs() -> Completion {
    const CROWD: usize = 64;
    if let Some(why) = missing(&["redis-server"]) {
        return Completion::ignored_with(why);
    }
    let redis = Redis::start();
    let servers = [Server::start(&redis.url()), Server::start(&redis.url())];
    let answers: Vec<_> = thread::scope(|scope| {
        let ask = |server| scope.spawn(move || Server::pay(server, "k", "slow"));
        let crowd: Vec<_> = servers.iter().cycle().take(CROWD).map(ask).collect();
        crowd.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let fresh = |head: &str| !head.contains("idempotent-replayed");
    let ran = answers.iter().filter(|(status, head, _)| *status == 201 && fresh(head)).count();
    let refused =
        answers.iter().filter(|(status, head, _)| *status == 409 && head.contains("retry-after: 1"));
    // Whoever was as late as the end of the payment has its response.
    let replays: Vec<_> = answers.iter().filter(|(status, head, _)| *status == 201 && !fresh(head)).collect();
    assert_eq!((ran, refused.count() + replays.len()), (1, CROWD - 1));
    assert_eq!(servers.iter().map(Server::charges).sum::<usize>(), 1);
    // From then on both have the response.
    let bodies = servers.each_ref().map(|server| server.pay("k", "slow"));
    for (status, head, body) in bodies {
        assert_eq!((status, fresh(&head)), (201, false));
        assert!(body.contains("\"cents\":4200"), "{body}");
    }
    Completion::Completed
}

fn clients_in_another_language_get_all_answers() -> Completion {
    let python = match python_with_http_clients() {
        Ok(python) => python,
        Err(why) => return Completion::ignored_with(why),
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&format!("sqlite:{}", folder.path().join("payments.db").display()));
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/client.py");
    let output = Command::new(python).arg(client).arg(format!("http://{}", server.address)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("all answers are right"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Completion::Completed
}

/// Ctrl-C, or a supervisor, while a payment is under way whose client has gone.
fn a_server_that_stops_carries_out_what_it_has_begun() -> Completion {
    let stopped_by = |signal: &str| {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("payments.db").display());
        let mut server = Server::start(&store);
        let client = server.send("POST", "/payments", &fields("k"), &payment("slow"));
        hapax_testkit::until("the payment is under way", || server.charges() == 1);
        drop(client);
        let stop = Command::new("kill").args([signal, &server.process.id().to_string()]).status().unwrap();
        assert!(stop.success());
        assert!(server.process.wait().unwrap().success(), "{signal}");
        let next = Server::start(&store);
        let (status, head, _) = next.pay("k", "slow");
        assert!(status == 201 && head.contains("idempotent-replayed: true"), "{signal}: {head}");
        assert_eq!(next.charges(), 0);
    };
    thread::scope(|scope| {
        for signal in ["-INT", "-TERM"] {
            scope.spawn(move || stopped_by(signal));
        }
    });
    Completion::Completed
}
