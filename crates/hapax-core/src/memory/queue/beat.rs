//! A worker lives, and has these jobs; or it gives them back.

use super::{book::Book, step::Why, sub::Place};
use crate::{
    Now,
    idempotency::Write,
    queue::{Beat, Beaten, Consumer, GiveBack, Uid, history::What, machine},
};

impl Book {
    pub(super) fn beat(&mut self, req: &Beat, now: &Now) -> Beaten {
        let mut answer = Beaten { now: now.wall, ..Beaten::default() };
        let Some(at) = self.sub(&req.group) else {
            answer.lost = req.held.iter().map(|(uid, _)| *uid).collect();
            return answer;
        };
        let Some(sub) = self.subs.get_mut(at) else { return answer };
        sub.seen = Some(now.wall);
        for (uid, delivery) in &req.held {
            match sub.take_held(uid, *delivery, &req.consumer) {
                Some(mut job) => {
                    if job.facts.cancelled {
                        answer.cancelled.push(*uid);
                    }
                    if let Place::Running { until, progress, .. } = &mut job.place {
                        *until = now.boot.after(req.lease.get()).max(*until);
                        let said =
                            req.progress.iter().find(|(of, _)| of == uid).map(|(_, said)| said.clone());
                        *progress = said.or_else(|| progress.take());
                    }
                    sub.put(*uid, job);
                }
                None => answer.lost.push(*uid),
            }
        }
        let unknown = sub.held_by(&req.consumer).into_iter().filter(|(uid, delivery, taken_at)| {
            req.since.is_some_and(|since| *taken_at < since) && !req.held.contains(&(*uid, *delivery))
        });
        for (uid, delivery, _) in unknown.collect::<Vec<_>>() {
            if self.give_back_one(at, &req.consumer, (uid, delivery), now) == Write::Applied {
                answer.freed += 1;
            }
        }
        answer
    }

    pub(super) fn give_back(&mut self, req: &GiveBack, now: &Now) -> Vec<Write> {
        let Some(at) = self.sub(&req.group) else { return vec![Write::Fenced; req.jobs.len()] };
        let answers = req.jobs.iter().map(|job| self.give_back_one(at, &req.consumer, *job, now)).collect();
        if req.leave {
            let held = self.subs.get(at).map(|sub| sub.held_by(&req.consumer)).unwrap_or_default();
            for (uid, delivery, _) in held {
                let _ = self.give_back_one(at, &req.consumer, (uid, delivery), now);
            }
        }
        answers
    }

    fn give_back_one(
        &mut self,
        at: usize,
        consumer: &Consumer,
        (uid, delivery): (Uid, u64),
        now: &Now,
    ) -> Write {
        let job = self.subs.get_mut(at).and_then(|sub| sub.take_held(&uid, delivery, consumer));
        let Some(mut job) = job else { return Write::Fenced };
        let fate = machine::give_back(&mut job.facts);
        self.settle(at, uid, job, fate, Why::of(What::GivenBack), now.wall);
        Write::Applied
    }
}
