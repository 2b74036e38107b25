//! What stays when the store is closed and opened again, and the secret that it keeps.

use crate::{
    cases::list,
    fixture::{Fixture, Stop, Verdict, failed, holds, same, says},
    requests::{A, B, LEASE, R, done, name, span},
};

list!("contract":
    records_survive_a_restart,
    owners_go_on_after_a_restart,
    leases_go_on_through_a_restart,
    the_secret_is_the_same_for_all_clients,
    the_secret_survives_a_restart,
);

async fn records_survive_a_restart(fx: Fixture) -> Verdict {
    let names = [name("held"), name("ended"), name("lost"), name("late"), name("asked")];
    let [held, ended, lost, late, asked] = &names;
    fx.late_success(late, "paid").await?;
    fx.held(held, A).await?;
    fx.succeeded(ended, A, "paid").await?;
    fx.unsure(lost, A, "sent?").await?;
    fx.retaken(asked, "sent?").await?;
    let mut before = Vec::new();
    for k in &names {
        before.push(fx.a.read(k).await?);
    }
    let fx = fx.reopened().await?;
    for (k, record) in names.iter().zip(before) {
        if fx.exact() {
            same("the record", &fx.a.read(k).await?, &record)?;
        }
        same("whether there is one", &fx.b.read(k).await?.is_some(), &record.is_some())?;
    }
    says(&fx.a.release(late, &B).await?, "applied")?;
    says(&fx.a.read(late).await?, "done A paid")?;
    says(&fx.a.release(asked, &R).await?, "applied")?;
    says(&fx.a.read(asked).await?, "unknown A sent?")
}

async fn owners_go_on_after_a_restart(fx: Fixture) -> Verdict {
    let (k, l) = (name("k"), name("l"));
    fx.held(&k, A).await?;
    fx.held(&l, A).await?;
    let fx = fx.reopened().await?;
    says(&fx.a.extend(&k, &A, span(LEASE)).await?, "extended")?;
    says(&fx.a.complete(&done(&k, A, "paid")).await?, "stored")?;
    says(&fx.a.release(&l, &A).await?, "applied")?;
    says(&fx.b.read(&k).await?, "done A paid")?;
    says(&fx.b.read(&l).await?, "vacant")
}

async fn leases_go_on_through_a_restart(fx: Fixture) -> Verdict {
    let k = name("k");
    fx.held(&k, A).await?;
    fx.elapse(LEASE / 2).await;
    let fx = fx.reopened().await?;
    says(&fx.a.read(&k).await?, "pending A")?;
    fx.elapse(LEASE / 2).await;
    says(&fx.a.read(&k).await?, "vacant")?;
    fx.held(&k, B).await
}

async fn secret(fx: &Fixture) -> Result<[u8; 32], Stop> {
    fx.a.secret().await?.ok_or(Stop::Skipped("keeps no secret"))
}

async fn the_secret_is_the_same_for_all_clients(fx: Fixture) -> Verdict {
    let secret = secret(&fx).await?;
    holds(secret.iter().any(|byte| *byte != 0), || "the secret is zeros".into())?;
    for _ in 0..3 {
        same("whether it is the same", &(fx.b.secret().await? == Some(secret)), &true)?;
        same("whether it is the same", &(fx.a.secret().await? == Some(secret)), &true)?;
    }
    Ok(())
}

async fn the_secret_survives_a_restart(fx: Fixture) -> Verdict {
    let before = secret(&fx).await?;
    let fx = fx.reopened().await?;
    let Some(after) = fx.b.secret().await? else { return Err(failed("the secret is gone")) };
    same("whether it is the same", &(after == before), &true)
}
