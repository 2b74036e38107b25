//! `pgbouncer`, which gives each transaction another session of the server.

use super::{answers, program, url, user::User, with_port};
use crate::{
    supervised::{Life, Supervised, folder},
    wait,
};
use std::{fs, path::Path};
use tempfile::TempDir;

/// The program that a pooler needs.
pub const PROGRAM: &str = "pgbouncer";

/// A pooler that ends with its test. Whoever connects is the superuser.
#[derive(Debug)]
pub struct Pgbouncer {
    port: u16,
    _pooler: Supervised,
    _folder: TempDir,
}

impl Pgbouncer {
    /// Before the server that listens at this port of 127.0.0.1, with so many sessions there at most.
    pub fn before(server: u16, sessions: usize) -> Self {
        let folder = folder();
        let user = User::of(folder.path());
        let mut pooler = None;
        let port = with_port(PROGRAM, |port| {
            pooler = Some(try_start(folder.path(), user, server, sessions, port)?);
            Ok(())
        });
        Self { port, _pooler: pooler.expect("it has started"), _folder: folder }
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn try_start(
    folder: &Path,
    user: Option<User>,
    server: u16,
    sessions: usize,
    port: u16,
) -> Result<Supervised, String> {
    let place = folder.display();
    let settings = format!(
        "[databases]\n* = host=127.0.0.1 port={server} user=postgres\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {place}\nauth_type = any\n\
         pool_mode = transaction\ndefault_pool_size = {sessions}\nmax_client_conn = 500\n"
    );
    let file = folder.join("pgbouncer.ini");
    fs::write(&file, settings).expect("the settings");
    if let Some(user) = user {
        user.owns(&file);
    }
    let command = User::command(user, &program(PROGRAM));
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    let args: Vec<_> = words.chain([file.display().to_string()]).collect();
    let name = command.get_program().to_string_lossy();
    let mut pooler = Supervised::start(folder, PROGRAM, &name, &args, Life::Test);
    wait::for_value("pgbouncer answers", || answers(port).then_some(()), || pooler.has_ended())?;
    Ok(pooler)
}
