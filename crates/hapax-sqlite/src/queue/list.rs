//! Pages of jobs: group by group, each a range of an index.

use super::{
    book::{Book, Sub, integer},
    info,
};
use crate::step::Moment;
use hapax_core::{
    StoreResult,
    queue::{JobInfo, JobPage, JobState, ListJobs, Priority},
};
use rusqlite::params;

const WAITING: &str = concat!(
    "SELECT ",
    info::columns!(),
    " FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job WHERE c.grp = ?1 AND c.state = 0 \
     AND c.priority = ?2 AND (c.due, c.seq) >= (?3, ?4) AND c.due <= ?5 ORDER BY c.due, c.seq"
);
const RUNNING: &str = concat!(
    "SELECT ",
    info::columns!(),
    " FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job WHERE c.grp = ?1 AND c.state = 1"
);
const DEAD: &str = concat!(
    "SELECT ",
    info::columns!(),
    " FROM hapax_job_copy c CROSS JOIN hapax_job j ON j.id = c.job WHERE c.grp = ?1 AND c.state = 2 \
     AND (c.died_at, c.seq) >= (?2, ?3) ORDER BY c.died_at, c.seq"
);

/// The place of a job in a list: its group, class, time, and place within that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark([i64; 4]);

impl Mark {
    const FIRST: Self = Self([i64::MIN; 4]);

    /// Where the page begins that is asked for.
    pub(super) fn of(req: &ListJobs) -> StoreResult<Self> {
        Ok(req.mark("sqlite", Self::parse)?.unwrap_or(Self::FIRST))
    }

    fn parse(text: &str) -> Option<Self> {
        let parts = text.split('.').map(str::parse).collect::<Result<Vec<i64>, _>>().ok()?;
        parts.try_into().ok().map(Self)
    }

    fn text(self) -> String {
        self.0.map(|part| part.to_string()).join(".")
    }
}

/// Finds the jobs of one list.
struct Search<'a> {
    at: &'a Moment<'a>,
    after: Mark,
    limit: usize,
    found: Vec<(Mark, JobInfo)>,
}

/// The page that was asked for.
pub(super) fn page(at: &Moment<'_>, book: &Book, req: &ListJobs, after: Mark) -> rusqlite::Result<JobPage> {
    let mut search = Search { at, after, limit: req.limit, found: Vec::new() };
    let subs = book.meant(req.group.as_ref()).into_iter().filter_map(|at| book.subs.get(at));
    for sub in subs.skip_while(|sub| sub.id < after.0[0]) {
        // Marks of other groups bound nothing in this one.
        search.after = if sub.id == after.0[0] { after } else { Mark::FIRST };
        match req.state {
            JobState::Ready | JobState::Delayed => {
                Priority::ALL.into_iter().try_for_each(|class| search.waiting(sub, class, req.state))?;
            }
            JobState::Running => search.running(sub)?,
            JobState::Dead => search.dead(sub)?,
            JobState::Done | JobState::Cancelled => {}
        }
        if search.found.len() > req.limit {
            break;
        }
    }
    let mut found = search.found;
    found.sort_by_key(|(mark, _)| *mark);
    let more = found.len() > req.limit;
    found.truncate(req.limit);
    let next = found.last().filter(|_| more).map(|(mark, _)| mark.text());
    Ok(JobPage { jobs: found.into_iter().map(|(_, job)| job).collect(), next })
}

impl Search<'_> {
    fn waiting(&mut self, sub: &Sub, class: Priority, state: JobState) -> rusqlite::Result<()> {
        let now = self.at.now.wall.as_millis();
        let [_, after_class, due, seq] = self.after.0;
        let class = i64::from(class.number());
        let (from, to, ordered) = match state {
            // In one order over all classes.
            JobState::Delayed => ((now.saturating_add(1), i64::MIN).max((due, seq)), i64::MAX, 0),
            _ if class < after_class => return Ok(()),
            _ if class == after_class => ((due, seq), now, class),
            _ => ((i64::MIN, i64::MIN), now, class),
        };
        let mut statement = self.at.conn.prepare_cached(WAITING)?;
        let rows = statement.query(params![sub.id, class, from.0, from.1, to])?;
        self.collect(sub, rows, |row| Ok([sub.id, ordered, row.get(4)?, row.get(info::SEQ)?]))
    }

    /// All that run, because their order is that of no index; they are no more than the workers have places for.
    fn running(&mut self, sub: &Sub) -> rusqlite::Result<()> {
        let at = self.at;
        let mut statement = at.conn.prepare_cached(RUNNING)?;
        let rows = statement.query([sub.id])?;
        let limit = std::mem::replace(&mut self.limit, usize::MAX);
        let found = self.collect(sub, rows, |row| {
            Ok([sub.id, 0, integer(info::lease(at, row)?.as_millis()), row.get(info::JOB)?])
        });
        self.limit = limit;
        found
    }

    fn dead(&mut self, sub: &Sub) -> rusqlite::Result<()> {
        let [_, _, died_at, seq] = self.after.0;
        let mut statement = self.at.conn.prepare_cached(DEAD)?;
        let rows = statement.query([sub.id, died_at, seq])?;
        self.collect(sub, rows, |row| Ok([sub.id, 0, row.get(15)?, row.get(info::SEQ)?]))
    }

    /// One more than are asked for: then there is a next page.
    fn collect(
        &mut self,
        sub: &Sub,
        mut rows: rusqlite::Rows<'_>,
        mark: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<[i64; 4]>,
    ) -> rusqlite::Result<()> {
        let mut count = 0;
        while count <= self.limit
            && let Some(row) = rows.next()?
        {
            let mark = Mark(mark(row)?);
            if mark > self.after {
                self.found.push((mark, info::read(self.at, row, sub.group.as_ref())?));
                count += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[WAITING, RUNNING, DEAD];
