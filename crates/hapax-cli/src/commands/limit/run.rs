//! `hapax limit run`: a command that runs if a limit lets it pass.

use super::ask::{Answer, Ask, refusal};
use crate::{
    child::{Ended, LeaseState, NotStarted},
    commands::{
        Context,
        program::{self, Program, Written},
    },
    exit::Exit,
    failure::Failure,
    interrupt::Interrupts,
};
use clap::Args;
use hapax::{Decision, Limit};
use serde::Serialize;
use std::ffi::OsString;
use tokio::sync::watch;

/// Run a command if a limit lets it pass
///
/// Otherwise nothing is run, and nothing is counted. What has passed is counted, whatever becomes of the command. No shell is
/// involved; the command finds HAPAX_LIMIT_NAME and HAPAX_LIMIT_REMAINING in its environment, and is ended when hapax is killed.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  hapax limit run api --limit 100 --window 1h -- ./call-api
  hapax limit run api --limit 100 --window 1h --wait 10m -- ./call-api
  hapax limit run mail --limit 1 --window 1d --json -- ./remind.sh | jq .outcome

EXIT CODES:
  that of the command; 128+N where signal N ended it
  65        the cost is above the limit: it never passes
  69        the store failed, nothing was run
  75        the limit is reached, or --wait would run out before
  129, 130, 143  SIGHUP, SIGINT, SIGTERM came before the command was started
  126, 127  the command could not be executed, was not found
  --json tells them apart from the command's own")]
pub(super) struct RunWithin {
    #[command(flatten)]
    ask: Ask,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How a call ended. The words are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ran,
    NotStarted,
    Limited,
    Never,
    StoreFailed,
}

/// The end of a call. The names of its fields are stable.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    outcome: Outcome,
    exit_code: u8,
    /// What the limit said.
    decision: Option<Answer>,
    code: Option<&'static str>,
    #[serde(flatten)]
    written: Written,
    #[serde(skip)]
    exit: Exit,
    /// Said on stderr.
    #[serde(skip)]
    failure: Option<Failure>,
}

impl RunWithin {
    pub(super) async fn run(mut self, context: &Context) -> Result<Exit, Failure> {
        let limit = self.ask.limit(context)?;
        let program = Program::new(std::mem::take(&mut self.command))?;
        let interrupts = program::listen()?;
        let report = self.call(context, limit, &program, interrupts).await?;
        if context.output.json {
            context.output.object(&report);
        }
        if let Some(failure) = &report.failure {
            failure.explain();
        }
        Ok(report.exit)
    }

    async fn call(
        &self,
        context: &Context,
        limit: Limit,
        program: &Program,
        mut interrupts: Interrupts,
    ) -> Result<Report, Failure> {
        let asked = self.ask.decide(context, limit, false);
        let asked = tokio::select! {
            biased;
            asked = asked => asked,
            signal = interrupts.next() => {
                return Ok(self.refused(Outcome::NotStarted, program::interrupted(signal)));
            }
        };
        let decision = match asked {
            Ok(decision) => decision,
            // A wrong URL is usage, whatever was to be run.
            Err(failure) if failure.exit == Exit::Usage => return Err(failure),
            Err(failure) => return Ok(self.refused(Outcome::StoreFailed, failure)),
        };
        let report = match refusal(&decision) {
            Some(failure) if decision.never() => self.refused(Outcome::Never, failure),
            Some(failure) => self.refused(Outcome::Limited, failure),
            None => match self.pass(context, program, &decision).await {
                Ok(ended) => {
                    let written = Written::of(&ended.stdout, &ended.stderr);
                    Report { written, ..self.report(Outcome::Ran, Exit::Command(ended.exit.code())) }
                }
                Err(not_started) => {
                    let failure = program::not_started(&not_started, "the limit has counted it");
                    self.refused(Outcome::NotStarted, failure)
                }
            },
        };
        Ok(Report { decision: Some(Answer::of(&decision)), ..report })
    }

    async fn pass(
        &self,
        context: &Context,
        program: &Program,
        decision: &Decision,
    ) -> Result<Ended, NotStarted> {
        let env = [
            ("HAPAX_LIMIT_NAME", self.ask.name.clone()),
            ("HAPAX_LIMIT_REMAINING", decision.remaining().to_string()),
        ];
        let (_kept, lease) = watch::channel(LeaseState::none());
        program.run(context, &env, lease).await
    }

    fn refused(&self, outcome: Outcome, failure: Failure) -> Report {
        let report = self.report(outcome, failure.exit);
        Report { code: Some(failure.code), failure: Some(failure), ..report }
    }

    fn report(&self, outcome: Outcome, exit: Exit) -> Report {
        Report {
            name: self.ask.name.clone(),
            outcome,
            exit_code: exit.code(),
            decision: None,
            code: None,
            written: Written::default(),
            exit,
            failure: None,
        }
    }
}
